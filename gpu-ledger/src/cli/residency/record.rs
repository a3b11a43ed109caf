//! `gpu-ledger residency record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::super::{Usage, block_on, trace};
use crate::clock::Clock;
use crate::config::values::{duration, duration_not_zero};
use crate::escape::escape;
use crate::residency::events::Labels;
use crate::residency::moment::Length;
use crate::residency::recorder::record::{BATCHES_VARIABLE, OnVoid, RecordOptions, record};
use crate::residency::sample::FieldName;
use crate::residency::settings::{AgeGate, Settings};

const EXIT_STATUS: &str = "Exit status: 0 accepted, 1 failed, 3 the backend verdict failed (a simulation, or no \
driver to ask), 4 the data are void, 5 both, 64 usage. The command's own status is in the batch.";

/// The greatest age that an acceptance run may allow.
const ACCEPTED_CAP_MAX: Length = Length::of_ms(750);

/// Iterations that one batch may have: more is a loop that nobody will look through.
const ITERATIONS_MAX: usize = 9_999;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Preset {
    /// P = 250 ms, and the age at points alone: the rule as it was first written down
    Seed,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(
    override_usage = "gpu-ledger residency record --out DIR [OPTIONS] -- CMD [ARGUMENT]...\n       \
                            gpu-ledger residency record --out DIR [OPTIONS] --duration DURATION\n       \
                            gpu-ledger residency record --out DIR [OPTIONS] --acceptance"
)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["duration", "cmd", "acceptance"]))]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Record {
    /// Make each batch a folder in DIR
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Record this GPU alone (index, UUID or its beginning); may be given again (default: all)
    #[arg(long = "gpu", value_name = "GPU")]
    gpus: Vec<String>,
    /// How long each iteration lasts (default: as long as CMD)
    #[arg(long, value_name = "DURATION", value_parser = duration_not_zero, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// From one probe of the GPU to the next, 10ms to 60s
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "200ms",
          allow_hyphen_values = true)]
    period: Duration,
    /// From one point of the timeline to the next, 10ms to 60s
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "50ms",
          allow_hyphen_values = true)]
    timeline_period: Duration,
    /// The greatest age that a number may have at the moment it is drawn at; one over it voids the batch
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "750ms",
          allow_hyphen_values = true)]
    max_age: Duration,
    /// Hold the ages at points against it, or also the supremum between them
    #[arg(long, value_name = "GATE", default_value = "both")]
    gate: Gate,
    /// A named set of --period, --max-age and --gate
    #[arg(long, conflicts_with_all = ["period", "max_age", "gate"])]
    preset: Option<Preset>,
    /// A field without which a point is not available; may be given again
    #[arg(long = "require", value_name = "FIELD", default_value = "memory")]
    required: Vec<FieldName>,
    /// Void the batch where the processor's share is not known at a point that can have one
    #[arg(long)]
    require_cpu: bool,
    /// Wait at most this long for the first sample
    #[arg(long, value_name = "DURATION", value_parser = duration_not_zero, default_value = "10s")]
    start_timeout: Duration,
    /// A probe in flight for longer at the window's end is stuck
    #[arg(long, value_name = "DURATION", value_parser = duration_not_zero, default_value = "5s")]
    hard_timeout: Duration,
    /// The acceptance run: 2 s, 41 of 41 points; its last line says what it came to
    #[arg(long, conflicts_with_all = ["duration", "cmd", "config", "context", "round", "rounds",
          "timeline_period"])]
    acceptance: bool,
    /// Label of the configuration; given again, CMD runs for each, once in every round (GPU_LEDGER_CONFIG in its
    /// environment)
    #[arg(long, value_name = "NAME")]
    config: Vec<String>,
    /// Label of the context; given again, CMD runs for each (GPU_LEDGER_CONTEXT)
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// Label of the round; given again, CMD runs for each (GPU_LEDGER_ROUND)
    #[arg(long, value_name = "NAME", conflicts_with = "rounds")]
    round: Vec<String>,
    /// So many rounds, numbered from 1: all configs and contexts in the first, then all in the second, so that
    /// what drifts meanwhile is no difference between them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=9_999))]
    rounds: Option<u64>,
    /// What to do when an iteration is void, which voids the batch
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_void: OnVoid,
    /// Name processes by procfs alone, without watching process events
    #[arg(long)]
    no_events: bool,
    /// Let the kernel refuse to start any program on the threads that probe (seccomp); CMD is not concerned
    #[arg(long)]
    deny_exec: bool,
    /// Under sudo, run CMD as root instead of as the user who called sudo
    #[arg(long)]
    as_root: bool,
    /// Give a driver call up after this long
    #[arg(long, value_name = "DURATION", value_parser = duration_not_zero, default_value = "2s")]
    call_deadline: Duration,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", id = "cmd")]
    cmd: Vec<OsString>,
}

/// Words of `--gate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Gate {
    /// Points, and between them
    Both,
    /// Points alone
    Points,
}

