//! The driver's accounting mode: shown, and set on an explicit command.
//!
//! Purpose: the one place that turns the mode on, and says what that means for whoever holds a GPU
//! already. May touch: the driver, procfs. May not: turn the mode off, or restart anybody.

mod holders;
mod report;

pub use report::{ModeLines, RowlessLine};

use std::fmt::Write as _;
use std::path::Path;

use crate::accounting::driver::GpuFacts;
use crate::accounting::nvml::DriverKind;
use crate::accounting::reading::{Holder, OpenRow};
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
        /// Only this GPU, by UUID or index; all of them where there is none.
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
    /// A GPU's mode is not known.
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
    /// No GPU is called so.
    #[error("no GPU is called {name}; there are: {known}")]
    NoSuchGpu {
        /// What was asked for, safe to print.
        name: String,
        /// The GPUs there are.
        known: String,
    },
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

fn find(gpus: &[SurveyedGpu], name: &str) -> Result<GpuUuid, ModeError> {
    let is_called = |facts: &GpuFacts| *facts.uuid.0 == *name || facts.index.to_string() == name;
    let found = gpus.iter().find(|gpu| is_called(&gpu.facts));
    found.map(|gpu| gpu.facts.uuid.clone()).ok_or_else(|| {
        let known = gpus.iter().map(|gpu| format!("{} ({})", gpu.facts.index, gpu.facts.uuid));
        ModeError::NoSuchGpu {
            name: crate::escape::escape(name.as_bytes()).to_string(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    })
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
    if is_on {
        tell_persistence(facts, text);
        tell_holders(gpu, text);
    }
    outcome
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

/// Holders in whose place no row runs.
fn rowless(open: &[OpenRow], holders: &[Holder]) -> Vec<Pid> {
    let has_row = |pid: Pid| open.iter().any(|row| row.pid == pid);
    holders.iter().map(|holder| holder.pid).filter(|pid| !has_row(*pid)).collect()
}

/// Who holds the GPU and has no row: what they hold now is on no bill.
fn tell_holders(gpu: &SurveyedGpu, text: &mut String) {
    let read = match &gpu.read {
        Ok(read) => read,
        Err(unknown) => {
            let _ = writeln!(text, "  who holds the GPU is not known\n{unknown}");
            return;
        }
    };
    let Some(holders) = &read.holders else {
        let _ = writeln!(text, "  who holds the GPU is not known");
        return;
    };
    let rowless = rowless(&read.open, holders);
    for unknown in &read.unknowns {
        // A list that failed may have named more.
        if unknown.call.is_some_and(|call| call.contains("RunningProcesses")) {
            let _ = writeln!(text, "{unknown}");
        }
    }
    if rowless.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "  held since before accounting: on no bill until they restart ({})",
        rowless.len()
    );
    for pid in rowless {
        let HolderName { program, unit } = holders::name_of(Path::new("/proc"), pid);
        let unit = unit.unwrap_or_else(|| "no unit".to_owned());
        let _ = writeln!(text, "    {unit:<30} {program} (pid {pid})");
    }
}
