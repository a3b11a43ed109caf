//! The command line: what was typed, checked, and turned into a call and an exit status.
//!
//! Purpose: the only reader of the environment, and the only place that knows exit statuses.

mod accounting;
mod audit;
mod bill;
mod daemon;
mod doctor;
mod explain;
mod export;
mod journal;
mod mark;
mod names;
mod place;
mod redact;
mod release;
mod residency;
mod rotate_key;
mod rules;
mod source;
mod status;
mod trace;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use tracing_subscriber::EnvFilter;

use self::bill::BillCommand;
use self::trace::Trace;
use crate::audit::BundleError;
use crate::bill::BillError;
use crate::bill::period::PeriodError;
use crate::billing::{CloseError, DiffError};
use crate::calling::NoSuchGpu;
use crate::clock::Clock;
use crate::daemon::{LogFilter, hold_reloads};
use crate::mode::ModeError;
use crate::output::{complain, stdout, stdout_is_closed, to_stdout};
use crate::session;
use crate::session::launch::{LAUNCH_WORD, PROBE_WORD, STATUS_FAILED_BEFORE, become_command};

/// Usage error, as sysexits.h has it.
const STATUS_USAGE: u8 = 64;
/// Anything else that failed.
const STATUS_FAILED: u8 = 1;
/// Answered, but something is UNKNOWN, or missing.
const STATUS_UNKNOWN: u8 = 2;

// Wrapped to the terminal: no line ends here but a paragraph's.
const EXIT_STATUS: &str = "Exit status: 0 everything on the bill is known, 1 failed, 2 answered but \
something on it is UNKNOWN, 64 usage.\n\
`trace -- CMD` returns CMD's own status (128 + n after signal n), 125 where gpu-ledger failed before \
CMD ran, 126 where CMD cannot be run, 127 where it was not found.";

/// Who spent the GPU, how much, and what could not be seen.
#[derive(Parser, Debug)]
#[command(name = "gpu-ledger", version, about, max_term_width = 100)]
#[command(after_help = EXIT_STATUS)]
struct Arguments {
    /// NVML library to read the driver with, of trace, daemon, doctor and accounting (default: the
    /// configured one, else the system's libnvidia-ml.so.1)
    #[arg(long, global = true, value_name = "PATH")]
    nvml_library: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a command, or watch for a while, and print who held the GPU, how long, and what could
    /// not be seen
    Trace(Trace),
    /// Watch this host for good: book every GPU process once, and answer bill and status
    Daemon(daemon::Daemon),
    /// Say how the daemon is: coverage, losses, what is open, health
    Status(status::Status),
    /// Have the daemon close every handle of the driver for a while, for a GPU reset, a change of
    /// MIG, an upgrade
    Release(release::Release),
    /// Remember this moment in the journal
    Mark(mark::Mark),
    /// Prove the journal, delete texts of command lines, change the key that signs, or archive old entries
    Journal(journal::Journal),
    /// Print who held which GPU over a period, from the journal that the daemon keeps
    Bill(Box<BillCommand>),
    /// Write settlements as rows (CSV, JSON lines, Parquet), or a bill as a workbook, a page for a browser, or FOCUS
    Export(export::Export),
    /// Say why a settlement stands where it does: what named it, or what would have
    Explain(explain::Explain),
    /// Check rules of attribution, say which of them takes a process, or what they would have billed
    Rules(rules::RulesCommand),
    /// Prove what a bill rests on to somebody who has nothing else
    Audit(audit::Audit),
    /// Look at everything that is needed, and say what is missing and what to do; changes nothing
    Doctor(doctor::Doctor),
    /// Curves of device memory and utilization whose every number says how near it was to its moment
    Residency(residency::Residency),
    /// Show the driver's accounting mode, or turn it on
    Accounting(accounting::Accounting),
    /// Say what a container is called, from its runtime's files; for the daemon, which cannot read them
    ContainerNames(names::ContainerNames),
}

/// The command line as a whole, for what is made of it beside the program: man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    use clap::CommandFactory as _;
    Arguments::command()
}

