//! A ledger cut to one period: the books of each GPU, with one line key a settlement.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::Map;
use super::{CutMemory, CutRows, Ledger, Opened, Seen, Sight, Whose};
use crate::attribution::Value as LabelValue;
use crate::bill::lines::{meets, within};
use crate::bill::{By, GpuBooks, Holding, Kind, LineKey, LineName};
use crate::coverage::Gap;
use crate::identity::Basis;
use crate::journal::entry::OpenKind;
use crate::settlement::{Account, NamedBy, told_apart};
use crate::unit::{Bytes, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::{GapCause, NamelessReason, UnknownReason};

/// How long after a GPU's last good read the next one is merely awaited: the agent notes its
/// reads once a minute, and a note may come late on a busy machine.
pub const PENDING_MS_MAX: u64 = 120_000;

/// What to cut.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// The period.
    pub period: Span,
    /// What a line stands for.
    pub by: By,
    /// Only these GPUs; all where there is none.
    pub gpus: &'a [GpuUuid],
}

/// A ledger cut to one period.
#[derive(Clone, Debug)]
pub struct Cut<'a> {
    /// Each GPU, by index.
    pub gpus: Vec<CutGpu<'a>>,
    /// Their books, in the same order.
    pub books: Vec<CutBooks<'a>>,
    /// The names of the lines, by rank.
    pub lines: Vec<LineName>,
    /// Gaps that meet the period, in the order of their beginning.
    pub gaps: Vec<&'a Gap>,
    /// GPUs that were left out.
    pub gpus_left_out: usize,
}

/// The books of one GPU: of what is settled no more than where it is kept.
pub type CutBooks<'a> = GpuBooks<LineKey, CutRows<'a>>;

/// One GPU of it.
#[derive(Clone, Debug)]
pub struct CutGpu<'a> {
    /// Which.
    pub sight: &'a Sight,
    /// What holds it, or held it and did not settle; those with an interval stand in the order of its
    /// books' `running`.
    pub holders: Vec<Holder>,
    /// The end of the period that its next read will tell of.
    pub unread: Option<Span>,
    /// Dead rows at the last read that is noted, where that lies in the period.
    pub dead_rows_last: Option<u64>,
    /// Its list was empty and not believed, at some time of the period.
    pub is_doubted: bool,
    /// Its memory over time, by samples.
    pub memory: CutMemory,
}

/// A process that holds a GPU or held it, without a settlement.
#[derive(Clone, Debug)]
pub struct Holder {
    /// Number of its open entry.
    pub seq: u64,
    /// What it is.
    pub kind: OpenKind,
    /// The driver's pid.
    pub pid: Pid,
    /// The driver's `startTime`, where it showed one.
    pub start: Option<WallUs>,
    /// When it was first seen, in ms since 1970.
    pub first_seen_ms: u64,
    /// The interval in which it is known to have held the GPU.
    pub span: Option<Span>,
    /// It is over.
    pub is_over: bool,
    /// How its row was lost.
    pub lost: Option<GapCause>,
    /// On which line.
    pub line: LineKey,
    /// On whose account.
    pub account: Account,
    /// The program, where it is known.
    pub program: Option<Arc<str>>,
    /// The real user id, where it is known.
    pub uid: Option<u32>,
    /// What the name rests on.
    pub basis: Option<Basis>,
    /// Device memory when it was first seen, where that is known.
    pub memory: Option<Bytes>,
}

impl Holder {
    /// Whether it accrues as an open row; everything else only shares.
    #[must_use]
    pub const fn is_open_row(&self) -> bool {
        matches!(self.kind, OpenKind::Row) && !self.is_over
    }

    /// Why it accrues nothing, where it runs and does not.
    #[must_use]
    pub const fn unknown(&self) -> Option<UnknownReason> {
        match (self.kind, self.span) {
            (OpenKind::Masked, _) if !self.is_over => Some(UnknownReason::MaskedByDeadRow),
            (_, None) => Some(UnknownReason::ClockStep),
            (_, Some(_)) => None,
        }
    }
}

impl Seen<'_> {
    /// Whether it has a place on the bill of a period.
    fn belongs(&self, period: Span) -> bool {
        let doubtful = self.dispute().is_some() || self.placing().span().is_none();
        let end_ms = self.start.map_or(self.read_at_ms, |start| {
            start.ms().saturating_add(self.held.0).max(start.ms())
        });
        let span = self.start.and_then(|start| Span::new(start.ms(), end_ms));
        span.is_some_and(|span| meets(span, period))
            || (doubtful && within(self.read_at_ms, period))
    }
}

