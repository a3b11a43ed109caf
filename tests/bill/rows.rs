//! `gpu-ledger export` of rows and bills, from end to end.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::Stdio;

use super::{HOUR_MS, Host, text};

type Row = BTreeMap<String, String>;

fn export(host: &Host, words: &[&str]) -> std::process::Output {
    host.of_command("export", words).output().unwrap()
}

fn csv_rows(bytes: &[u8]) -> Vec<Row> {
    csv::Reader::from_reader(bytes).deserialize().map(Result::unwrap).collect()
}

#[test]
fn rows_are_those_of_the_bill_by_process_in_every_form_and_say_their_entries() {
    let host = Host::made(true, "gpuhost", 1_000, "=cmd|'x'!A0");
    let period = ["--since", "3h", "--until", "now", "--utc"];
    let said = export(&host, &[&period[..], &["--format", "csv"]].concat());
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(text(&said.stderr).contains("SIMULATED DRIVER"), "{}", text(&said.stderr));
    let rows = csv_rows(&said.stdout);
    let billed = host.bill(&[&period[..], &["--format", "csv", "--by", "process"]].concat());
    let billed = csv_rows(&billed.stdout);
    assert_eq!((rows.len(), billed.len()), (3, 3));
    for (row, of_bill) in rows.iter().zip(&billed) {
        for (column, value) in row.iter().filter(|(column, _)| of_bill.contains_key(*column)) {
            // Later by as much as lies between the two, of what the period cuts.
            if column != "in_period_ms" {
                assert_eq!(Some(value), of_bill.get(column), "{column}");
            }
        }
        assert_eq!(row["hash"].len(), 64);
        assert!(row["end"].ends_with('Z') && row["start"].starts_with("20"), "{row:?}");
    }
    assert_eq!(rows[1]["account"], "'=cmd|'x'!A0");
    assert_eq!(rows[2]["reason"], "event-lost");

    let raw = export(&host, &[&period[..], &["--format", "csv", "--csv-raw"]].concat());
    assert_eq!(csv_rows(&raw.stdout)[1]["account"], "=cmd|'x'!A0");

    let said = export(&host, &[&period[..], &["--format", "jsonl"]].concat());
    let schema = include_str!("../../gpu-ledger/schema/export-settlement.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let lines: Vec<serde_json::Value> =
        text(&said.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for (line, row) in lines.iter().zip(&rows) {
        let faults: Vec<String> = schema.iter_errors(line).map(|one| one.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(line["hash"], row["hash"].as_str());
        assert_eq!(line["held_ms"].to_string(), row["held_ms"]);
        assert_eq!(line["seq"].to_string(), row["seq"]);
    }
    assert_eq!(lines[0]["held_ms"], HOUR_MS);
    assert_eq!(lines[1]["account"], "=cmd|'x'!A0");
}

#[test]
fn a_file_is_whole_or_not_touched_and_a_reader_that_leaves_is_no_failure() {
    let host = Host::with(false);
    let folder = tempfile::tempdir().unwrap();
    for (form, begins) in [
        ("csv", &b"id,state,account"[..]),
        ("jsonl", b"{\"format\""),
        ("parquet", b"PAR1"),
        ("xlsx", b"PK"),
        ("html", b"<!DOCTYPE html>"),
    ] {
        let path = folder.path().join(form);
        let words = ["--since", "3h", "--format", form, "--output", path.to_str().unwrap()];
        let said = export(&host, &words);
        assert_eq!(said.status.code(), Some(0), "{form} {said:?}");
        let written = std::fs::read(&path).unwrap();
        assert!(written.starts_with(begins), "{form}");
        // What cannot be made leaves it as it was.
        let refused = export(&host, &[&words[..], &["--gpu", "nosuch"]].concat());
        assert_eq!(refused.status.code(), Some(64), "{form} {refused:?}");
        assert_eq!(std::fs::read(&path).unwrap(), written, "{form}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5, "no draft is left");
    let full = export(&host, &["--since", "3h", "--format", "csv", "--output", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1), "{full:?}");

    let mut command = host.of_command("export", &["--since", "3h", "--format", "jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
}

#[test]
fn what_cannot_be_exported_exits_with_64_and_says_what_to_take() {
    let host = Host::with(false);
    for words in [
        &["--format", "csv", "--since", "soon"][..],
        &["--format", "csv", "--since", "3h", "--by", "user"],
        &["--format", "html", "--since", "3h", "--by", "user"],
        &["--format", "focus", "--since", "3h"],
        &["--format", "nosuch"],
        &["--since", "3h"],
    ] {
        let said = export(&host, words);
        assert_eq!(said.status.code(), Some(64), "{words:?} {said:?}");
        assert!(said.stdout.is_empty(), "{words:?}");
    }
}
