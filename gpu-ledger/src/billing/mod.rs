//! One bill: from its source to its reader.
//!
//! Purpose: the shell of `gpu-ledger bill`. May touch: a journal, through [`Source`]; the clock; the names of
//! users; the page's way out. May not: compute a number that a pure room could, or read a driver.

mod adjust;
mod close;
mod closed;
mod diff;
mod journal;
mod prices;
mod replay;
mod socket;
mod why;

pub use close::{CloseError, CloseOptions, close};
pub use diff::{DiffError, DiffOptions, diff};
pub use journal::JournalFiles;
pub(crate) use journal::wall_ms;
pub use prices::{PRICES_DEFAULT, PriceFileError, PricesAt};
pub use replay::{Billed, Replay, ReplayLine, ReplayOptions};
pub(crate) use replay::{process as journaled_process, replay};
pub use socket::JournalSocket;
pub use why::Why;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::bill::ledger::Ledger;
use crate::bill::period::{ALL, Asked, Period, Standpoint, milliseconds, moment_of, show};
use crate::bill::report::{Ask, ClosedLine, Head, Outside, Report, report};
use crate::bill::{
    BillError, By, Closing, SharePolicy, Totals, chosen_gpus, focus, journal_line, table, text,
};
use crate::clock::Clock;
use crate::journal::chain::Recovered;
use crate::journal::store::Extent;
use crate::journal::{Digest, Entry};
use crate::output::{self, Output};
use crate::prices::PriceList;
use crate::rendering::json;
use crate::session::preflight::host_name;
use crate::unit::{Span, WallUs};

/// Exit status: answered, but something is UNKNOWN.
const STATUS_UNKNOWN: u8 = 2;
/// Exit status: the bill could not be written.
const STATUS_FAILED: u8 = 1;

/// The word for the present.
const NOW: &str = "now";

/// Settlements that are asked about at once.
pub(crate) const WHY_MAX: usize = 100;

/// Takes an entry, and of a settlement that this reader may see what it rests on.
type TakeWhy<'t> = &'t mut dyn FnMut(&Entry, Option<Why>) -> anyhow::Result<()>;

/// Where a bill's entries come from: a journal's file, or somebody who reads it for us.
pub trait Source {
    /// Hands the ledger every entry of this extent that bears on the period, as [`Ledger`] asks for them, each
    /// proven, and the end of the journal as it stood there.
    ///
    /// # Errors
    /// What keeps it from that. Nothing that was handed over may be used then.
    fn read(&mut self, period: Span, extent: Extent, ledger: &mut Ledger) -> anyhow::Result<Head>;

    /// Number of the last entry that was learnt at a moment or before it; `None` where none here was.
    ///
    /// # Errors
    /// What keeps it from reading.
    fn head_at(&mut self, moment: WallUs) -> anyhow::Result<Option<u64>>;

    /// A file that entries name by its digest, as which it was read; `None` where it is not here.
    ///
    /// # Errors
    /// What keeps it from reading; that it was changed.
    fn file(&mut self, digest: Digest) -> anyhow::Result<Option<Vec<u8>>>;

    /// One entry, proven as far as this reader can; `None` where it is not here.
    ///
    /// # Errors
    /// What keeps it from reading.
    fn entry(&mut self, seq: u64) -> anyhow::Result<Option<Entry>>;

