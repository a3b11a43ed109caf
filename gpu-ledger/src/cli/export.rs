//! `gpu-ledger export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Usage;
use super::bill::{prices, zone};
use super::place::Place;
use super::source::with_source;
use crate::bill::period::Asked;
use crate::bill::{By, SharePolicy};
use crate::billing::{self, BillOptions, ExportFormat, Format, Version};
use crate::clock::Clock;
use crate::export::rows::RowFormat;

const AFTER_HELP: &str = "--format csv, jsonl and parquet have a row for each settlement of the period, in the columns that \
bill --by process has, with its end, its rule, its labels, and number and hash of its entry; then a row for each process \
that holds a GPU still (state open: accrued, not booked) or gets no row (no-driver-row: never billed). However many there \
are, they pass in bounded memory: the journal is read twice, first proven, then written. How much of a span was alone or \
shared is no matter of one row: bill --by process has it.\n\
--format xlsx is the bill as a workbook (sheets bill, unattributed, coverage, words) whose totals are formulas. --format \
html is the bill by account as one page that needs no network and runs no script: who held each GPU when, what adds up to \
what, what could not be seen. --format focus is that of bill.\n\
MOMENT, WHOLE and who may read what are those of bill --help. A file is replaced once the export is whole, and is not \
touched otherwise; on a terminal stderr shows how far it is.\n\
Exit status: 0 everything in the export is known, 1 failed, 2 answered but something in it is UNKNOWN, without a name, or \
was not seen, 64 usage.";

/// What one export is asked to be.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Export {
    /// The form
    #[arg(long, value_name = "FORM")]
    format: Form,
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
    /// Of xlsx and focus, what a line stands for, as in bill --by (default: account)
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
    /// Of xlsx, focus and html, how shared time is divided: none, equal, busy or memory
    #[arg(long, value_name = "POLICY", default_value = "none")]
    share: SharePolicy,
    /// Only this GPU, by index, UUID or the beginning of one (may be given again)
    #[arg(long = "gpu", value_name = "GPU")]
    gpus: Vec<String>,
    /// Of xlsx, focus and html: only the line of this name, as in bill --account (may be given again)
    #[arg(long = "account", value_name = "NAME")]
    accounts: Vec<String>,
    /// Of xlsx, focus and html: what hours cost (default: the configured file, else /etc/gpu-ledger/prices.toml
    /// where it exists)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Leave names in CSV as they are, also those that a spreadsheet takes for a formula
    #[arg(long)]
    csv_raw: bool,
    /// Write the export to FILE instead of stdout
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
    Csv,
    Jsonl,
    #[cfg(feature = "parquet")]
    Parquet,
    #[cfg(feature = "xlsx")]
    Xlsx,
    Focus,
    Html,
}

impl Form {
    const fn format(self, is_raw: bool) -> ExportFormat {
        match self {
            Self::Csv => ExportFormat::Rows(RowFormat::Csv { is_raw }),
            Self::Jsonl => ExportFormat::Rows(RowFormat::Jsonl),
            #[cfg(feature = "parquet")]
            Self::Parquet => ExportFormat::Rows(RowFormat::Parquet),
            #[cfg(feature = "xlsx")]
            Self::Xlsx => ExportFormat::Xlsx,
            Self::Focus => ExportFormat::Focus { is_raw },
            Self::Html => ExportFormat::Html,
        }
    }
}

/// Makes the export.
pub(super) fn run(export: Export, clock: Clock) -> anyhow::Result<u8> {
    refuse_ignored(&export)?;
    let format = export.format.format(export.csv_raw);
    let place = export.place.clone();
    let options = options(export, format, clock)?;
    with_source(&place, "export", |source| billing::export(&options, format, source))
}

/// Refuses what a form has no place for, instead of leaving it out without a word.
fn refuse_ignored(export: &Export) -> Result<(), Usage> {
    let form = export.format;
    let is_rows = matches!(form.format(false), ExportFormat::Rows(_));
    let has = |has: bool, what| has.then_some(what);
    let refused = has(
        export.csv_raw && !matches!(form, Form::Csv | Form::Focus),
        "--csv-raw is about CSV; add --format csv or focus",
    )
    .or(has(
        is_rows && export.by.is_some_and(|by| by != By::Process),
        "a row is a settlement whatever lines are made by: leave --by out, or take --format xlsx, or bill --format csv",
    ))
    .or(has(
        is_rows && export.share != SharePolicy::None,
        "a row is a settlement, of which --share divides nothing: leave it out, or take --format xlsx or html",
    ))
    .or(has(
        is_rows && !export.accounts.is_empty(),
        "--account is about lines, and these are rows: leave it out, or take --format xlsx or html",
    ))
    .or(has(
        is_rows && export.prices.is_some(),
        "rows have no amounts: leave --prices out, or take --format xlsx, focus or html",
    ))
    .or(has(
        form == Form::Html && export.by.is_some_and(|by| !matches!(by, By::Account | By::Process)),
        "the page is by account, each with its processes: leave --by out, or take --format xlsx",
    ))
    .or(has(
        form == Form::Focus && export.by == Some(By::Process),
        "--format focus has no rows of processes: take --by account with it, or --format csv",
    ));
    refused.map_or(Ok(()), |what| Err(Usage(what.to_owned())))
}

fn options(export: Export, format: ExportFormat, clock: Clock) -> anyhow::Result<BillOptions> {
    let prices = prices(&export.place, export.prices.as_ref())?;
    let zone = zone(export.utc)?;
    Ok(BillOptions {
        asked: Asked { since: export.since, until: export.until, period: export.period },
        version: Version::Usual,
        by: match format {
            // With every process, of which its lanes are made.
            ExportFormat::Html => By::Process,
            _ => export.by.unwrap_or_default(),
        },
        share: export.share,
        gpus: export.gpus,
        accounts: export.accounts,
        prices,
        format: Format::Table,
        output: export.output,
        zone,
        clock,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        export: Export,
    }

    #[test]
    fn what_a_form_has_no_place_for_is_refused_with_what_to_take() {
        let refused = |words: &[&str]| {
            let line = Line::try_parse_from([&["export", "--format"], words].concat());
            refuse_ignored(&line.ok().unwrap().export).err().map(|Usage(what)| what)
        };
        for words in [
            &["csv", "--by", "user"][..],
            &["jsonl", "--share", "equal"],
            &["csv", "--account", "ollama"],
            &["jsonl", "--prices", "prices.toml"],
            &["html", "--by", "user"],
            &["html", "--csv-raw"],
            &["focus", "--by", "process"],
        ] {
            let what = refused(words).unwrap();
            assert!(what.contains("take --") || what.contains("add --"), "{what}");
        }
        for words in [
            &["csv", "--csv-raw", "--gpu", "0"][..],
            &["jsonl", "--by", "process"],
            &["html", "--share", "equal", "--account", "ollama"],
            &["focus", "--by", "user", "--csv-raw"],
        ] {
            assert_eq!(refused(words), None, "{words:?}");
        }
    }
}
