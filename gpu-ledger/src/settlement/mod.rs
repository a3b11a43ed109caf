//! The join: rows × lifetimes → settlements.
//!
//! Purpose: decide, for one final row, whose it was, or why nobody can say. May touch: nothing.
//! May not: read a clock, file, environment or log; guess where inputs contradict each other.
//! Invariant: every row given in comes out as exactly one settlement with the same milliseconds.
//!
//! [`settle()`] is the room's one decision; [`identify()`] is the part of it that also names open rows.
//! What both need to know comes in as one [`Evidence`]. Before a row is settled, the caller must have
//! taken in every process event up to the end of the read that showed it final (`coverage.end` says so)
//! and have turned every counted loss until then into a gap: an event still in the ring is
//! as unknown to this room as one that never was.
#![deny(clippy::arithmetic_side_effects)]

mod account;
mod books;
mod clockwork;
mod ground;
mod identify;
mod lifespan;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use account::{Account, RuleId, marked, more_accounts, told_apart, unmarked};
pub use books::{Balance, Books, settle_all};
pub use ground::{Ground, NamedBy};
pub use identify::identify;
pub use lifespan::JOIN_TOLERANCE_NS;
pub use settle::{missed_in_coverage, settle};

use crate::accounting::{Busy, Row, RowKey, Window};
use crate::clock::{BootPlace, ClockHistory};
use crate::coverage::{Coverage, Gap};
use crate::identity::{Basis, Ended, Image, Lifetime};
use crate::kernel::{CgroupId, ProcessKey};
use crate::unit::{BootNs, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::{DisputeReason, Flag, NamelessReason, Observed};

/// Everything that is known about the pid of one row, and about what could be seen.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// Every lifetime known under the row's pid. Those of other pids are passed over.
    pub lifetimes: Vec<&'a Lifetime>,
    /// Lifetimes of that pid which were known and forgotten under a limit.
    pub evictions: Vec<Eviction>,
    /// When process events were received, and when not.
    pub coverage: &'a Coverage,
    /// What the wall clock showed when.
    pub clock: &'a ClockHistory,
    /// The first moment at which the process was seen to hold this GPU without a driver row (in a
    /// list of running processes, say): it then held it before its row began.
    pub rowless_since: Option<BootNs>,
    /// The identity that this very row was joined to when it was seen open by an earlier run, as the
    /// journal has it.
    pub journaled: Option<&'a Named>,
    /// The host's name, as it stands on its settlements.
    pub host: &'a Arc<str>,
}

/// That a lifetime was known and had to be forgotten under a memory limit: only its bounds are left.
/// One record may stand for several lifetimes of a pid; it then reaches from the first birth
/// to the last end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eviction {
    /// When it was born.
    pub born: BootNs,
    /// When it ended.
    pub ended: BootNs,
}

/// A settlement's name: `<first 8 of the GPU's UUID>-<pid>-<startTime µs>`, the last part `none`
/// where the driver gave no start time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct SettlementId(Arc<str>);

impl SettlementId {
    /// Of a row.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        Self::of_parts(&row.gpu, row.pid, row.start)
    }

    /// Of what names a row.
    #[must_use]
    pub fn of_parts(gpu: &GpuUuid, pid: Pid, start: Option<WallUs>) -> Self {
        let gpu = gpu.short();
        Self(match start {
            Some(start) => format!("{gpu}-{pid}-{}", start.0).into(),
            None => format!("{gpu}-{pid}-none").into(),
        })
    }

    /// As it is printed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SettlementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A final row, with whose it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// Its name.
    pub id: SettlementId,
    /// On which host.
    pub host: Arc<str>,
    /// What the driver said.
    pub row: Row,
    /// The read that first showed it final.
    pub seen: Window,
    /// Its interval as the driver stamped it, in milliseconds of the **wall clock**: its length is what is
    /// billed, its place is not. `None` without a start time or with a wrapped `time`.
    pub span: Option<Span>,
    /// Where its start lies on the **boot clock**, which is where it is billed; `None` without a start time or without any reading
    /// of the clocks.
    pub started: Option<BootPlace>,
    /// Whose it was.
    pub attribution: Attribution,
    /// What a reader should know about it.
    pub flags: BTreeSet<Flag>,
    /// Why its milliseconds are in the total but not priced.
    pub dispute: Option<DisputeReason>,
    /// How much of the span the machine slept through.
    pub asleep: Observed<Ms>,
    /// How busy the GPU was for it, where that was sampled.
    pub busy: Option<Busy>,
}

impl Settlement {
    /// The booking key, where the driver gave a start time.
    #[must_use]
    pub fn key(&self) -> Option<RowKey> {
        self.row.key()
    }