    /// Gives `take` every entry that bears on the period, of settlements with what they rest on, and returns where
    /// the journal ends.
    ///
    /// # Errors
    /// As above, and those of `take`.
    fn visit_with_why(&mut self, period: Span, take: TakeWhy<'_>) -> anyhow::Result<Recovered>;

    /// Gives `take` every entry of this extent that bears on the period, and returns where the journal ends there.
    ///
    /// # Errors
    /// What keeps it from that.
    fn visit_entries(
        &mut self,
        period: Span,
        extent: Extent,
        take: &mut dyn FnMut(&Entry),
    ) -> anyhow::Result<Recovered>;

    /// What settlements rest on, by their numbers and hashes as they were visited; nothing of those whose evidence
    /// is not here, or that this reader may not see. At most [`WHY_MAX`].
    ///
    /// # Errors
    /// What keeps it from reading.
    fn why_of(&mut self, of: &[(u64, Digest)]) -> anyhow::Result<BTreeMap<u64, Why>>;

    /// What the entries of this ledger rest on, as far as a bill shows it.
    ///
    /// # Errors
    /// What keeps it from reading.
    fn outside(&mut self, ledger: &Ledger) -> anyhow::Result<Outside>;
}

/// In which form a bill is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people.
    Table,
    /// One JSON object.
    Json,
    /// RFC 4180.
    Csv {
        /// Without guarding a spreadsheet against names that are formulas.
        is_raw: bool,
    },
    /// The bill in money, in the columns of FOCUS.
    Focus {
        /// Without guarding a spreadsheet against names that are formulas.
        is_raw: bool,
    },
    /// The seed's one line.
    Line,
}

impl Format {
    /// The word of a document of this form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv { is_raw: false } => "csv",
            Self::Csv { is_raw: true } => "csv-raw",
            Self::Focus { is_raw: false } => "focus",
            Self::Focus { is_raw: true } => "focus-raw",
            Self::Line => "line",
        }
    }
}

/// Of which version of the journal a bill is wanted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Version {
    /// As it is, and of a closed period the bill that it was closed with.
    #[default]
    Usual,
    /// As it was known at a moment, in words; of a closed period as well.
    AsOf(String),
    /// As it stood when this entry was its last.
    Head(u64),
}

/// What a bill is asked to be.
#[derive(Clone, Debug)]
pub struct BillOptions {
    /// The period.
    pub asked: Asked,
    /// Of which version of the journal.
    pub version: Version,
    /// What a line stands for.
    pub by: By,
    /// How shared time is divided.
    pub share: SharePolicy,
    /// Only these GPUs, by index, UUID or the beginning of one.
    pub gpus: Vec<String>,
    /// Only lines of these names.
    pub accounts: Vec<String>,
    /// Where prices are.
    pub prices: PricesAt,
    /// The form.
    pub format: Format,
    /// Where it goes; stdout where nothing is named.
    pub output: Option<PathBuf>,
    /// The time zone.
    pub zone: TimeZone,
    /// The clocks.
    pub clock: Clock,
}

/// What was read for a bill.
pub(super) struct Read {
    ledger: Ledger,
    head: Head,
    period: Period,
    outside: Outside,
}

/// Makes one bill and returns the exit status.
///
/// # Errors
/// What keeps the bill from being made; a [`crate::bill::period::PeriodError`] where the period is none, a
/// [`crate::bill::BillError`] that is one of usage where a GPU or a line is not there.
pub fn bill(options: &BillOptions, source: &mut dyn Source) -> anyhow::Result<u8> {
    let output = Output::open(options.output.clone(), true)?;
    let mut read = read(options, source)?;
    let closing = match options.version {
        Version::Usual => read.ledger.closings().of(read.period.span).cloned(),
        Version::AsOf(_) | Version::Head(_) => None,
    };
    if let Some(closing) = &closing {
        if closed::is_as_closed(options, closing, &read.outside)? {
            return closed::give(options, closing, source, output);
        }
        read = closed::read_as_closed(options, closing, read.period, source)?;
    }
    let only_uid = read.outside.reading.only_uid;
    let prices = prices(options, (closing.as_ref(), only_uid), source)?;
    let report = made(options, &read, (prices, closing.as_ref()), source)?;
    let page = page(&report, &read.ledger, options.format)?;
    if let Err(error) = output.write(&page) {
        output::complain(&format!("{error:#}"));
        return Ok(STATUS_FAILED);
    }
    if matches!(options.format, Format::Csv { .. } | Format::Focus { .. } | Format::Line) {
        for note in notes(&report) {
            output::complain(&note);
        }
        if !matches!(options.format, Format::Line) {
            output::complain(&text::version_words(&report));
        }
        if let (Format::Focus { .. }, Some(note)) = (options.format, focus::note(&report)) {
            output::complain(&note);
        }
        for note in report.priced.iter().filter_map(text::unmatched_words) {
            output::complain(&note);
        }
    }
    Ok(if report.is_known() { 0 } else { STATUS_UNKNOWN })
}

