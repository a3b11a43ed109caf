//! What must be there, checked and said before the command starts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use crate::accounting::driver::{DriverOptions, in_initial_pid_namespace};
use crate::accounting::nvml::LOADS_LIBRARIES;
use crate::argv::CmdlineMode;
use crate::attribution::Attributor;
use crate::config::{Config, Rules};
use crate::host::{HostSettings, Resumed};
use crate::kernel::TracerOptions;
use crate::naming::{Naming, OLLAMA_MODELS_DEFAULT, SOCKET_DEFAULT, Source};
use crate::observer::{Missing, Observer, Setup};
use crate::output;
use crate::session::TraceOptions;
use crate::session::launch::PROBE_WORD;
use crate::session::watch::Watch;
use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

/// Opens both sides. What cannot be opened is an UNKNOWN of the watch, not an error.
pub(super) async fn begin(options: &TraceOptions) -> (Watch, Vec<Missing>) {
    let (mut observer, missing) = observer(options);
    let touch_off_because = observer.touch_off_because();
    if let Some(why) = touch_off_because.as_deref().filter(|_| options.device_touch) {
        // No prerequisite: everything else goes on without it.
        output::complain(&format!("device-touch off: {why}"));
    }
    let dead_rows_hidden = match in_initial_pid_namespace() {
        Ok(initial) => !initial,
        Err(error) => {
            tracing::warn!(%error, "/proc/self/ns/pid does not tell which pid namespace this is");
            true
        }
    };
    let opened = observer.open_driver(DriverOptions {
        library: options.nvml_library.clone(),
        call_deadline: options.call_deadline,
        clock: options.clock.clone(),
        dead_rows_hidden,
        touches_watched: touch_off_because.is_none(),
        memory_period: None,
    });
    let opened = opened.await;
    let mut watch = Watch::new(observer, touch_off_because);
    if let Err(unknown) = opened {
        watch.note_unknown(&unknown);
    }
    for one in &missing {
        watch.note_unknown(&one.unknown);
    }
    if options.device_touch && watch.touch_off_because.is_some() {
        watch.note_unknown(&Unknown::of(UnknownReason::DeviceTouchOff));
    }
    if dead_rows_hidden {
        watch.note_unknown(&Unknown::of(UnknownReason::DeadRowsHiddenByPidNamespace));
    }
    if options.enable_accounting {
        enable_accounting(&mut watch).await;
    }
    (watch, missing)
}

fn observer(options: &TraceOptions) -> (Observer, Vec<Missing>) {
    // Root reads for itself what it would have read for it.
    let source = if rustix::process::geteuid().is_root() {
        Source::Files
    } else {
        Source::Helper(PathBuf::from(SOCKET_DEFAULT))
    };
    let naming = Arc::new(
        Naming::start(options.clock.clone(), source).with_models(OLLAMA_MODELS_DEFAULT.into()),
    );
    let setup = Setup {
        clock: options.clock.clone(),
        host_name: host_name(),
        probe_arguments: vec![OsString::from(PROBE_WORD)],
        // The kernel side says which of the two there are.
        settings: HostSettings::of_trace(true, options.device_touch),
        resumed: Resumed::default(),
        naming: Some(Arc::clone(&naming)),
    };
    let tracer = TracerOptions {
        ring_bytes: options.ring_bytes,
        device_touch: options.device_touch,
        ..TracerOptions::default()
    };
    let (mut observer, missing) = Observer::watch_or_blind(setup, &tracer);
    observer.host_mut().attribute_by(attributor(naming, options.cmdline));
    (observer, missing)
}

/// Accounts are made as the host's daemon makes them; where its rules cannot be read, or look at what is not kept,
/// without them.
fn attributor(naming: Arc<Naming>, cmdline: CmdlineMode) -> Attributor {
    let attributor = Attributor::new(naming).with_cmdline(cmdline);
    let rules = Config::read_or_default(None)
        .map_err(anyhow::Error::from)
        .and_then(|config| Ok(Rules::read_or_default(config.rules.as_deref())?.fit(cmdline)?));
    match rules {
        Ok(rules) => attributor.with_rules(&rules.set),
        Err(error) => {
            output::complain(&format!("no rules are applied: {error}"));
            attributor
        }
    }
}

