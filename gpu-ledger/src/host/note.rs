//! What was learnt, in the order in which it was: what a journal writes down.

use bytes::Bytes;

use crate::accounting::driver::{GpuFacts, Stall};
use crate::accounting::reading::{Holder, OpenRow};
use crate::accounting::{FinalRow, Row, RowKey};
use crate::attribution::Labels;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::identity::{Basis, Image, Program};
use crate::journal::Digest;
use crate::kernel::{CgroupId, ProcessKey};
use crate::memory::Stretch;
use crate::settlement::{Account, Attribution, Named, Settlement};
use crate::unit::{BootNs, GpuUuid, Pid, WallUs};
use crate::unknown::{GapCause, Unknown};

/// One piece of news, with its place in the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Counted from 1 within one run, without a hole. Whoever keeps notes says up to which
    /// number they are kept: `Host::acknowledged`.
    pub number: u64,
    /// The newest moment that was known when it was learnt.
    pub at: Stamp,
    /// What it says.
    pub news: News,
}

/// What can be learnt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// From this moment process events are received. Of a host that was watched before in this boot
    /// the gap since then was told as the first of all, as a [`News::Gap`].
    CoverageBegan {
        /// The end of the first look at procfs.
        at: Stamp,
        /// No process event can be had: every moment from here on is one gap.
        blind: bool,
    },
    /// The watching ends. Nothing follows.
    CoverageEnded {
        /// Up to here every event was received or counted as lost.
        at: Stamp,
    },
    /// A GPU is watched from here on, or was found again: what the driver says of it.
    GpuFound(Box<GpuFacts>),
    /// Accounting is on.
    EpochBegan {
        /// Of which GPU.
        gpu: GpuUuid,
        /// The start of the read that saw it.
        at: Stamp,
    },
    /// Accounting was on, and is not known to be any more.
    EpochEnded {
        /// Of which GPU.
        gpu: GpuUuid,
        /// The end of the read that saw it.
        at: Stamp,
        /// Why.
        cause: GapCause,
    },
    /// A row is final, and whose it was. After a restart a row may come a second time: its key says so.
    Settled(Box<Settled>),
    /// A row runs, and whose it is. Told when it is first seen, so after a restart once more.
    Opened(Box<Opened>),
    /// A row that was seen open can never be read final any more. Where that costs time on the bill,
    /// a [`News::Gap`] beside it counts it.
    OpenLost {
        /// As it was last seen.
        row: Box<OpenRow>,
        /// How it was lost.
        cause: GapCause,
        /// Where a later span of its pid replaced it: it ended before that one began.
        ended_before: Option<WallUs>,
        /// Whose it was.
        whose: Box<Whose>,
        /// Which process that was; `None` where nobody knows.
        process: Option<ProcessKey>,
        /// It belongs to the command that is followed.
        of_command: bool,
    },
    /// A row that an earlier run left open is neither open nor final in the first complete list: it
    /// ended while nobody looked, and its row is lost.
    OpenUnresolved {
        /// Which.
        key: RowKey,
        /// Whose it was.
        named: Box<Named>,
        /// The end of the read that did not show it.
        at: Stamp,
    },
    /// A booked key was read again with other contents.
    Conflict {
        /// Which.
        key: RowKey,
        /// What was handed out.
        booked: Box<Row>,
        /// What it reads now.
        now: Box<Row>,
    },
    /// A process holds a GPU and has no driver row.
    RowlessSeen {
        /// Which GPU.
        gpu: GpuUuid,
        /// Since when it is known to.
        since: Stamp,
        /// It, and what it holds.
        holder: Holder,
        /// Who that is.
        bearer: Box<Bearer>,
    },
    /// It does not any more, or has a row now.
    RowlessGone {
        /// Which GPU.
        gpu: GpuUuid,
        /// Who.
        pid: Pid,
        /// Its identity, as it was told when it was seen.
        key: Option<ProcessKey>,
        /// Since when it was known to hold it.
        since: Stamp,
        /// The end of the read that showed it last.
        last_seen: Stamp,
        /// When its process ended, where that was before `at`.
        exit: Option<Stamp>,
        /// The end of the read that did not show it any more.
        at: Stamp,
    },
    /// Who held how much memory over a quarter of an hour, or the part of it that was covered.
    MemoryHeld(Box<Stretch>),
    /// An interval that could not be seen, of events or of rows, now that its end is known.
    Gap(Gap),
    /// A driver call hangs. When it returns a [`News::Gap`] says how long it took.
    Stalled(Stall),
    /// Every handle of this GPU was given back on request.
    Released {
        /// Which.
        gpu: GpuUuid,
        /// When.
        at: Stamp,
    },
    /// Something could not be said. Told the first time in a run.
    Unknown(Unknown),
    /// Something was dropped because a bound was reached.
    Forgotten {
        /// What.
        what: Forgotten,
        /// Of which GPU, where it is about one.
        gpu: Option<GpuUuid>,
        /// How many.
        count: u64,
    },
}

