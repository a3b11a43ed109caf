//! What a return code means for the call that gave it.

use nvml_wrapper::error::NvmlError;

use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

/// What kind of question a call asks: the same code means different things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// Opening the library or a device.
    Open,
    /// A property of a device.
    Fact,
    /// The accounting mode, asked or set.
    Mode,
    /// The pid list or a row.
    Accounting,
    /// Running processes.
    Processes,
    /// Utilization samples.
    Samples,
}

/// The UNKNOWN that an error of `call` is.
#[must_use]
pub fn unknown(
    kind: CallKind,
    call: &'static str,
    gpu: Option<&GpuUuid>,
    error: NvmlError,
) -> Unknown {
    let made = |reason, detail, code| Unknown {
        reason,
        detail,
        gpu: gpu.cloned(),
        call: Some(call),
        code,
    };
    match error {
        NvmlError::LibloadingError(error) => {
            made(UnknownReason::NvmlLibraryNotFound, Some(error.to_string()), None)
        }
        NvmlError::FailedToLoadSymbol(_) => {
            made(UnknownReason::NvmlSymbolMissing, Some(call.to_owned()), None)
        }
        error @ (NvmlError::Utf8Error(_)
        | NvmlError::NulError(_)
        | NvmlError::StringTooLong { .. }
        | NvmlError::IncorrectBits(_)
        | NvmlError::SetReleaseFailed
        | NvmlError::GetPciInfoFailed
        | NvmlError::PciInfoToCFailed) => {
            made(UnknownReason::ValueNotAvailable, Some(error.to_string()), None)
        }
        error => {
            let code: u32 = error.into();
            let (reason, detail) = of_code(kind, code);
            made(reason, detail, Some(code))
        }
    }
}

/// The reason behind a return code (`nvmlReturn_t` of nvml.h 13.5; 23 to 30 have no name in
/// nvml-wrapper 0.13 and arrive as bare numbers).
fn of_code(kind: CallKind, code: u32) -> (UnknownReason, Option<String>) {
    use UnknownReason as R;
    let reason = match (code, kind) {
        (1, _) => R::NvmlUninitialized,
        (2, _) => R::NvmlInvalidArgument,
        (3, CallKind::Mode) => R::AccountingNotSupported,
        (3, CallKind::Accounting) => R::AccountingNotSupportedOrDisabled,
        (3, CallKind::Processes) => R::ProcessListNotSupported,
        (3, CallKind::Open | CallKind::Fact | CallKind::Samples) => R::ValueNotAvailable,
        (4, CallKind::Processes) => R::MigNeedsPrivilege,
        (4, _) => R::NoPermission,
        (6, CallKind::Accounting) => R::RowVanished,
        (6, CallKind::Open) | (28, _) => R::NoGpuFound,
        (6, CallKind::Samples) => R::NoSamples,
        (7, _) => R::PidListRaced,
        (9, _) => R::DriverNotLoaded,
        (12, _) => R::NvmlLibraryNotFound,
        (13, _) => R::NvmlFunctionMissing,
        (15, _) => R::GpuLost,
        (16, _) => R::GpuResetRequired,
        (17, _) => R::OsErrorOrCgroupDenied,
        (18, _) => R::DriverLibraryVersionMismatch,
        (20 | 23, _) => R::DriverOutOfResources,
        (25, _) => R::NvmlStructVersionMismatch,
        (26, _) => R::NvmlDeprecated,
        (27, _) => R::DriverNotReady,
        (29, _) => R::InvalidState,
        (999, _) => R::NvmlUnknownError,
        (other, _) => return (R::NvmlUnmappedCode, Some(other.to_string())),
    };
    (reason, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(kind: CallKind, code: u32) -> String {
        unknown(kind, "nvmlCall", None, NvmlError::from(code)).word()
    }

    #[test]
    fn every_documented_code_has_its_word() {
        let expected = [
            (1, "nvml-uninitialized"),
            (2, "nvml-invalid-argument"),
            (4, "no-permission"),
            (7, "pid-list-raced"),
            (9, "driver-not-loaded"),
            (12, "nvml-library-not-found"),
            (13, "nvml-function-missing"),
            (15, "gpu-lost"),
            (16, "gpu-reset-required"),
            (17, "os-error-or-cgroup-denied"),
            (18, "driver-library-version-mismatch"),
            (20, "driver-out-of-resources"),
            (23, "driver-out-of-resources"),
            (25, "nvml-struct-version-mismatch"),
            (26, "nvml-deprecated"),
            (27, "driver-not-ready"),
            (28, "no-gpu-found"),
            (29, "invalid-state"),
            (999, "nvml-unknown-error"),
            (22, "nvml-unmapped-code:22"),
            (4_711, "nvml-unmapped-code:4711"),
        ];
        for (code, reason) in expected {
            assert_eq!(word(CallKind::Accounting, code), reason, "code {code}");
            let unknown = unknown(CallKind::Accounting, "nvmlCall", None, NvmlError::from(code));
            assert_eq!(unknown.code, Some(code));
        }
    }

    #[test]
    fn not_supported_means_what_the_call_makes_of_it() {
        assert_eq!(word(CallKind::Mode, 3), "accounting-not-supported");
        assert_eq!(word(CallKind::Accounting, 3), "accounting-not-supported-or-disabled");
        assert_eq!(word(CallKind::Processes, 3), "process-list-not-supported");
        assert_eq!(word(CallKind::Processes, 4), "mig-needs-privilege");
        assert_eq!(word(CallKind::Accounting, 6), "row-vanished");
    }

    #[test]
    fn a_missing_symbol_is_named() {
        let error = NvmlError::FailedToLoadSymbol("anything".to_owned());
        let unknown = unknown(CallKind::Mode, "nvmlDeviceGetAccountingMode", None, error);
        assert_eq!(unknown.word(), "nvml-symbol-missing:nvmlDeviceGetAccountingMode");
    }
}
