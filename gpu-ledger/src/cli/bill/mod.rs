//! `gpu-ledger bill`.

mod close;
mod diff;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use jiff::tz::TimeZone;

use self::close::Close;
use self::diff::Diff;
use super::Usage;
use super::place::Place;
use super::source::with_source;
use crate::audit::verify::{IntegrityWord, Known, Of, verify};
use crate::bill::period::{Asked, PeriodError};
use crate::bill::{By, SharePolicy};
use crate::billing::{self, BillOptions, Format, PricesAt, Version};
use crate::clock::Clock;
use crate::config::ConfigError;

const AFTER_HELP: &str = "MOMENT is 2026-10-31T08:00:00Z, 2026-10-31, 2026-10, 2026 (their first \
moment), today, yesterday, now, or a time ago: 24h, 7d. A period holds its first moment and not its \
last. Without any of the three it is today, up to now.\n\
Whoever may not open the journal's files asks the daemon that writes it: root and the daemon's group see \
all, every other user their own lines.\n\
--format csv is rows alone: a line each, and --by process a process each, where state is settled (booked), \
open (accrued, not booked) or no-driver-row (never billed). Period, statement of each GPU, gaps, totals and \
what is UNKNOWN are in --format table and json. Of csv and line stderr says where the driver is simulated, \
something was left out, or not everything is known; the exit status is the same in every form.\n\
With --prices there is an amount for every account, GPU, meter and state: exact until it is written with four digits, \
and a total is the sum of the amounts as written. Held hours are what is booked; open and free hours, and what is \
sampled (busy, memory), have lines of their own and are in no booked total. Without a price for it an amount is UNKNOWN, \
and never 0: the bill says what to add to the file, and the exit status is 2. A memory price is for an hour \
of one GiB; where memory was not sampled, or its hour is void, the amount is UNKNOWN. Named a --share policy, shared time is priced as the policy divides it. units/prices.toml shows a file.\n\
--format focus has a row for each such line. BilledCost and EffectiveCost are what is booked, and 0 of what is not; \
ListCost and ContractedCost are the amount in any case. It has no rows of processes: --by process is refused. What is UNKNOWN is null there, which FOCUS does not allow: \
a bill on which nothing is, passes.\n\
--format line is `TIME gpu-ledger: ACCOUNT MS ACCOUNT MS TOTAL MS`, largest first: the plain sum of spans, which \
overlap where processes did. A blank within a name is written \\x20, a byte that is not printable \\xHH, a \
backslash \\\\; an account called like a word of ours (unattributed, TOTAL) is quoted.\n\
Flags of a settlement: below-1ms (held for less than a millisecond), settled-while-alive (its process closed \
the GPU and lived on), started-before-accounting (it held the GPU earlier too, which no row tells), cgroup-moved (its \
process was moved to another job, pod, container or unit after it had opened a GPU, and all of it stands there).\n\
A period that was closed (gpu-ledger bill close 2026-10) has one bill: with the options that it was closed with it \
is printed byte for byte, whatever came later, and with others it is made of the same entries and says so. The bill \
of the period after the last closed one tells what came to closed ones since, each with its date and entry, on no \
other line. --as-of now makes the bill of a closed period afresh, --as-of MOMENT and --head N those of earlier days.\n\
Exit status: 0 everything on the bill is known, 1 failed, 2 answered but something on it is UNKNOWN, \
without a name, or was not seen, 64 usage.";

/// A bill, or what is done with bills.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(super) struct BillCommand {
    #[command(subcommand)]
    command: Option<Beside>,
    #[command(flatten)]
    bill: Bill,
}

#[derive(Subcommand, Debug)]
enum Beside {
    /// Fix the bill of a period that is over: it stays the same bytes for ever, and what is learnt later is told as
    /// adjustments by the bill of the period that follows
    Close(Close),
    /// Compare two bills, or two versions of one: every figure that differs, and every entry that made it differ
    Diff(Diff),
}

impl BillCommand {
    pub(super) fn run(self, clock: Clock) -> anyhow::Result<u8> {
        match self.command {
            None => run(self.bill, clock),
            Some(Beside::Close(close)) => close.run(clock),
            Some(Beside::Diff(diff)) => diff.run(clock),
        }
    }
}