impl Record {
    pub(super) fn run(self, nvml_library: Option<PathBuf>, clock: Clock) -> anyhow::Result<u8> {
        let settings = self.settings();
        let duration = match (self.acceptance, self.duration) {
            (true, _) => Some(Length::of_ms(2_000)),
            (false, duration) => duration.map(length),
        };
        settings.check(duration).map_err(|error| Usage(error.to_string()))?;
        if self.acceptance {
            self.check_acceptance(&settings)?;
        }
        let is_parted = std::path::absolute(&self.out)
            .is_ok_and(|out| out.as_os_str().as_encoded_bytes().contains(&b':'));
        if is_parted {
            return Err(Usage(format!(
                "--out has a colon in its path, by which {BATCHES_VARIABLE} parts batches for `residency mark`; give \
                 a folder without one"
            ))
            .into());
        }
        let options = RecordOptions {
            run_as: trace::user_of_command(self.as_root)?,
            iterations: self.iterations()?,
            settings,
            duration,
            out: self.out,
            gpus: self.gpus,
            acceptance: self.acceptance,
            on_void: self.on_void,
            events: !self.no_events,
            deny_exec: self.deny_exec,
            argv: self.cmd,
            verifications: verifications(),
            call_deadline: self.call_deadline,
            notify_socket: crate::cli::notify_socket(),
            nvml_library,
            clock,
        };
        block_on(record(options))?
    }

    /// What an acceptance run stands for: no sample older than 750 ms, at any moment.
    fn check_acceptance(&self, settings: &Settings) -> Result<(), Usage> {
        if settings.cap > ACCEPTED_CAP_MAX {
            return Err(Usage(format!(
                "--acceptance holds every sample against {ACCEPTED_CAP_MAX} ms at most, and --max-age is {} ms; \
                 leave --max-age out, or give a smaller one",
                settings.cap
            )));
        }
        if self.gate == Gate::Points && self.preset.is_none() {
            return Err(Usage(
                "--acceptance holds ages between points too: leave --gate points out (--preset seed is the rule \
                 as it was first written down)"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn settings(&self) -> Settings {
        let mut required_fields = self.required.clone();
        required_fields.push(FieldName::Memory);
        required_fields.sort_unstable();
        required_fields.dedup();
        let (period, cap, age_gate) = match self.preset {
            Some(Preset::Seed) => (Length::of_ms(250), Length::of_ms(750), AgeGate::Points),
            None => {
                let gate = match self.gate {
                    Gate::Both => AgeGate::Both,
                    Gate::Points => AgeGate::Points,
                };
                (length(self.period), length(self.max_age), gate)
            }
        };
        Settings {
            period,
            timeline_period: length(self.timeline_period),
            cap,
            age_gate,
            start_timeout: length(self.start_timeout),
            hard_timeout: length(self.hard_timeout),
            required_fields,
            cpu_required: self.require_cpu,
        }
    }

    /// Every (config, context) once in each round: what drifts meanwhile is then no difference between configs.
    fn iterations(&self) -> Result<Vec<Labels>, Usage> {
        let or_none = |option: &str, labels: &[String]| -> Result<Vec<Option<String>>, Usage> {
            if labels.is_empty() {
                return Ok(vec![None]);
            }
            if labels.iter().any(String::is_empty) {
                return Err(Usage(format!("--{option} is empty; give it a name, or leave it out")));
            }
            let repeated = labels
                .iter()
                .zip(1..)
                .find(|(label, next)| labels.get(*next..).is_some_and(|rest| rest.contains(label)));
            if let Some((label, _)) = repeated {
                return Err(Usage(format!(
                    "--{option} {} is given twice: its iterations could not be told apart; give each its own \
                     name, and --rounds N to repeat them",
                    escape(label.as_bytes())
                )));
            }
            Ok(labels.iter().cloned().map(Some).collect())
        };
        let rounds = match self.rounds {
            Some(rounds) => (1..=rounds).map(|round| Some(round.to_string())).collect(),
            None => or_none("round", &self.round)?,
        };
        let (configs, contexts) =
            (or_none("config", &self.config)?, or_none("context", &self.context)?);
        let all = rounds.len().saturating_mul(configs.len()).saturating_mul(contexts.len());
        if all > ITERATIONS_MAX {
            return Err(Usage(format!(
                "--config, --context and --round make more than {ITERATIONS_MAX} iterations; record them in \
                 several batches"
            )));
        }
        let mut iterations = Vec::with_capacity(all);
        for round in &rounds {
            for config in &configs {
                for context in &contexts {
                    let (config, context) = (config.clone(), context.clone());
                    iterations.push(Labels { config, context, round: round.clone() });
                }
            }
        }
        Ok(iterations)
    }
}

/// Where acceptance runs that passed are remembered: the host's for root, the user's own otherwise, as the
/// XDG base directory specification 0.8 has it.
fn verifications() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/gpu-ledger/verifications"));
    }
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = std::env::var_os("XDG_STATE_HOME").and_then(absolute);
    let home = || Some(std::env::var_os("HOME").and_then(absolute)?.join(".local/state"));
    state.or_else(home).map(|state| state.join("gpu-ledger/verifications"))
}

/// A time beyond all lengths is the longest, and refused as such.
fn length(time: Duration) -> Length {
    Length(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
