//! Exports: rows of settlements that pass one by one, and bills in forms that are no page of text.
//!
//! Rows are read twice. The first reading proves the journal and keeps what rows depend on that stand elsewhere:
//! accounts that were corrected, conflicts, what is open, what could not be seen. The second one hands each
//! settlement on as it is read, up to where the first one ended. So memory is bounded by [`PASSED_MAX`] entries of those
//! kinds, and the names of what was open, and not by how many settlements there are.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};

use super::{
    BillOptions, Read, STATUS_FAILED, STATUS_UNKNOWN, Source, closing_of, notes, read, read_into,
    reported,
};
use crate::bill::ledger::Ledger;
#[cfg(doc)]
use crate::bill::ledger::PASSED_MAX;
use crate::bill::report::{Ask, Report, report};
use crate::bill::{BillError, By, SharePolicy, chosen_gpus, focus, text};
use crate::export::rows::{Found, Row, RowFormat, Writer, settled};
use crate::journal::store::Extent;
use crate::journal::{Digest, Entry, Figures};
use crate::output::{self, Output};

/// Entries between two drawings of the progress.
const ENTRIES_DRAWN: u64 = 16_384;

/// In which form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// A row for each settlement.
    Rows(RowFormat),
    /// The bill in money, in the columns of FOCUS.
    Focus {
        /// Without guarding a spreadsheet against names that are formulas.
        is_raw: bool,
    },
    /// The bill as a workbook.
    #[cfg(feature = "xlsx")]
    Xlsx,
    /// The bill as a page for a browser.
    Html,
}

/// Writes an export and returns the exit status.
///
/// # Errors
/// Those of [`super::bill`].
pub fn export(
    options: &BillOptions,
    format: ExportFormat,
    source: &mut dyn Source,
) -> anyhow::Result<u8> {
    if let ExportFormat::Rows(format) = format {
        return rows(options, format, source);
    }
    let output = Output::open(options.output.clone(), true)?;
    let read = read(options, source)?;
    let closing = closing_of(options, &read);
    let (_, report) = reported(options, read, closing.as_ref(), source)?;
    if matches!(format, ExportFormat::Focus { .. }) && report.priced.is_none() {
        return Err(BillError::NoPrices.into());
    }
    let page = match format {
        ExportFormat::Focus { is_raw } => focus::csv(&report, is_raw)?.into_bytes(),
        #[cfg(feature = "xlsx")]
        ExportFormat::Xlsx => crate::export::xlsx::bill(&report)?,
        ExportFormat::Html | ExportFormat::Rows(_) => {
            crate::export::html::page(&report).into_bytes()
        }
    };
    if let Err(error) = output.write_bytes(&page) {
        output::complain(&format!("{error:#}"));
        return Ok(STATUS_FAILED);
    }
    tell(&report);
    if let (ExportFormat::Focus { .. }, Some(note)) = (format, focus::note(&report)) {
        output::complain(&note);
    }
    Ok(if report.is_known() { 0 } else { STATUS_UNKNOWN })
}

/// What whoever made the export must not miss, beside it.
fn tell(report: &Report) {
    for note in notes(report) {
        output::complain(&note);
    }
    output::complain(&text::version_words(report));
    report.priced.iter().filter_map(text::unmatched_words).for_each(|note| output::complain(&note));
}

/// Rows of one period.
fn rows(options: &BillOptions, format: RowFormat, source: &mut dyn Source) -> anyhow::Result<u8> {
    let output = Output::open(options.output.clone(), true)?;
    let progress = Progress::begin();
    let first = first_reading(options, source);
    if first.is_err() {
        progress.clear();
    }
    let first = first?;
    let mut pieces = output.begin()?;
    let written = second_reading(&first, format, &mut pieces, source, progress);
    progress.clear();
    let told = match written {
        Ok(told) => told,
        Err(Stopped::Output(error)) => {
            output::complain(&format!("{error:#}"));
            return Ok(STATUS_FAILED);
        }
        Err(Stopped::Source(error)) => return Err(error),
    };
    if let Err(error) = pieces.finish() {
        output::complain(&format!("{error:#}"));
        return Ok(STATUS_FAILED);
    }
    if told.folded > 0 {
        output::complain(&format!(
            "{} settlements of other users are no rows: of them no more is told than when the GPU was held",
            told.folded
        ));
    }
    tell(&first.report);
    let is_known = first.report.is_known() && !told.any_unknown;
    Ok(if is_known { 0 } else { STATUS_UNKNOWN })
}

/// What the first reading found.
struct First {
    ledger: Ledger,
    /// The bill without its settlements: what is open, what could be seen.
    report: Report,
    /// The part of the journal that was read.
    extent: Extent,
}

fn first_reading(options: &BillOptions, source: &mut dyn Source) -> anyhow::Result<First> {
    let read = read_into(Ledger::for_passing_by(), options, source)?;
    let Read { ledger, head, period, outside } = read;
    let ask = Ask {
        period,
        by: By::Process,
        share: SharePolicy::None,
        gpus: chosen_gpus(&ledger, &options.gpus)?,
        accounts: Vec::new(),
        prices: None,
    };
    let report = report(&ledger, &ask, head, &outside)?;
    // What is entered from here on is no part of it.
    let extent = Extent::at(head.seq);
    Ok(First { ledger, report, extent })
}

