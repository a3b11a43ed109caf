//! The driver's accounting mode: shown, and set on an explicit command.
//!
//! Purpose: the one place that turns the mode on, and says what that means for whoever holds a GPU
//! already. May touch: the driver, procfs. May not: turn the mode off, or restart anybody.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod holders;
mod report;

pub use report::{ModeLines, RowlessLine};

use std::fmt::Write as _;
use std::path::Path;

use crate::accounting::driver::GpuFacts;
use crate::accounting::nvml::DriverKind;
use crate::accounting::reading::ListingState;
use crate::calling::{NoSuchGpu, gpu_called};
use crate::doctor::{persistence_remedy, remedy_of};
use crate::survey::{Survey, SurveyOptions, SurveyedGpu};
use crate::unit::{GpuUuid, Pid};
use crate::unknown::{Observed, Unknown, UnknownReason};
use holders::HolderName;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModeCommand {
    /// Turn it on.
    Enable {
        /// Only this GPU, by index, UUID or the beginning of one; all of them where there is none.
        gpu: Option<String>,
    },
    /// Say how it stands.
    Show,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModeReport {
    /// For people.
    pub text: String,
    /// For programs, as it stands now.
    pub lines: ModeLines,
    /// How it ended.
    pub outcome: ModeOutcome,
}

/// How a command about the mode ended, the worst of all GPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ModeOutcome {
    /// Every GPU's mode is as was asked, or known.
    Done,
    /// A GPU's mode is not known, or who holds it and is on no bill.
    Unknown,
    /// A GPU's mode could not be set.
    Failed,
}

/// Why nothing was done at all.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// No driver answers.
    #[error("{0}\n    {remedy}", remedy = remedy_of(.0.reason))]
    NoDriver(Unknown),
    /// No GPU, or more than one, is called so.
    #[error(transparent)]
    NoSuchGpu(#[from] NoSuchGpu),
}

/// Shows the mode of every GPU, or turns it on.
pub async fn run(command: &ModeCommand, options: SurveyOptions) -> Result<ModeReport, ModeError> {
    let mut survey = Survey::take(options).await.map_err(ModeError::NoDriver)?;
    let chosen = match command {
        ModeCommand::Enable { gpu: Some(name) } => vec![find(&survey.gpus, name)?],
        _ => survey.gpus.iter().map(|gpu| gpu.facts.uuid.clone()).collect(),
    };
    let lines = ModeLines::of(&survey.facts);
    let mut report = ModeReport { text: String::new(), lines, outcome: ModeOutcome::Done };
    if survey.facts.kind == DriverKind::Simulated {
        report.text.push_str("SIMULATED DRIVER\n");
    }
    // GPUs that do not even open are no reason to leave the others off, and no success.
    for unknown in &survey.facts.unknowns {
        report.outcome = report.outcome.max(ModeOutcome::Unknown);
        let _ = writeln!(report.text, "{unknown}\n    {}", remedy_of(unknown.reason));
    }
    let mut set = Vec::new();
    for uuid in chosen {
        let known = survey.gpus.iter().find(|gpu| gpu.facts.uuid == uuid);
        let was = known.map(|gpu| gpu.facts.accounting.clone());
        let outcome = match (command, was) {
            (ModeCommand::Enable { .. }, Some(Ok(false) | Err(_))) => {
                Some(survey.set_accounting(&uuid, true).await)
            }
            _ => None,
        };
        set.push((uuid, outcome));
    }
    if set.iter().any(|(_, outcome)| outcome.is_some()) {
        // Who holds a GPU now: somebody may have come while the mode was off still.
        survey.read().await;
    }
    for (uuid, outcome) in set {
        if let Some(gpu) = survey.gpus.iter().find(|gpu| gpu.facts.uuid == uuid) {
            let of_gpu = tell(gpu, outcome.as_ref(), &mut report.text);
            report.lines.add(gpu, outcome.as_ref());
            report.outcome = report.outcome.max(of_gpu);
        }
    }
    Ok(report)
}

fn find(gpus: &[SurveyedGpu], name: &str) -> Result<GpuUuid, NoSuchGpu> {
    let known = gpus.iter().map(|gpu| (Some(gpu.facts.index), gpu.facts.uuid.clone()));
    gpu_called(name, &known.collect::<Vec<_>>())
}

