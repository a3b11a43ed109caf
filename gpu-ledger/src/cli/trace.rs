//! `gpu-ledger trace`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::Usage;
use crate::argv::CmdlineMode;
use crate::clock::Clock;
use crate::config::values::{duration, duration_not_zero, ring_size};
use crate::session::TraceOptions;
use crate::session::launch::user_behind_sudo;

const EXIT_STATUS: &str = "Exit status with --for: 0 everything on the bill is known, 1 failed, 2 answered but \
something on it is UNKNOWN, 64 usage.\n\
With CMD: its own status (128 + n after signal n), 125 where gpu-ledger failed before CMD ran, 126 where CMD \
cannot be run, 127 where it was not found; with --strict 2 where CMD succeeded and something on the bill is \
UNKNOWN, 64 usage.";

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(override_usage = "gpu-ledger trace [OPTIONS] -- CMD [ARGUMENT]...\n       \
                            gpu-ledger trace [OPTIONS] --for DURATION")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["for_", "cmd"]))]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Trace {
    /// Watch the host for this long instead of running a command (60s, 5m, 1h30m)
    // A hyphen is taken as a value's, so that `-1s` is told what a time is and not that one lacks.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, id = "for_", allow_hyphen_values = true)]
    for_: Option<Duration>,
    /// Wait at most this long for the driver to finish the rows of dead processes
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    settle_timeout: Duration,
    /// Write the report as one JSON object (with CMD this needs --output)
    #[arg(long)]
    json: bool,
    /// Write the report to FILE (`-` is stdout) instead of stderr (CMD) or stdout (--for)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not start where a prerequisite is missing; exit 2 where anything on the bill is UNKNOWN
    #[arg(long)]
    strict: bool,
    /// Turn the driver's accounting mode on first (needs root); it stays on
    #[arg(long)]
    enable_accounting: bool,
    /// Under sudo, run CMD as root instead of as the user who called sudo
    #[arg(long, conflicts_with = "for_")]
    as_root: bool,
    /// Size of the kernel's event ring, a power of two (64KiB … 1GiB)
    #[arg(long, value_name = "SIZE", value_parser = ring_size, default_value = "4MiB")]
    ring_size: u32,
    /// Do not watch which processes open the NVIDIA devices
    #[arg(long)]
    no_device_touch: bool,
    /// How much of command lines the report shows: none, exe (the file alone), redacted (without passwords, keys and
    /// tokens) or full
    #[arg(long, value_name = "MODE", default_value_t)]
    cmdline: CmdlineMode,
    /// Give a driver call up after this long
    #[arg(long, value_name = "DURATION", value_parser = duration_not_zero, default_value = "2s")]
    call_deadline: Duration,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", id = "cmd")]
    pub(super) cmd: Vec<OsString>,
}

/// What the words ask for.
pub(super) fn trace_options(
    trace: Trace,
    nvml_library: Option<PathBuf>,
    clock: Clock,
) -> anyhow::Result<TraceOptions> {
    if trace.json && !trace.cmd.is_empty() && trace.output.is_none() {
        return Err(Usage(
            "--json with a command needs --output FILE (or --output - for stdout): the command \
             keeps stdout and stderr"
                .to_owned(),
        )
        .into());
    }
    let run_as = user_of_command(trace.as_root)?;
    Ok(TraceOptions {
        argv: trace.cmd,
        run_as,
        watch_for: trace.for_,
        settle_timeout: trace.settle_timeout,
        json: trace.json,
        output: trace.output,
        strict: trace.strict,
        enable_accounting: trace.enable_accounting,
        ring_bytes: trace.ring_size,
        device_touch: !trace.no_device_touch,
        cmdline: trace.cmdline,
        call_deadline: trace.call_deadline,
        nvml_library,
        clock,
    })
}

/// Whom the user's command runs as, where that is not whoever runs us: under sudo, the user behind it.
pub(super) fn user_of_command(as_root: bool) -> anyhow::Result<Option<nix::unistd::User>> {
    match (as_root, sudo_uid()?) {
        (false, Some(uid)) if rustix::process::geteuid().is_root() => Ok(user_behind_sudo(uid)?),
        _ => Ok(None),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
fn sudo_uid() -> anyhow::Result<Option<u32>> {
    match std::env::var("SUDO_UID") {
        Ok(text) => match text.parse() {
            Ok(uid) => Ok(Some(uid)),
            Err(_) => Err(Usage(format!(
                "SUDO_UID is {text:?}, which is no user id; give --as-root or unset it"
            ))
            .into()),
        },
        Err(_) => Ok(None),
    }
}
