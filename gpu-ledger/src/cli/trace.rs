//! `gpu-ledger trace`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use super::Usage;
use crate::clock::Clock;
use crate::session::TraceOptions;
use crate::session::launch::user_behind_sudo;

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(override_usage = "gpu-ledger trace [OPTIONS] -- CMD [ARGUMENT]...\n       \
                            gpu-ledger trace [OPTIONS] --for DURATION")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["for_", "cmd"]))]
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
    #[arg(long)]
    as_root: bool,
    /// Size of the kernel's event ring, a power of two (64KiB … 1GiB)
    #[arg(long, value_name = "SIZE", value_parser = ring_size, default_value = "4MiB")]
    ring_size: u32,
    /// Do not watch which processes open the NVIDIA devices
    #[arg(long)]
    no_device_touch: bool,
    /// Give a driver call up after this long
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
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
    let run_as = match (trace.as_root, sudo_uid()?) {
        (false, Some(uid)) if rustix::process::geteuid().is_root() => user_behind_sudo(uid)?,
        _ => None,
    };
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
        call_deadline: trace.call_deadline,
        nvml_library,
        clock,
    })
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

/// `60s`, `5m`, `1h30m`, or ISO 8601.
fn duration(text: &str) -> Result<Duration, String> {
    let remedy = "give a time such as 500ms, 60s, 5m or 1h30m";
    let signed: SignedDuration = text.parse().map_err(|error| format!("{error}; {remedy}"))?;
    Duration::try_from(signed).map_err(|_| format!("a time cannot be negative; {remedy}"))
}

/// A power of two between 64 KiB and 1 GiB, with `KiB`, `MiB` or `GiB`.
fn ring_size(text: &str) -> Result<u32, String> {
    let remedy = "give a power of two from 64KiB to 1GiB, such as 4MiB";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u32 = match text.get(digits.len()..) {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        _ => return Err(format!("no unit; {remedy}")),
    };
    let number: u32 = digits.parse().map_err(|error| format!("{error}; {remedy}"))?;
    match number.checked_mul(unit) {
        Some(bytes) if bytes.is_power_of_two() && (64 << 10..=1 << 30).contains(&bytes) => {
            Ok(bytes)
        }
        _ => Err(format!("not a size of a ring; {remedy}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_are_powers_of_two_with_a_unit() {
        assert_eq!(ring_size("64KiB"), Ok(65_536));
        assert_eq!(ring_size("4MiB"), Ok(4 << 20));
        for bad in ["4", "3MiB", "32KiB", "2GiB", "MiB", "99999GiB", "-4MiB", "4mib"] {
            assert!(ring_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_what_people_type() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert!(duration("-1s").is_err() && duration("soon").is_err() && duration("").is_err());
    }
}
