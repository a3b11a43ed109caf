//! When one GPU's rows were in sight, and what may have been lost while they were not.
//!
//! Purpose: every moment at which a holder of the GPU may have gone unseen lies in a gap with a cause;
//! what is not in such a gap was seen. May touch: nothing; it gets reads as values. May not: call a loss
//! countable that nobody could count.
//! Everything here is ordered by the boot clock; the wall clock in a [`Stamp`] is only for printing.

use super::Window;
use super::reading::ListingState;
use crate::clock::Stamp;
use crate::coverage::{Coverage, Gap};
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::{GapCause, UnknownReason};

/// The cause of the gap that a failure leaves where no later read shows what it hid. The one place where
/// what a read could not say becomes why an interval could not be seen.
///
/// | what was seen | cause |
/// |---|---|
/// | a call that did not return in time | `nvml-call-timeout` |
/// | accounting off, unavailable, or changed during the read | `accounting-off` |
/// | the GPU or the driver under it gone, reset or exchanged, which throws live rows away | `epoch-broken` |
/// | rows that are listed or known to be there and cannot be read | `row-vanished` |
/// | any other code: no list, so nothing proves that no row was evicted | `rows-possibly-evicted` |
#[must_use]
pub const fn cause_of(reason: UnknownReason) -> GapCause {
    use UnknownReason as R;
    match reason {
        R::NvmlCallTimeout => GapCause::NvmlCallTimeout,
        R::AccountingModeDisabled
        | R::AccountingUnavailableMig
        | R::AccountingModeUnexpected
        | R::AccountingNotSupported
        | R::AccountingUnavailableVgpuHost
        | R::AccountingModeChangedDuringRead
        | R::AccountingNotSupportedOrDisabled => GapCause::AccountingOff,
        R::GpuLost
        | R::GpuResetRequired
        | R::DriverNotLoaded
        | R::DriverNotReady
        | R::DriverLibraryVersionMismatch
        | R::NoGpuFound
        | R::AccountingModeReset => GapCause::EpochBroken,
        R::RowVanished | R::DeadRowsHiddenByPidNamespace | R::MaskedByDeadRow | R::NoStartTime => {
            GapCause::RowVanished
        }
        R::NvmlLibraryNotFound
        | R::NvmlSymbolMissing
        | R::NvmlUninitialized
        | R::NvmlInvalidArgument
        | R::NoPermission
        | R::PidListRaced
        | R::NvmlFunctionMissing
        | R::OsErrorOrCgroupDenied
        | R::DriverOutOfResources
        | R::NvmlStructVersionMismatch
        | R::NvmlDeprecated
        | R::InvalidState
        | R::NvmlUnknownError
        | R::NvmlUnmappedCode
        | R::EmptyAccountedList
        | R::ClockStep
        | R::ValueNotAvailable
        | R::MaxMemoryZero
        | R::NoSamples
        | R::MigNeedsPrivilege
        | R::ProcessListNotSupported
        | R::SampleStale
        | R::NoDedicatedMemory
        | R::ProcessEventsUnavailable
        | R::DeviceTouchOff
        | R::SleepNotObserved => GapCause::RowsPossiblyEvicted,
    }
}

/// What one read says of what was in sight.
#[derive(Clone, Debug)]
pub struct Look {
    /// From before its first call to after its last.
    pub window: Window,
    /// What became of its list.
    pub listing: ListingState,
    /// The list is empty, and nobody could say that it really is: a mode that was reset looks the same.
    pub is_empty_in_doubt: bool,
    /// The gaps it found.
    pub gaps: Vec<Gap>,
    /// The gaps that would have to be said if no further read came; none of the last read, whose
    /// gaps are all found.
    pub in_doubt: Vec<Gap>,
    /// Touching exits so far of which nothing says that they left no row: see
    /// [`super::harvest::Harvest::exits_unwitnessed`].
    pub exits_unwitnessed: u64,
}

/// The interval that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its first moment.
    pub from: Stamp,
    /// Its end. A GPU whose last good read began by then was seen throughout.
    pub to: Stamp,
    /// When the watching ended, no earlier than that: so long nobody saw what is not seen at the end.
    pub until: Stamp,
    /// Every open of this GPU's device file was seen, so every exit that may have left a row was
    /// counted.
    pub opens_watched: bool,
}