/// What one bill is asked to be.
#[derive(Args, Debug)]
pub(super) struct Bill {
    /// The period's first moment
    // A hyphen is taken as a value's, so that `-1h` is told what a moment is.
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    since: Option<String>,
    /// The first moment after the period
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    until: Option<String>,
    /// The whole of a day, month or year (today, yesterday, 2026-10-31, 2026-10, 2026), or of the
    /// journal: all
    #[arg(long, value_name = "WHOLE", allow_hyphen_values = true)]
    period: Option<String>,
    /// As it was known at MOMENT: of the entries learnt by then, the last of which ends the journal that the bill is
    /// made of; now is the present also of a period that was closed
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true, conflicts_with = "head")]
    as_of: Option<String>,
    /// As the journal stood when entry N was its last
    #[arg(long, value_name = "N")]
    head: Option<u64>,
    /// Of audit bundles instead of the journal (may be given again): of any number of hosts one bill. Each is verified
    /// first, and one that is not proven makes no bill; several of one host continue each other. Without a period it
    /// is of all the time that they are of
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["as_of", "head"])]
    from: Vec<PathBuf>,
    /// What a line stands for: account, user, program, gpu, process, or where it ran: service (what the account is
    /// without rules), unit, container, pod, namespace, job; kind (compute, graphics), model
    #[arg(long, value_name = "WHAT", default_value = "account")]
    by: By,
    /// How shared time is divided between accounts: none, equal, busy or memory
    #[arg(long, value_name = "POLICY", default_value = "none")]
    share: SharePolicy,
    /// Only this GPU, by index, UUID or the beginning of one (may be given again)
    #[arg(long = "gpu", value_name = "GPU")]
    gpus: Vec<String>,
    /// Only the line of this name, as any form of the bill shows it (may be given again); unattributed, one of its
    /// reasons (event-lost), unclassified (by no rule) and disputed mean all such lines. The bill says what it left
    /// out
    #[arg(long = "account", value_name = "NAME")]
    accounts: Vec<String>,
    /// What hours cost, by GPU, meter and time (default: the configured file, else /etc/gpu-ledger/prices.toml where
    /// it exists); the bill is then also one in money
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// The form; focus is the bill in money in the columns of FOCUS 1.0 (CSV); line is one line of what was booked in the period, and without --since, --until and --period of
    /// all that ever was, as the daemon logs it
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: Form,
    /// Leave names in CSV as they are, also those that a spreadsheet takes for a formula
    #[arg(long)]
    csv_raw: bool,
    /// Write the bill to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Days and months of UTC instead of those of TZ or of the system's time zone
    #[arg(long)]
    utc: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Form {
    Table,
    Json,
    Csv,
    Focus,
    Line,
}

/// Makes the bill.
fn run(bill: Bill, clock: Clock) -> anyhow::Result<u8> {
    let place = bill.place.clone();
    let from = bill.from.clone();
    if !from.is_empty() && (place.names_state_dir() || place.names_socket()) {
        let what =
            "--from bills what is in the bundles; leave --state-dir and --socket out beside it";
        return Err(Usage(what.to_owned()).into());
    }
    let options = options(bill, clock)?;
    if !from.is_empty() {
        return billing::bill_of_bundles(&options, &from, &proven);
    }
    with_source(&place, "bill", |source| billing::bill(&options, source))
}

/// Proves a bundle. That something of its period is unknown is for the bill to say.
fn proven(path: &Path) -> anyhow::Result<()> {
    let verdict = verify(path, &Known::default());
    let is_bundle = verdict.of == Of::Bundle;
    if verdict.integrity.verdict == IntegrityWord::Good && is_bundle {
        return Ok(());
    }
    let first = verdict.integrity.faults.first();
    let fault = first.map_or_else(
        || "it is the proof of one settlement, and no bundle".to_owned(),
        |fault| format!("integrity failed: {} {}", fault.file, fault.what),
    );
    anyhow::bail!("{fault}; gpu-ledger audit verify says it all")
}

