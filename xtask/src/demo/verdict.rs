//! Whether the demo's bill is right. Pure.

use super::report::Report;
use super::truth::{Agreement, Problem};

/// Exit status: the bill is there, but nobody could be named (no privilege for events).
const STATUS_UNKNOWN: u8 = 2;
/// Exit status: the bill is wrong.
const STATUS_WRONG: u8 = 1;

/// The exit status, and why it is not 0.
pub(super) struct Verdict {
    pub(super) status: u8,
    pub(super) complaints: Vec<String>,
}

impl Verdict {
    pub(super) fn of(report: &Report, agreement: &Agreement) -> Self {
        let uncovered = report.coverage.is_none() || report.missed_in_coverage.is_none();
        let mut complaints = report.open_sums();
        if report.driver.as_deref() != Some("simulated") {
            let said = report.driver.as_deref().unwrap_or("nothing");
            complaints.push(format!("the driver is simulated, the report says {said}"));
        }
        for problem in &agreement.problems {
            // Without process events nobody can have a name, and nobody knows whether an open row's
            // process is dead: that is said once, below.
            let excused =
                uncovered && matches!(problem, Problem::Nameless { .. } | Problem::LeftOpen { .. });
            if !excused {
                complaints.push(problem.to_string());
            }
        }
        if let Some(missed @ 1..) = report.missed_in_coverage {
            complaints.push(format!("{missed} rows were missed in coverage: a bug of gpu-ledger"));
        }
        if agreement.rows == 0 {
            complaints.push("the truth log is empty: the afternoon held no GPU".to_owned());
        }
        let status = match (complaints.is_empty(), uncovered) {
            (false, _) => STATUS_WRONG,
            (true, true) => STATUS_UNKNOWN,
            (true, false) => 0,
        };
        if uncovered {
            complaints.push(
                "NO PROCESS EVENTS, so nobody could be named: the tracer said above what is \
                 missing, and what to do about it"
                    .to_owned(),
            );
        }
        Self { status, complaints }
    }
}

#[cfg(test)]
mod tests {
    use super::super::truth::parse;
    use super::*;

    fn report() -> Report {
        serde_json::from_str(include_str!("fixtures/trace.json")).unwrap()
    }

    fn agreement(problems: Vec<Problem>) -> Agreement {
        Agreement { rows: 5, agree: 5, problems }
    }

    fn nameless() -> Problem {
        let log = r#"{"gpu_uuid":"a","pid":1,"start_time_us":1,"end_time_us":2,"exe":"/a"}"#;
        let row = parse(log).unwrap().remove(0);
        Problem::Nameless { row, reason: "predates-coverage".to_owned(), gaps: Vec::new() }
    }

    #[test]
    fn a_right_bill_is_status_0_and_says_nothing() {
        let verdict = Verdict::of(&report(), &agreement(Vec::new()));
        assert_eq!((verdict.status, verdict.complaints.len()), (0, 0));
    }

    #[test]
    fn one_problem_one_missed_row_an_open_sum_and_an_empty_log_are_each_status_1() {
        let mut missed = report();
        missed.missed_in_coverage = Some(1);
        let mut open = report();
        open.gpus[0].free_ms += 1;
        for verdict in [
            Verdict::of(&report(), &agreement(vec![nameless()])),
            Verdict::of(&missed, &agreement(Vec::new())),
            Verdict::of(&open, &agreement(Vec::new())),
            Verdict::of(&report(), &Agreement::default()),
        ] {
            assert_eq!((verdict.status, verdict.complaints.len()), (STATUS_WRONG, 1));
        }
    }

    #[test]
    fn without_events_nameless_rows_are_excused_but_the_status_is_2() {
        let mut report = report();
        report.coverage = None;
        report.missed_in_coverage = None;
        let verdict = Verdict::of(&report, &agreement(vec![nameless(), nameless()]));
        assert_eq!((verdict.status, verdict.complaints.len()), (STATUS_UNKNOWN, 1));
    }
}