/// One GPU's reads, in order.
#[derive(Clone, Debug)]
pub struct Sight {
    gpu: GpuUuid,
    first_good: Option<Window>,
    last_good: Option<Window>,
    last_list: Option<Window>,
    /// The last read that proves which rows there are.
    last_proof: Option<Window>,
    /// Since when lists are empty that nobody could believe; the next list that proves more ends it.
    empty_in_doubt_since: Option<Stamp>,
    found: Vec<Gap>,
    in_doubt: Vec<Gap>,
    exits_unwitnessed: u64,
    /// Why the first reads brought nothing, where they did not.
    trouble_at_first: Option<GapCause>,
    /// Why the last ones did not.
    trouble: Option<GapCause>,
}

impl Sight {
    /// Of a GPU that was never read.
    #[must_use]
    pub const fn new(gpu: GpuUuid) -> Self {
        Self {
            gpu,
            first_good: None,
            last_good: None,
            last_list: None,
            last_proof: None,
            empty_in_doubt_since: None,
            found: Vec::new(),
            in_doubt: Vec::new(),
            exits_unwitnessed: 0,
            trouble_at_first: None,
            trouble: None,
        }
    }

    /// Takes in a read.
    pub fn take(&mut self, look: Look) {
        self.found.extend(look.gaps);
        // A listed row that is not found when asked about may turn up again: until then it is anybody's.
        let none_hides = look.in_doubt.iter().all(|gap| gap.size.is_none());
        self.in_doubt = look.in_doubt;
        self.exits_unwitnessed = look.exits_unwitnessed;
        if let ListingState::Missing(reason) = look.listing {
            self.note_trouble(cause_of(reason));
            return;
        }
        self.trouble = None;
        self.last_good = Some(look.window);
        self.first_good.get_or_insert(look.window);
        let listed = look.listing == ListingState::Listed;
        if if listed { none_hides } else { self.last_list.is_none() } {
            self.last_proof = Some(look.window);
        }
        if listed {
            // What is in doubt happened since the list before this one.
            let before = self.last_list.map_or(look.window.began, |window| window.began);
            let since = self.empty_in_doubt_since.unwrap_or(before);
            self.empty_in_doubt_since = look.is_empty_in_doubt.then_some(since);
            self.last_list = Some(look.window);
        }
    }

    /// A call hangs: until it returns, nothing is seen.
    pub fn stalls(&mut self) {
        self.note_trouble(GapCause::NvmlCallTimeout);
    }

    fn note_trouble(&mut self, cause: GapCause) {
        self.trouble = Some(cause);
        if self.first_good.is_none() {
            self.trouble_at_first.get_or_insert(cause);
        }
    }

    /// Begins anew with the last good read: what was before belongs to no period that is asked about.
    pub fn begin_anew(&mut self) {
        self.found.clear();
        self.first_good = self.last_good;
    }

    /// The first read that brought a list, or the answer that accounting is off.
    #[must_use]
    pub const fn first_good(&self) -> Option<Window> {
        self.first_good
    }

    /// The last such read.
    #[must_use]
    pub const fn last_good(&self) -> Option<Window> {
        self.last_good
    }

    /// Whether a list ever came. Before one, nothing proves that no old row will.
    #[must_use]
    pub const fn was_listed(&self) -> bool {
        self.last_list.is_some()
    }

    /// The last read up to which everybody who held the GPU is known or lies in a gap that was found: what
    /// a listed row that is not found when asked about did since, nobody knows yet.
    #[must_use]
    pub fn last_in_sight(&self) -> Option<Window> {
        let hides = self.in_doubt.iter().any(|gap| gap.size.is_some());
        if hides { self.last_proof } else { self.last_good }
    }

    /// The gaps that reads found, for whoever keeps them under a bound.
    pub(crate) const fn found_mut(&mut self) -> &mut Vec<Gap> {
        &mut self.found
    }

    /// The gaps that are left where no later read comes.
    #[must_use]
    pub fn in_doubt(&self) -> &[Gap] {
        &self.in_doubt
    }

    /// The last read that proves which rows there are: of a GPU that was never seen to keep any, the last
    /// that said so. Dead rows survive a mode that is off, and come back. A list of which a row was not found
    /// proves nothing.
    #[must_use]
    pub const fn last_proof(&self) -> Option<Window> {
        self.last_proof
    }

    /// Since when lists are empty that nobody could believe; `None` where the last one is believed.
    #[must_use]
    pub const fn doubted_since(&self) -> Option<Stamp> {
        self.empty_in_doubt_since
    }

