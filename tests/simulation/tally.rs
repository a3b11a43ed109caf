//! How often what happened, over all seeds.

use std::collections::BTreeMap;

macro_rules! kinds {
    ($($kind:ident,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) enum Kind { $($kind,)* }

        impl Kind {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    Fork, Exec, Exit, PidReused, EventLost, ArgvShed, ProcfsUnreadable,
    Open, Close, MonitorOpened, DescriptorInherited, HeldByADuplicate, RowJoinedByAnother,
    TeardownDelayed, Storm, RowEvicted, RowReplaced, RowMasked, ListRaced,
    ModeOn, ModeOff, Reset, Clear, GpuLost, ListFailed, RowsGone, RowsFailed, RowChanged, CallHung,
    ClockForward, ClockBack, Sleep, Boot,
    AgentBegan, AgentStopped, AgentCrashed, CrashBeforeCommit, CrashAfterCommit, StartedAnew,
    DiskFull, DiskFailed, QueueOverflowed, RowRefused, RowsLostInQueue, Released, Regained,
    Committed, Settled, Named, Nameless, Disputed, Reoffered, OpenEntered, OpenEnded,
    GapEntered, EpochEntered, Marked, NamedByJournal, ConflictEntered, BilledWhileAtWork,
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(BTreeMap<Kind, u64>);

impl Tally {
    pub(crate) fn count(&mut self, kind: Kind) {
        self.add(kind, 1);
    }

    pub(crate) fn add(&mut self, kind: Kind, count: u64) {
        *self.0.entry(kind).or_insert(0) += count;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, count)| self.add(*kind, *count));
    }

    pub(crate) fn of(&self, kind: Kind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }
}