/// Runs what the process's arguments ask for. `stdout_was_closed`: it was when this process began, which nothing tells
/// any more now.
#[must_use]
pub fn main(stdout_was_closed: bool) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if asks_for_daemon(&words) {
        hold_reloads();
    }
    if stdout_was_closed {
        stdout_is_closed();
    }
    match words.get(1).map(|word| word.to_string_lossy().into_owned()).as_deref() {
        Some(LAUNCH_WORD) => return become_command(words.get(2..).unwrap_or(&[])),
        Some(PROBE_WORD) => return probe(),
        _ => {}
    }
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(&error, &words),
    };
    let has_command = match &arguments.command {
        Command::Trace(trace) => !trace.cmd.is_empty(),
        Command::Daemon(_)
        | Command::Status(_)
        | Command::Release(_)
        | Command::Mark(_)
        | Command::Journal(_)
        | Command::Bill(_)
        | Command::Export(_)
        | Command::Explain(_)
        | Command::Rules(_)
        | Command::Audit(_)
        | Command::Doctor(_)
        | Command::Residency(_)
        | Command::Accounting(_)
        | Command::ContainerNames(_) => false,
    };
    match run(arguments) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "gpu-ledger: {error:#}");
            let is_usage = error.is::<Usage>()
                || error.is::<NoSuchGpu>()
                || matches!(error.downcast_ref(), Some(ModeError::NoSuchGpu(_)))
                || error.is::<PeriodError>()
                || error.downcast_ref::<BundleError>().is_some_and(BundleError::is_usage)
                || error.is::<DiffError>()
                || error.downcast_ref::<CloseError>().is_some_and(CloseError::is_usage)
                || error.downcast_ref::<BillError>().is_some_and(BillError::is_usage);
            ExitCode::from(if is_usage {
                STATUS_USAGE
            } else if has_command {
                STATUS_FAILED_BEFORE
            } else {
                STATUS_FAILED
            })
        }
    }
}

/// Prints what the command line was answered with, or what is wrong with it.
fn not_parsed(error: &clap::Error, words: &[OsString]) -> ExitCode {
    // A page of help is an answer, and whatever is wrong goes to stderr.
    let printed = match stdout().map(drop) {
        Err(closed) if !error.use_stderr() => Err(closed),
        _ => error.print(),
    };
    let status = match printed {
        _ if error.use_stderr() => STATUS_USAGE,
        // A closed pipe (`--help | head`) is no failure, a full disk is one.
        Err(failure) if failure.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to stdout: {failure}"));
            STATUS_FAILED
        }
        _ => 0,
    };
    let is_trace = words.get(1).is_some_and(|word| word == "trace");
    if is_trace && error.kind() == clap::error::ErrorKind::UnknownArgument {
        let tip = "a command to trace comes after --, as in: gpu-ledger trace -- CMD";
        let _ = writeln!(std::io::stderr(), "gpu-ledger: {tip}");
    }
    ExitCode::from(status)
}

/// Whether the arguments, which are read in whole later, run the daemon.
fn asks_for_daemon(words: &[OsString]) -> bool {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--nvml-library" {
            words.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return word == "daemon";
        }
    }
    false
}

/// The known child of the start-up self-test: lives until its standard input ends.
fn probe() -> ExitCode {
    match std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(STATUS_FAILED),
    }
}

fn run(arguments: Arguments) -> anyhow::Result<u8> {
    enough_files()?;
    refuse_library(&arguments)?;
    let clock = clock_from_environment();
    let log = start_logging(match &arguments.command {
        Command::Daemon(_) => "info",
        _ => "warn",
    });
    match arguments.command {
        Command::Trace(trace) => {
            let options = trace::trace_options(trace, arguments.nvml_library, clock)?;
            session::trace(&options)
        }
        Command::Daemon(daemon) => daemon.run(arguments.nvml_library, clock, log),
        Command::Status(status) => status.run(),
        Command::Release(release) => release.run(),
        Command::Mark(mark) => mark.run(),
        Command::Journal(journal) => journal.run(&clock),
        Command::Bill(bill) => bill.run(clock),
        Command::Export(export) => export::run(export, clock),
        Command::Explain(explain) => explain.run(&clock),
        Command::Rules(rules) => rules.run(clock),
        Command::Audit(audit) => audit.run(&clock),
        Command::Doctor(doctor) => doctor.run(arguments.nvml_library, clock),
        Command::Residency(residency) => residency.run(arguments.nvml_library, clock),
        Command::Accounting(accounting) => accounting.run(arguments.nvml_library, clock),
        Command::ContainerNames(names) => names.run(),
    }
}