/// Why the second reading was not finished.
enum Stopped {
    Output(anyhow::Error),
    Source(anyhow::Error),
}

/// What was seen while rows were written.
#[derive(Default)]
struct Told {
    folded: u64,
    /// A row without a name, or in dispute.
    any_unknown: bool,
}

fn second_reading(
    first: &First,
    format: RowFormat,
    pieces: &mut output::Pieces,
    source: &mut dyn Source,
    progress: Progress,
) -> Result<Told, Stopped> {
    let First { ledger, report, extent } = first;
    // Of one journal it always is there.
    let head = report.journal_head.as_ref().map_or(u64::MAX, |head| head.seq);
    let failed = |error| Stopped::Output(anyhow::Error::new(error));
    let period = report.period.span;
    let gpus: Vec<_> = report.gpus.iter().map(|gpu| gpu.gpu_uuid.clone()).collect();
    let is_filtered = report.left_out.is_some();
    let mut hashes: BTreeMap<u64, Option<Digest>> = BTreeMap::new();
    hashes.extend(report.open.iter().map(|one| (one.seq, None)));
    hashes.extend(report.no_driver_row.iter().map(|one| (one.seq, None)));
    let mut writer = Writer::new(format, &mut *pieces, facts(report)).map_err(failed)?;
    let (mut told, mut went, mut began, mut read) = (Told::default(), Ok(()), None, 0_u64);
    let mut take = |entry: &Entry| {
        read = read.saturating_add(1);
        let from = *began.get_or_insert(entry.seq);
        if read.is_multiple_of(ENTRIES_DRAWN) {
            progress.show(entry.seq.saturating_sub(from), head.saturating_sub(from));
        }
        if went.is_err() || entry.seq > head {
            return;
        }
        if let (Figures::Open(_), Some(hash)) = (&entry.figures, hashes.get_mut(&entry.seq)) {
            *hash = Some(entry.hash);
        }
        match settled(entry, period, ledger) {
            Found::Row(row) if !is_filtered || gpus.contains(&row.gpu_uuid) => {
                told.any_unknown |= row.reason.is_some() || row.dispute.is_some();
                went = writer.row(&row);
            }
            Found::Folded => told.folded = told.folded.saturating_add(1),
            Found::Row(_) | Found::Nothing => {}
        }
    };
    source.visit_entries(period, *extent, &mut take).map_err(Stopped::Source)?;
    went.map_err(failed)?;
    let hash_of = |seq| hashes.get(&seq).copied().flatten();
    for open in &report.open {
        writer.row(&Row::of_open(open, hash_of(open.seq))).map_err(failed)?;
    }
    for one in &report.no_driver_row {
        writer.row(&Row::of_rowless(one, hash_of(one.seq))).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(told)
}

/// What a table's footer says of it.
fn facts(report: &Report) -> Vec<(String, Option<String>)> {
    let facts = [
        ("format", Some(crate::export::rows::FORMAT.to_owned())),
        ("version", Some(crate::export::rows::VERSION.to_string())),
        ("since", Some(report.period.since.clone())),
        ("until", Some(report.period.until.clone())),
        ("as_of", report.as_of.clone()),
        ("host", report.host.clone()),
        ("driver", report.driver.clone()),
        ("journal_head_seq", report.journal_head.as_ref().map(|head| head.seq.to_string())),
        ("journal_head_hash", report.journal_head.as_ref().map(|head| head.hash.clone())),
    ];
    facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How far it is, for whoever looks on: one line of a terminal.
#[derive(Clone, Copy)]
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn begin() -> Self {
        let progress = Self { is_shown: std::io::stderr().is_terminal() };
        progress.draw("proving the journal");
        progress
    }

    fn show(self, part: u64, all: u64) {
        self.draw(&bar(part, all));
    }

    fn clear(self) {
        self.draw("");
    }

    fn draw(self, text: &str) {
        if self.is_shown {
            // Nothing can be done where even stderr is closed.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

/// `[#####.....] 50 %`.
fn bar(part: u64, all: u64) -> String {
    let hundredths = u128::from(part.min(all)).saturating_mul(100).checked_div(all.into());
    let percent = hundredths.unwrap_or(100);
    let filled = usize::try_from(percent / 4).unwrap_or(0);
    format!("[{:.<25}] {percent} %", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn the_bar_is_full_at_its_end_and_never_past_it() {
        assert_eq!(bar(0, 10), format!("[{}] 0 %", ".".repeat(25)));
        assert_eq!(bar(5, 10), format!("[{}{}] 50 %", "#".repeat(12), ".".repeat(13)));
        for (part, all) in [(10, 10), (11, 10), (0, 0)] {
            assert_eq!(bar(part, all), format!("[{}] 100 %", "#".repeat(25)));
        }
    }
}