/// What can be dropped under a bound.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Forgotten {
    /// Keys of booked rows: should such a row come back, it is handed out a second time.
    BookedKeys,
    /// Entries of the driver's list that were no pid.
    JunkPids,
    /// Gaps that became part of one that covers them all.
    Gaps,
    /// Ended processes for whose rows nobody waits any more.
    AwaitedRows,
    /// Notes that nobody acknowledged: their processes may be forgotten now.
    Unacknowledged,
    /// Which devices living processes opened: their exits now provoke reads of every GPU.
    Touches,
    /// Identities that an earlier run left open.
    Journaled,
    /// UNKNOWNs that were not told any more.
    Unknowns,
}

/// A final row and whose it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// What the driver said, and the read that first showed it.
    pub row: FinalRow,
    /// The settlement.
    pub settlement: Settlement,
    /// On whose line it stands.
    pub whose: Whose,
    /// It belongs to the command that is followed.
    pub of_command: bool,
    /// It was final before the first read of its GPU in this run.
    pub already_dead: bool,
}

/// A row that runs, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The row. Hidden behind a dead row of its pid it has no start, and nobody can be named.
    pub row: OpenRow,
    /// Whose, as far as it is known now.
    pub attribution: Attribution,
    /// On whose line it accrues.
    pub whose: Whose,
}

/// The line on which a row stands, and what surrounds its process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Whose {
    /// The account.
    pub account: Account,
    /// By what else it can be billed; empty where nobody is known.
    pub labels: Labels,
    /// The program; `None` where nobody knows.
    pub program: Option<Program>,
    /// Who it descends from, the nearest first; at most `ANCESTORS_MAX`.
    pub ancestors: Vec<Ancestor>,
    /// Control groups it was seen in, with their paths as far as they are known.
    pub cgroups: Vec<NamedCgroup>,
    /// Every image that it was seen to bear, oldest first, and how many more were forgotten; `None` where it is not known.
    pub borne: Option<(Vec<Borne>, u64)>,
    /// SHA-256 of the file of rules that the account is by; `None` where there is none, or nobody is known.
    pub rules: Option<Digest>,
}

/// An image that a process bore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Borne {
    /// Since when.
    pub since: BootNs,
    /// What it rests on.
    pub basis: Basis,
    /// The program; `None` where nobody knows.
    pub program: Option<Program>,
}

/// One of those that a process descends from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ancestor {
    /// Which process.
    pub key: ProcessKey,
    /// What it ran when the next one was born; `None` where nobody knows.
    pub program: Option<Program>,
}

/// A control group and what it was called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedCgroup {
    /// Which.
    pub cgroup: CgroupId,
    /// Its path from the hierarchy's root; `None` where nobody knows.
    pub path: Option<Bytes>,
}

/// Whoever bears a pid now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bearer {
    /// Which process; `None` where nobody knows.
    pub key: Option<ProcessKey>,
    /// What it runs; `None` where nobody knows.
    pub image: Option<Image>,
    /// On whose line it stands.
    pub account: Account,
    /// By what else it can be billed; empty where nobody is known.
    pub labels: Labels,
}
