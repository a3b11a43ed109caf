//! Device memory by process: who holds how much in each column, and what belongs to nobody.
//!
//! The stack of a column is the one of the moment at which most device memory was in use in it, so that its
//! bands add up to a number that was read. What a single process reached in another moment of the column is
//! in its own curve beneath the stack.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::column::{COLUMNS, Marks, Series, Stretch};
use super::font;
use crate::residency::sample::Sample;
use crate::unit::{BootNs, Pid};

/// Processes whose curves are kept apart; those that come later are `others`.
pub const PROCESSES_MAX: usize = 64;
/// Processes that are drawn apart, by how much they reached.
pub const SHOWN_MAX: usize = 16;
/// How much of a process's name is printed.
const NAME_CHARS_MAX: usize = 40;
/// Processes that are told from others, and named.
pub const NAMES_MAX: usize = 16_384;

/// A process of the GPU's: an `Event::Process`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// When it was seen.
    pub at: BootNs,
    /// Its pid.
    pub pid: Pid,
    /// When it started; `None`: unknown.
    pub start: Option<BootNs>,
    /// Its program; `None`: unknown.
    pub program: Option<String>,
}

/// A process as it is told from others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Who {
    pid: Pid,
    start: Option<BootNs>,
    program: Option<String>,
}

impl Who {
    /// `name pid@start`, the start in seconds since boot as procfs has it. A long name is cut, what tells it
    /// from another of the same name never.
    pub(super) fn label(&self) -> String {
        let program = self.program.as_deref().unwrap_or("UNKNOWN");
        let program = font::bounded(program, NAME_CHARS_MAX);
        let start = self.start.map_or_else(
            || "UNKNOWN".to_owned(),
            |start| format!("{}.{:02}", start.ticks() / 100, start.ticks() % 100),
        );
        format!("{program} {}@{start}", self.pid)
    }
}

/// One process's own curve.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) who: Who,
    pub(super) series: Series,
}

/// Who holds how much at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holding {
    /// In use on the device.
    pub(super) used: i64,
    /// By process, as an index of [`Processes::kept`]; `None`: the driver does not say how much.
    pub(super) parts: Vec<(usize, Option<i64>)>,
    /// By all processes that are not kept apart.
    pub(super) others: i64,
    /// In use and held by no process; negative where they hold more than is in use. `None`: who holds the
    /// device was not asked or not told.
    pub(super) unattributed: Option<i64>,
    /// The most that one of those others holds.
    others_max: Option<i64>,
}

/// All of them, learned point by point.
#[derive(Debug)]
pub(super) struct Processes {
    names: BTreeMap<Pid, Vec<Process>>,
    named: usize,
    known: BTreeMap<Who, usize>,
    /// Kept apart, in the order in which they came.
    pub(super) kept: Vec<Kept>,
    /// The greatest of those that are not.
    pub(super) others: Series,
    /// In use and held by no process.
    pub(super) unattributed: Series,
    /// Where processes hold more than is in use.
    pub(super) residual: Marks,
    /// By how much at most.
    pub(super) residual_max: i64,
    /// The holding of each column.
    pub(super) columns: Vec<Option<Rc<Holding>>>,
    /// Whether it was ever asked who holds the device.
    pub(super) asked: bool,
    last: Option<(u64, Rc<Holding>)>,
    /// Who held the device when that was last told.
    alive: Vec<usize>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            named: 0,
            known: BTreeMap::new(),
            kept: Vec::new(),
            others: Series::default(),
            unattributed: Series::default(),
            residual: Marks::default(),
            residual_max: 0,
            columns: vec![None; COLUMNS],
            asked: false,
            last: None,
            alive: Vec::new(),
        }
    }
}

impl Processes {
    /// Who a pid is from some moment on.
    pub(super) fn name(&mut self, process: Process) {
        if self.named < NAMES_MAX {
            self.named = self.named.saturating_add(1);
            self.names.entry(process.pid).or_default().push(process);
        }
    }

    /// How many processes were told apart but are not kept apart, and whether there may be more.
    pub(super) fn beyond(&self) -> (usize, bool) {
        (self.known.len().saturating_sub(self.kept.len()), self.known.len() >= NAMES_MAX)
    }

