//! The comparison with the simulated driver's truth log, row by row.
//!
//! Pure. The demo provokes no fault, so no cause excuses a row: one that is not booked once, with
//! its milliseconds and its name, is a problem, and a gap that it hides in is named with it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context as _;
use serde::Deserialize;

use super::report::{Gap, Open, Report, Settled};

/// What really happened to one row.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct TruthRow {
    pub(super) gpu_uuid: String,
    pub(super) pid: u32,
    pub(super) start_time_us: u64,
    pub(super) end_time_us: u64,
    pub(super) exe: Option<String>,
    /// Why the driver never had a final row of it, such as `accounting-off`.
    #[serde(default)]
    pub(super) lost: Option<String>,
}

impl TruthRow {
    fn key(&self) -> Key<'_> {
        (&self.gpu_uuid, self.pid, self.start_time_us)
    }

    /// The driver reports whole milliseconds, floored.
    fn held_ms(&self) -> Option<u64> {
        Some(self.end_time_us.checked_sub(self.start_time_us)? / 1_000)
    }

    fn program(&self) -> Option<&str> {
        self.exe.as_deref()?.rsplit('/').next()
    }
}

impl fmt::Display for TruthRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program().unwrap_or("a program unknown to the log");
        let held_ms = self.held_ms().map_or("unknown".to_owned(), |ms| ms.to_string());
        let (pid, start) = (self.pid, self.start_time_us);
        write!(f, "{program} pid {pid} start {start} µs, {held_ms} ms, on {}", self.gpu_uuid)
    }
}

type Key<'a> = (&'a str, u32, u64);

/// Reads the log: one JSON object a line.
pub(super) fn parse(log: &str) -> anyhow::Result<Vec<TruthRow>> {
    let lines = log.lines().enumerate();
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("truth log, line {}", index + 1))
        })
        .collect()
}

/// What is wrong with one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Problem {
    /// Never settled.
    Lost { row: TruthRow, gaps: Vec<Gap> },
    /// Listed as open, although it ended: the tracer did not wait for it.
    LeftOpen { row: TruthRow },
    /// Settled more than once.
    Doubled { row: TruthRow, times: usize },
    /// Settled under another program's name.
    Misnamed { row: TruthRow, said: String },
    /// Settled without a name.
    Nameless { row: TruthRow, reason: String, gaps: Vec<Gap> },
    /// Settled with other milliseconds.
    HeldOtherwise { row: TruthRow, said_ms: u64 },
    /// Settled, and never happened (or never had a final row).
    Invented { id: String },
    /// The log itself does not know which program it was.
    TruthUnsure { row: TruthRow },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { row, gaps } => {
                write!(f, "lost: {row}")?;
                write_gaps(f, gaps)
            }
            Self::LeftOpen { row } => write!(f, "left open: {row}: it has ended"),
            Self::Doubled { row, times } => write!(f, "doubled: {row}: settled {times} times"),
            Self::Misnamed { row, said } => write!(f, "misnamed: {row}: called {said}"),
            Self::Nameless { row, reason, gaps } => {
                write!(f, "nameless: {row}: {reason}")?;
                write_gaps(f, gaps)
            }
            Self::HeldOtherwise { row, said_ms } => {
                write!(f, "held otherwise: {row}: {said_ms} ms in the bill")
            }
            Self::Invented { id } => write!(f, "invented: settlement {id} never happened"),
            Self::TruthUnsure { row } => {
                write!(f, "truth unsure: the log does not know the program of {row}")
            }
        }
    }
}

/// No fault was provoked, so every gap is wider than its cause.
fn write_gaps(f: &mut fmt::Formatter<'_>, gaps: &[Gap]) -> fmt::Result {
    for gap in gaps {
        let size = gap.size.map_or("unknown".to_owned(), |size| size.to_string());
        write!(
            f,
            "; hidden in the gap {} from {} to {}, size {size}, which nothing caused",
            gap.cause, gap.from, gap.to
        )?;
    }
    Ok(())
}

/// How bill and truth compare.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Agreement {
    /// Rows of the log that the driver had.
    pub(super) rows: usize,
    /// Of those, booked once with their milliseconds and name.
    pub(super) agree: usize,
    pub(super) problems: Vec<Problem>,
}

impl Agreement {
    pub(super) fn lost(&self) -> usize {
        self.count(|problem| matches!(problem, Problem::Lost { .. }))
    }

