//! One read of one GPU, and what it told: values only.

use std::collections::BTreeMap;

use crate::accounting::{FinalRow, Row, RowKey, Window};
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::unit::{Bytes, GpuUuid, Pid, WallUs};
use crate::unknown::{GapCause, Observed, Unknown, UnknownReason};

/// One read of a GPU's accounting, complete or not.
#[derive(Clone, Debug)]
pub struct GpuRead {
    /// From before the first call to after the last.
    pub window: Window,
    /// Exits of processes that had touched this GPU, seen since the read before this one was asked
    /// for; `None` where events were lost or touches are not watched.
    pub touching_exits: Option<u64>,
    /// What came of it.
    pub content: ReadContent,
}

/// What a read came to.
#[derive(Clone, Debug)]
pub enum ReadContent {
    /// Accounting was on before and after the list.
    Listed(Listing),
    /// Accounting was off: no list is believed.
    AccountingOff,
    /// The mode before and after the list differ; the list was thrown away.
    ModeChanged {
        /// The mode after.
        on: bool,
    },
    /// The mode or the list could not be had.
    Failed(Unknown),
}

/// Whether accounting was on when it was asked before a list and after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeAround {
    /// Before.
    pub before: bool,
    /// After.
    pub after: bool,
}

impl ModeAround {
    /// That of a [`Listing`]: no row comes of any other read ([`ReadContent`]).
    pub const LISTED: Self = Self { before: true, after: true };
}

/// What became of the list that a read asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListingState {
    /// It came, under a mode that was on before and after.
    Listed,
    /// Accounting is off: there is nothing to list.
    AccountingOff,
    /// It did not come, was not believed, or a row on it could not be read, for this reason.
    Missing(UnknownReason),
}

impl ListingState {
    /// Of a read.
    #[must_use]
    pub fn of(content: &ReadContent) -> Self {
        match content {
            ReadContent::AccountingOff => Self::AccountingOff,
            ReadContent::ModeChanged { .. } => {
                Self::Missing(UnknownReason::AccountingModeChangedDuringRead)
            }
            ReadContent::Failed(unknown) => Self::Missing(unknown.reason),
            ReadContent::Listed(listing) => {
                listing.unanswered().map_or(Self::Listed, |unknown| Self::Missing(unknown.reason))
            }
        }
    }
}

/// A pid list and the answers to the questions it raised.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// In the driver's order: dead ones first, oldest first, then live ones. A pid that has both a
    /// dead and a live row stands in it twice.
    pub pids: Vec<Pid>,
    /// Entries that were no pid (0 and 4,294,967,295), dropped from `pids`.
    pub junk_pids: u64,
    /// What the driver said of the pids that were asked about.
    pub answers: BTreeMap<Pid, Answer>,
}

impl Listing {
    /// The first question that failed: a row that cannot be read may be anybody's.
    #[must_use]
    pub fn unanswered(&self) -> Option<&Unknown> {
        self.answers.values().find_map(|answer| match answer {
            Answer::Unread(unknown) => Some(unknown),
            Answer::Row(_) | Answer::Gone => None,
        })
    }
}

/// What the driver said of one listed pid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Its row (the dead one, where the pid has two).
    Row(Row),
    /// NOT_FOUND: the row went between the list and the question.
    Gone,
    /// Another code.
    Unread(Unknown),
}

/// A row that is still running, or that hides behind a dead row of its pid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRow {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// Whose.
    pub pid: Pid,
    /// `startTime`; `None` for the reason beside it.
    pub start: Option<WallUs>,
    /// Why the start is not known.
    pub reason: Option<UnknownReason>,
    /// What the driver last said of it; `None` where a dead row hides it.
    pub row: Option<Row>,
    /// `startTime` of the dead row that hides it, where one does and has one.
    pub behind: Option<WallUs>,
    /// The read that first showed it; of one that a dead row hides, from the list before on, as it began
    /// somewhere in between.
    pub first_seen: Window,
    /// The read that last showed it.
    pub last_seen: Window,
}

/// A process that held the device at the moment of asking, row or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Who, as the driver translates pids to the reader's namespace.
    pub pid: Pid,
    /// Device memory in use; a value that is not available says so.
    pub memory: Observed<Bytes>,
    /// Seen in the list of compute processes.
    pub compute: bool,
    /// Seen in the list of graphics processes.
    pub graphics: bool,
    /// Seen in the list of MPS compute processes.
    pub mps: bool,
}

/// Something a read brought to light, in the order of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A row that was final before the first read began: known, booked by nobody here, and never
    /// handed out again.
    AlreadyDead(FinalRow),
    /// A row seen final for the first time. Exactly once per key.
    Final(FinalRow),
    /// A row seen running for the first time.
    Opened(OpenRow),
    /// A running row that a dead row of the same pid hides (pid listed twice).
    Masked(OpenRow),
    /// A final row without a start time: cannot be keyed. Once per pid and contents.
    NoStartTime(FinalRow),
    /// A row that was seen open can never be read final any more. A [`Finding::Gap`] of the same read
    /// counts it.
    OpenLost {
        /// As it was last seen.
        row: OpenRow,
        /// How it was lost.
        cause: GapCause,
        /// Where a later span of its pid replaced it: it ended before that one began.
        ended_before: Option<WallUs>,
    },
    /// A booked key was read again with other contents. Once per contents.
    Conflict {
        /// The key.
        key: RowKey,
        /// The row that was handed out.
        booked: Row,
        /// The row as it reads now.
        now: Row,
    },
    /// Rows were or may have been lost.
    Gap(Gap),
    /// Accounting is on from here.
    EpochBegan {
        /// The start of the read that saw it.
        at: Stamp,
    },
    /// Accounting was on, and is not known to be any more.
    EpochEnded {
        /// The end of the read that saw it.
        at: Stamp,
        /// Why.
        cause: GapCause,
    },
    /// An empty list that is believed: no row was ever seen, none could have been lost, nobody
    /// touched the GPU.
    ObservedIdle {
        /// Idle since this moment at least.
        since: Stamp,
    },
    /// List entries that were no pid.
    JunkPids {
        /// How many in this read.
        count: u64,
    },
    /// Keys that may come back were forgotten under the limit: should they come back, they would be
    /// handed out a second time.
    KeysForgotten {
        /// How many in this read.
        count: u64,
    },
}

impl Finding {
    /// The gap, where it is one.
    #[must_use]
    pub fn into_gap(self) -> Option<Gap> {
        if let Self::Gap(gap) = self { Some(gap) } else { None }
    }
}

/// What one read meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observation {
    /// In the order found.
    pub findings: Vec<Finding>,
    /// What could not be said.
    pub unknowns: Vec<Unknown>,
}
