//! From what a host tells to what is entered: notes become drafts. Pure.
//!
//! A settlement names the open entry that it replaces, and a correction the entry that it ends. Numbers
//! are given when entries are made, and here nothing is made yet: so a draft names an open entry by
//! an [`OpenRef`], and the [`Binder`], which sees the end of the journal, puts the number in its
//! place.
//!
//! Nothing here knows a store or a queue. Whoever could not keep a draft says so with
//! [`Drafter::dropped`]: what the draft would have said is then as if it had never been learnt, and is drafted
//! again when it is told again.

mod bind;
mod evidence;
mod left;
mod opened;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use bind::{Binder, Bound, Settlements};
pub use left::{Edges, Left};
pub use opened::{Earlier, OpenRef};

use self::opened::{OpenTable, Place};
use super::commitment::CommitmentKey;
use super::entry::{
    AgentFacts, ArgvEvidence, BootId, Change, ClosedPeriod, ConflictFigures, Correction,
    CoverageEdge, Draft, DriverSaid, Epoch, EpochEdge, Evidence, Figures, GpuMark, Mark, Moment,
    OpenKind, Provenance,
};
use crate::accounting::driver::{DriverFacts, GpuFacts};
use crate::accounting::reading::{ModeAround, OpenRow};
use crate::accounting::{RowKey, Window};
use crate::argv::CmdlineMode;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::host::{Host, News, Note, Opened, Settled};
use crate::kernel::ProcessKey;
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::GapCause;

/// A draft, and the open entries that it begins or ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// What is to be entered. Numbers of other entries are not in it yet.
    pub draft: Draft,
    /// The note that it was made of; `None` of a mark.
    pub note: Option<u64>,
    /// The open entry that it is.
    pub begins: Option<OpenRef>,
    /// The open entry that it replaces or ends, with where it stood in the table.
    pub ends: Option<(OpenRef, Place)>,
    /// The settlement that it is about, of a conflict.
    pub conflicts_with: Option<RowKey>,
}

impl Pending {
    fn of(at: Moment, figures: Figures, evidence: Evidence) -> Self {
        let draft = Draft { at, figures, evidence, argv: None };
        Self { draft, note: None, begins: None, ends: None, conflicts_with: None }
    }

    /// Whether the driver says it again when it is read anew: rows, running or final.
    #[must_use]
    pub const fn is_row(&self) -> bool {
        matches!(self.draft.figures, Figures::Settlement(_) | Figures::Open(_))
    }

    /// Whether it is a mark without a word of anybody's.
    #[must_use]
    pub const fn is_mere_mark(&self) -> bool {
        matches!(&self.draft.figures, Figures::Mark(Mark { note: None, .. }))
    }

    /// Whether nothing but itself is lost with it: of memory held a bill says what is not covered.
    #[must_use]
    pub const fn is_dispensable(&self) -> bool {
        self.is_mere_mark() || matches!(&self.draft.figures, Figures::Memory(_))
    }

    /// About how much memory it takes while it waits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// The types themselves, and a few ancestors and control groups.
        const AROUND: usize = 2_048;
        /// One holder of memory, with its name and its labels.
        const HOLDER: usize = 1_024;
        let argv = self.draft.argv.as_ref().map_or(0, |kept| kept.argv.bytes.len());
        let holders = match &self.draft.figures {
            Figures::Memory(stretch) => stretch.holders.len().saturating_mul(HOLDER),
            _ => 0,
        };
        AROUND.saturating_add(argv).saturating_add(holders)
    }
}

/// Makes drafts of notes, and knows what is open.
#[derive(Debug)]
pub struct Drafter {
    boot: BootId,
    host: Arc<str>,
    agent: AgentFacts,
    device_touch: bool,
    key: CommitmentKey,
    cmdline: CmdlineMode,
    /// Of images that were open when this run began: what was committed to of their arguments.
    earlier: BTreeMap<(ProcessKey, BootNs), ArgvEvidence>,
    driver: Option<DriverSaid>,
    library: Option<Arc<str>>,
    gpus: BTreeMap<GpuUuid, (u32, Option<Arc<str>>)>,
    open: OpenTable,
}

impl Drafter {
    /// Of a journal in which nothing is open.
    #[must_use]
    pub fn new(boot: BootId, host: Arc<str>, agent: AgentFacts, key: CommitmentKey) -> Self {
        Self {
            boot,
            host,
            agent,
            device_touch: false,
            key,
            cmdline: CmdlineMode::default(),
            earlier: BTreeMap::new(),
            driver: None,
            library: None,
            gpus: BTreeMap::new(),
            open: OpenTable::default(),
        }
    }

