//! The settlements that are meant, out of a reading; or what a reader needs to find what he meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::accounts::Accounts;
use super::choice::{Choice, Choosable, Closeness};
use super::{Chosen, EXPLAINED_MAX, ExplainError, ReadEnd};
use crate::bill::{Named, Shown};
use crate::calling::listed;
use crate::clock::Stamp;
use crate::escape::printable;
use crate::journal::Entry;
use crate::journal::entry::{
    Change, Correction, CoverageEdge, Figures, OpenFigures, OpenKind, SettlementFigures,
};
use crate::likeness::nearest;
use crate::rendering::rfc3339;
use crate::settlement::{Account, SettlementId};
use crate::unit::{Ms, Span, WallUs};
use crate::unknown::{DisputeReason, GapCause};

/// Candidates that are listed where an id means several; the rest is counted.
const CANDIDATES_SHOWN_MAX: usize = 20;
/// Other names that are remembered while one is looked for.
const NAMES_MAX: usize = 4_096;
/// Rows that have not settled and are what was asked for.
const OPEN_MAX: usize = 8;
/// Columns of a candidate's account.
const ACCOUNT_WIDTH: usize = 20;
/// Columns of it below the candidate, where those would not tell it from another.
const ACCOUNT_BELOW_WIDTH: usize = 74;

/// What was found so far.
pub(super) struct Sought<'c> {
    choice: &'c Choice,
    accounts: Option<&'c Accounts>,
    period: Span,
    closeness: Closeness,
    pub(super) chosen: BTreeMap<u64, Chosen>,
    pub(super) more: u64,
    /// What else there is, as far as it may be what was meant.
    near: BTreeSet<String>,
    open: BTreeMap<u64, Open>,
    began: Option<Stamp>,
    settlements: u64,
    /// Earliest start and latest end.
    bounds: Option<(WallUs, WallUs)>,
}

/// A row that is what was asked for, and has not settled.
struct Open {
    id: SettlementId,
    account: Account,
    kind: OpenKind,
    lost: Option<GapCause>,
}

impl<'c> Sought<'c> {
    /// `accounts`: those that the choice means, where it is by account.
    pub(super) const fn new(
        choice: &'c Choice,
        accounts: Option<&'c Accounts>,
        period: Span,
    ) -> Self {
        Self {
            choice,
            accounts,
            period,
            closeness: Closeness::Beginning,
            chosen: BTreeMap::new(),
            more: 0,
            near: BTreeSet::new(),
            open: BTreeMap::new(),
            began: None,
            settlements: 0,
            bounds: None,
        }
    }

    pub(super) fn take(&mut self, entry: &Entry) {
        match &entry.figures {
            Figures::Settlement(figures) if bears_on(figures, self.period) => {
                self.settlement(entry, figures);
            }
            Figures::Open(open) => self.open(entry.seq, open),
            Figures::Correction(correction) => self.correction(correction),
            Figures::Coverage(CoverageEdge::Began { at, .. }) => self.began = Some(*at),
            Figures::Conflict(conflict) => {
                if let Some(one) = self.chosen.get_mut(&conflict.of) {
                    one.dispute = Some(DisputeReason::Conflict);
                }
            }
            _ => {}
        }
    }

    fn settlement(&mut self, entry: &Entry, figures: &SettlementFigures) {
        self.settlements = self.settlements.saturating_add(1);
        let from = figures.start.unwrap_or(figures.read_at.wall);
        let to = WallUs(from.0.saturating_add(figures.held.0.saturating_mul(1_000)));
        self.bounds = match self.bounds {
            Some((earliest, latest)) => Some((earliest.min(from), latest.max(to))),
            None => Some((from, to)),
        };
        let id = SettlementId::of_parts(&figures.gpu, figures.pid, figures.start);
        let one = Choosable::settled(entry.seq, figures);
        let is_shown = !one.pid.is_alias();
        let held = self.accounts.map_or_else(
            || self.choice.holds(one, &id),
            |accounts| {
                let is = is_shown && accounts.hold(entry.seq, figures);
                is.then_some(Closeness::Named)
            },
        );
        match held {
            Some(closeness) if closeness >= self.closeness => {
                if closeness > self.closeness {
                    self.closeness = closeness;
                    self.chosen.clear();
                    self.more = 0;
                }
                if self.chosen.len() < EXPLAINED_MAX {
                    let (seq, hash, began) = (entry.seq, entry.hash, self.began);
                    let (figures, dispute) = (figures.clone(), figures.dispute);
                    self.chosen.insert(seq, Chosen { seq, hash, figures, dispute, began });
                } else {
                    self.more = self.more.saturating_add(1);
                }
            }
            Some(_) => {}
            None => self.miss(one, &id),
        }
    }