async fn enable_accounting(watch: &mut Watch) {
    let Some(driver) = watch.observer.driver() else { return };
    let off = watch.host().gpus().values().filter(|gpu| gpu.facts.accounting != Ok(true));
    let off: Vec<GpuUuid> = off.map(|gpu| gpu.facts.uuid.clone()).collect();
    let mut unknowns = Vec::new();
    let mut enabled = BTreeSet::new();
    for gpu in off {
        match driver.set_accounting(&gpu, true).await {
            Ok(true) => {
                enabled.insert(gpu);
            }
            // Read back as off: the reads will say so.
            Ok(false) => {}
            Err(unknown) => unknowns.push(unknown),
        }
    }
    for unknown in &unknowns {
        watch.note_unknown(unknown);
    }
    forget_accounting_off(watch, &enabled).await;
}

/// Reads that began before the mode was set say that it is off, and may still be on their way. What
/// they say belongs to no period of this trace.
async fn forget_accounting_off(watch: &mut Watch, enabled: &BTreeSet<GpuUuid>) {
    let set = watch.observer.clock().now().boot;
    watch.observer.want_reads(true, true);
    let deadline = Instant::now() + super::BASELINE_TIMEOUT;
    let waits = |watch: &Watch| {
        let mut gpus = watch.host().gpus().values().filter(|gpu| enabled.contains(&gpu.facts.uuid));
        gpus.any(|gpu| !gpu.was_read_after(set) && !gpu.is_stalled())
    };
    while waits(watch) {
        tokio::select! {
            wake = watch.next() => if watch.advance(Some(wake)).is_err() { break },
            () = sleep_until(deadline) => break,
        }
    }
    watch.observer.host_mut().forget_accounting_off(enabled);
}

/// The calls without whose answer a GPU has no rows.
const GATES: [&str; 2] = ["nvmlDeviceGetAccountingMode", "nvmlDeviceGetAccountingPids"];
/// The remedy for answers that have no other.
const ASK_THE_KERNEL_LOG: &str =
    "no amounts; the driver refused the call: see dmesg for NVRM and Xid lines";

/// What the driver's side lacks, by what its first reads could not say.
pub(super) fn missing_of_driver(watch: &Watch) -> Vec<Missing> {
    let last_reads = watch.host().gpus().values().flat_map(|gpu| &gpu.unknowns);
    let all: BTreeSet<&Unknown> = watch.host().unknowns().iter().chain(last_reads).collect();
    let advised = all.into_iter().filter_map(|unknown| {
        let gate = |call| watch.observer.driver().is_none() || GATES.contains(&call);
        // An empty list is an answer, and carries no code.
        let refused = unknown.call.is_some_and(gate) && unknown.code.is_some_and(|code| code != 0);
        let advice = remedy(unknown.reason).or(refused.then_some(ASK_THE_KERNEL_LOG))?.to_owned();
        Some(Missing { unknown: unknown.clone(), advice })
    });
    advised.collect()
}

/// What to do about a missing prerequisite; `None` for what is no prerequisite.
const fn remedy(reason: UnknownReason) -> Option<&'static str> {
    Some(match reason {
        UnknownReason::NvmlLibraryNotFound if !LOADS_LIBRARIES => {
            "no amounts; this is the static build, which cannot load the driver's library: install the package"
        }
        UnknownReason::NvmlLibraryNotFound => {
            "no amounts; install the NVIDIA driver, or name its library with --nvml-library"
        }
        UnknownReason::NvmlSymbolMissing | UnknownReason::NvmlFunctionMissing => {
            "no amounts; this is no NVML, or one too old for accounting: upgrade the driver, or name its library with --nvml-library"
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

pub(crate) fn host_name() -> Arc<str> {
    match nix::unistd::gethostname() {
        Ok(name) => crate::escape::escape(name.as_encoded_bytes()).to_string().into(),
        Err(error) => format!("unknown ({error})").into(),
    }
}