    /// A point that is available and holds `sample`.
    pub(super) fn point(&mut self, sample: &Sample, stretch: Stretch) {
        let holding = match self.last.take() {
            Some((k, holding)) if k == sample.k => holding,
            _ => {
                let holding = Rc::new(self.holding(sample));
                if holding.unattributed.is_some() {
                    self.leave(&holding, stretch.from());
                }
                holding
            }
        };
        if holding.unattributed.is_none() {
            self.untold(stretch);
        }
        for (index, bytes) in &holding.parts {
            if let Some(kept) = self.kept.get_mut(*index) {
                kept.series.hold(stretch, *bytes);
            }
        }
        if let Some(most) = holding.others_max {
            self.others.hold(stretch, Some(most));
        }
        if self.asked {
            self.unattributed.hold(stretch, holding.unattributed.map(|bytes| bytes.max(0)));
        }
        if let Some(bytes) = holding.unattributed.filter(|bytes| *bytes < 0) {
            self.residual.set(stretch);
            self.residual_max = self.residual_max.max(bytes.saturating_neg());
        }
        for column in self.columns.get_mut(stretch.columns()).unwrap_or_default() {
            if column.as_ref().is_none_or(|most| most.used < holding.used) {
                *column = Some(Rc::clone(&holding));
            }
        }
        self.last = Some((sample.k, holding));
    }

    /// A point that is not available.
    pub(super) fn gap(&mut self, stretch: Stretch) {
        self.last = None;
        self.untold(stretch);
        self.unattributed.hold(stretch, None);
    }

    /// Nobody says what those held who held the device before.
    fn untold(&mut self, stretch: Stretch) {
        for index in &self.alive {
            if let Some(kept) = self.kept.get_mut(*index) {
                kept.series.hold(stretch, None);
            }
        }
    }

    /// Who held the device and does so no more ends at nothing, not at what it last held.
    fn leave(&mut self, now: &Holding, at: usize) {
        let holds = |index: &usize| now.parts.iter().any(|(other, _)| other == index);
        for index in self.alive.iter().filter(|index| !holds(index)) {
            if let Some(kept) = self.kept.get_mut(*index) {
                kept.series.hold(Stretch::moment(at), Some(0));
            }
        }
        self.alive = now.parts.iter().map(|(index, _)| *index).collect();
    }

    fn holding(&mut self, sample: &Sample) -> Holding {
        let used = sample.fields.memory.known().map_or(0, |memory| signed(memory.used_bytes));
        let mut holding =
            Holding { used, parts: Vec::new(), others: 0, unattributed: None, others_max: None };
        let Some(reading) = &sample.fields.processes else { return holding };
        self.asked = true;
        let Some(list) = reading.known() else { return holding };
        let mut sum: i64 = 0;
        for process in list {
            let bytes = process.memory_bytes.map(signed);
            sum = sum.saturating_add(bytes.unwrap_or(0));
            if let Some(index) = self.index(process.pid, reading.after_ns) {
                holding.parts.push((index, bytes));
            } else {
                holding.others = holding.others.saturating_add(bytes.unwrap_or(0));
                holding.others_max = holding.others_max.max(bytes);
            }
        }
        holding.unattributed = Some(used.saturating_sub(sum));
        holding
    }

    /// The index of a process among those that are kept apart.
    fn index(&mut self, pid: Pid, at: BootNs) -> Option<usize> {
        let who = self.who(pid, at);
        if let Some(index) = self.known.get(&who) {
            return (*index < PROCESSES_MAX).then_some(*index);
        }
        let index = self.known.len();
        if index < NAMES_MAX {
            self.known.insert(who.clone(), index);
        }
        if index >= PROCESSES_MAX {
            return None;
        }
        self.kept.push(Kept { who, series: Series::default() });
        Some(index)
    }

    /// Who a pid was at a moment: the last that had started by then. It is seen first and named after.
    fn who(&self, pid: Pid, at: BootNs) -> Who {
        let named = self.names.get(&pid).map(Vec::as_slice).unwrap_or_default();
        let begun = |process: &&Process| process.start.unwrap_or(process.at) <= at;
        let found = named.iter().rev().find(begun).or_else(|| named.first());
        found.map_or(Who { pid, start: None, program: None }, |process| Who {
            pid,
            start: process.start,
            program: process.program.clone(),
        })
    }
}

/// No device has as much memory as would not fit.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