    pub(super) fn doubled(&self) -> usize {
        let double = |problem: &Problem| {
            matches!(problem, Problem::Doubled { .. } | Problem::Invented { .. })
        };
        self.count(double)
    }

    pub(super) fn misnamed(&self) -> usize {
        self.count(|problem| matches!(problem, Problem::Misnamed { .. }))
    }

    pub(super) fn nameless(&self) -> usize {
        self.count(|problem| matches!(problem, Problem::Nameless { .. }))
    }

    pub(super) fn otherwise(&self) -> usize {
        let other = |problem: &Problem| {
            matches!(
                problem,
                Problem::HeldOtherwise { .. }
                    | Problem::TruthUnsure { .. }
                    | Problem::LeftOpen { .. }
            )
        };
        self.count(other)
    }

    fn count(&self, which: impl Fn(&Problem) -> bool) -> usize {
        self.problems.iter().filter(|problem| which(problem)).count()
    }
}

/// Compares every row of the log with the report's settlements, and the other way round.
pub(super) fn compare(truth: &[TruthRow], report: &Report) -> Agreement {
    let mut booked: BTreeMap<Key<'_>, Vec<&Settled>> = BTreeMap::new();
    let mut agreement = Agreement::default();
    for one in report.settlements() {
        match one.start_time_us {
            Some(start) => {
                booked.entry((&one.gpu_uuid, one.pid, start)).or_default().push(one);
            }
            None => agreement.problems.push(Problem::Invented { id: one.id.clone() }),
        }
    }
    for row in truth.iter().filter(|row| row.lost.is_none()) {
        agreement.rows += 1;
        let problems = match booked.remove(&row.key()).unwrap_or_default().as_slice() {
            [] => vec![problem_of_absent(row, report)],
            [one] => problems_of(row, one, report),
            several => vec![Problem::Doubled { row: row.clone(), times: several.len() }],
        };
        agreement.agree += usize::from(problems.is_empty());
        agreement.problems.extend(problems);
    }
    let strangers = booked.into_values().flatten();
    agreement.problems.extend(strangers.map(|one| Problem::Invented { id: one.id.clone() }));
    agreement
}

/// The gaps that a row may hide in: those of its GPU, and those in process events.
fn gaps_around(row: &TruthRow, report: &Report) -> Vec<Gap> {
    let gaps = report.coverage.iter().flat_map(|coverage| &coverage.gaps);
    let here = |gap: &&Gap| gap.gpu.as_ref().is_none_or(|gpu| *gpu == row.gpu_uuid);
    gaps.filter(here).cloned().collect()
}

fn problem_of_absent(row: &TruthRow, report: &Report) -> Problem {
    let key = |one: &Open| {
        let start = Some(row.start_time_us);
        one.gpu_uuid == row.gpu_uuid && one.pid == row.pid && one.start_time_us == start
    };
    if report.open.iter().any(key) {
        return Problem::LeftOpen { row: row.clone() };
    }
    Problem::Lost { row: row.clone(), gaps: gaps_around(row, report) }
}