    /// Remembers what else could have been meant.
    fn miss(&mut self, one: Choosable<'_>, id: &SettlementId) {
        if !self.chosen.is_empty() || one.pid.is_alias() || self.near.len() >= NAMES_MAX {
            return;
        }
        match self.choice {
            Choice::Id(word) => {
                if word.is_near(id) {
                    self.near.insert(id.to_string());
                }
            }
            choice => self.near.extend(choice.names(one)),
        }
    }

    fn open(&mut self, seq: u64, figures: &OpenFigures) {
        let id = SettlementId::of_parts(&figures.gpu, figures.pid, figures.start);
        let is = self.choice.holds(Choosable::open(seq, figures), &id).is_some();
        if is && self.open.len() < OPEN_MAX {
            let (account, kind) = (figures.account.clone(), figures.kind);
            self.open.insert(seq, Open { id, account, kind, lost: None });
        }
    }

    fn correction(&mut self, correction: &Correction) {
        match &correction.change {
            Change::Account(account) => {
                if let Some(one) = self.chosen.get_mut(&correction.of) {
                    one.figures.account = account.clone();
                }
            }
            Change::Ended { cause, .. } => {
                if let Some(one) = self.open.get_mut(&correction.of) {
                    one.lost = *cause;
                }
            }
        }
    }

    /// What was found.
    ///
    /// # Errors
    /// [`ExplainError::None`] where there is nothing, [`ExplainError::Several`] where the word means several.
    pub(super) fn found(mut self, end: &ReadEnd) -> Result<Self, ExplainError> {
        if self.chosen.is_empty() {
            self.open.retain(|seq, one| one.lost.is_some() || end.unresolved.contains(seq));
            return Err(ExplainError::None { what: self.nothing(end) });
        }
        let is_one_of_several = matches!(self.choice, Choice::Id(_))
            && self.closeness < Closeness::Named
            && self.chosen.len() > 1;
        if is_one_of_several {
            let what = self.candidates();
            return Err(ExplainError::Several { what });
        }
        let beginnings: BTreeSet<&Arc<str>> = (self.chosen.values())
            .filter_map(|one| self.choice.container_begun(&one.figures.labels))
            .collect();
        if beginnings.len() > 1 {
            let ids = listed(beginnings.into_iter().map(ToString::to_string));
            let what = format!(
                "several containers begin with {}: {ids}; give more of the id of one",
                self.choice.words()
            );
            return Err(ExplainError::Several { what });
        }
        Ok(self)
    }

    fn candidates(&self) -> String {
        let count = u64::try_from(self.chosen.len()).unwrap_or(u64::MAX);
        let all = count.saturating_add(self.more);
        let mut text =
            format!("{} means {all} settlements; give the id of one:", self.choice.words());
        let accounts = self.chosen.values().map(|one| &one.figures.account);
        let titles: Vec<Named> = accounts.map(|one| (one.title(), one.named_by())).collect();
        let names = titles.iter().map(|(title, named_by)| (title.as_str(), *named_by));
        let shown = Shown::of_accounts(names);
        for one in self.chosen.values().take(CANDIDATES_SHOWN_MAX) {
            // Writing to a `String` cannot fail.
            let _ = one.candidate(&mut text, &shown);
        }
        let shown = u64::try_from(CANDIDATES_SHOWN_MAX).unwrap_or(u64::MAX);
        if let Some(more) = all.checked_sub(shown).filter(|more| *more > 0) {
            let _ = write!(text, "\n  and {more} more");
        }
        text
    }

