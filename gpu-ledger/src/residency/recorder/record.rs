//! A whole recording: the driver opened, a batch for each GPU, their iterations, both verdicts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nix::unistd::User;

use super::harness::{Harness, Verifications};
use super::people::People;
use super::progress::Progress;
use super::window::{self, Plan};
use crate::accounting::calls::Calls;
use crate::accounting::driver::{
    DriverFacts, DriverOptions, GpuFacts, in_initial_pid_namespace, open_library,
};
use crate::accounting::nvml::{DriverKind, GpuHandle, Library, MigState};
use crate::argv::redact_words;
use crate::calling::gpu_called;
use crate::clock::Clock;
use crate::escape::escape;
use crate::notify::Manager;
use crate::output::{complain, to_stdout};
use crate::residency::ending::notes;
use crate::residency::events::Labels;
use crate::residency::facts::{Extremes, fingerprint_said, in_flight_said, iterations_said, said};
use crate::residency::files::{Batch, BatchReport, MARKS, Manifest, ManifestGpu, TimestampDomain};
use crate::residency::moment::Length;
use crate::residency::reasons::explained;
pub use crate::residency::settings::OnVoid;
use crate::residency::settings::Settings;
use crate::residency::verdict::{Backend, BackendVerdict, DataVerdict, exit_status, or_unknown};
use crate::unit::GpuUuid;
use crate::unknown::{Observed, Unknown};

/// What tells a recorded command where its batches are, parted by colons: `residency mark` reads it.
pub const BATCHES_VARIABLE: &str = "GPU_LEDGER_RESIDENCY";

/// Exit status: no driver could be asked, which fails the backend verdict.
const STATUS_BACKEND_FAILED: u8 = 3;

/// What is to be recorded. Cannot be printed: it holds the user's command as it was typed.
pub struct RecordOptions {
    /// Each batch becomes a folder here.
    pub out: PathBuf,
    /// P, Q, cap and the rest, checked.
    pub settings: Settings,
    /// Which GPUs, as the user calls them; empty: all.
    pub gpus: Vec<String>,
    /// D of each iteration; `None`: as long as the command.
    pub duration: Option<Length>,
    /// Labels of each iteration.
    pub iterations: Vec<Labels>,
    /// What to do when one is void.
    pub on_void: OnVoid,
    /// Whether processes are named by their events, where those can be watched.
    pub events: bool,
    /// Whether probing threads may start no program, by a filter of the kernel's.
    pub deny_exec: bool,
    /// Whether this is the acceptance run.
    pub acceptance: bool,
    /// The user's command; empty: none.
    pub argv: Vec<OsString>,
    /// Run it as this user.
    pub run_as: Option<User>,
    /// Where acceptance runs that passed are remembered; `None`: nowhere.
    pub verifications: Option<PathBuf>,
    /// A driver call that takes longer is given up.
    pub call_deadline: Duration,
    /// The library's path; the system's where there is none.
    pub nvml_library: Option<PathBuf>,
    /// `NOTIFY_SOCKET` of the environment.
    pub notify_socket: Option<OsString>,
    /// The clocks.
    pub clock: Clock,
}

/// A GPU that is recorded.
struct Gpu {
    facts: GpuFacts,
    asked: Asked,
}

/// What is asked of a GPU once, before anything is recorded.
struct Asked {
    power_limit_mw: Option<u32>,
    timestamps: TimestampDomain,
}

/// The opened driver.
struct Door {
    library: Arc<Library>,
    facts: DriverFacts,
    nvml_version: Option<String>,
    gpus: Vec<Gpu>,
}

