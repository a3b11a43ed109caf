//! Known, or unknown with a reason: the closed lists of everything this product can fail to know.
//!
//! Purpose: a value that was not observed is [`Observed::Unknown`], never a zero and never a blank.
//! The words below are the same in code, JSON, metrics and documents. May touch: nothing.
//! May not: offer a default for an unknown value.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::escape::escape;
use crate::unit::GpuUuid;

/// A value read from a source: either what the source said, or why it said nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observed<T> {
    /// What the source said.
    Known(T),
    /// Why there is no value.
    Unknown(UnknownReason),
}

impl<T> Observed<T> {
    /// The value, for callers that print "unknown" themselves.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

impl<T: Serialize> Serialize for Observed<T> {
    /// The value, or null: machine formats carry the reason in their `unknown` list.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}

/// Makes a closed list of words: the enum, `as_str`, `ALL`, `Display`, `Serialize`.
macro_rules! closed_list {
    ($(#[$list:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$list])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every word of the list, in the order of the documents.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word, as it stands in every format.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

pub(crate) use closed_list;

closed_list! {
    /// Why a settlement has no identity.
    NamelessReason {
        /// The process was gone before coverage began.
        PredatesCoverage = "predates-coverage",
        /// The agent was not running when the process lived, or ran without process events
        /// (`process-events-unavailable`): either way nobody watched processes.
        AgentDown = "agent-down",
        /// Kernel events were lost in the interval that would have named it, or its fork event could
        /// not say whose child it is.
        EventLost = "event-lost",
        /// The lifetime was known and forgotten under a memory limit.
        IdentityEvicted = "identity-evicted",
        /// Two lifetimes of the pid fit equally well.
        PidAmbiguous = "pid-ambiguous",
        /// The row's span reaches into a second lifetime of its pid (an inherited descriptor).
        RowSpansTwoLifetimes = "row-spans-two-lifetimes",
        /// The driver gave no start time, so the row cannot be joined safely.
        NoStartTime = "no-start-time",
    }
}

closed_list! {
    /// Why an interval could not be seen.
    GapCause {
        /// The agent was not running.
        AgentDown = "agent-down",
        /// Events were lost and counted: the kernel's ring was full, or whom they are about could
        /// not be read.
        EventLost = "event-lost",
        /// No dead row of the last read survived, so rows may have been evicted unread.
        RowsPossiblyEvicted = "rows-possibly-evicted",
        /// The dead rows are gone and the store is not full: cleared, or the driver was reset.
        ClearedOrReset = "cleared-or-reset",
        /// A later span of the same pid replaced a row before it was read final.
        RowOverwritten = "row-overwritten",
        /// A listed row could not be read any more.
        RowVanished = "row-vanished",
        /// Accounting was off.
        AccountingOff = "accounting-off",
        /// A row seen open is neither open nor final: accounting was lost in between.
        EpochBroken = "epoch-broken",
        /// Every handle was given back on request (`gpu-ledger release`).
        Released = "released",
        /// A bounded queue of this product was full. With a GPU: rows of it were lost by that, and its time is
        /// uncovered; without one: names, and what was refused is asked for again.
        QueueOverflow = "queue-overflow",
        /// The journal's disk was full.
        DiskFull = "disk-full",
        /// A driver call did not return in time.
        NvmlCallTimeout = "nvml-call-timeout",
    }
}

closed_list! {
    /// Why a settlement's milliseconds are disputed: in the total, but not priced.
    DisputeReason {
        /// The wall clock was stepped during the span.
        ClockStep = "clock-step",
        /// The same key was read again with other contents.
        Conflict = "conflict",
    }
}

closed_list! {
    /// Facts about a settlement that a reader should know.
    Flag {
        /// Final with `time` 0: held for less than a millisecond.
        Below1Ms = "below-1ms",
        /// Final while its process lived on: it closed its last context.
        SettledWhileAlive = "settled-while-alive",
        /// The process held the GPU before accounting began: the row starts late.
        StartedBeforeAccounting = "started-before-accounting",
        /// Its process was moved to another job, pod, container or unit after it had opened a GPU (where opens are
        /// not watched: after its last exec); the whole of it stands where it was last.
        CgroupMoved = "cgroup-moved",
    }
}

closed_list! {
    /// Why a value is unknown. The driver's return codes and what each call can fail to say.
    UnknownReason {
        /// The NVML library could not be opened.
        NvmlLibraryNotFound = "nvml-library-not-found",
        /// The library lacks a function (driver too old).
        NvmlSymbolMissing = "nvml-symbol-missing",
        /// NVML 1.
        NvmlUninitialized = "nvml-uninitialized",
        /// NVML 2.
        NvmlInvalidArgument = "nvml-invalid-argument",
        /// NVML 4.
        NoPermission = "no-permission",
        /// NVML 7 five times over: the pid list kept growing between its two calls.
        PidListRaced = "pid-list-raced",
        /// NVML 9.
        DriverNotLoaded = "driver-not-loaded",
        /// NVML 13.
        NvmlFunctionMissing = "nvml-function-missing",
        /// NVML 15.
        GpuLost = "gpu-lost",
        /// NVML 16.
        GpuResetRequired = "gpu-reset-required",
        /// NVML 17.
        OsErrorOrCgroupDenied = "os-error-or-cgroup-denied",
        /// NVML 18.
        DriverLibraryVersionMismatch = "driver-library-version-mismatch",
        /// NVML 20 and 23.
        DriverOutOfResources = "driver-out-of-resources",
        /// NVML 25.
        NvmlStructVersionMismatch = "nvml-struct-version-mismatch",
        /// NVML 26.
        NvmlDeprecated = "nvml-deprecated",
        /// NVML 27.
        DriverNotReady = "driver-not-ready",
        /// NVML 28, or a device count of none.
        NoGpuFound = "no-gpu-found",
        /// NVML 29.
        InvalidState = "invalid-state",
        /// NVML 999.
        NvmlUnknownError = "nvml-unknown-error",
        /// A code that no header names.
        NvmlUnmappedCode = "nvml-unmapped-code",
        /// The call did not return before its deadline.
        NvmlCallTimeout = "nvml-call-timeout",
        /// Accounting mode is off.
        AccountingModeDisabled = "accounting-mode-disabled",
        /// Accounting cannot be on while MIG is.
        AccountingUnavailableMig = "accounting-unavailable-mig",
        /// The mode is neither on nor off.
        AccountingModeUnexpected = "accounting-mode-unexpected",
        /// The mode cannot be asked.
        AccountingNotSupported = "accounting-not-supported",
        /// A vGPU host: the per-VM stores are not visible to this query.
        AccountingUnavailableVgpuHost = "accounting-unavailable-vgpu-host",
        /// The mode before and after one list differ; the list was discarded.
        AccountingModeChangedDuringRead = "accounting-mode-changed-during-read",
        /// Every listed row answered NOT_FOUND.
        AccountingModeReset = "accounting-mode-reset",
        /// An empty list, with nothing that proves the GPU idle.
        EmptyAccountedList = "empty-accounted-list",
        /// Outside the initial pid namespace the driver hides its dead rows.
        DeadRowsHiddenByPidNamespace = "dead-rows-hidden-by-pid-namespace",
        /// NVML 3 from a list or row call.
        AccountingNotSupportedOrDisabled = "accounting-not-supported-or-disabled",
        /// NVML 6 for a pid that was just listed.
        RowVanished = "row-vanished",
        /// A dead row of the same pid hides the live one.
        MaskedByDeadRow = "masked-by-dead-row",
        /// `startTime` 0.
        NoStartTime = "no-start-time",
        /// The row contradicts the clock.
        ClockStep = "clock-step",
        /// The driver's "not available" sentinel.
        ValueNotAvailable = "value-not-available",
        /// Peak memory 0, which containers are known to show while using memory.
        MaxMemoryZero = "max-memory-zero",
        /// No utilization sample fell into the span.
        NoSamples = "no-samples",
        /// Process lists need more privilege under MIG.
        MigNeedsPrivilege = "mig-needs-privilege",
        /// NVML 3 from a process list.
        ProcessListNotSupported = "process-list-not-supported",
        /// A sample older than its limit.
        SampleStale = "sample-stale",
        /// No memory of the GPU's own (unified memory).
        NoDedicatedMemory = "no-dedicated-memory",
        /// The process events could not be had: no process can be named.
        ProcessEventsUnavailable = "process-events-unavailable",
        /// Device opens are not watched, so "who touched a GPU" is not known.
        DeviceTouchOff = "device-touch-off",
        /// The machine slept inside the span, for how long was not observed.
        SleepNotObserved = "sleep-not-observed",
    }
}

/// One UNKNOWN as it is printed: `GPU_LEDGER_UNKNOWN reason=… gpu=… call=… code=…`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Unknown {
    /// The word.
    pub reason: UnknownReason,
    /// What the word is about, where it takes one (a symbol, a code, a value).
    pub detail: Option<String>,
    /// The GPU, where it is about one.
    pub gpu: Option<GpuUuid>,
    /// The driver call that would have told.
    pub call: Option<&'static str>,
    /// Its return code.
    pub code: Option<u32>,
}

impl Unknown {
    /// An unknown that names no GPU and no call.
    #[must_use]
    pub const fn of(reason: UnknownReason) -> Self {
        Self { reason, detail: None, gpu: None, call: None, code: None }
    }

    /// `reason` or `reason:detail`.
    #[must_use]
    pub fn word(&self) -> String {
        match &self.detail {
            // A path may be a stranger's, and a blank in it would begin another field of the line.
            Some(detail) => {
                let detail = escape(detail.as_bytes()).to_string().replace(' ', "\\x20");
                format!("{}:{detail}", self.reason)
            }
            None => self.reason.to_string(),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU_LEDGER_UNKNOWN reason={}", self.word())?;
        match &self.gpu {
            Some(gpu) => write!(f, " gpu={gpu}")?,
            None => f.write_str(" gpu=-")?,
        }
        write!(f, " call={}", self.call.unwrap_or("-"))?;
        match self.code {
            Some(code) => write!(f, " code={code}"),
            None => f.write_str(" code=-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_never_leaves_a_field_out() {
        let bare = Unknown::of(UnknownReason::NoGpuFound);
        assert_eq!(bare.to_string(), "GPU_LEDGER_UNKNOWN reason=no-gpu-found gpu=- call=- code=-");
    }

    #[test]
    fn a_strangers_path_begins_no_field() {
        let detail = Some("x gpu=GPU-0 code=0\n".into());
        let forged = Unknown { detail, ..Unknown::of(UnknownReason::NvmlLibraryNotFound) };
        let line = forged.to_string();
        assert_eq!(line.split_whitespace().count(), 5, "{line}");
        assert!(line.contains(r":x\x20gpu=GPU-0\x20code=0\x0a gpu=- "), "{line}");
    }

    #[test]
    fn words_are_kebab_case_and_distinct() {
        let words: std::collections::BTreeSet<_> =
            UnknownReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), UnknownReason::ALL.len());
        assert!(words.iter().all(|word| {
            word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        }));
    }
}