    /// That there is nothing, what there is, and where to look.
    fn nothing(&self, end: &ReadEnd) -> String {
        let mut text = format!("no settlement is of {}", self.choice.words());
        if let Choice::Id(_) = self.choice {
            text = format!("no settlement is called {}", self.choice.words());
        }
        // Writing to a `String` cannot fail.
        let _ = self.write_open(&mut text);
        let _ = self.write_near(&mut text);
        let _ = self.write_bounds(&mut text, end);
        text
    }

    fn write_open(&self, text: &mut String) -> fmt::Result {
        for Open { id, account, kind, lost } in self.open.values() {
            let account = printable(account.to_string().as_bytes()).to_string();
            write!(text, "\n  {id} ({account}) ")?;
            match (lost, kind) {
                (Some(cause), _) => write!(text, "never settles: its row was lost, {cause}")?,
                (None, OpenKind::NoDriverRow) => {
                    write!(text, "has no driver row, and never settles")?;
                }
                (None, OpenKind::Row | OpenKind::Masked) => {
                    write!(text, "runs still: it settles when it ends")?;
                }
            }
        }
        Ok(())
    }

    fn write_near(&self, text: &mut String) -> fmt::Result {
        let safe = |name: &str| printable(name.as_bytes()).to_string();
        let names = || self.near.iter().map(String::as_str);
        match self.choice {
            Choice::Id(_) if self.near.is_empty() => Ok(()),
            Choice::Id(_) => {
                write!(
                    text,
                    "\n  with its pid or its start there are: {}",
                    listed(names().map(safe))
                )
            }
            Choice::Labelled(_, wanted) | Choice::Account(wanted) => {
                if let Some(near) = nearest(wanted, names()) {
                    write!(text, "; did you mean {}?", safe(near))?;
                }
                write!(text, "\n  there are: {}", listed(names().map(safe)))
            }
        }
    }

    fn write_bounds(&self, text: &mut String, end: &ReadEnd) -> fmt::Result {
        let is_all = (self.period.from_ms(), self.period.to_ms()) == (0, u64::MAX);
        let whose = if is_all { "the journal has" } else { "in the time that is asked about are" };
        match self.bounds {
            Some((from, to)) => {
                let (count, from, to) = (self.settlements, rfc3339(from), rfc3339(to));
                write!(text, "\n  {whose} {count} settlements, from {from}\n  to {to}")?;
            }
            None => write!(text, "\n  {whose} no settlements")?,
        }
        if let Some(uid) = end.only_uid {
            write!(
                text,
                "\n  only those of user {uid} were looked through: the daemon shows the others to root and its group"
            )?;
        }
        let missing = end.missing;
        if missing > 0 {
            write!(text, "; entries 1 to {missing} are in archives that are not here")?;
        }
        if !is_all {
            write!(text, "\n  without --since and --until all of the journal is searched")?;
        }
        write!(text, "\n  `gpu-ledger bill --by process --period all` lists their ids")
    }
}

impl Chosen {
    fn candidate(&self, text: &mut String, shown: &Shown) -> fmt::Result {
        let figures = &self.figures;
        let id = SettlementId::of_parts(&figures.gpu, figures.pid, figures.start);
        let (held, account, seq) = (Ms(figures.held.0), &figures.account, self.seq);
        let title = account.title();
        let title = shown.called(&title, account.named_by());
        if let Some(account) = shown.fitted(&title, ACCOUNT_WIDTH) {
            write!(text, "\n  {id}  {account}, {held}, entry {seq}")
        } else {
            let account = shown.told(&title, ACCOUNT_BELOW_WIDTH);
            write!(text, "\n  {id}  {held}, entry {seq}\n      {account}")
        }
    }
}

/// Whether it held its GPU in the period, or, without a start, was read in it.
pub(super) fn bears_on(figures: &SettlementFigures, period: Span) -> bool {
    let from_ms = figures.start.map_or(figures.read_at.wall.ms(), WallUs::ms);
    let to_ms = from_ms.saturating_add(figures.held.0);
    from_ms < period.to_ms() && period.from_ms() <= to_ms
}