/// Refuses what a form has no place for, instead of leaving it out without a word.
fn refuse_ignored(bill: &Bill) -> Result<(), Usage> {
    let refused = match bill.format {
        Form::Focus if bill.by == By::Process => {
            "--format focus has a row for each account, GPU, meter and price, and none for a process; take --by account \
             with it, or --format json or csv for processes"
        }
        Form::Line if bill.by == By::Process => {
            "--format line has accounts, and no processes; leave --by out, or take --format json or csv"
        }
        Form::Line if bill.share != SharePolicy::None => {
            "--format line has plain sums of spans, of which --share divides nothing; take --format table, json or csv"
        }
        _ => return Ok(()),
    };
    Err(Usage(refused.to_owned()))
}

fn options(bill: Bill, clock: Clock) -> anyhow::Result<BillOptions> {
    if bill.csv_raw && !matches!(bill.format, Form::Csv | Form::Focus) {
        return Err(Usage("--csv-raw is about CSV; add --format csv or focus".to_owned()).into());
    }
    if bill.prices.is_some() && matches!(bill.format, Form::Csv | Form::Line) {
        let what = "csv and line have no amounts; with --prices take --format focus, json or table";
        return Err(Usage(what.to_owned()).into());
    }
    refuse_ignored(&bill)?;
    let prices = prices(&bill.place, bill.prices.as_ref())?;
    let zone = zone(bill.utc)?;
    Ok(BillOptions {
        asked: Asked { since: bill.since, until: bill.until, period: bill.period },
        version: match (bill.as_of, bill.head) {
            (Some(word), _) => Version::AsOf(word),
            (None, Some(head)) => Version::Head(head),
            (None, None) => Version::Usual,
        },
        by: bill.by,
        share: bill.share,
        gpus: bill.gpus,
        accounts: bill.accounts,
        prices,
        format: match bill.format {
            Form::Table => Format::Table,
            Form::Json => Format::Json,
            Form::Csv => Format::Csv { is_raw: bill.csv_raw },
            Form::Focus => Format::Focus { is_raw: bill.csv_raw },
            Form::Line => Format::Line,
        },
        output: bill.output,
        zone,
        clock,
    })
}

/// Where prices are: as typed, else as configured, else in the usual place.
pub(super) fn prices(place: &Place, typed: Option<&PathBuf>) -> Result<PricesAt, ConfigError> {
    let at = place.prices(typed)?;
    Ok(match at {
        Some(path) if typed.is_some() => PricesAt::Named(path),
        Some(path) => PricesAt::Configured(path),
        None => PricesAt::Default,
    })
}

/// Where days begin.
pub(super) fn zone(is_utc: bool) -> Result<TimeZone, PeriodError> {
    if is_utc {
        return Ok(TimeZone::UTC);
    }
    TimeZone::try_system().map_err(|error| PeriodError::Zone(error.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::unknown::Flag;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        bill: Bill,
    }

    #[test]
    fn what_a_form_has_no_place_for_is_refused_and_never_left_out_without_a_word() {
        let refused = |words: &[&str]| {
            let line = Line::try_parse_from([&["bill"], words].concat()).ok().unwrap();
            refuse_ignored(&line.bill).err().map(|Usage(what)| what)
        };
        for (words, told) in [
            (&["--format", "focus", "--by", "process"][..], "--format focus has a row"),
            (&["--format", "line", "--by", "process"], "--format line has accounts"),
            (&["--format", "line", "--share", "equal"], "--format line has plain sums"),
        ] {
            let what = refused(words).unwrap();
            assert!(what.starts_with(told) && what.contains("take "), "{what}");
        }
        for words in [
            &["--format", "focus", "--by", "user", "--share", "equal"][..],
            &["--format", "json", "--by", "process", "--share", "busy"],
            &["--format", "csv", "--by", "process"],
            &["--format", "line", "--by", "user"],
        ] {
            assert_eq!(refused(words), None, "{words:?}");
        }
    }

    #[test]
    fn the_help_explains_every_flag_and_how_a_blank_is_written() {
        for flag in Flag::ALL {
            assert!(AFTER_HELP.contains(&format!("{flag} (")), "{flag}: {AFTER_HELP}");
        }
        assert!(AFTER_HELP.contains(r"A blank within a name is written \x20, "), "{AFTER_HELP}");
    }
}
