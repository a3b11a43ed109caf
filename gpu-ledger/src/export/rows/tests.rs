//! Rows against the bill of the same journal, and in every form.

use super::*;
use crate::bill::By;
use crate::bill::made::{Journal, Row as Made};
use crate::export::made::{HOUR, journal, of};
use crate::settlement::RuleId;

/// What the shell does with a journal: two passes.
fn rows(journal: &Journal) -> (Vec<Row>, Ledger) {
    let mut later = Ledger::for_passing_by();
    journal.entries.iter().for_each(|entry| later.take(entry).unwrap());
    later.finish(&journal.end).unwrap();
    let period = of(journal, By::Process, &[], false).period.span;
    let rows = journal.entries.iter().filter_map(|entry| match settled(entry, period, &later) {
        Found::Row(row) => Some(*row),
        Found::Folded | Found::Nothing => None,
    });
    (rows.collect(), later)
}

/// With everything that later entries say of earlier ones.
fn corrected() -> Journal {
    let mut journal = journal();
    let moved = journal.settle(5 * HOUR, Made::of("train.py", 5_000, 4 * HOUR, HOUR / 2));
    let in_conflict = journal.settle(5 * HOUR, Made::of("train.py", 5_001, 4 * HOUR, HOUR / 2));
    journal.settle(5 * HOUR, Made { start_ms: None, ..Made::of("train.py", 5_002, 0, 77) });
    // It began before the period, and one lies after it.
    journal.settle(7 * HOUR, Made::of("late", 5_003, 6 * HOUR + 1, 5));
    journal.moved(7 * HOUR, moved, Account::Ruled { name: "team".into(), rule: RuleId(3) });
    journal.conflict(7 * HOUR, in_conflict);
    journal
}

#[test]
fn rows_are_what_the_bill_by_process_has_without_keeping_any() {
    let journal = corrected();
    let report = of(&journal, By::Process, &[], false);
    let (rows, _) = rows(&journal);
    let mut billed = report.settlements.clone().unwrap();
    billed.sort_by_key(|one| one.seq);
    assert_eq!(rows.len(), billed.len());
    for (row, of_bill) in rows.iter().zip(&billed) {
        assert_eq!(row.id.as_deref(), Some(&*of_bill.id));
        let ours = (row.seq, &row.account, row.named_by, row.held_ms, row.in_period_ms);
        let bills = (
            Some(of_bill.seq),
            &of_bill.account,
            of_bill.named_by,
            Some(of_bill.held_ms),
            of_bill.in_period_ms,
        );
        assert_eq!(ours, bills);
        assert_eq!((row.dispute, &row.labels), (of_bill.dispute, &of_bill.labels));
        assert_eq!((row.busy_ms_low, row.busy_source), (of_bill.busy_ms_low, of_bill.busy_source));
        assert_eq!(
            (row.uid, row.basis, &row.program),
            (of_bill.uid, of_bill.basis, &of_bill.program)
        );
        let reason = of_bill.reason.map(|reason| reason.to_string());
        assert_eq!((&row.reason, &row.flags), (&reason, &of_bill.flags));
        let entry = journal.entries.iter().find(|entry| entry.seq == of_bill.seq).unwrap();
        assert_eq!(row.hash, Some(entry.hash.to_string()));
    }
    let by_pid = |pid| rows.iter().find(|row| row.pid == Some(Pid(pid))).unwrap();
    assert_eq!((by_pid(5_000).rule, &*by_pid(5_000).account), (Some(3), "team"));
    assert_eq!(by_pid(5_001).dispute, Some(DisputeReason::Conflict));
    assert_eq!((by_pid(5_002).end.as_ref(), by_pid(5_002).in_period_ms), (None, None));
    assert!(rows.iter().all(|row| row.pid != Some(Pid(5_003))));
    // What is open, and what gets no row.
    let head = of(&journal, By::Process, &[], false);
    let open = Row::of_open(&head.open[0], None);
    assert_eq!((open.state, open.held_ms, open.id), ("open", None, None));
    let rowless = Row::of_rowless(&head.no_driver_row[0], None);
    assert_eq!((rowless.state, rowless.seq), ("no-driver-row", Some(4)));
}

fn written(format: RowFormat) -> Vec<u8> {
    let mut writer = Writer::new(format, Vec::new(), Vec::new()).unwrap();
    rows(&corrected()).0.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap()
}

#[test]
fn every_form_has_the_same_cells() {
    let csv = written(RowFormat::Csv { is_raw: true });
    let mut reader = csv::Reader::from_reader(&*csv);
    assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), COLUMNS);
    let csv: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(ToOwned::to_owned).collect()).collect();
    let jsonl = String::from_utf8(written(RowFormat::Jsonl)).unwrap();
    let schema = include_str!("../../../schema/export-settlement.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    assert_eq!((csv.len(), jsonl.lines().count()), (12, 12));
    for (cells, line) in csv.iter().zip(jsonl.lines()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let faults: Vec<String> = schema.iter_errors(&value).map(|one| one.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?}");
        let columns: std::collections::BTreeSet<&str> =
            value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(columns.len(), COLUMNS.len() + 2, "and the format, and its version");
        for (column, cell) in COLUMNS.iter().zip(cells) {
            let said = match &value[*column] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(flags) => {
                    flags.iter().filter_map(|flag| flag.as_str()).collect::<Vec<_>>().join(" ")
                }
                serde_json::Value::Object(labels) if labels.is_empty() => String::new(),
                other => other.to_string(),
            };
            assert_eq!(*cell, said, "{column}");
        }
    }
}

#[test]
fn a_name_that_is_a_formula_is_led_in_csv() {
    let csv = String::from_utf8(written(RowFormat::Csv { is_raw: false })).unwrap();
    assert!(csv.contains(",'=cmd|'/C calc'!A0,") && csv.contains(",'@SUM("), "{csv}");
    assert!(!csv.contains(",=cmd") && !csv.contains(",@SUM"), "{csv}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_them_too() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let bytes = bytes::Bytes::from(written(RowFormat::Parquet));
    let reader = SerializedFileReader::new(bytes).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 12);
    let schema = reader.metadata().file_metadata().schema_descr();
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, COLUMNS);
    assert_eq!(written(RowFormat::Parquet), written(RowFormat::Parquet));
}