/// Refuses a library that the command would not open.
fn refuse_library(arguments: &Arguments) -> Result<(), Usage> {
    let command = match &arguments.command {
        _ if arguments.nvml_library.is_none() => return Ok(()),
        Command::Trace(_) | Command::Daemon(_) | Command::Doctor(_) | Command::Accounting(_) => {
            return Ok(());
        }
        Command::Residency(residency) if residency.opens_driver() => return Ok(()),
        Command::Status(_) => "status",
        Command::Release(_) => "release",
        Command::Mark(_) => "mark",
        Command::Journal(_) => "journal",
        Command::Bill(_) => "bill",
        Command::Export(_) => "export",
        Command::Rules(_) => "rules",
        Command::Audit(_) => "audit",
        Command::Explain(_) => "explain",
        Command::ContainerNames(_) => "container-names",
        Command::Residency(_) => "residency, but for record,",
    };
    Err(Usage(format!(
        "{command} opens no driver: leave --nvml-library out; the daemon's is nvml_library in its \
         configuration"
    )))
}

/// Files that a command may have to open at once, the traced one's three streams aside.
const OPEN_FILES_MIN: u64 = 32;

/// With fewer files than any command needs nothing would say so clearly later on.
fn enough_files() -> anyhow::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(most) if most < OPEN_FILES_MIN => Err(anyhow::anyhow!(
            "only {most} files may be open, and gpu-ledger needs {OPEN_FILES_MIN}: raise the limit, as \
             in `ulimit -n 1024`"
        )),
        _ => Ok(()),
    }
}

/// Runs an asynchronous command to its end. A driver call that hangs does not keep the process.
fn block_on<T>(command: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    Ok(outcome)
}

/// Writes a page to stdout. Whoever reads only its beginning has had enough.
fn print(page: &str) -> anyhow::Result<()> {
    to_stdout(page).map_err(|error| anyhow::Error::new(error).context("cannot write to stdout"))
}

/// What was typed cannot be done; the text says what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

#[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
fn clock_from_environment() -> Clock {
    match std::env::var("GPU_LEDGER_TEST_CLOCK") {
        Ok(file) => Clock::shifted(file.into()),
        Err(_) => Clock::system(),
    }
}

/// Starts to log. What comes back changes the filter later on, where the environment does not name one.
fn start_logging(usual: &str) -> LogFilter {
    let named = EnvFilter::try_from_env("GPU_LEDGER_LOG");
    let is_named = named.is_ok();
    let filter = named.unwrap_or_else(|_| EnvFilter::new(usual));
    // A log that cannot be written is lost; to tell that on the same stderr, as the library would, is a panic.
    let subscriber =
        tracing_subscriber::fmt().with_writer(std::io::stderr).log_internal_errors(false);
    let subscriber = subscriber.with_env_filter(filter).with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.init();
    LogFilter::new(move |text| {
        if is_named {
            return Ok(());
        }
        let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        handle.reload(filter).map_err(|error| error.to_string())
    })
}

/// Where the service manager wants to be told that we are ready.
fn notify_socket() -> Option<OsString> {
    std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_says_what_the_exit_status_means() {
        use clap::CommandFactory as _;
        fn look(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let below: Vec<&clap::Command> = command.get_subcommands().collect();
            // Where there are words below, each of them says it.
            if below.is_empty() {
                assert!(help.contains("xit status"), "{}: {help}", command.get_name());
                assert!(help.contains("64 usage"), "{}: {help}", command.get_name());
            }
            below.into_iter().for_each(look);
        }
        look(&Arguments::command());
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
