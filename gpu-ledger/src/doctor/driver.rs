//! Driver, library and GPUs, by what one survey of them brought. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Area, Check, Status};
use crate::accounting::FinalRow;
use crate::accounting::driver::{DriverFacts, GpuFacts};
use crate::accounting::harvest::DEAD_ROWS_MAX;
use crate::accounting::nvml::{DriverKind, LOADS_LIBRARIES, MigState};
use crate::accounting::reading::ListingState;
use crate::accounting::worker::ReadOutcome;
use crate::survey::SurveyedGpu;
use crate::unit::WallUs;
use crate::unknown::{Observed, Unknown, UnknownReason};

/// The remedy for answers that have no other.
const ASK_THE_KERNEL_LOG: &str = "the driver refused the call: see dmesg for NVRM and Xid lines";

/// What to do about what the driver cannot say.
pub(super) const fn remedy(reason: UnknownReason) -> &'static str {
    match reason {
        UnknownReason::NvmlLibraryNotFound if !LOADS_LIBRARIES => {
            "this is the static build, for journals and bundles (bill, explain, audit verify): it cannot load the \
             driver's library; install the package, or the dynamic program"
        }
        UnknownReason::NvmlLibraryNotFound => {
            "install the NVIDIA driver, or name its library with --nvml-library"
        }
        UnknownReason::NvmlSymbolMissing | UnknownReason::NvmlFunctionMissing => {
            "this is no NVML, or one too old for accounting: upgrade the driver, or name its \
             library with --nvml-library"
        }
        UnknownReason::DriverNotLoaded => "load the driver: modprobe nvidia",
        UnknownReason::DriverLibraryVersionMismatch => {
            "the driver was upgraded under its library: reboot, or reload the module"
        }
        UnknownReason::NoGpuFound => "the driver shows no GPU to this process: see nvidia-smi -L",
        UnknownReason::NoPermission => "needs root: run it under sudo",
        UnknownReason::AccountingModeDisabled => "sudo gpu-ledger accounting enable",
        UnknownReason::AccountingUnavailableMig => {
            "the driver keeps no rows while MIG is on; nothing but turning MIG off helps"
        }
        UnknownReason::AccountingUnavailableVgpuHost => {
            "a vGPU host keeps its rows per virtual machine; run gpu-ledger in the guests"
        }
        UnknownReason::AccountingNotSupported | UnknownReason::AccountingNotSupportedOrDisabled => {
            "this GPU or driver keeps no rows; see nvidia-smi -q -d ACCOUNTING"
        }
        UnknownReason::DeadRowsHiddenByPidNamespace => {
            "run it in the host's pid namespace (docker --pid=host)"
        }
        UnknownReason::NvmlCallTimeout => {
            "a driver call hangs, or the reads take too long: see dmesg for NVRM and Xid lines"
        }
        UnknownReason::GpuLost | UnknownReason::GpuResetRequired => {
            "the GPU needs a reset: nvidia-smi --gpu-reset, or a reboot"
        }
        _ => ASK_THE_KERNEL_LOG,
    }
}

/// Nothing can be read at all.
pub(super) fn unreadable(unknown: &Unknown) -> Check {
    let check = match unknown.reason {
        UnknownReason::NvmlLibraryNotFound
        | UnknownReason::NvmlSymbolMissing
        | UnknownReason::NvmlFunctionMissing => "library",
        UnknownReason::NoGpuFound => "gpus",
        _ => "driver",
    };
    amiss(Area::Driver, check, Status::Missing, unknown)
}

/// A check that could not be answered, with its reason and remedy.
fn amiss(area: Area, check: &'static str, status: Status, unknown: &Unknown) -> Check {
    let mut cause = unknown.word();
    if let Some(call) = unknown.call {
        let _ = write!(cause, " ({call}");
        if let Some(code) = unknown.code {
            let _ = write!(cause, " gives {code}");
        }
        cause.push(')');
    }
    let found = Check::new(area, check, status, cause);
    let found = found.with_remedy(remedy(unknown.reason)).with_reason(unknown.reason);
    match &unknown.gpu {
        Some(gpu) => found.of_gpu(gpu),
        None => found,
    }
}

/// Everything about the driver and its GPUs.
pub(super) fn checks(facts: &DriverFacts, gpus: &[SurveyedGpu]) -> Vec<Check> {
    let mut checks = of_driver(facts);
    for gpu in gpus {
        checks.extend(of_gpu(gpu));
    }
    checks
}

