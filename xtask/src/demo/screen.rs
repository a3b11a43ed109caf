//! The last screen: the bill beside what a once-a-minute reader makes of the same driver.
//!
//! Pure: values in, at most 24 lines of at most 80 columns out. Integers only; a percentage is
//! rounded here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use unicode_width::UnicodeWidthStr as _;

use super::minute_reader::MinuteRead;
use super::report::{Account, Block, Gpu, Report, Settled};
use super::truth::Agreement;
use crate::number::grouped;

/// Columns of a terminal as it always was; it has 24 lines.
const COLUMNS: usize = 80;
/// Lines of accounts and of reasons for having none; further ones are counted.
const TABLE_LINES_MAX: usize = 5;
/// Of those, lines of reasons.
const REASONS_MAX: usize = 2;
/// Statements shown; further GPUs are counted.
const GPUS_MAX: usize = 2;
/// Open rows and rowless holders named on their line; further ones are counted.
const NAMED_MAX: usize = 3;
/// Columns of an account's name.
const NAME_WIDTH: usize = 14;

/// What the screen shows.
pub(super) struct Screen<'a> {
    pub(super) report: &'a Report,
    pub(super) minutes: &'a MinuteRead,
    pub(super) agreement: &'a Agreement,
    /// Length of the afternoon, in seconds.
    pub(super) afternoon_s: u64,
    /// What a minute of the second reader was, in seconds.
    pub(super) minute_s: u64,
}

/// What the second reader made of some rows, in their milliseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[expect(clippy::struct_field_names, reason = "the unit of an amount stands last in its name")]
struct Share {
    named_ms: u64,
    unattributed_ms: u64,
    /// No longer among the rows that the driver lists.
    gone_ms: u64,
    /// Given to another program: the pid had been noted for it.
    wrong_ms: u64,
}

impl Share {
    fn add(&mut self, one: &Settled, read: Option<&Option<String>>) {
        let part = match read {
            None => &mut self.gone_ms,
            Some(None) => &mut self.unattributed_ms,
            Some(name) if *name == one.program || one.program.is_none() => &mut self.named_ms,
            Some(_) => &mut self.wrong_ms,
        };
        *part += one.held_ms;
    }
}

