//! `gpu-ledger residency record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::super::{Usage, block_on, trace};
use crate::clock::Clock;
use crate::config::values::{duration, duration_not_zero};
use crate::residency::events::Labels;
use crate::residency::moment::Length;
use crate::residency::recorder::record::{OnVoid, RecordOptions, record};
use crate::residency::sample::FieldName;
use crate::residency::settings::{AgeGate, Settings};

const EXIT_STATUS: &str = "Exit status: 0 accepted, 1 failed, 3 the backend verdict failed (a simulation, or no \
driver to ask), 4 the data are void, 5 both, 64 usage. The command's own status is in the batch.";

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
    /// Label of the configuration; given again, CMD runs for each (GPU_LEDGER_CONFIG in its environment)
    #[arg(long, value_name = "NAME")]
    config: Vec<String>,
    /// Label of the context; given again, CMD runs for each (GPU_LEDGER_CONTEXT)
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// Label of the round; given again, CMD runs for each (GPU_LEDGER_ROUND)
    #[arg(long, value_name = "NAME", conflicts_with = "rounds")]
    round: Vec<String>,
    /// So many rounds, numbered from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=9_999))]
    rounds: Option<u64>,
    /// What to do when an iteration is void, which voids the batch
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_void: OnVoid,
    /// Name processes by procfs alone, without watching process events
    #[arg(long)]
    no_events: bool,
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
            argv: self.cmd,
            verifications: verifications(),
            call_deadline: self.call_deadline,
            notify_socket: crate::cli::notify_socket(),
            nvml_library,
            clock,
        };
        block_on(record(options))?
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

    /// Every (config, context, round), the last turning quickest.
    fn iterations(&self) -> Result<Vec<Labels>, Usage> {
        let or_none = |labels: &[String]| -> Vec<Option<String>> {
            if labels.is_empty() {
                return vec![None];
            }
            labels.iter().cloned().map(Some).collect()
        };
        let rounds = match self.rounds {
            Some(rounds) => (1..=rounds).map(|round| Some(round.to_string())).collect(),
            None => or_none(&self.round),
        };
        let mut iterations = Vec::new();
        for config in or_none(&self.config) {
            for context in or_none(&self.context) {
                for round in &rounds {
                    let (config, context) = (config.clone(), context.clone());
                    iterations.push(Labels { config, context, round: round.clone() });
                }
            }
            if iterations.len() > ITERATIONS_MAX {
                return Err(Usage(format!(
                    "--config, --context and --round make more than {ITERATIONS_MAX} iterations; record \
                     them in several batches"
                )));
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
