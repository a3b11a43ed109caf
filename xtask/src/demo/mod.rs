//! The `demo` task: a made-up afternoon of real processes on the simulated driver, its bill, and
//! beside it what a reader that looks once a minute makes of the same driver.
//!
//! Only the driver is simulated. The programs are real processes with real names, the tracer is
//! the product's own binary with its real kernel events, and the second reader is a real client of
//! the same library. At the end every row of the bill is compared with the truth log, which the
//! tracer never sees.
//!
//! - [`stage`]: what is run, and where; [`afternoon`]: by which plan.
//! - [`minute_reader`]: the second reader.
//! - [`report`], [`truth`], [`verdict`], [`screen`]: what came of it. Pure.
//! - [`system`]: time, interruption, waiting, and ending everything that was started.

mod afternoon;
mod minute_reader;
mod report;
mod screen;
mod stage;
mod system;
mod truth;
mod verdict;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use afternoon::Length;
use minute_reader::MinuteRead;
use report::Report;
use screen::Screen;
use stage::{Built, Stage};
use system::{Descendants, Lifeline};
use truth::Agreement;
use verdict::Verdict;

/// For everything that takes no time unless the machine is overloaded.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the tracer may take beyond the afternoon: its start, and the rows' way to their end.
const TRACER_PATIENCE: Duration = Duration::from_mins(2);

/// Problems named on stderr; further ones are counted.
const PROBLEMS_NAMED_MAX: usize = 20;

/// What the demo is started with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep the report, the truth log, the second reader's rows and the screen in DIR
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// An afternoon of 10 s with fewer jobs instead of 36 s
    #[arg(long)]
    fast: bool,
}

/// The demo's own processes.
#[derive(clap::Subcommand)]
pub(crate) enum Role {
    /// Direct the demo
    Director(Director),
    /// Play the part of the afternoon that is traced
    Traced(Player),
    /// Play the part of the rest of the host
    Host(Player),
    /// Start and reap model workers
    LlmServer(Player),
    /// Read once a minute
    MinuteReader(minute_reader::Options),
}

/// What the director is started with.
#[derive(clap::Args)]
pub(crate) struct Director {
    #[command(flatten)]
    built: Built,
    #[command(flatten)]
    options: Options,
}

/// What a player is started with.
#[derive(clap::Args)]
pub(crate) struct Player {
    /// Folder of the named programs
    #[arg(long)]
    programs: PathBuf,
    /// The short afternoon
    #[arg(long)]
    fast: bool,
    /// File to make when it begins
    #[arg(long)]
    began: Option<PathBuf>,
}

/// Plays one of the demo's own processes.
pub(crate) fn play(role: &Role) -> anyhow::Result<ExitCode> {
    match role {
        Role::Director(director) => return direct(director),
        Role::Traced(player) => player.play(&afternoon::traced(Length::of(player.fast)))?,
        Role::Host(player) => player.play(&afternoon::host(Length::of(player.fast)))?,
        Role::LlmServer(player) => {
            afternoon::serve_models(Length::of(player.fast), &player.programs)?;
        }
        Role::MinuteReader(options) => minute_reader::run(options)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Player {
    fn play(&self, acts: &[afternoon::Act]) -> anyhow::Result<()> {
        if let Some(began) = &self.began {
            std::fs::write(began, "")?;
        }
        let more = afternoon::llm_server_words(&self.programs, self.fast);
        afternoon::play(acts, &self.programs, &more)
    }
}

/// Runs the demo. The status is 0 only if nothing was missed and the truth log agrees row by row.
///
/// A second process directs it, out of reach of the terminal's Ctrl-C: it ends everything in order
/// as soon as this one is gone. If that one is killed, this one ends what it leaves behind.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    say("building gpu-ledger and the simulated driver …");
    let built = Built::now()?;
    let _descendants = Descendants::adopt()?;
    let mut director = system::program(std::env::current_exe()?);
    director.args(["demo-role", "director"]).args(built.words());
    if let Some(folder) = &options.keep {
        director.arg("--keep").arg(folder);
    }
    director.args(options.fast.then_some("--fast"));
    let mut director = director
        .process_group(0)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start the director")?;
    // Waiting closes the child's stdin, which would be the sign that we are gone.
    let lifeline = director.stdin.take();
    let status = director.wait()?;
    drop(lifeline);
    let code = status.code().with_context(|| format!("the director was killed ({status})"))?;
    Ok(ExitCode::from(u8::try_from(code)?))
}

fn direct(director: &Director) -> anyhow::Result<ExitCode> {
    let Director { built, options } = director;
    let lifeline = Lifeline::on_stdin();
    let stage = Stage::lay_out(built)?;
    let descendants = Descendants::adopt()?;
    let played = Demo { options, built, stage: &stage, lifeline: &lifeline }.play();
    // First every process is ended, then its files go.
    drop(descendants);
    if let Some(folder) = &options.keep {
        stage.keep(folder)?;
    }
    played
}

fn say(text: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "demo: {text}");
}

struct Demo<'a> {
    options: &'a Options,
    built: &'a Built,
    stage: &'a Stage,
    lifeline: &'a Lifeline,
}