impl Screen<'_> {
    /// The lines, the last one being `missed_in_coverage …`.
    pub(super) fn render(&self) -> String {
        let mut lines = self.head();
        lines.extend(self.accounts());
        lines.push(String::new());
        lines.extend(self.statements());
        lines.extend(self.what_stays_open());
        lines.extend(self.evidence());
        let clipped: Vec<String> = lines.iter().map(|line| clip(line, COLUMNS)).collect();
        clipped.join("\n") + "\n"
    }

    fn head(&self) -> Vec<String> {
        let banner = match self.report.driver.as_deref() {
            Some("simulated") => "SIMULATED DRIVER: NO GPU WAS USED",
            Some("real") => "REAL DRIVER?! THE DEMO MEANT TO USE A SIMULATED ONE",
            _ => "SIMULATED DRIVER: THE TRACER GOT NO ANSWER FROM IT",
        };
        let (afternoon_s, minute_s) = (self.afternoon_s, self.minute_s);
        vec![
            format!("{:#^COLUMNS$}", format!(" {banner} ")),
            format!(
                "Real processes, kernel events and NVML calls: a made-up afternoon of {afternoon_s} s."
            ),
            format!(
                "Jobs have their real length; a minute of cron is {minute_s} s, which flatters cron."
            ),
            format!(
                "{:<14}{:>32} |{:>32}",
                "*rest of host", "gpu-ledger, by process events", "cron once a minute: ms of rows"
            ),
            format!(
                "{:NAME_WIDTH$}{:>5}{:>9}{:>9}{:>9} |{:>8}{:>8}{:>8}{:>8}",
                "account",
                "rows",
                "held ms",
                "alone",
                "shared",
                "named",
                "nobody",
                "gone",
                "named%"
            ),
        ]
    }

    fn accounts(&self) -> Vec<String> {
        let of_command = self.report.command.iter().map(|block| (block, ""));
        let blocks = of_command.chain([(&self.report.host, "*")]);
        let lines: Vec<(&Block, &Account, &str)> = blocks
            .flat_map(|(block, mark)| block.accounts.iter().map(move |one| (block, one, mark)))
            .collect();
        let reasons = self.reasons();
        let accounts_max = TABLE_LINES_MAX.saturating_sub(reasons.len());
        let mut table = Vec::new();
        for (block, account, mark) in lines.iter().take(accounts_max) {
            let own = block.settlements.iter().filter(|one| one.account == account.account);
            table.push(format!(
                "{}{:>5}{:>9}{:>9}{:>9} |{}",
                cell(&format!("{}{mark}", account.account), NAME_WIDTH),
                account.settlements,
                grouped(account.held_ms),
                grouped(account.alone_ms),
                grouped(account.shared_ms),
                columns(self.share(own)),
            ));
        }
        if let Some(more @ 1..) = lines.len().checked_sub(accounts_max) {
            table.push(format!("… {more} more accounts"));
        }
        table.extend(reasons);
        let all: Vec<&Settled> = self.report.settlements().collect();
        let spans: u64 = all.iter().map(|one| one.held_ms).sum();
        table.push(self.row_line("all", &all, &format!("rows of {} ms in all", grouped(spans))));
        table
    }

    /// One line a reason for having no name; too many of them share one.
    fn reasons(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<&Settled>> = BTreeMap::new();
        for one in self.report.settlements().filter(|one| one.basis.is_none()) {
            let reason = one.reason.as_deref().unwrap_or("no reason given");
            by_reason.entry(reason).or_default().push(one);
        }
        let line = |reason: &str, rows: &[&Settled]| self.row_line("unattributed", rows, reason);
        if by_reason.len() <= REASONS_MAX {
            return by_reason.iter().map(|(reason, rows)| line(reason, rows)).collect();
        }
        let several = format!("for {} reasons", by_reason.len());
        let rows: Vec<&Settled> = by_reason.into_values().flatten().collect();
        vec![line(&several, &rows)]
    }

    /// A line for rows that are no account.
    fn row_line(&self, name: &str, rows: &[&Settled], text: &str) -> String {
        let count = rows.len();
        let share = self.share(rows.iter().copied());
        format!("{}{count:>5}{text:>27} |{}", cell(name, NAME_WIDTH), columns(share))
    }

    fn share<'b>(&self, settlements: impl Iterator<Item = &'b Settled>) -> Share {
        let read: BTreeMap<(&str, u32, u64), &Option<String>> = self
            .minutes
            .rows
            .iter()
            .map(|row| ((row.gpu_uuid.as_str(), row.pid, row.start_time_us), &row.name))
            .collect();
        let mut share = Share::default();
        for one in settlements {
            let key = one.start_time_us.map(|start| (one.gpu_uuid.as_str(), one.pid, start));
            share.add(one, key.and_then(|key| read.get(&key).copied()));
        }
        share
    }

    fn statements(&self) -> Vec<String> {
        let statement = |gpu: &Gpu| {
            format!(
                "GPU {}: alone {} + shared {} + free {} + uncovered {} = {} ms",
                gpu.gpu_index,
                grouped(gpu.alone_ms),
                grouped(gpu.shared_ms),
                grouped(gpu.free_ms),
                grouped(gpu.uncovered_ms),
                grouped(gpu.period_ms)
            )
        };
        let mut lines: Vec<String> =
            self.report.gpus.iter().take(GPUS_MAX).map(statement).collect();
        if let Some(more @ 1..) = self.report.gpus.len().checked_sub(GPUS_MAX) {
            lines.push(format!("… {more} more GPUs"));
        }
        let open_sums = self.report.open_sums().len();
        lines.push(if open_sums == 0 {
            "the bill closes to the ms (alone: no other account; for a GPU: no other process)"
                .to_owned()
        } else {
            format!("THE BILL DOES NOT CLOSE: {open_sums} sums are wrong")
        });
        lines
    }

    fn what_stays_open(&self) -> Vec<String> {
        let open = self.report.open.iter().map(|one| {
            let accrued = one.accrued_ms.map_or("unknown".to_owned(), grouped);
            format!("{} {accrued} ms", one.account)
        });
        let rowless =
            self.report.no_driver_row.iter().map(|one| {
                format!("{} on GPU {}", one.account, self.report.index_of(&one.gpu_uuid))
            });
        vec![
            format!("open, accrued and not booked: {}", listed(open.collect())),
            format!("no driver row, older than accounting: {}", listed(rowless.collect())),
        ]
    }

    fn evidence(&self) -> Vec<String> {
        let Self { report, minutes, agreement, .. } = self;
        let count = |basis: &str| {
            report.settlements().filter(|one| one.basis.as_deref() == Some(basis)).count()
        };
        // What stands behind a colon is the detail of the report.
        let unknown =
            report.unknown.iter().map(|line| line.reason.split(':').next().unwrap_or("-"));
        let unknown: BTreeSet<&str> = unknown.collect();
        let unknown = listed(unknown.into_iter().map(str::to_owned).collect());
        let events = match report.events {
            Some(events) => format!(
                "events {} = {} received + {} lost",
                grouped(events.produced),
                grouped(events.received),
                grouped(events.lost)
            ),
            None => "events UNKNOWN".to_owned(),
        };
        let gaps = match &report.coverage {
            Some(coverage) => format!("gaps {}", coverage.gaps.len()),
            None => "NO COVERAGE".to_owned(),
        };
        let touch = &report.device_touch;
        let touched = match (touch.on, touch.touched, touch.without_row) {
            (true, Some(touched), Some(0)) => format!("{touched} processes opened a GPU"),
            (true, Some(touched), Some(rowless)) => {
                format!("{touched} processes opened a GPU, {rowless} without a row")
            }
            _ => "device-touch off".to_owned(),
        };
        let rows = report.settlements().count();
        let failed = match minutes.ticks_failed {
            0 => String::new(),
            failed => format!(" ({failed} FAILED)"),
        };
        let wrong = match self.share(report.settlements()).wrong_ms {
            0 => String::new(),
            wrong => format!(", {} ms under a WRONG name", grouped(wrong)),
        };
        vec![
            format!(
                "named by exec {}, fork {}, procfs {}; {touched}",
                count("exec"),
                count("fork"),
                count("procfs")
            ),
            format!("{events}; {gaps}; unknown: {unknown}"),
            format!(
                "cron looked {} times{failed}, noted {} pids, could still read {} of {rows} rows{wrong}",
                minutes.ticks,
                minutes.pids_mapped,
                minutes.rows.len()
            ),
            format!(
                "truth log: {} of {} rows agree; {} lost, {} doubled, {} misnamed, {} other",
                agreement.agree,
                agreement.rows,
                agreement.lost(),
                agreement.doubled(),
                agreement.misnamed(),
                agreement.nameless() + agreement.otherwise()
            ),
            match report.missed_in_coverage {
                Some(missed) => format!("missed_in_coverage {missed}"),
                None => "missed_in_coverage unknown: nothing was covered".to_owned(),
            },
        ]
    }
}