    /// Whether opens of NVIDIA devices are seen: said at the beginning of coverage.
    pub const fn device_touch(&mut self, is_seen: bool) {
        self.device_touch = is_seen;
    }

    /// How much of arguments is kept from now on; of what is drafted already as much as was said then.
    pub const fn cmdline(&mut self, mode: CmdlineMode) {
        self.cmdline = mode;
    }

    fn keeping(&self) -> evidence::Keeping<'_> {
        let Self { boot, key, cmdline, earlier, .. } = self;
        evidence::Keeping { boot: *boot, key, mode: *cmdline, earlier }
    }

    /// What the opened driver says of itself.
    pub fn driver(&mut self, facts: &DriverFacts) {
        let version = facts.version.as_ref().ok().map(|version| Arc::from(version.as_str()));
        self.library =
            facts.library_version.as_ref().ok().map(|version| Arc::from(version.as_str()));
        let kind = Arc::from(facts.kind.as_str());
        let (gpu_index, gpu_name) = (0, None);
        self.driver =
            Some(DriverSaid { kind, version, stats_v2: facts.stats_v2, gpu_index, gpu_name });
    }

    /// Takes over what earlier runs left open. What is of another boot is over, whatever it was: its
    /// corrections come back, to be entered behind the gap since then. `last_seen`: of each GPU the last good read that is
    /// known of, and `now` the moment it is learnt.
    pub fn resume(
        &mut self,
        earlier: Vec<Earlier>,
        last_seen: &BTreeMap<GpuUuid, Stamp>,
        now: Stamp,
    ) -> Vec<Pending> {
        let mut over = Vec::new();
        for one in earlier {
            let of_this_boot = one.at.boot == self.boot;
            let seen = last_seen.get(&one.open.gpu).copied();
            let first = one.open.first_seen.ended;
            let seen = seen.filter(|seen| seen.wall >= first.wall).unwrap_or(first);
            let (seq, kind) = (one.seq, one.open.kind);
            if of_this_boot {
                if let Some(identity) = &one.evidence.identity {
                    let image = (identity.key, identity.image_since);
                    self.earlier.insert(image, identity.argv.clone());
                }
                self.open.take_over(one, seen);
            } else {
                let cause = (kind != OpenKind::NoDriverRow).then_some(GapCause::AgentDown);
                over.push(self.ending((OpenRef::Entered(seq), Place::Gone), seen, cause, now));
            }
        }
        over
    }

    /// What one note has to be entered as: nothing, or one draft or two.
    pub fn draft(&mut self, note: Note) -> Vec<Pending> {
        let Note { number, at, news } = note;
        let mut drafts = self.drafts_of(news, at);
        for draft in &mut drafts {
            draft.note = Some(number);
        }
        drafts
    }

    fn drafts_of(&mut self, news: News, at: Stamp) -> Vec<Pending> {
        let now = self.moment(at);
        match news {
            News::Settled(settled) => vec![self.settlement(&settled, at)],
            News::Opened(opened) => self.opened(&opened, at),
            News::OpenLost { row, cause, .. } => {
                let open = self.open.take_row(&row.gpu, row.pid, row.start);
                open.map(|open| self.ending(open, row.last_seen.ended, Some(cause), at))
                    .into_iter()
                    .collect()
            }
            News::OpenUnresolved { key, at: read, .. } => {
                let seen = self.open.last_seen_earlier(&key);
                let open = self.open.take_row(&key.gpu, key.pid, Some(key.start));
                let seen = seen.unwrap_or(read);
                open.map(|open| self.ending(open, seen, Some(GapCause::AgentDown), at))
                    .into_iter()
                    .collect()
            }
            News::RowlessSeen { gpu, since, holder, bearer } => {
                let Some(reference) = self.open.begin_rowless(&gpu, holder.pid, bearer.key) else {
                    return Vec::new();
                };
                let figures = evidence::rowless_figures(&gpu, &holder, since, &bearer);
                let (evidence, argv) = evidence::of_bearer(&bearer, &self.keeping());
                let mut pending =
                    Pending::of(now, Figures::Open(Box::new(figures)), Evidence::Open(evidence));
                (pending.draft.argv, pending.begins) = (argv, Some(reference));
                vec![pending]
            }
            News::RowlessGone { gpu, pid, last_seen, exit, at: read, .. } => {
                let open = self.open.take_rowless(&gpu, pid);
                // With its process, if no later read showed it. Where nobody saw that end, it may have held
                // the GPU until the read that did not show it: never free for want of an event.
                let over = exit
                    .map_or(read, |exit| if exit.boot < last_seen.boot { last_seen } else { exit });
                open.map(|open| self.ending(open, over, None, at)).into_iter().collect()
            }
            News::Conflict { key, now: row, .. } => {
                // Which settlement it is about the journal knows.
                let figures = Figures::Conflict(ConflictFigures { of: 0, read_at: at });
                let seen = Window { began: at, ended: at };
                let mut pending = Pending::of(now, figures, Evidence::Conflict { row, seen });
                pending.conflicts_with = Some(key);
                vec![pending]
            }
            News::MemoryHeld(stretch) => {
                vec![Pending::of(now, Figures::Memory(stretch), Evidence::None)]
            }
            News::Gap(gap) => vec![Pending::of(now, Figures::Gap(gap), Evidence::None)],
            News::EpochBegan { gpu, at: began } => vec![self.epoch_began(gpu, began, now)],
            News::EpochEnded { gpu, at: ended, cause } => {
                let edge = EpochEdge::Ended { cause };
                let figures = Figures::Epoch(Epoch { gpu, at: ended, edge });
                vec![Pending::of(now, figures, Evidence::None)]
            }
            News::CoverageBegan { at: began, blind } => {
                vec![self.coverage_began(began, blind, now)]
            }
            News::CoverageEnded { at: ended } => {
                let figures = Figures::Coverage(CoverageEdge::Ended { at: ended });
                vec![Pending::of(now, figures, Evidence::None)]
            }
            News::GpuFound(facts) => {
                self.found(&facts);
                Vec::new()
            }
            // Said in the gap that ends them, or in status alone.
            News::Released { .. }
            | News::Stalled(_)
            | News::Unknown(_)
            | News::Forgotten { .. } => Vec::new(),
        }
    }

    fn settlement(&mut self, settled: &Settled, at: Stamp) -> Pending {
        let row = &settled.settlement.row;
        let opened = self.open.take_row(&row.gpu, row.pid, row.start);
        let figures = Figures::Settlement(Box::new(evidence::settlement_figures(settled)));
        let said = self.said_of(&row.gpu);
        let (mut evidence, argv) =
            evidence::of_settlement(settled, &self.host, said, &self.keeping());
        evidence.provenance = Some(Provenance {
            library: self.library.clone(),
            mode: ModeAround::LISTED,
            rules: settled.whose.rules,
            agent: self.agent.clone(),
        });
        let mut pending =
            Pending::of(self.moment(at), figures, Evidence::Settlement(Box::new(evidence)));
        (pending.draft.argv, pending.ends) = (argv, opened);
        pending
    }

    fn opened(&mut self, opened: &Opened, at: Stamp) -> Vec<Pending> {
        let row = &opened.row;
        let mut drafts = Vec::new();
        // It was hidden, and shows itself now: what hid it is over where it began.
        if row.start.is_some()
            && let Some(hidden) = self.open.take_hidden(&row.gpu, row.pid)
        {
            drafts.push(self.ending(hidden, row.first_seen.ended, None, at));
        }
        let Some(reference) = self.open.begin_row(&row.gpu, row.pid, row.start) else {
            return drafts;
        };
        let figures = Figures::Open(Box::new(evidence::open_figures(opened)));
        let (evidence, argv) = evidence::of_opened(opened, &self.keeping());
        let mut pending = Pending::of(self.moment(at), figures, Evidence::Open(evidence));
        (pending.draft.argv, pending.begins) = (argv, Some(reference));
        drafts.push(pending);
        drafts
    }

    /// Compares what earlier runs left open with what a GPU shows, once that is known; to be
    /// called after the notes of a turn were drafted. What it does not show any more has ended unseen.
    pub fn compare(&mut self, host: &Host) -> Vec<Pending> {
        if !self.open.has_earlier() {
            return Vec::new();
        }
        let gone = self.open.take_gone(host);
        let now = host.now();
        gone.into_iter().map(|(open, seen, cause)| self.ending(open, seen, cause, now)).collect()
    }

    /// Whether something that an earlier run left open was not seen again yet, nor found gone.
    #[must_use]
    pub fn has_earlier(&self) -> bool {
        self.open.has_earlier()
    }

    /// That everything up to now was seen. What is unresolved stands in it when it is bound.
    #[must_use]
    pub fn mark(&self, host: &Host, note: Option<Arc<str>>) -> Pending {
        let gpus = host.gpus().iter().map(|(uuid, rows)| GpuMark {
            gpu: uuid.clone(),
            last_good: rows.sight.last_in_sight(),
            dead_rows: rows.dead_rows.and_then(|rows| u64::try_from(rows).ok()),
            doubted_since: rows.sight.doubted_since(),
        });
        let processes_until = host.coverage().end;
        let mark = Mark { processes_until, gpus: gpus.collect(), unresolved: Vec::new(), note };
        Pending::of(self.moment(host.now()), Figures::Mark(mark), Evidence::None)
    }

    /// A gap that no host can know of: of the journal itself, or of the time since another boot.
    #[must_use]
    pub fn gap(&self, gap: Gap, now: Stamp) -> Pending {
        Pending::of(self.moment(now), Figures::Gap(gap), Evidence::None)
    }

    /// A period's bill is fixed.
    #[must_use]
    pub fn closed(&self, period: ClosedPeriod, now: Stamp) -> Pending {
        Pending::of(self.moment(now), Figures::Closed(Box::new(period)), Evidence::None)
    }

    /// A draft could not be kept and never will be: what it began is not open, what it ended is still.
    pub fn dropped(&mut self, pending: &Pending) {
        if let Some(reference) = pending.begins {
            self.open.forget(reference);
        }
        if let Some((reference, place)) = &pending.ends {
            self.open.restore(*reference, place.clone());
        }
    }

    /// What had no room was asked for again in vain: what of it is open is over.
    pub(in crate::journal) fn lost(
        &mut self,
        lost: &super::keeping::Lost,
        last_seen: Stamp,
        host: &Host,
    ) -> Option<Pending> {
        use super::keeping::Lost;
        let (gpu, pid, start) = match lost {
            Lost::Row(key) => (&key.gpu, key.pid, Some(key.start)),
            Lost::Startless(gpu, pid) => (gpu, *pid, None),
            // That it holds the device was told to nobody.
            Lost::Rowless(..) => return None,
        };
        let hides = |row: &OpenRow| row.pid == pid && row.start.is_none();
        let hidden = host.gpus().get(gpu).is_some_and(|rows| rows.open.iter().any(hides));
        let open = self.open.take_lost(gpu, pid, start, hidden)?;
        Some(self.ending(open, last_seen, Some(GapCause::QueueOverflow), host.now()))
    }

    fn ending(
        &self,
        open: (OpenRef, Place),
        last_seen: Stamp,
        cause: Option<GapCause>,
        at: Stamp,
    ) -> Pending {
        let change = Change::Ended { last_seen, cause };
        let figures = Figures::Correction(Correction { of: 0, change });
        let mut pending = Pending::of(self.moment(at), figures, Evidence::None);
        pending.ends = Some(open);
        pending
    }

    fn coverage_began(&self, at: Stamp, blind: bool, now: Moment) -> Pending {
        let figures = Figures::Coverage(CoverageEdge::Began {
            at,
            host: Arc::clone(&self.host),
            device_touch: self.device_touch,
            process_events: !blind,
        });
        Pending::of(now, figures, Evidence::Coverage(self.agent.clone()))
    }

    fn epoch_began(&self, gpu: GpuUuid, at: Stamp, now: Moment) -> Pending {
        let said = self.said_of(&gpu);
        let edge = EpochEdge::Began { index: said.gpu_index, name: said.gpu_name.clone() };
        Pending::of(now, Figures::Epoch(Epoch { gpu, at, edge }), Evidence::Epoch(said))
    }

    fn found(&mut self, facts: &GpuFacts) {
        let name = facts.name.known().map(|name| Arc::from(name.as_str()));
        self.gpus.insert(facts.uuid.clone(), (facts.index, name));
    }

    fn said_of(&self, gpu: &GpuUuid) -> DriverSaid {
        let mut said = self.driver.clone().unwrap_or_else(|| DriverSaid {
            // A row comes of an opened driver, whose facts come first.
            kind: Arc::from("unknown"),
            version: None,
            stats_v2: false,
            gpu_index: 0,
            gpu_name: None,
        });
        if let Some((index, name)) = self.gpus.get(gpu) {
            (said.gpu_index, said.gpu_name) = (*index, name.clone());
        }
        said
    }

    const fn moment(&self, stamp: Stamp) -> Moment {
        Moment { boot: self.boot, stamp }
    }
}

/// The kind of an open entry about a row.
fn kind_of(row: &OpenRow) -> OpenKind {
    if row.row.is_none() { OpenKind::Masked } else { OpenKind::Row }
}