    /// Every gap: those that reads found, those that are in doubt still, the time of empty lists that nobody
    /// could believe, and what lies before the first good read and after the last.
    #[must_use]
    pub fn gaps(&self, asked: &Asked) -> Vec<Gap> {
        let mut gaps = self.found.clone();
        if !asked.opens_watched {
            for gap in gaps.iter_mut().filter(|gap| is_told_by_exits(gap)) {
                gap.size = None;
            }
        }
        gaps.extend(
            self.in_doubt.iter().map(|gap| Gap { to: gap.to.max(asked.until), ..gap.clone() }),
        );
        if let (Some(since), Some(last)) = (self.empty_in_doubt_since, self.last_good) {
            let to = if last.began.boot < asked.to.boot { last.began } else { asked.until };
            let cause = cause_of(UnknownReason::EmptyAccountedList);
            self.add_unexplained(since.max(asked.from), to, cause, &mut gaps);
        }
        let first = self.first_good.map_or(asked.until, |window| window.began);
        // Nobody hangs and nothing fails, and yet no read was over: it was too slow.
        let late = GapCause::NvmlCallTimeout;
        if first.boot > asked.from.boot {
            let cause = self.trouble_at_first.or(self.trouble).unwrap_or(late);
            self.add_unexplained(asked.from, first, cause, &mut gaps);
        }
        if let Some(last) = self.last_good
            && last.began.boot < asked.to.boot
        {
            self.add_unexplained(last.began, asked.until, self.trouble.unwrap_or(late), &mut gaps);
        }
        gaps
    }

    /// Why the last reads brought nothing; where they did, that none was over in time.
    #[must_use]
    pub fn why_unseen(&self) -> GapCause {
        self.trouble.unwrap_or(GapCause::NvmlCallTimeout)
    }

    /// Adds what of an interval lies in no gap of rows yet.
    fn add_unexplained(&self, from: Stamp, to: Stamp, cause: GapCause, gaps: &mut Vec<Gap>) {
        let hiding = gaps.iter().filter(|gap| gap.hides_rows());
        let mut known: Vec<(Stamp, Stamp)> = hiding.map(|gap| (gap.from, gap.to)).collect();
        known.sort_unstable();
        let mut reached = from;
        let mut add = |from: Stamp, to: Stamp| {
            if from.boot < to.boot {
                gaps.push(Gap { cause, gpu: Some(self.gpu.clone()), from, to, size: None });
            }
        };
        for (begins, ends) in known {
            add(reached, begins.min(to));
            reached = reached.max(ends);
        }
        add(reached, to);
    }

    /// Rows that may have been lost unread. `None` where that is not known: where a gap's size is not,
    /// where nothing was ever read, where device opens were not all watched or process events are
    /// missing since the first read, since rows of
    /// processes that nobody saw may then have come and gone between two reads, and where processes
    /// that opened the GPU ended while no dead row was there to prove that nothing was cleared.
    #[must_use]
    pub fn possibly_lost(&self, asked: &Asked, events: &Coverage) -> Option<u64> {
        let first = self.first_good?.began.boot;
        let all_seen = events.start.boot <= first
            && events.event_gap_between(first, BootNs(u64::MAX)).is_none();
        if !asked.opens_watched || !all_seen || self.exits_unwitnessed > 0 {
            return None;
        }
        let gaps = self.gaps(asked).into_iter();
        let hiding = gaps.filter(|gap| gap.hides_rows() && !self.is_made_good(gap));
        hiding.map(|gap| gap.size).sum()
    }

    /// Whether a call hung between two lists: the one after it shows what it hid, or says under another
    /// cause that it is lost.
    fn is_made_good(&self, gap: &Gap) -> bool {
        let (first, last) = (self.first_good, self.last_list);
        gap.cause == GapCause::NvmlCallTimeout
            && first.is_some_and(|first| first.began.boot <= gap.from.boot)
            && last.is_some_and(|last| last.ended.boot >= gap.to.boot)
    }
}

/// Whether a gap's size is what exits say of it. Rows that are counted by their keys are at least one.
fn is_told_by_exits(gap: &Gap) -> bool {
    match gap.cause {
        GapCause::RowsPossiblyEvicted | GapCause::ClearedOrReset => true,
        GapCause::RowOverwritten => gap.size == Some(0),
        _ => false,
    }
}

#[cfg(test)]
#[path = "sight_tests.rs"]
mod tests;