fn columns(share: Share) -> String {
    let whole = share.named_ms + share.unattributed_ms + share.gone_ms + share.wrong_ms;
    format!(
        "{:>8}{:>8}{:>8}{:>8}",
        grouped(share.named_ms),
        grouped(share.unattributed_ms),
        grouped(share.gone_ms),
        percent(share.named_ms, whole)
    )
}

/// Up to [`NAMED_MAX`] items; further ones are counted.
fn listed(items: Vec<String>) -> String {
    if items.is_empty() {
        return "nothing".to_owned();
    }
    let more = items.len().saturating_sub(NAMED_MAX);
    let shown: Vec<String> = items.into_iter().take(NAMED_MAX).collect();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{more} more besides {shown}") }
}

/// `part` of `whole`, one decimal, floored: what is not whole never reads 100 %.
fn percent(part: u64, whole: u64) -> String {
    match part.saturating_mul(1_000).checked_div(whole) {
        Some(tenths) => format!("{}.{}%", tenths / 10, tenths % 10),
        None => "-".to_owned(),
    }
}

/// `text`, cut or filled to exactly `width` columns.
fn cell(text: &str, width: usize) -> String {
    let mut cell = clip(text, width);
    cell.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
    cell
}

/// `text`, cut to at most `width` columns; `…` marks the cut.
fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut clipped = String::new();
    for letter in text.chars() {
        let mut longer = clipped.clone();
        longer.push(letter);
        if longer.width() >= width {
            break;
        }
        clipped = longer;
    }
    clipped.push('…');
    clipped
}

#[cfg(test)]
mod tests {
    use super::super::report::UnknownLine;
    use super::*;

    /// Lines of the terminal.
    const LINES: usize = 24;
    const REPORT: &str = include_str!("fixtures/trace.json");
    const MINUTES: &str = include_str!("fixtures/minutes.json");
    const GOLDEN: &str = include_str!("fixtures/screen.txt");

    fn rendered(report: &Report) -> String {
        let agreement = Agreement { rows: 5, agree: 5, problems: Vec::new() };
        screen(report, &serde_json::from_str(MINUTES).unwrap(), &agreement).render()
    }