/// Reads what a bill is made of, at the version that is wanted.
fn read(options: &BillOptions, source: &mut dyn Source) -> anyhow::Result<Read> {
    let asked = asked(options);
    let (mut standpoint, extent) = version(options, source)?;
    let mut ledger = Ledger::for_bill_by(options.by);
    let head = source.read(standpoint.reading(&asked)?, extent, &mut ledger)?;
    // What was entered since the asking is no sign that a clock was set.
    let read_at_ms = match extent.head {
        None => options.clock.now().wall.ms(),
        Some(_) => milliseconds(standpoint.now),
    };
    standpoint.latest_ms = ledger.latest_ms().filter(|latest| *latest > read_at_ms);
    let period = standpoint.period(&asked)?;
    let outside = outside(&ledger, source)?;
    Ok(Read { ledger, head, period, outside })
}

/// What the entries of a ledger rest on, with what this system calls users.
fn outside(ledger: &Ledger, source: &mut dyn Source) -> anyhow::Result<Outside> {
    let mut outside = source.outside(ledger)?;
    let mut uids = ledger.uids();
    uids.extend(outside.reading.only_uid);
    // What another host calls them this one does not know.
    if ledger.host().is_some_and(|host| *host == host_name()) {
        outside.users = users(&uids);
    }
    Ok(outside)
}

/// The prices that a bill goes by: those that were named, of a closed period those that it was closed with, else
/// those of the usual place.
fn prices(
    options: &BillOptions,
    (closing, only_uid): (Option<&Closing>, Option<u32>),
    source: &mut dyn Source,
) -> anyhow::Result<Option<PriceList>> {
    // Where no amount is shown, none is UNKNOWN.
    if let Format::Csv { .. } | Format::Line = options.format {
        return Ok(None);
    }
    let prices = match (&options.prices, closing) {
        // Other users' files are not given to everybody.
        (PricesAt::Default | PricesAt::Configured(_), Some(_)) if only_uid.is_some() => {
            output::complain("the prices that the period was closed with are not told to you");
            None
        }
        (PricesAt::Default | PricesAt::Configured(_), Some(closing)) => {
            closed::prices_of(closing, &options.zone, source)?
        }
        (at, _) => at.read(&options.zone)?,
    };
    if prices.is_none() && matches!(options.format, Format::Focus { .. }) {
        return Err(BillError::NoPrices.into());
    }
    Ok(prices)
}

/// The bill of what was read.
fn made(
    options: &BillOptions,
    read: &Read,
    (prices, closing): (Option<PriceList>, Option<&Closing>),
    source: &mut dyn Source,
) -> anyhow::Result<Report> {
    let Read { ledger, head, period, outside } = read;
    let ask = Ask {
        period: period.clone(),
        by: options.by,
        share: options.share,
        gpus: chosen_gpus(ledger, &options.gpus)?,
        accounts: options.accounts.clone(),
        prices,
    };
    let mut report = report(ledger, &ask, *head, outside)?;
    let span = report.period.span;
    let closings = closing.into_iter().chain(
        ledger.closings().meeting(span).filter(|one| closing.is_none_or(|of| of.seq != one.seq)),
    );
    report.closed_periods = closings
        .map(|one| ClosedLine::of(one, closing.is_some_and(|of| of.seq == one.seq)))
        .collect();
    report.adjustments = adjust::adjustments(read, span, &options.zone, source)?;
    Ok(report)
}