impl Demo<'_> {
    fn play(&self) -> anyhow::Result<ExitCode> {
        let length = self.length();
        self.stage.start_driver(self.built)?;
        self.start_older_than_accounting()?;
        self.stage.fault(self.built, &["accounting", "on"])?;
        let mut reader = self.start_minute_reader()?;
        say(&format!("tracing an afternoon of {} s …", length.ms() / 1_000));
        if let Err(error) = self.trace() {
            // Its last read would only complain about a driver that is being ended as well.
            reader.kill()?;
            return Err(error);
        }
        let minutes = self.end_minute_reader(reader)?;
        let report = Report::read(&self.stage.path("trace.json"))?;
        let log = std::fs::read_to_string(self.stage.path("truth.jsonl"))?;
        let agreement = truth::compare(&truth::parse(&log)?, &report);
        self.conclude(&report, &minutes, &agreement)
    }

    const fn length(&self) -> Length {
        Length::of(self.options.fast)
    }

    /// The words for one of this program's own roles.
    fn role(&self, name: &str) -> Vec<String> {
        let programs = self.stage.programs().to_string_lossy().into_owned();
        let words = ["demo-role", name, "--programs", &programs].map(str::to_owned);
        words.into_iter().chain(self.options.fast.then(|| "--fast".to_owned())).collect()
    }

    fn start_older_than_accounting(&self) -> anyhow::Result<()> {
        let act = afternoon::older_than_accounting();
        let mut older = self.stage.program(&self.stage.programs().join(act.program));
        let older = older.args(&act.words).stdin(Stdio::null()).spawn()?.id();
        self.lifeline.until("the process older than accounting", PATIENCE, || {
            let state = self.stage.fault(self.built, &["state"])?;
            Ok(holds_a_gpu(&state, older)?.then_some(()))
        })
    }

    fn start_minute_reader(&self) -> anyhow::Result<Child> {
        self.stage
            .program(&std::env::current_exe()?)
            .args(["demo-role", "minute-reader", "--minute-ms"])
            .arg(self.length().minute_ms().to_string())
            .arg("--library")
            .arg(&self.built.library)
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(self.stage.path("minutes.json"))?)
            .spawn()
            .context("cannot start the second reader")
    }

    fn end_minute_reader(&self, mut reader: Child) -> anyhow::Result<MinuteRead> {
        drop(reader.stdin.take());
        let ended = self.lifeline.wait_for(&mut reader, PATIENCE)?;
        ensure!(ended.is_some_and(|status| status.success()), "the second reader failed");
        let path = self.stage.path("minutes.json");
        serde_json::from_slice(&std::fs::read(&path)?)
            .with_context(|| format!("{} is no report of the second reader", path.display()))
    }

    /// Traces the afternoon with the product, while the rest of the host does its part.
    fn trace(&self) -> anyhow::Result<()> {
        let own = std::env::current_exe()?;
        let began = self.stage.path("began");
        let mut tracer = self
            .stage
            .program(&self.built.gpu_ledger)
            .arg("--nvml-library")
            .arg(&self.built.library)
            .args(["trace", "--json", "--as-root", "--output"])
            .arg(self.stage.path("trace.json"))
            .arg("--")
            .arg(&own)
            .args(self.role("traced"))
            .arg("--began")
            .arg(&began)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start gpu-ledger")?;
        self.lifeline.until("the tracer to start the afternoon", PATIENCE, || {
            if let Some(status) = tracer.try_wait()? {
                bail!("gpu-ledger trace ended before the afternoon began ({status})");
            }
            Ok(began.exists().then_some(()))
        })?;
        let mut host = self.stage.program(&own);
        let mut host = host.args(self.role("host")).stdin(Stdio::null()).spawn()?;
        let afternoon = Duration::from_millis(self.length().ms());
        let status = self.lifeline.wait_for(&mut tracer, afternoon + TRACER_PATIENCE)?;
        let Some(status) = status else { bail!("gpu-ledger trace does not come to its end") };
        ensure!(status.success(), "gpu-ledger trace, or the afternoon under it, failed ({status})");
        let host = self.lifeline.wait_for(&mut host, PATIENCE)?;
        ensure!(host.is_some_and(|status| status.success()), "the rest of the host failed");
        Ok(())
    }

    /// Prints the last screen, and on stderr everything that is wrong with it.
    fn conclude(
        &self,
        report: &Report,
        minutes: &MinuteRead,
        agreement: &Agreement,
    ) -> anyhow::Result<ExitCode> {
        let screen = Screen {
            report,
            minutes,
            agreement,
            afternoon_s: self.length().ms() / 1_000,
            minute_s: self.length().minute_ms() / 1_000,
        };
        let screen = screen.render();
        if let Some(why) = &report.device_touch.off_because {
            say(&format!("device-touch off: {why}"));
        }
        std::fs::write(self.stage.path("screen.txt"), &screen)?;
        let verdict = Verdict::of(report, agreement);
        for complaint in verdict.complaints.iter().take(PROBLEMS_NAMED_MAX) {
            say(complaint);
        }
        if let Some(more @ 1..) = verdict.complaints.len().checked_sub(PROBLEMS_NAMED_MAX) {
            say(&format!("… and {more} more"));
        }
        let mut stdout = std::io::stdout().lock();
        match write!(stdout, "{screen}").and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::from(verdict.status)),
        }
    }
}

/// Whether `pid` is among the holders in the simulated driver's state.
fn holds_a_gpu(state: &str, pid: u32) -> anyhow::Result<bool> {
    let state: serde_json::Value = serde_json::from_str(state).context("nvsim fault state")?;
    let gpus = state.as_array().context("nvsim fault state is no list of GPUs")?;
    let mut holders = gpus.iter().filter_map(|gpu| gpu.get("holders")?.as_array()).flatten();
    Ok(holders
        .any(|holder| holder.get("pid").and_then(serde_json::Value::as_u64) == Some(pid.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_found_in_the_simulated_drivers_state() {
        let state = r#"[{"holders":[]},{"holders":[{"pid":7,"memory_bytes":1}]}]"#;
        assert!(holds_a_gpu(state, 7).unwrap() && !holds_a_gpu(state, 8).unwrap());
        assert!(holds_a_gpu("{}", 7).is_err());
    }
}