fn of_driver(facts: &DriverFacts) -> Vec<Check> {
    let area = Area::Driver;
    let kind = match facts.kind {
        DriverKind::Real => "",
        DriverKind::Simulated => "SIMULATED, ",
    };
    let mut checks = vec![match &facts.version {
        Ok(version) => Check::ok(area, "driver", format!("{kind}version {version}")),
        Err(unknown) => amiss(area, "driver", Status::Unknown, unknown),
    }];
    checks.push(if facts.symbols_missing.is_empty() {
        Check::ok(area, "symbols", "the library has every function that is called")
    } else {
        let lacks = facts.symbols_missing.join(", ");
        Check::new(area, "symbols", Status::Missing, format!("the library lacks {lacks}"))
            .with_remedy(remedy(UnknownReason::NvmlSymbolMissing))
            .with_reason(UnknownReason::NvmlSymbolMissing)
    });
    checks.push(if facts.stats_v2 {
        Check::ok(area, "stats-v2", "rows carry utilization sums: the best busy range")
    } else {
        let cause = "no nvmlDeviceGetAccountingStats_v2: busy is a range of samples";
        Check::new(area, "stats-v2", Status::Warn, cause)
            .with_remedy("a driver of release 610 or later has it; nothing else is lost")
    });
    checks
        .extend(facts.unknowns.iter().map(|unknown| amiss(area, "gpus", Status::Missing, unknown)));
    checks
}

fn of_gpu(gpu: &SurveyedGpu) -> Vec<Check> {
    let facts = &gpu.facts;
    let mut checks = vec![mode(facts), mig(facts), vgpu(facts), persistence(facts)];
    match &gpu.read {
        Ok(read) => {
            checks.push(read_of(read));
            checks.push(margin(read));
        }
        Err(unknown) => checks.push(amiss(Area::Gpu, "read", Status::Unknown, unknown)),
    }
    checks.extend(dead_before(&gpu.already_dead));
    checks.into_iter().map(|check| check.of_gpu(&facts.uuid)).collect()
}

fn mode(facts: &GpuFacts) -> Check {
    let check = "accounting-mode";
    match &facts.accounting {
        Ok(true) => Check::ok(Area::Gpu, check, "accounting is on: rows are kept"),
        Ok(false) if facts.mig == Observed::Known(MigState::On) => {
            let reason = UnknownReason::AccountingUnavailableMig;
            Check::new(Area::Gpu, check, Status::Missing, "accounting is off, and MIG keeps it off")
                .with_remedy(remedy(reason))
                .with_reason(reason)
        }
        Ok(false) => {
            let reason = UnknownReason::AccountingModeDisabled;
            Check::new(Area::Gpu, check, Status::Missing, "accounting is off: no rows are kept")
                .with_remedy(format!("{}; then restart what should be billed", remedy(reason)))
                .with_reason(reason)
        }
        Err(unknown) => amiss(Area::Gpu, check, Status::Missing, unknown),
    }
}

fn mig(facts: &GpuFacts) -> Check {
    match &facts.mig {
        Observed::Known(MigState::Off) => Check::ok(Area::Gpu, "mig", "MIG is off"),
        Observed::Known(MigState::On) => {
            let reason = UnknownReason::AccountingUnavailableMig;
            Check::new(Area::Gpu, "mig", Status::Missing, "MIG is on")
                .with_remedy(remedy(reason))
                .with_reason(reason)
        }
        Observed::Unknown(reason) => not_told("mig", "whether MIG is on", *reason),
    }
}

fn vgpu(facts: &GpuFacts) -> Check {
    match &facts.vgpu_host {
        Observed::Known(false) => Check::ok(Area::Gpu, "vgpu-host", "no vGPU host"),
        Observed::Known(true) => {
            let reason = UnknownReason::AccountingUnavailableVgpuHost;
            Check::new(Area::Gpu, "vgpu-host", Status::Missing, "a vGPU host")
                .with_remedy(remedy(reason))
                .with_reason(reason)
        }
        Observed::Unknown(reason) => not_told("vgpu-host", "whether this is a vGPU host", *reason),
    }
}

/// What to do where the mode goes with the last client.
pub(super) const PERSISTENCE_REMEDY: &str =
    "systemctl enable --now nvidia-persistenced, or nvidia-smi --persistence-mode=1";