/// Records, prints verdicts, and gives the exit status.
pub async fn record(options: RecordOptions) -> anyhow::Result<u8> {
    let door = match open(&options).await {
        Ok(door) => door,
        Err(unknown) => {
            complain(&format!(
                "nothing was recorded: {unknown}\n    the backend verdict fails without a driver to ask; \
                 `gpu-ledger doctor` says what is missing"
            ));
            return Ok(STATUS_BACKEND_FAILED);
        }
    };
    let gpus = chosen(&options.gpus, door.gpus)?;
    announce(&options.settings);
    let harness = Harness::of_this();
    let verifications = Verifications::at(options.verifications.clone());
    let mut batches = Vec::new();
    for gpu in &gpus {
        let mut manifest = manifest(&options, &door.facts, gpu, &harness, &verifications);
        manifest.nvml_version.clone_from(&door.nvml_version);
        batches.push(Batch::create(&options.out, manifest)?);
    }
    if let Some(user) = &options.run_as {
        for batch in &batches {
            // Phases are marked by the command, which is another's.
            let owner = rustix::fs::Uid::from_raw(user.uid.as_raw());
            rustix::fs::chown(batch.folder().join(MARKS), Some(owner), None)?;
        }
    }
    let may_look = in_initial_pid_namespace().is_ok_and(|is_initial| is_initial);
    let clock = options.clock.clone();
    let (mut people, why_not) = if options.events {
        People::watch(clock, may_look)
    } else {
        (People::of_procfs(clock, may_look), None)
    };
    if let Some(why) = why_not {
        complain(&format!("names come from procfs, while a process lives: {why}"));
    }
    let uuids: Vec<GpuUuid> = gpus.iter().map(|gpu| gpu.facts.uuid.clone()).collect();
    let backend = backend(&door.facts);
    let recorded =
        iterations(&options, (&door.library, backend), &uuids, &mut batches, &mut people).await;
    // The last reference may not be let go on this thread: shutting down is a driver call too.
    let library = door.library;
    std::thread::Builder::new().name("nvml-close".to_owned()).spawn(move || drop(library))?;
    // Whatever went wrong meanwhile, what was recorded until then is closed as far as it goes.
    let mut reports = Vec::new();
    for batch in batches {
        reports.push(batch.finish()?);
    }
    recorded?;
    if options.acceptance {
        remember(&verifications, &reports);
    }
    let page = page(&reports, options.acceptance);
    to_stdout(&page)?;
    Ok(status(&reports))
}

async fn open(options: &RecordOptions) -> Result<Door, Unknown> {
    let driver = DriverOptions {
        library: options.nvml_library.clone(),
        call_deadline: options.call_deadline,
        ..DriverOptions::new(options.clock.clone())
    };
    let clock = options.clock.clone();
    let asked = move |(library, _, gpus): &(Library, DriverFacts, Vec<GpuFacts>),
                      calls: &mut Calls| {
        let of = |gpu: &GpuFacts| match library.gpu_of(&gpu.uuid, calls) {
            Ok(gpu) => asked(&gpu, calls, &clock),
            Err(_) => Asked { power_limit_mw: None, timestamps: TimestampDomain::Unknown },
        };
        let asked: Vec<Asked> = gpus.iter().map(of).collect();
        (library.nvml_version(calls).ok(), asked)
    };
    let ((library, facts, gpus), (nvml_version, asked)) = open_library(&driver, asked).await?;
    for unknown in &facts.unknowns {
        complain(&format!("a GPU is left out: {unknown}"));
    }
    let gpus = gpus.into_iter().zip(asked);
    let gpus = gpus.map(|(facts, asked)| Gpu { facts, asked }).collect();
    Ok(Door { library: Arc::new(library), facts, nvml_version, gpus })
}

fn asked(gpu: &GpuHandle<'_>, calls: &mut Calls, clock: &Clock) -> Asked {
    let power_limit_mw = gpu.power_limit(calls).ok();
    // The newest that the driver has: of the device it keeps some also while nobody is busy.
    let newest = gpu.samples(None, calls).ok().and_then(|samples| {
        let of_device = samples.device.iter().flatten().map(|sample| sample.timestamp_us);
        samples.processes.iter().map(|sample| sample.timestamp_us).chain(of_device).max()
    });
    let now = clock.now();
    let timestamps =
        newest.map_or(TimestampDomain::Unknown, |newest| TimestampDomain::of(newest, now));
    Asked { power_limit_mw, timestamps }
}

/// The GPUs that the user means, in the driver's order.
fn chosen(words: &[String], all: Vec<Gpu>) -> anyhow::Result<Vec<Gpu>> {
    if words.is_empty() {
        return Ok(all);
    }
    let known: Vec<_> =
        all.iter().map(|gpu| (Some(gpu.facts.index), gpu.facts.uuid.clone())).collect();
    let meant = words.iter().map(|word| gpu_called(word, &known));
    let meant: Vec<GpuUuid> = meant.collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(|gpu| meant.contains(&gpu.facts.uuid)).collect())
}

/// What the settings can bear, before anything is recorded.
fn announce(settings: &Settings) {
    complain(&format!(
        "stall_budget_ms = {}: a lone driver stall of up to that leaves the batch valid (cap {} ms − period \
         {} ms)",
        settings.stall_budget(),
        settings.cap,
        settings.period
    ));
    if settings.is_cap_tight() {
        complain(
            "the cap is less than a period and a timeline period: a sample that lands just past a point may \
             void the batch",
        );
    }
}