    /// Compares a later reading of the same key with what was booked. Where a figure of the bill
    /// differs the settlement is disputed from then on and `true` is returned: the caller notes a conflict,
    /// and never books a second time. A row of another key is none of its business: `false`.
    pub fn reread(&mut self, again: &Row) -> bool {
        let same_row = self.key().is_some() && self.key() == again.key();
        let conflict = same_row && contradicts(&self.row, again);
        if conflict {
            self.dispute = Some(DisputeReason::Conflict);
        }
        conflict
    }
}

/// Whether a later reading of one row says other figures than the one that was booked. A reading that
/// says nothing where the first one spoke contradicts nothing.
#[must_use]
pub fn contradicts(booked: &Row, again: &Row) -> bool {
    let memory = differ(&booked.memory_peak, &again.memory_peak);
    let utilization = differ(&booked.utilization, &again.utilization);
    let sums = matches!((booked.sums, again.sums), (Some(a), Some(b)) if a != b);
    let time = booked.held != again.held || booked.running != again.running;
    time || memory || utilization || sums
}

fn differ<T: PartialEq>(booked: &Observed<T>, again: &Observed<T>) -> bool {
    matches!((booked, again), (Observed::Known(a), Observed::Known(b)) if a != b)
}

/// Whose a row was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attribution {
    /// One lifetime's.
    Named(Box<Named>),
    /// Nobody can say.
    Nameless(Box<Nameless>),
}

impl Attribution {
    /// Whose, where that is known.
    #[must_use]
    pub fn named(&self) -> Option<&Named> {
        match self {
            Self::Named(named) => Some(named),
            Self::Nameless(_) => None,
        }
    }

    /// Why nobody can say, where that is so.
    #[must_use]
    pub fn reason(&self) -> Option<NamelessReason> {
        match self {
            Self::Named(_) => None,
            Self::Nameless(nameless) => Some(nameless.reason),
        }
    }

    /// What the name rests on.
    #[must_use]
    pub fn basis(&self) -> Option<Basis> {
        self.named().map(|named| named.image.basis)
    }
}

/// The identity a row was joined to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Which process.
    pub key: ProcessKey,
    /// Whether `key.start` is exact to the nanosecond, not floored to a clock tick.
    pub start_is_exact: bool,
    /// What it ran at the row's start, with arguments, user and basis.
    pub image: Image,
    /// Who it was born under, where that was seen.
    pub parent: Option<ProcessKey>,
    /// Control groups it was seen in.
    pub cgroups: Vec<CgroupId>,
    /// Its end, as far as it was known when the row was joined.
    pub ended: Option<Ended>,
    /// How the row's start fits its life.
    pub fit: Fit,
}

/// Why a row has no identity, and who came near.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nameless {
    /// The word.
    pub reason: NamelessReason,
    /// The gap that hides the name, where it is one.
    pub gap: Option<Gap>,
    /// Lifetimes of the pid that were weighed, by start.
    pub candidates: Vec<Candidate>,
}

/// A lifetime that was weighed for a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Which process.
    pub key: ProcessKey,
    /// Its end, where it was known.
    pub ended: Option<Ended>,
    /// How it fits.
    pub fit: Fit,
}

/// How the start of a row fits a lifetime, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    /// The lifetime contains it.
    Contains,
    /// The lifetime may contain it: one of its edges is only known roughly.
    MayContain,
    /// It lies outside by no more than the clock's error.
    WithinTolerance,
    /// It lies outside.
    Outside,
}

/// What this room refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettlementError {
    /// A row that still runs was handed in to be booked.
    #[error(
        "the row of pid {pid} on gpu {gpu} still runs and cannot be settled; read it again until it \
         is final"
    )]
    NotFinal {
        /// On which GPU.
        gpu: GpuUuid,
        /// Whose.
        pid: Pid,
    },
    /// The same row was handed in twice.
    #[error("the row {id} was handed in twice; a final row is booked once")]
    Twice {
        /// Which.
        id: SettlementId,
    },
    /// What went in is not what came out.
    #[error(
        "the books of gpu {gpu} do not balance: {rows} rows of {rows_held_ms} ms went in, \
         {settlements} settlements of {settled_held_ms} ms came out; this is a bug, please report it"
    )]
    Unbalanced {
        /// Of which GPU.
        gpu: GpuUuid,
        /// Rows in.
        rows: u64,
        /// Their milliseconds.
        rows_held_ms: u128,
        /// Settlements out.
        settlements: u64,
        /// Their milliseconds.
        settled_held_ms: u128,
    },
}
