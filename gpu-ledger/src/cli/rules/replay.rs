//! `gpu-ledger rules replay`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::tz::TimeZone;

use crate::bill::Shown;
use crate::bill::period::{Asked, PeriodError};
use crate::billing::{Replay, ReplayOptions, replay};
use crate::cli::place::Place;
use crate::cli::source::with_source;
use crate::cli::{STATUS_UNKNOWN, print};
use crate::clock::Clock;
use crate::config::Rules;
use crate::rendering::{exact, json};
use crate::unit::Ms;

/// Columns of an account's name.
const NAME_COLUMNS: usize = 32;
/// Columns of a time.
const TIME_COLUMNS: usize = 16;

const AFTER_HELP: &str = "Nothing is changed: what is booked stays booked. Settlements are put on the accounts that these rules give them by \
what the journal has of each; what no rule takes stands under the name that it has without rules. Moments are those of \
gpu-ledger bill. Without a period it is about today. Whoever may not open the journal's files asks the daemon that \
writes it: root and the daemon's group replay all, every other user their own settlements.\n\
Exit status: 0 every settlement was replayed, 1 failed, 2 of some the journal does not have all that the rules look \
at, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReplayCommand {
    /// The file of rules (default: the configured one, else /etc/gpu-ledger/rules.toml)
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Not before this moment
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    since: Option<String>,
    /// Before this moment
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    until: Option<String>,
    /// A day, a month, a year, today, yesterday or all
    #[arg(long, value_name = "PERIOD")]
    period: Option<String>,
    /// Days and months of UTC instead of those of TZ or of the system's time zone
    #[arg(long)]
    utc: bool,
    /// One JSON object (format gpu-ledger-rules-replay) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl ReplayCommand {
    pub(super) fn run(self, clock: Clock) -> anyhow::Result<u8> {
        let rules = match &self.file {
            Some(file) => Rules::read(file)?,
            None => Rules::read_or_default(self.place.rules()?.as_deref())?,
        };
        let zone = if self.utc {
            TimeZone::UTC
        } else {
            TimeZone::try_system().map_err(|error| PeriodError::Zone(error.to_string()))?
        };
        let asked = Asked { since: self.since, until: self.until, period: self.period };
        let Rules { path: file, set: rules, .. } = rules;
        let options = ReplayOptions { asked, zone, clock, file, rules };
        let replay = with_source(&self.place, "rules replay", |source| replay(&options, source))?;
        print(&if self.json { json(&replay)? } else { text(&replay)? })?;
        let is_whole = replay.without_evidence == 0
            && replay.without_argv == 0
            && replay.argv_of_unknown_mode == 0
            && !replay.looks_at_labels
            && replay.only_uid.is_none();
        Ok(if is_whole { 0 } else { STATUS_UNKNOWN })
    }
}

fn text(replay: &Replay) -> Result<String, std::fmt::Error> {
    let mut page = String::new();
    let file =
        replay.file.as_ref().map_or("no rules".to_owned(), |file| file.display().to_string());
    writeln!(page, "{file} from {} to {}; nothing is changed", replay.since, replay.until)?;
    let largest =
        replay.accounts.iter().flat_map(|line| [line.booked.held_ms, line.would_be.held_ms]);
    let largest = largest.max().unwrap_or(Ms::ZERO);
    let names = replay.accounts.iter().map(|line| (&*line.account, line.named_by));
    let shown = Shown::of_accounts(names);
    let mut row = |cells: [&str; 4]| {
        let [name, times @ ..] = cells;
        let mut line = shown.cell("", name, NAME_COLUMNS);
        for time in times {
            write!(line, " {time:>TIME_COLUMNS$}")?;
        }
        writeln!(page, "{}", line.trim_end())
    };
    row(["account", "booked", "would be", "difference"])?;
    for line in &replay.accounts {
        let (booked, would_be) = (line.booked.held_ms, line.would_be.held_ms);
        let difference = exact(Ms(booked.0.abs_diff(would_be.0)), largest);
        let difference = match would_be.cmp(&booked) {
            std::cmp::Ordering::Less => format!("-{difference}"),
            std::cmp::Ordering::Equal => "same".to_owned(),
            std::cmp::Ordering::Greater => format!("+{difference}"),
        };
        let called = shown.called(&line.account, line.named_by);
        row([&called, &exact(booked, largest), &exact(would_be, largest), &difference])?;
    }
    writeln!(
        page,
        "{} settlements of {} ms in all, in both; a time is the union of an account's spans on each GPU",
        replay.settlements_total, replay.span_ms_total
    )?;
    if replay.unattributed_settlements > 0 {
        let (count, ms) = (replay.unattributed_settlements, replay.unattributed_ms);
        writeln!(
            page,
            "{count} of them, of {ms} ms, are unattributed: they have no name, and stand in no line"
        )?;
    }
    if let Some(uid) = replay.only_uid {
        writeln!(
            page,
            "NOT REPLAYED: what is not user {uid}'s: the daemon shows the rest to root and its group alone"
        )?;
    }
    write_unknown(&mut page, replay)?;
    Ok(page)
}

/// Of what it is not known on which account it would be.
fn write_unknown(page: &mut String, replay: &Replay) -> std::fmt::Result {
    if replay.without_evidence > 0 {
        let count = replay.without_evidence;
        writeln!(
            page,
            "NOT REPLAYED: {count} settlements whose evidence is not here stand as they are booked"
        )?;
    }
    if replay.without_argv > 0 {
        let count = replay.without_argv;
        writeln!(
            page,
            "NOT KNOWN: of {count} settlements not all is stored of arguments that rules look at (argv, command_line, \
             exe, model), so no rule on what is missing matches"
        )?;
    }
    if replay.argv_of_unknown_mode > 0 {
        let count = replay.argv_of_unknown_mode;
        writeln!(
            page,
            "NOT KNOWN: {count} settlements do not say how much of their arguments was kept; rules then may have seen \
             other than what is stored"
        )?;
    }
    if replay.looks_at_labels {
        writeln!(
            page,
            "NOT KNOWN: labels of containers and pods that no rule looked at then; no rule on them matches"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::billing::ReplayLine;

    #[test]
    fn pods_and_containers_that_begin_alike_are_lines_of_their_own() {
        let pod = |end: u8| format!("pod 0a1b2c3d-1111-2222-3333-44445555000{end}");
        let docker = |end: &str| format!("docker 3f2a9c0d1e4b{end}{}", "0".repeat(51));
        let names = [pod(1), pod(2), pod(3), docker("a"), docker("b"), "ollama".to_owned()];
        let mut replay = Replay::default();
        replay.accounts = names
            .iter()
            .map(|name| ReplayLine { account: name.clone(), ..ReplayLine::default() })
            .collect();
        let page = text(&replay).unwrap();
        let same = format!("{:>16} {:>16} {:>16}", "0.000 s", "0.000 s", "same");
        for name in &names[..3] {
            assert!(page.contains(&format!("\n{name}\n{:32} {same}\n", "")), "{page}");
        }
        for name in ["docker 3f2a9c0d1e4ba000", "docker 3f2a9c0d1e4bb000", "ollama"] {
            assert!(page.contains(&format!("\n{name:32} {same}\n")), "{page}");
        }
    }
}
