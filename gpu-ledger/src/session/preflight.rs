//! What must be there, checked and said before the command starts.

use std::sync::Arc;

use crate::accounting::driver::{Driver, DriverOptions, in_initial_pid_namespace};
use crate::kernel::TracerOptions;
use crate::session::TraceOptions;
use crate::session::processes::Processes;
use crate::session::watch::Watch;
use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

/// Opens both sides. What cannot be opened is an UNKNOWN of the watch, not an error.
pub(super) async fn begin(options: &TraceOptions) -> Watch {
    let mut unknowns = Vec::new();
    let processes = processes(options, &mut unknowns);
    let touch_off_because = processes.touch_off_because();
    let dead_rows_hidden = match in_initial_pid_namespace() {
        Ok(initial) => !initial,
        Err(error) => {
            tracing::warn!(%error, "/proc/self/ns/pid does not tell which pid namespace this is");
            true
        }
    };
    if dead_rows_hidden {
        unknowns.push(Unknown::of(UnknownReason::DeadRowsHiddenByPidNamespace));
    }
    let opened = Driver::open(DriverOptions {
        library: options.nvml_library.clone(),
        call_deadline: options.call_deadline,
        clock: options.clock.clone(),
        dead_rows_hidden,
        touches_watched: touch_off_because.is_none(),
    });
    let mut watch =
        Watch::new(options.clock.clone(), host_name(), processes, opened.await, touch_off_because);
    watch.unknowns.extend(unknowns);
    if options.enable_accounting {
        enable_accounting(&mut watch).await;
    }
    watch
}

fn processes(options: &TraceOptions, unknowns: &mut Vec<Unknown>) -> Processes {
    let tracer = TracerOptions {
        ring_bytes: options.ring_bytes,
        device_touch: options.device_touch,
        ..TracerOptions::default()
    };
    match Processes::watch(options.clock.clone(), &tracer) {
        Ok(processes) => processes,
        Err(error) => {
            unknowns.push(Unknown {
                detail: Some(error.to_string()),
                ..Unknown::of(UnknownReason::ProcessEventsUnavailable)
            });
            Processes::blind(options.clock.clone())
        }
    }
}

async fn enable_accounting(watch: &mut Watch) {
    let Some((_, driver)) = &watch.driver else { return };
    let off = watch.gpus.values().filter(|gpu| gpu.facts.accounting != Ok(true));
    let off: Vec<GpuUuid> = off.map(|gpu| gpu.facts.uuid.clone()).collect();
    for gpu in off {
        if let Err(unknown) = driver.set_accounting(&gpu, true).await {
            watch.unknowns.insert(unknown);
        }
    }
}

/// What is missing, one line each, with the remedy.
pub(super) fn missing(watch: &Watch) -> Vec<String> {
    let lines = watch.unknowns.iter().filter_map(|unknown| {
        let remedy = remedy(unknown.reason)?;
        Some(format!("{unknown}\n    {remedy}"))
    });
    lines.collect()
}

/// What to do about a missing prerequisite; `None` for what is no prerequisite.
const fn remedy(reason: UnknownReason) -> Option<&'static str> {
    Some(match reason {
        UnknownReason::ProcessEventsUnavailable => {
            "no process can be named; run as root, or with CAP_BPF and CAP_PERFMON, on Linux 5.8 or later with BTF"
        }
        UnknownReason::NvmlLibraryNotFound => {
            "no amounts; install the NVIDIA driver, or name its library with --nvml-library"
        }
        UnknownReason::DriverNotLoaded => "no amounts; load the driver: modprobe nvidia",
        UnknownReason::DriverLibraryVersionMismatch => {
            "no amounts; the driver was upgraded under its library: reboot, or reload the module"
        }
        UnknownReason::NoGpuFound => "no amounts; the driver shows no GPU to this process",
        UnknownReason::NoPermission => "needs root: run under sudo",
        UnknownReason::AccountingModeDisabled => {
            "no rows are kept; give --enable-accounting (needs root), then restart what should be billed"
        }
        UnknownReason::AccountingUnavailableMig => {
            "the driver keeps no rows while MIG is on; nothing but turning MIG off helps"
        }
        UnknownReason::AccountingUnavailableVgpuHost => {
            "a vGPU host keeps its rows per virtual machine; run gpu-ledger in the guests"
        }
        UnknownReason::AccountingNotSupported | UnknownReason::AccountingNotSupportedOrDisabled => {
            "this GPU or driver keeps no rows; see `nvidia-smi -q -d ACCOUNTING`"
        }
        UnknownReason::DeadRowsHiddenByPidNamespace => {
            "the driver hides dead rows here; run in the host's pid namespace (docker --pid=host)"
        }
        UnknownReason::NvmlCallTimeout => "a driver call hangs; see dmesg for NVRM and Xid lines",
        UnknownReason::GpuLost | UnknownReason::GpuResetRequired => {
            "the GPU needs a reset: nvidia-smi --gpu-reset, or a reboot"
        }
        _ => return None,
    })
}

fn host_name() -> Arc<str> {
    match nix::unistd::gethostname() {
        Ok(name) => crate::escape::escape(name.as_encoded_bytes()).to_string().into(),
        Err(error) => format!("unknown ({error})").into(),
    }
}
