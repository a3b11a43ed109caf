//! Faults of the product that the simulation plants where values go in and come out, to prove that it
//! would catch them.

/// One planted fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Bug {
    /// The journal does not look whether a key is booked.
    NoUniqueKey,
    /// It looks in a memory of its own run only.
    UniqueWithinARun,
    /// Notes are acknowledged when they are queued.
    AcknowledgedBeforeCommit,
    /// What was committed last is gone after a crash.
    CommitWithoutSync,
    /// After a crash the chain goes on from where the last batch began.
    StaleHead,
    /// The sums count a settlement twice.
    CountedTwice,
    /// An entry is changed in place.
    EditedInPlace,
    /// A row that runs is taken for final.
    OpenRowBooked,
    /// Gaps of rows are not entered.
    RowGapLost,
    /// The time without an agent is no gap.
    AgentDownForgotten,
    /// Where nobody is known the pid's bearer is taken.
    NamedByPidAlone,
    /// A list is believed whatever the mode is.
    ModeNotChecked,
    /// The counters of lost events are not told.
    LossSwallowed,
    /// An event is dropped, and counted nowhere.
    EventDropped,
    /// Lifetimes are forgotten as if reads began when they ended.
    ForgottenEarly,
    /// Rows are settled before the events that were still in the ring are applied.
    SettledBeforeEvents,
    /// An accounting mode that is off reads as an empty list.
    OffReadsAsIdle,
    /// Open entries are not taken over after a restart.
    OpenNotResumed,
    /// Marks say that rows were seen which had no room.
    MarkedBeyondTheQueue,
    /// Rows that had no room and never came again are no gap.
    QueueGapLost,
    /// What was not seen before accounting was found off is told when it is on again.
    OffToldLate,
}

impl Bug {
    pub(crate) const ALL: &'static [Self] = &[
        Self::NoUniqueKey,
        Self::UniqueWithinARun,
        Self::AcknowledgedBeforeCommit,
        Self::CommitWithoutSync,
        Self::StaleHead,
        Self::CountedTwice,
        Self::EditedInPlace,
        Self::OpenRowBooked,
        Self::RowGapLost,
        Self::AgentDownForgotten,
        Self::NamedByPidAlone,
        Self::ModeNotChecked,
        Self::LossSwallowed,
        Self::EventDropped,
        Self::ForgottenEarly,
        Self::SettledBeforeEvents,
        Self::OffReadsAsIdle,
        Self::OpenNotResumed,
        Self::MarkedBeyondTheQueue,
        Self::QueueGapLost,
        Self::OffToldLate,
    ];
}