fn manifest(
    options: &RecordOptions,
    driver: &DriverFacts,
    gpu: &Gpu,
    harness: &Harness,
    verifications: &Verifications,
) -> Manifest {
    let facts = &gpu.facts;
    let known = |mode: &Observed<MigState>| mode.known().map(|mode| *mode == MigState::On);
    let described = ManifestGpu {
        name: facts.name.known().cloned(),
        index: Some(facts.index),
        pci: facts.pci_bus_id.known().cloned(),
        mig: known(&facts.mig),
        persistence_mode: facts.persistence.known().copied(),
        accounting_mode: facts.accounting.as_ref().ok().copied(),
        power_limit_mw: gpu.asked.power_limit_mw,
        ..ManifestGpu::new(facts.uuid.clone())
    };
    let mut manifest = Manifest::new(options.clock.now(), described, options.settings.clone());
    manifest.seed.gpu_telemetry_backend = Some(backend(driver));
    manifest.clock_sync = harness.clock_sync;
    manifest.boot_id.clone_from(&harness.boot_id);
    manifest.kernel.clone_from(&harness.kernel);
    manifest.binary_sha256.clone_from(&harness.binary_sha256);
    manifest.other_recorders = harness.other_recorders;
    manifest.driver_version = driver.version.as_ref().ok().cloned();
    manifest.nvml_timestamp_domain = gpu.asked.timestamps;
    manifest.requested_duration_ms = options.duration;
    manifest.iterations_planned = u64::try_from(options.iterations.len()).unwrap_or(u64::MAX);
    manifest.on_void = options.on_void;
    manifest.command = shown(&options.argv);
    let id = manifest.verification_id();
    manifest.harness_verified = id.as_ref().is_some_and(|id| verifications.holds(id));
    manifest.harness_verification_id = id.filter(|_| manifest.harness_verified);
    manifest
}

const fn backend(driver: &DriverFacts) -> Backend {
    match driver.kind {
        DriverKind::Real => Backend::DirectNvml,
        DriverKind::Simulated => Backend::Simulated,
    }
}

/// The command's words, without its secrets.
fn shown(argv: &[OsString]) -> Vec<String> {
    let words: Vec<&[u8]> = argv.iter().map(|word| word.as_encoded_bytes()).collect();
    let text = |word: &[u8]| escape(word).to_string();
    match redact_words(&words, false) {
        Some(words) => words.iter().map(|word| text(word)).collect(),
        None => words.into_iter().map(text).collect(),
    }
}

/// Records every iteration that is wanted, as long as nothing ends it.
async fn iterations(
    options: &RecordOptions,
    (library, backend): (&Arc<Library>, Backend),
    uuids: &[GpuUuid],
    batches: &mut [Batch],
    people: &mut People,
) -> anyhow::Result<()> {
    let mut progress = Progress::new(uuids.len(), options.settings.cap, options.duration);
    // The command may go elsewhere before it marks a phase.
    let folders = batches.iter().map(|batch| std::path::absolute(batch.folder()));
    let folders: Vec<PathBuf> = folders.collect::<Result<_, _>>()?;
    let folders = std::env::join_paths(&folders)?;
    let commands = AtomicU64::new(0);
    let manager = Manager::of(options.notify_socket.as_ref(), None);
    for labels in &options.iterations {
        progress.begin();
        let mut lanes = Vec::new();
        for (uuid, batch) in uuids.iter().zip(&mut *batches) {
            lanes.push((uuid.clone(), batch.begin(labels.clone())?));
        }
        let plan = Plan {
            settings: &options.settings,
            duration: options.duration,
            argv: &options.argv,
            run_as: options.run_as.as_ref(),
            environment: environment(&folders, labels),
            clock: &options.clock,
            call_deadline: options.call_deadline,
            deny_exec: options.deny_exec,
            backend,
            commands: &commands,
            manager: &manager,
        };
        let (endings, interrupted) =
            window::run(&plan, library, lanes, people, &mut progress).await?;
        let mut is_void = false;
        for ending in endings {
            let report = ending.writer.end(ending.event)?;
            is_void |= !report.verdict.data.is_empty();
        }
        if interrupted || (is_void && options.on_void == OnVoid::Stop) {
            break;
        }
    }
    Ok(())
}

/// What the command finds: where its phases are marked, and which iteration it is.
fn environment(folders: &OsString, labels: &Labels) -> Vec<(&'static str, OsString)> {
    let labels = [
        ("GPU_LEDGER_CONFIG", labels.config.clone()),
        ("GPU_LEDGER_CONTEXT", labels.context.clone()),
        ("GPU_LEDGER_ROUND", labels.round.clone()),
    ];
    let labels = labels.into_iter().filter_map(|(name, label)| Some((name, label?.into())));
    labels.chain([(BATCHES_VARIABLE, folders.clone())]).collect()
}