/// A bill in one form.
fn page(report: &Report, ledger: &Ledger, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => text::render(report),
        Format::Json => json(report)?,
        Format::Csv { is_raw } => table::csv(report, is_raw)?,
        Format::Focus { is_raw } => focus::csv(report, is_raw)?,
        Format::Line => line(ledger, report),
    })
}

/// What a form of rows or words has no place for, and its reader must not miss.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.driver.as_deref() == Some("simulated") {
        notes.push("SIMULATED DRIVER: no GPU was used".to_owned());
    }
    notes.extend(text::missing_words(&report.reading));
    notes.extend(report.left_out.iter().map(text::left_out_words));
    notes.extend(text::adjusted_words(report));
    notes.extend(report.closed_periods.iter().map(text::closed_words));
    if !report.is_known() {
        let why = "not everything is known, or was seen; --format table and json say what and why";
        notes.push(why.to_owned());
    }
    notes.iter().map(|note| note.replace("\n ", "")).collect()
}

/// What this system calls them, as far as it does.
pub(crate) fn users(uids: &BTreeSet<u32>) -> BTreeMap<u32, String> {
    let named = uids.iter().filter_map(|uid| match nix::unistd::User::from_uid((*uid).into()) {
        Ok(user) => user.map(|user| (*uid, user.name)),
        Err(error) => {
            tracing::debug!(uid, %error, "the user's name cannot be looked up");
            None
        }
    });
    named.collect()
}

fn standpoint(options: &BillOptions) -> Standpoint {
    let now = moment_of(options.clock.now().wall.ms());
    Standpoint { now, latest_ms: None, zone: options.zone.clone() }
}

/// Which part of the journal is read, and what its reader calls now: of an earlier version, its own moment.
fn version(options: &BillOptions, source: &mut dyn Source) -> anyhow::Result<(Standpoint, Extent)> {
    let standpoint = standpoint(options);
    match &options.version {
        Version::Usual => Ok((standpoint, Extent::default())),
        Version::AsOf(word) if word == NOW => Ok((standpoint, Extent::default())),
        Version::AsOf(word) => {
            let now = standpoint.past_moment("--as-of", word)?;
            // What lies before 1970 is before every journal.
            let moment = WallUs(u64::try_from(now.as_microsecond()).unwrap_or(0));
            let head = source.head_at(moment)?;
            let told = || BillError::BeforeJournal(show(now, &options.zone));
            Ok((Standpoint { now, ..standpoint }, Extent::at(head.ok_or_else(told)?)))
        }
        Version::Head(head) => {
            let entry = source.entry(*head)?.ok_or(BillError::NoSuchEntry(*head))?;
            let now = moment_of(entry.at.stamp.wall.ms());
            Ok((Standpoint { now, ..standpoint }, Extent::at(*head)))
        }
    }
}

fn asked(options: &BillOptions) -> Asked {
    let is_unasked = options.asked == Asked::default();
    if options.format == Format::Line && is_unasked {
        // The line is cumulative: without a period it is about everything that was ever booked.
        return Asked { period: Some(ALL.to_owned()), ..Asked::default() };
    }
    options.asked.clone()
}

/// The one-line form, of the period's settlements.
fn line(ledger: &Ledger, report: &Report) -> String {
    let mut totals = Totals::default();
    for line in &report.accounts {
        totals.add((line.account.clone(), line.named_by), line.span_ms_total);
    }
    for line in &report.unattributed {
        totals.add_unattributed(line.span_ms_total.0.into());
    }
    for line in &report.disputed {
        totals.add_disputed(line.raw_ms);
    }
    let at_ms = ledger.as_of_ms().unwrap_or(0);
    let mut line = journal_line(WallUs(at_ms.saturating_mul(1_000)), &totals);
    line.push('\n');
    line
}