fn problems_of(row: &TruthRow, one: &Settled, report: &Report) -> Vec<Problem> {
    let mut problems = Vec::new();
    if row.held_ms() != Some(one.held_ms) {
        problems.push(Problem::HeldOtherwise { row: row.clone(), said_ms: one.held_ms });
    }
    match (row.program(), &one.program) {
        (None, _) => problems.push(Problem::TruthUnsure { row: row.clone() }),
        (Some(_), None) => {
            let reason = one.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
            let gaps = gaps_around(row, report);
            problems.push(Problem::Nameless { row: row.clone(), reason, gaps });
        }
        (Some(program), Some(said)) if program != said => {
            problems.push(Problem::Misnamed { row: row.clone(), said: said.clone() });
        }
        (Some(_), Some(_)) => {}
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = concat!(
        r#"{"gpu_uuid":"GPU-a","pid":7,"start_time_us":1000,"end_time_us":8999,"#,
        r#""exe":"/x/whisper-cli","argv":["whisper-cli"]}"#,
        "\n",
        r#"{"gpu_uuid":"GPU-a","pid":7,"start_time_us":9000,"end_time_us":10000,"#,
        r#""exe":"/x/gunicorn","argv":[]}"#,
        "\n",
        r#"{"gpu_uuid":"GPU-b","pid":9,"start_time_us":1,"end_time_us":10000,"#,
        r#""exe":"/x/jupyter","argv":[],"lost":"accounting-off"}"#,
        "\n",
    );

    fn settled(pid: u32, start_time_us: u64, held_ms: u64, program: Option<&str>) -> Settled {
        Settled {
            id: format!("a-{pid}-{start_time_us}"),
            gpu_uuid: "GPU-a".to_owned(),
            pid,
            start_time_us: Some(start_time_us),
            held_ms,
            alone_ms: held_ms,
            shared_ms: 0,
            uncovered_ms: 0,
            account: program.unwrap_or("unattributed").to_owned(),
            program: program.map(str::to_owned),
            basis: program.map(|_| "exec".to_owned()),
            reason: program.is_none().then(|| "event-lost".to_owned()),
        }
    }

    fn right() -> Vec<Settled> {
        vec![settled(7, 1_000, 7, Some("whisper-cli")), settled(7, 9_000, 1, Some("gunicorn"))]
    }

    fn report(settlements: &[Settled]) -> Report {
        let mut report: Report = serde_json::from_str(include_str!("fixtures/trace.json")).unwrap();
        report.command = None;
        report.host.settlements = settlements.to_vec();
        report
    }

    fn compared(settlements: &[Settled]) -> Agreement {
        compare(&parse(LOG).unwrap(), &report(settlements))
    }

    #[test]
    fn a_right_bill_agrees_and_lost_rows_are_not_missed() {
        let agreement = compared(&right());
        assert_eq!((agreement.rows, agreement.agree), (2, 2));
        assert_eq!(agreement.problems, []);
    }

    #[test]
    fn a_lost_row_is_named_with_the_gap_it_hides_in() {
        let gap = |gpu: Option<&str>| Gap {
            from: "a".to_owned(),
            to: "b".to_owned(),
            cause: "row-overwritten".to_owned(),
            gpu: gpu.map(str::to_owned),
            size: Some(1),
        };
        let mut report = report(&right()[..1]);
        report.coverage.as_mut().unwrap().gaps = vec![gap(Some("GPU-a")), gap(Some("GPU-b"))];
        let agreement = compare(&parse(LOG).unwrap(), &report);
        assert_eq!((agreement.lost(), agreement.agree), (1, 1));
        let text = agreement.problems[0].to_string();
        assert!(text.starts_with("lost: gunicorn pid 7"), "{text}");
        assert_eq!(text.matches("hidden in the gap row-overwritten").count(), 1, "{text}");
    }

    #[test]
    fn an_ended_row_that_the_report_calls_open_is_left_open_and_not_lost() {
        let mut report = report(&right()[..1]);
        let mut open = report.open[0].clone();
        (open.gpu_uuid, open.pid, open.start_time_us) = ("GPU-a".to_owned(), 7, Some(9_000));
        report.open.push(open);
        let agreement = compare(&parse(LOG).unwrap(), &report);
        assert_eq!((agreement.lost(), agreement.otherwise(), agreement.agree), (0, 1, 1));
        assert!(agreement.problems[0].to_string().starts_with("left open: gunicorn pid 7"));
    }

    #[test]
    fn a_row_settled_twice_is_doubled() {
        let mut settlements = right();
        settlements.extend(right().into_iter().take(1));
        assert_eq!(compared(&settlements).doubled(), 1);
    }

    #[test]
    fn a_wrong_name_no_name_and_wrong_milliseconds_each_count() {
        let mut settlements = right();
        settlements[0].program = Some("gunicorn".to_owned());
        settlements[1] = settled(7, 9_000, 2, None);
        let agreement = compared(&settlements);
        assert_eq!((agreement.misnamed(), agreement.nameless()), (1, 1));
        assert_eq!((agreement.otherwise(), agreement.agree), (1, 0));
    }

    #[test]
    fn a_settlement_that_never_happened_is_invented() {
        let mut settlements = right();
        settlements.push(settled(8, 1, 1, Some("whisper-cli")));
        let agreement = compared(&settlements);
        assert_eq!((agreement.doubled(), agreement.agree), (1, 2));
        assert_eq!(agreement.problems[0].to_string(), "invented: settlement a-8-1 never happened");
    }

    #[test]
    fn a_row_that_accounting_lost_must_not_be_booked() {
        let mut settlements = right();
        settlements
            .push(Settled { gpu_uuid: "GPU-b".to_owned(), ..settled(9, 1, 9, Some("jupyter")) });
        assert_eq!(compared(&settlements).doubled(), 1);
    }
}