/// An acceptance run that passed stands for every batch of the same harness.
fn remember(verifications: &Verifications, reports: &[BatchReport]) {
    for report in reports.iter().filter(|report| report.verdict.accepted()) {
        let Some(id) = report.manifest.verification_id() else { continue };
        if let Err(error) = verifications.add(&id) {
            complain(&format!("the acceptance run cannot be remembered: {error}"));
        }
    }
}

/// `GPU 0, NVIDIA H200, GPU-…`: which one a batch is of.
fn gpus_said(gpus: &[ManifestGpu]) -> String {
    let one = |gpu: &ManifestGpu| {
        let index = gpu.index.map_or_else(|| "GPU".to_owned(), |index| format!("GPU {index}"));
        format!("{index}, {}, {}", said(gpu.name.as_deref()), said(Some(&gpu.uuid.0)))
    };
    gpus.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The lines that people and programs read.
fn page(reports: &[BatchReport], acceptance: bool) -> String {
    let mut lines = Vec::new();
    for report in reports {
        let manifest = &report.manifest;
        let folder = escape(report.folder.as_os_str().as_encoded_bytes());
        lines.push(format!("batch {folder} of {}", gpus_said(&manifest.gpus)));
        let summary = &report.summary;
        lines.push(iterations_said(summary.iterations_total, summary.iterations_planned));
        if summary.iterations_total < summary.iterations_planned
            && !summary.void_reasons.is_empty()
            && manifest.on_void == OnVoid::Stop
        {
            let is_its = report.iterations.last().is_some_and(|one| !one.voids().is_empty());
            let whose = if is_its { "the last one" } else { "one of another GPU" };
            lines.push(format!(
                "{whose} was void, and recording ended with it (--on-void continue records the rest)"
            ));
        }
        for (derived, place) in
            report.iterations.iter().filter_map(|one| one.derived.as_ref()).zip(1_u64..)
        {
            let said = notes(derived, manifest.requested_duration_ms);
            lines.extend(said.iter().map(|note| format!("iteration {place}: {note}")));
        }
        let derived = report.iterations.iter().filter_map(|one| one.derived.as_ref());
        let worst = Extremes::of(derived.map(|one| &one.figures));
        lines.extend(worst.in_flight_at_end.map(in_flight_said));
        if !report.verdict.data.is_empty() {
            lines.extend(explained(&report.verdict, &manifest.settings, &worst));
        }
        lines.push(summary.claims.sentence());
        lines.push(fingerprint_said(report.fingerprint.as_deref()));
        lines.push(report.line());
        lines.extend(report.troubles.iter().map(ToString::to_string));
    }
    if acceptance {
        lines.extend(reports.iter().map(acceptance_line));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// `ACCEPTANCE points=41/41 samples=… max_sample_age_ms=… sup_ms=… cap_ms=… recoveries=… -> VERIFIED`.
fn acceptance_line(report: &BatchReport) -> String {
    let (verdict, summary) = (&report.verdict, &report.summary);
    let came_to = if verdict.accepted() {
        "VERIFIED".to_owned()
    } else {
        let backend = verdict.backend.iter().map(ToString::to_string);
        let data = verdict.data.iter().map(|void| void.reason.to_string());
        let all: Vec<String> = backend.chain(data).collect();
        let (backend, data) = (verdict.backend_verdict(), verdict.data_verdict());
        let failed = match (backend, data) {
            (BackendVerdict::Fail, DataVerdict::Valid) => "backend fail, data valid",
            (BackendVerdict::Pass, _) => "backend pass, data void",
            (BackendVerdict::Fail, DataVerdict::Void) => "backend fail, data void",
        };
        format!("NOT VERIFIED ({failed}: {})", all.join(", "))
    };
    let or_unknown_count =
        |count: Option<u64>| count.map_or_else(|| "UNKNOWN".to_owned(), |count| count.to_string());
    format!(
        "ACCEPTANCE points={}/{} samples={} max_sample_age_ms={} sup_ms={} cap_ms={} recoveries={} -> {came_to}",
        summary.points_available,
        or_unknown_count(summary.points_required),
        summary.gpu_sample_count,
        or_unknown(summary.max_sample_age_ms),
        or_unknown(summary.max_sample_age_sup_ms),
        summary.sample_age_cap_ms.0 / 1_000_000,
        or_unknown_count(summary.seed.gpu_deadline_recovery_count),
    )
}

/// The worst of all batches.
fn status(reports: &[BatchReport]) -> u8 {
    let backend = reports.iter().any(|report| !report.verdict.backend.is_empty());
    let data = reports.iter().any(|report| !report.verdict.data.is_empty());
    exit_status(backend, data)
}