impl Opened {
    /// Since when it held the GPU, as far as that is known.
    pub(super) fn since_ms(&self) -> u64 {
        match (self.kind, self.start) {
            (OpenKind::Row, Some(start)) => start.ms(),
            _ => self.first_seen_ms,
        }
    }
}

/// The settlements of a period.
struct Chosen {
    /// Where they are, by GPU.
    places: Vec<Vec<u32>>,
    /// Whose they are, by number; `None` of those who have none.
    whose: Vec<Option<Whose>>,
}

/// What a line stands for, before names are ranked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Value {
    Account(u32),
    Program(Option<u32>),
    User(Option<u32>),
    Gpu(u32),
    Labels(u32),
    /// Everything of other users, by the one name that is told.
    Folded(u32),
}

impl Ledger {
    /// Cuts out one period.
    #[must_use]
    pub fn cut(&self, which: Which<'_>) -> Cut<'_> {
        let Which { period, by, gpus: wanted } = which;
        let Chosen { places, whose } = self.chosen(period);
        let holders: Vec<(u64, &Opened, Option<Span>)> = self
            .opened
            .iter()
            .map(|(seq, opened)| (*seq, opened, self.span_of(*seq, opened)))
            .filter(|(_, opened, span)| match span {
                Some(span) => meets(*span, period),
                None => within(opened.first_seen_ms, period),
            })
            .collect();
        let of_rows = whose.iter().flatten().map(|whose| self.value(by, *whose));
        let of_holders = holders.iter().map(|(_, one, _)| self.value(by, one.whose));
        let of_memory = self.memory_holders(period).map(|whose| self.value(by, whose));
        let (keys, lines) = self.ranked(by, of_rows.chain(of_holders).chain(of_memory));
        let of_whose = |whose: &Option<Whose>| {
            whose.map_or(LineKey::NOWHERE, |whose| self.key(&keys, by, whose))
        };
        let of_whose: Arc<[LineKey]> = whose.iter().map(of_whose).collect();

        let not_here = self.not_here(period);
        let mut cut = Vec::with_capacity(self.sights.gpus().len());
        let mut books = Vec::with_capacity(cut.capacity());
        for ((number, sight), places) in (0_u32..).zip(self.sights.gpus()).zip(places) {
            let as_of_ms = self.as_of_ms().unwrap_or(u64::MAX);
            let unread = sight.unread(period, as_of_ms, PENDING_MS_MAX);
            let mut uncovered = sight.uncovered(period, &self.gaps);
            uncovered.extend(&not_here);
            cut.push(CutGpu {
                sight,
                holders: Vec::new(),
                // No read will tell of what is not here.
                unread: unread
                    .filter(|tail| not_here.iter().all(|other| other.overlap(*tail).is_none())),
                dead_rows_last: sight.dead_rows_last(period),
                is_doubted: sight.is_doubted(period),
                memory: self.cut_memory(number, period, by == By::Process, |whose| {
                    self.key(&keys, by, whose)
                }),
            });
            books.push(GpuBooks {
                gpu: sight.gpu.clone(),
                settlements: CutRows::new(self, Arc::clone(&of_whose), places),
                running: Vec::new(),
                uncovered,
            });
        }
        // What hides behind a dead row began unseen.
        for opened in self.opened.values() {
            let unseen = opened.hidden_since_ms.and_then(|at| Span::new(at, opened.first_seen_ms));
            if let (Some(unseen), Some((_, books))) =
                (unseen, pair(&mut cut, &mut books, opened.whose.gpu))
            {
                books.uncovered.extend(unseen.overlap(period));
            }
        }
        for (seq, opened, span) in holders {
            let line = self.key(&keys, by, opened.whose);
            if let Some((gpu, books)) = pair(&mut cut, &mut books, opened.whose.gpu) {
                let holder = self.holder(seq, opened, span, line);
                let kind = if holder.is_open_row() { Kind::Open } else { Kind::NoDriverRow };
                let (pid, account) = (holder.pid, line);
                books.running.extend(span.map(|span| Holding { span, pid, account, kind }));
                gpu.holders.push(holder);
            }
        }
        let (gpus, books, gpus_left_out) = ordered(cut, books, wanted);
        let gaps = self.gaps_of(period, wanted);
        Cut { gpus, books, lines, gaps, gpus_left_out }
    }

    /// What has a place on the bill of a period.
    fn chosen(&self, period: Span) -> Chosen {
        let mut places = vec![Vec::new(); self.sights.gpus().len()];
        let mut whose: Vec<Option<Whose>> = vec![None; self.settled.whose().count()];
        for (place, seen) in (0_u32..).zip(self.settled.all()) {
            let number = usize::try_from(seen.whose_number).ok();
            let gpu = usize::try_from(seen.whose.gpu).ok();
            if let (Some(known), Some(places)) = (
                number.and_then(|number| whose.get_mut(number)),
                gpu.and_then(|gpu| places.get_mut(gpu)),
            ) && seen.belongs(period)
            {
                places.push(place);
                *known = Some(seen.whose);
            }
        }
        Chosen { places, whose }
    }

    fn holder(&self, seq: u64, opened: &Opened, span: Option<Span>, line: LineKey) -> Holder {
        let ended = self.end_of(seq, opened);
        let unknown = || Account::Unattributed(NamelessReason::EventLost);
        Holder {
            seq,
            kind: opened.kind,
            pid: opened.pid,
            start: opened.start,
            first_seen_ms: opened.first_seen_ms,
            span,
            is_over: ended.is_some(),
            lost: ended.and_then(|ended| ended.cause),
            line,
            account: self.accounts.name(opened.whose.account).cloned().unwrap_or_else(unknown),
            program: opened.whose.program.and_then(|program| self.programs.name(program)).cloned(),
            uid: opened.whose.uid,
            basis: opened.basis,
            memory: opened.memory,
        }
    }

    fn gaps_of(&self, period: Span, gpus: &[GpuUuid]) -> Vec<&Gap> {
        let meets_period = |gap: &&Gap| {
            let (from, to) = (gap.from.wall.ms(), gap.to.wall.ms());
            from.min(to) < period.to_ms() && from.max(to) >= period.from_ms()
        };
        let of_these =
            |gap: &&Gap| gpus.is_empty() || gap.gpu.as_ref().is_none_or(|gpu| gpus.contains(gpu));
        let mut gaps: Vec<&Gap> = self.gaps.iter().filter(meets_period).filter(of_these).collect();
        gaps.sort_by_key(|gap| (gap.from.wall, gap.to.wall, gap.cause));
        gaps
    }

    /// When process events were received within the period, and for how long of it.
    #[must_use]
    pub fn processes(&self, period: Span) -> Option<(Span, Ms)> {
        let Some(here) = &self.here else { return self.sights.processes(period, &self.gaps) };
        let within = here.iter().filter_map(|here| here.overlap(period));
        let parts = within.filter_map(|part| self.sights.processes(part, &self.gaps));
        parts.reduce(|(span, covered), (more, ms)| {
            let (from, to) = (span.from_ms().min(more.from_ms()), span.to_ms().max(more.to_ms()));
            (Span::new(from, to).unwrap_or(span), Ms(covered.0.saturating_add(ms.0)))
        })
    }

    fn value(&self, by: By, whose: Whose) -> Value {
        let Whose { gpu, account, program, uid, labels, is_folded } = whose;
        match by {
            // Without an identity it stands on its reason's line, whatever the lines are.
            _ if self.reason(account).is_some() => Value::Account(account),
            By::Gpu => Value::Gpu(gpu),
            _ if is_folded => Value::Folded(account),
            By::Account | By::Process => Value::Account(account),
            By::Program => Value::Program(program),
            By::User => Value::User(uid),
            By::Label(_) => Value::Labels(labels),
        }
    }

    fn reason(&self, account: u32) -> Option<NamelessReason> {
        self.accounts.name(account).and_then(Account::unattributed)
    }

    fn key(&self, keys: &Map<Value, LineKey>, by: By, whose: Whose) -> LineKey {
        let key = keys.get(&self.value(by, whose));
        // Every value was ranked before.
        key.copied().unwrap_or(LineKey::NOWHERE)
    }

    /// Gives every value the rank of its name; values of one name share it.
    fn ranked(
        &self,
        by: By,
        values: impl Iterator<Item = Value>,
    ) -> (Map<Value, LineKey>, Vec<LineName>) {
        let mut keys: Map<Value, LineKey> = Map::default();
        let mut names: BTreeMap<LineName, Vec<Value>> = BTreeMap::new();
        for value in values {
            if keys.contains_key(&value) {
                continue;
            }
            let mut key = LineKey::NOWHERE;
            if let Value::Account(account) = value
                && let Some(reason) = self.reason(account)
            {
                key = LineKey::nameless(reason);
            } else {
                names.entry(self.line_name(by, value)).or_default().push(value);
            }
            keys.insert(value, key);
        }
        let mut lines = Vec::with_capacity(names.len());
        for (rank, (name, values)) in (0_u32..).zip(names) {
            for value in values {
                keys.insert(value, LineKey { rank, reason: None });
            }
            lines.push(name);
        }
        (keys, lines)
    }

    fn line_name(&self, by: By, value: Value) -> LineName {
        let other = |text: Option<Arc<str>>, unknown: &str| LineName {
            is_unknown: text.is_none(),
            text: text.unwrap_or_else(|| Arc::from(unknown)),
            is_classified: None,
            named_by: None,
            uid: None,
        };
        match value {
            Value::Account(account) => match self.accounts.name(account) {
                Some(account) => LineName {
                    text: account.title().into(),
                    is_classified: account.named_by().map(NamedBy::is_rule),
                    named_by: account.named_by(),
                    is_unknown: false,
                    uid: None,
                },
                None => other(None, "account unknown"),
            },
            Value::Program(program) => {
                let name = program.and_then(|it| self.programs.name(it));
                other(name.map(|name| told_apart(name).into()), "program unknown")
            }
            Value::Labels(number) => {
                let By::Label(dimension) = by else { return other(None, "label unknown") };
                let labels = self.labels.name(number);
                match labels.map_or(LabelValue::Unknown, |labels| dimension.value(labels)) {
                    LabelValue::Is(text) => LineName {
                        named_by: labels.and_then(|labels| dimension.named_by(labels)),
                        ..other(Some(told_apart(&text).into()), "")
                    },
                    LabelValue::None => other(Some(format!("no {dimension}").into()), ""),
                    LabelValue::Unknown => other(None, &format!("{dimension} unknown")),
                }
            }
            Value::User(uid) => LineName {
                uid,
                ..other(uid.map(|uid| format!("uid {uid}").into()), "user unknown")
            },
            // No account: the name may be a program's as well, and that one stands beside it.
            Value::Folded(account) => {
                let name = self.accounts.name(account).map(|account| account.to_string().into());
                other(name, "account unknown")
            }
            Value::Gpu(gpu) => other(self.sights.of(gpu).map(Sight::title), "gpu unknown"),
        }
    }
}

impl Sight {
    /// `GPU 0 NVIDIA H200`, or its UUID where the driver did not say where it enumerates.
    #[must_use]
    pub fn title(&self) -> Arc<str> {
        match (self.index, &self.name) {
            (Some(index), Some(name)) => format!("GPU {index} {name}").into(),
            (Some(index), None) => format!("GPU {index} {}", self.gpu).into(),
            (None, _) => Arc::clone(&self.gpu.0),
        }
    }
}

fn pair<'c, 'a>(
    gpus: &'c mut [CutGpu<'a>],
    books: &'c mut [CutBooks<'a>],
    gpu: u32,
) -> Option<(&'c mut CutGpu<'a>, &'c mut CutBooks<'a>)> {
    let place = usize::try_from(gpu).ok()?;
    Some((gpus.get_mut(place)?, books.get_mut(place)?))
}

/// By index, those without one last; and only the wanted ones.
fn ordered<'a>(
    gpus: Vec<CutGpu<'a>>,
    books: Vec<CutBooks<'a>>,
    wanted: &[GpuUuid],
) -> (Vec<CutGpu<'a>>, Vec<CutBooks<'a>>, usize) {
    let all = gpus.len();
    let mut pairs: Vec<_> = gpus.into_iter().zip(books).collect();
    pairs.retain(|(gpu, _)| wanted.is_empty() || wanted.contains(&gpu.sight.gpu));
    pairs.sort_by(|(a, _), (b, _)| {
        let key = |sight: &Sight| (sight.index.is_none(), sight.index);
        key(a.sight).cmp(&key(b.sight)).then_with(|| a.sight.gpu.cmp(&b.sight.gpu))
    });
    let left_out = all.saturating_sub(pairs.len());
    let (gpus, books) = pairs.into_iter().unzip();
    (gpus, books, left_out)
}

impl Cut<'_> {
    /// The name of a line.
    #[must_use]
    pub fn line(&self, key: LineKey) -> Option<&LineName> {
        self.lines.get(usize::try_from(key.rank).ok()?)
    }
}