fn persistence(facts: &GpuFacts) -> Check {
    match &facts.persistence {
        Observed::Known(true) => {
            Check::ok(Area::Gpu, "persistence", "persistence is on: the mode outlives its clients")
        }
        Observed::Known(false) => {
            let cause = "persistence is off: the mode is lost when the last client goes";
            Check::new(Area::Gpu, "persistence", Status::Warn, cause)
                .with_remedy(PERSISTENCE_REMEDY)
        }
        Observed::Unknown(reason) => not_told("persistence", "whether persistence is on", *reason),
    }
}

fn not_told(check: &'static str, what: &str, reason: UnknownReason) -> Check {
    Check::new(Area::Gpu, check, Status::Unknown, format!("{what} is not told: {reason}"))
        .with_remedy(remedy(reason))
        .with_reason(reason)
}

fn read_of(read: &ReadOutcome) -> Check {
    // Told by the mode already, or no lack of a read.
    let told = [
        UnknownReason::AccountingModeDisabled,
        UnknownReason::AccountingUnavailableMig,
        UnknownReason::EmptyAccountedList,
        UnknownReason::NoSamples,
    ];
    let amiss_in = read.unknowns.iter().find(|unknown| !told.contains(&unknown.reason));
    match (read.listing, amiss_in) {
        (ListingState::Missing(_), Some(unknown)) => {
            amiss(Area::Gpu, "read", Status::Missing, unknown)
        }
        (ListingState::Missing(reason), None) => {
            let cause = format!("the rows could not be read: {reason}");
            Check::new(Area::Gpu, "read", Status::Unknown, cause).with_remedy(ASK_THE_KERNEL_LOG)
        }
        (ListingState::AccountingOff, _) => {
            Check::ok(Area::Gpu, "read", "the driver answers; there are no rows to read")
        }
        (ListingState::Listed, Some(unknown))
            if unknown.reason == UnknownReason::DeadRowsHiddenByPidNamespace =>
        {
            amiss(Area::Gpu, "read", Status::Missing, unknown)
        }
        (ListingState::Listed, Some(unknown)) => amiss(Area::Gpu, "read", Status::Warn, unknown),
        (ListingState::Listed, None) => {
            let open = read.open.len();
            let Some(holders) = &read.holders else {
                let found =
                    format!("the rows are read: {open} open; who holds the GPU was not told");
                return Check::new(Area::Gpu, "read", Status::Unknown, found)
                    .with_remedy(ASK_THE_KERNEL_LOG);
            };
            let holders = holders.len();
            let found = format!("the rows are read: {open} open, {holders} processes hold the GPU");
            Check::ok(Area::Gpu, "read", found)
        }
    }
}

fn margin(read: &ReadOutcome) -> Check {
    let check = "eviction-margin";
    match (read.listing, read.dead_rows) {
        (ListingState::Listed, Some(dead)) if dead >= DEAD_ROWS_MAX => {
            let cause = format!("{dead} of {DEAD_ROWS_MAX} dead rows: each exit evicts the oldest");
            Check::new(Area::Gpu, check, Status::Warn, cause)
                .with_remedy("keep the daemon running: it reads each row before it goes")
        }
        (ListingState::Listed, Some(dead)) => {
            let margin = DEAD_ROWS_MAX.saturating_sub(dead);
            let found = format!("{dead} of {DEAD_ROWS_MAX} dead rows: {margin} more fit");
            Check::ok(Area::Gpu, check, found)
        }
        (ListingState::AccountingOff, _) => {
            Check::ok(Area::Gpu, check, "no rows are kept while accounting is off")
        }
        _ => Check::new(Area::Gpu, check, Status::Unknown, "the dead rows could not be counted")
            .with_remedy("see the read of this GPU"),
    }
}

/// Rows of processes that ended before anybody looked.
fn dead_before(rows: &[FinalRow]) -> Option<Check> {
    let oldest = rows.iter().filter_map(|row| row.row.start).min()?;
    let found = format!(
        "{} from before this look, the oldest began {}: a daemon books those that its journal does not have \
         yet, nameless where nothing saw them (predates-coverage)",
        rows.len(),
        day(oldest)
    );
    Some(Check::ok(Area::Gpu, "old-dead-rows", found))
}

fn day(wall: WallUs) -> String {
    let us = i64::try_from(wall.0).unwrap_or(i64::MAX);
    match Timestamp::from_microsecond(us) {
        Ok(timestamp) => format!("{timestamp:.0}"),
        Err(_) => format!("{} us since 1970", wall.0),
    }
}
