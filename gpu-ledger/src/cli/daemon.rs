//! `gpu-ledger daemon`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::clock::Clock;
use crate::daemon::{self, DaemonOptions, LogFilter};

const AFTER_HELP: &str = "SIGTERM and SIGINT end it in order, SIGHUP has it read its configuration again.\n\
After every transaction that booked something stderr has one line beside the log, `TIME gpu-ledger: ACCOUNT MS \
ACCOUNT MS TOTAL MS`: all that was ever booked, as `gpu-ledger bill --format line` has it but for the accounts after the 20 largest, which are \
one sum, `(34-more) MS`, and for those that came after the first 10,000, which are `other MS`, and but for rows that were disputed after they were booked, which only the bill moves off their account.\n\
Exit status: 0 ended in order, 1 failed, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Daemon {
    /// Configuration file (default: /etc/gpu-ledger/config.toml, where there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The journal's folder, instead of the configured one
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Where readers ask, instead of the configured place
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Daemon {
    pub(super) fn run(
        self,
        nvml_library: Option<PathBuf>,
        clock: Clock,
        log: LogFilter,
    ) -> anyhow::Result<u8> {
        daemon::run(&DaemonOptions {
            config: self.config,
            state_dir: self.state_dir,
            socket: self.socket,
            nvml_library,
            clock,
            log,
            notify_socket: notify_socket(),
            watchdog: watchdog(),
        })
    }
}

fn notify_socket() -> Option<std::ffi::OsString> {
    std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())
}

/// How often the service manager wants to hear of this process.
#[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
fn watchdog() -> Option<Duration> {
    let of_us = std::env::var("WATCHDOG_PID").map_or(true, |pid| {
        // The variables of whoever started us may be about another process.
        pid.parse() == Ok(std::process::id())
    });
    let every = std::env::var("WATCHDOG_USEC").ok().filter(|_| of_us)?;
    every.parse().ok().map(Duration::from_micros)
}