/// One GPU's lines.
fn tell(gpu: &SurveyedGpu, set: Option<&Result<bool, Unknown>>, text: &mut String) -> ModeOutcome {
    let facts = &gpu.facts;
    let name = facts.name.known().map_or("(no name)", String::as_str);
    let _ = write!(text, "GPU {} {}: ", facts.index, crate::escape::escape(name.as_bytes()));
    let (is_on, outcome) = match (set, &facts.accounting) {
        (None, Ok(true)) => (true, said(text, "accounting is on")),
        (None, Ok(false)) => (false, said(text, "accounting is off")),
        (Some(Ok(true)), _) => (true, said(text, "accounting is on now")),
        (Some(Ok(false)), _) => {
            let _ = writeln!(text, "accounting reads back as off, though setting it succeeded");
            let reason = match &facts.mig {
                Observed::Known(crate::accounting::nvml::MigState::On) => {
                    UnknownReason::AccountingUnavailableMig
                }
                _ => UnknownReason::AccountingModeUnexpected,
            };
            let _ = writeln!(text, "    {}", remedy_of(reason));
            (false, ModeOutcome::Failed)
        }
        (None, Err(unknown)) => {
            let _ = writeln!(text, "accounting is unknown");
            let _ = writeln!(text, "{unknown}\n    {}", remedy_of(unknown.reason));
            (false, ModeOutcome::Unknown)
        }
        (Some(Err(unknown)), _) => {
            let _ = writeln!(text, "accounting cannot be set, and is as it was");
            let _ = writeln!(text, "{unknown}\n    {}", set_remedy(unknown.reason));
            (false, ModeOutcome::Failed)
        }
    };
    if !is_on {
        return outcome;
    }
    tell_persistence(facts, text);
    outcome.max(tell_rowless(&rowless(gpu), text))
}

fn said(text: &mut String, what: &str) -> ModeOutcome {
    let _ = writeln!(text, "{what}");
    ModeOutcome::Done
}

/// What to do where the mode cannot be set.
fn set_remedy(reason: UnknownReason) -> &'static str {
    match reason {
        UnknownReason::NoPermission => {
            "the driver asks for CAP_SYS_ADMIN: run sudo gpu-ledger accounting enable"
        }
        other => remedy_of(other),
    }
}

fn tell_persistence(facts: &GpuFacts, text: &mut String) {
    match &facts.persistence {
        Observed::Known(true) => {}
        Observed::Known(false) => {
            let _ = writeln!(
                text,
                "  persistence is off: the mode is lost when the last client goes\n    {}",
                persistence_remedy()
            );
        }
        Observed::Unknown(reason) => {
            let _ = writeln!(text, "  whether persistence is on is not told: {reason}");
        }
    }
}

/// Who holds a GPU and has no row.
struct Rowless {
    /// Those that are known.
    pids: Vec<Pid>,
    /// Why there may be more; empty where these are all.
    unknowns: Vec<Unknown>,
}

/// Holders in whose place no row runs, as far as the driver's lists were had.
fn rowless(gpu: &SurveyedGpu) -> Rowless {
    let read = match &gpu.read {
        Ok(read) => read,
        Err(unknown) => return Rowless { pids: Vec::new(), unknowns: vec![unknown.clone()] },
    };
    let is_missing = match read.listing {
        ListingState::Listed => None,
        // It was on a moment ago.
        ListingState::AccountingOff => Some(UnknownReason::AccountingModeChangedDuringRead),
        ListingState::Missing(reason) => Some(reason),
    };
    if let Some(reason) = is_missing {
        // Without a list everybody would seem to have no row.
        let told = read.unknowns.iter().find(|unknown| unknown.reason == reason).cloned();
        let bare = Unknown { gpu: Some(gpu.facts.uuid.clone()), ..Unknown::of(reason) };
        return Rowless { pids: Vec::new(), unknowns: vec![told.unwrap_or(bare)] };
    }
    let has_row = |pid: Pid| read.open.iter().any(|row| row.pid == pid);
    let holders = read.holders.iter().flatten().map(|holder| holder.pid);
    // A list that failed may have named more; one that came late came.
    let failed = read.unknowns.iter().filter(|unknown| {
        unknown.call.is_some_and(|call| call.contains("RunningProcesses"))
            && unknown.reason != UnknownReason::NvmlCallTimeout
    });
    let mut unknowns: Vec<Unknown> = failed.cloned().collect();
    if read.holders.is_none() && unknowns.is_empty() {
        unknowns.push(not_asked(&gpu.facts.uuid));
    }
    Rowless { pids: holders.filter(|pid| !has_row(*pid)).collect(), unknowns }
}

/// A read that brought the rows and asked for no holders: it is no answer to what was asked.
fn not_asked(gpu: &GpuUuid) -> Unknown {
    Unknown { gpu: Some(gpu.clone()), ..Unknown::of(UnknownReason::NvmlCallTimeout) }
}

/// Who holds the GPU and has no row: what they hold now is on no bill.
fn tell_rowless(rowless: &Rowless, text: &mut String) -> ModeOutcome {
    if !rowless.unknowns.is_empty() {
        let more = if rowless.pids.is_empty() { "who" } else { "who else" };
        let _ = writeln!(text, "  {more} holds the GPU and must restart to be billed is not known");
    }
    for unknown in &rowless.unknowns {
        let _ = writeln!(text, "{unknown}\n    {}", remedy_of(unknown.reason));
    }
    let outcome =
        if rowless.unknowns.is_empty() { ModeOutcome::Done } else { ModeOutcome::Unknown };
    if rowless.pids.is_empty() {
        return outcome;
    }
    let _ = writeln!(
        text,
        "  held since before accounting: on no bill until they restart ({})",
        rowless.pids.len()
    );
    for pid in &rowless.pids {
        let HolderName { program, unit } = holders::name_of(Path::new("/proc"), *pid);
        let unit = unit.unwrap_or_else(|| "no unit".to_owned());
        let _ = writeln!(text, "    {unit:<30} {program} (pid {pid})");
    }
    outcome
}