    fn screen<'a>(
        report: &'a Report,
        minutes: &'a MinuteRead,
        agreement: &'a Agreement,
    ) -> Screen<'a> {
        Screen { report, minutes, agreement, afternoon_s: 36, minute_s: 3 }
    }

    fn assert_fits(screen: &str) {
        assert!(screen.lines().count() <= LINES, "{screen}");
        for line in screen.lines() {
            assert!(line.width() <= COLUMNS, "{} columns: {line}", line.width());
        }
    }

    fn report() -> Report {
        serde_json::from_str(REPORT).unwrap()
    }

    #[test]
    fn the_last_screen_is_as_it_was_agreed_and_fits_a_terminal() {
        let screen = rendered(&report());
        assert_fits(&screen);
        assert_eq!(screen, GOLDEN, "\n{screen}");
        assert_eq!(screen.lines().last(), Some("missed_in_coverage 0"));
    }

    #[test]
    fn the_fixture_closes_and_a_changed_millisecond_is_said() {
        let mut report = report();
        assert_eq!(report.open_sums(), Vec::<String>::new());
        report.gpus[0].free_ms += 1;
        assert_eq!(report.open_sums().len(), 1);
        assert!(rendered(&report).contains("THE BILL DOES NOT CLOSE: 1 sums are wrong"));
    }

    #[test]
    fn a_screen_of_too_much_still_fits_and_says_what_it_leaves_out() {
        let mut report = report();
        for number in 0..40 {
            let mut account = report.host.accounts[0].clone();
            account.account = format!("語語語語語語語語語-{number}");
            account.held_ms = u64::from(u32::MAX) * 1_000;
            report.host.accounts.push(account);
            let mut gpu = report.gpus[0].clone();
            gpu.gpu_uuid = format!("GPU-{number}");
            gpu.period_ms = u64::MAX;
            report.gpus.push(gpu);
            report.open.push(report.open[0].clone());
            report.no_driver_row.push(report.no_driver_row[0].clone());
        }
        let screen = rendered(&report);
        assert_fits(&screen);
        assert!(screen.contains("more accounts") && screen.contains("more GPUs"), "{screen}");
        assert_eq!(screen.lines().last(), Some("missed_in_coverage 0"));
    }

    #[test]
    fn every_reason_for_having_no_name_has_its_line_or_is_counted() {
        let mut report = report();
        for (number, one) in report.command.as_mut().unwrap().settlements.iter_mut().enumerate() {
            one.basis = None;
            one.reason = Some(format!("reason-{}", number.min(1)));
        }
        let screen = rendered(&report);
        assert!(screen.contains(" reason-0 |") && screen.contains(" reason-1 |"), "{screen}");
        report.host.settlements[0].basis = None;
        let screen = rendered(&report);
        assert_fits(&screen);
        assert!(screen.contains("unattributed      5              for 3 reasons |"), "{screen}");
    }

    #[test]
    fn without_coverage_nothing_reads_as_zero() {
        let mut report = report();
        report.events = None;
        report.coverage = None;
        report.missed_in_coverage = None;
        report.unknown.push(UnknownLine { reason: "process-events-unavailable:why".to_owned() });
        report.host.accounts.clear();
        report.host.settlements[0].basis = None;
        report.host.settlements[0].reason = Some("predates-coverage".to_owned());
        let screen = rendered(&report);
        assert_fits(&screen);
        let unknown = "events UNKNOWN; NO COVERAGE; unknown: process-events-unavailable\n";
        assert!(screen.contains(unknown), "{screen}");
        let line = "unattributed      1          predates-coverage |   2,600       0       0";
        assert!(screen.contains(line), "{screen}");
        assert!(screen.lines().last().unwrap().starts_with("missed_in_coverage unknown"));
    }

    #[test]
    fn the_second_reader_is_given_no_milliseconds_that_it_could_not_name() {
        let report = report();
        let read = serde_json::from_str(MINUTES).unwrap();
        let agreement = Agreement::default();
        let screen = screen(&report, &read, &agreement);
        let share = screen.share(report.settlements());
        let all = share.named_ms + share.unattributed_ms + share.gone_ms + share.wrong_ms;
        let whole: u64 = report.settlements().map(|one| one.held_ms).sum();
        assert_eq!(all, whole);
        assert!(share.gone_ms > 0 && share.unattributed_ms > 0 && share.named_ms > 0);
    }

    #[test]
    fn numbers_are_grouped_and_percentages_floored() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(percent(999_999, 1_000_000), "99.9%");
        assert_eq!(percent(0, 0), "-");
    }
}
