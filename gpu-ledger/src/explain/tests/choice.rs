//! By which words a settlement is found, and what is said where none is.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::attribution::Label;
use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, program};
use crate::explain::accounts::Titles;
use crate::explain::sought::Sought;
use crate::explain::{Choice, ExplainError, ReadEnd};
use crate::journal::entry::{Figures, OpenKind};
use crate::unit::Span;
use crate::unknown::GapCause;

/// The entries that are found, or what is said.
fn seek_in(
    journal: &Journal,
    choice: &Result<Choice, ExplainError>,
    period: Span,
) -> Result<Vec<u64>, String> {
    let choice = choice.as_ref().map_err(ToString::to_string)?;
    let mut titles = Titles::default();
    journal.entries.iter().for_each(|entry| titles.see(entry, period));
    let accounts = match choice {
        Choice::Account(word) => Some(titles.called(word).map_err(|error| error.to_string())?),
        Choice::Id(_) | Choice::Labelled(..) => None,
    };
    let mut sought = Sought::new(choice, accounts.as_ref(), period);
    journal.entries.iter().for_each(|entry| sought.take(entry));
    let unresolved: BTreeSet<u64> = journal.end.unresolved.keys().copied().collect();
    let found = sought.found(&ReadEnd { missing: 0, only_uid: None, unresolved });
    found.map(|found| found.chosen.keys().copied().collect()).map_err(|error| error.to_string())
}

fn seek(journal: &Journal, choice: &Result<Choice, ExplainError>) -> Result<Vec<u64>, String> {
    seek_in(journal, choice, Span::new(0, u64::MAX).unwrap())
}

fn by_id(journal: &Journal, word: &str) -> Result<Vec<u64>, String> {
    seek(journal, &Choice::id(word))
}

fn by_label(journal: &Journal, label: Label, name: &str) -> Result<Vec<u64>, String> {
    seek(journal, &Choice::labelled(label, name.to_owned()))
}

fn by_account(journal: &Journal, name: &str) -> Result<Vec<u64>, String> {
    seek(journal, &Choice::account(name.to_owned()))
}

/// Settlements at the entries 4, 5, 6 and 7: pids 4711, 4713, 4713 and 9.
fn journal() -> Journal {
    let mut journal = Journal::began(0, 2);
    journal.settle(100, Row::of("ollama", 4_711, 1, 9));
    journal.settle(200, Row { gpu: 1, ..Row::of("train.py", 4_713, 101, 9) });
    journal.settle(300, Row::of("train.py", 4_713, 201, 9));
    journal.settle(400, Row { account: NAMELESS, ..Row::of("", 9, 301, 9) });
    journal
}

fn id(pid: u32, start_ms: u64) -> String {
    format!("0a2b3c4d-{pid}-{}", (DAY_MS + start_ms) * 1_000)
}

#[test]
fn a_settlement_is_found_by_its_id_its_beginning_a_pid_and_the_number_of_its_entry() {
    let journal = journal();
    let whole = id(4_711, 1);
    let words = [&*whole, &*whole.to_ascii_uppercase(), &whole[..14], "0a2b3c4d-47", "4711", "4"];
    for word in &words[..3] {
        assert_eq!(by_id(&journal, word), Ok(vec![4]), "{word}");
    }
    assert!(by_id(&journal, words[3]).is_err(), "two pids begin so");
    for word in &words[4..] {
        assert_eq!(by_id(&journal, word), Ok(vec![4]), "{word}");
    }
    assert_eq!(by_id(&journal, "1a"), Ok(vec![5]), "the only one of that GPU");
    // As a number it means an entry, and no beginning.
    assert_eq!(by_id(&journal, "6"), Ok(vec![6]));
    assert_eq!(by_id(&journal, "9"), Ok(vec![7]));
}

#[test]
fn a_pid_of_several_is_answered_with_their_ids_and_not_with_one_of_them() {
    let mut journal = journal();
    let said = by_id(&journal, "4713").unwrap_err();
    assert!(said.starts_with("4713 means 2 settlements; give the id of one:\n  1a2b3c4d-4713-"));
    assert!(
        said.contains(&format!("\n  {}  train.py, 0.009 s, entry 6", id(4_713, 201))),
        "{said}"
    );
    // An entry's number that is a pid too.
    for number in 8_u64..30 {
        journal.settle(
            1_000 + number * 10,
            Row::of("x", if number == 9 { 10 } else { 9 }, 900 + number, 1),
        );
    }
    let said = by_id(&journal, "9").unwrap_err();
    assert!(said.starts_with("9 means 23 settlements;"), "{said}");
    assert!(said.contains(", entry 9"), "the entry of that number is among them: {said}");
    assert!(said.ends_with("\n  and 3 more"), "{said}");
    assert_eq!(said.lines().count(), 22);
}

#[test]
fn settlements_of_names_that_begin_alike_are_told_apart_where_one_is_to_be_chosen() {
    let mut journal = journal();
    let unit = |end: u8| format!("training-run-of-the-lab-{end}.service");
    for (end, start_ms) in [(1, 50_000), (2, 60_000)] {
        journal.settle(90_000, Row::of(&unit(end), 77, start_ms, 1_000));
    }
    journal.settle(90_000, Row::of(&format!("docker {}", "a".repeat(64)), 77, 70_000, 1_000));
    let said = by_id(&journal, "77").unwrap_err();
    for end in [1, 2] {
        assert!(said.contains(&format!("\n      {}", unit(end))), "{said}");
    }
    assert!(said.contains("  docker aaaaaaaaaaaa, 1.000 s, entry "), "{said}");
}

#[test]
fn what_is_no_id_is_told_what_one_looks_like() {
    for word in [
        "",
        " ",
        "ollama",
        "0a2b3c4d_4711",
        "0a2b3c4-4711-1",
        "0a2b3c4d--1",
        "-",
        "1.5",
        "0a2b3c4d-4711-nine",
        "0a2b3c4d-4711-1-2",
        "123456789012345678901",
        "\u{1b}[2J",
    ] {
        let error = Choice::id(word).unwrap_err();
        assert!(error.is_usage(), "{word:?}");
        let said = error.to_string();
        assert!(said.contains("as in 0a2b3c4d-4711-1795996800001000"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
    for word in ["0", "0a", "0a2b3c4d", "0a2b3c4d-", "0a2b3c4d-4711-", "0a2b3c4d-4711-no"] {
        assert!(Choice::id(word).is_ok(), "{word}");
    }
    for option in [Choice::account(String::new()), Choice::labelled(Label::Job, " ".to_owned())] {
        let error = option.unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(" is empty; give "), "{error}");
    }
}

#[test]
fn an_unknown_id_is_answered_with_the_nearest_and_with_what_the_journal_has() {
    let journal = journal();
    let near = format!("\n  with its pid or its start there are: {}\n", id(4_711, 1));
    for word in [id(4_711, 2), id(4_712, 1)] {
        let said = by_id(&journal, &word).unwrap_err();
        assert!(said.starts_with(&format!("no settlement is called {word}\n")), "{said}");
        assert!(said.contains(&near), "{said}");
    }
    let said = by_id(&journal, "12345").unwrap_err();
    assert!(!said.contains("there are"), "{said}");
    assert!(
        said.contains(
            "\n  the journal has 4 settlements, from 2026-11-30T00:00:00.001000Z\n  to \
             2026-11-30T00:00:00.310000Z\n"
        ),
        "{said}"
    );
    let empty = by_id(&Journal::began(0, 1), "12345").unwrap_err();
    assert!(empty.contains("\n  the journal has no settlements\n"), "{empty}");
}

#[test]
fn a_name_that_nothing_has_is_answered_with_the_likely_one_and_those_there_are() {
    let journal = journal();
    assert_eq!(by_account(&journal, "train.py"), Ok(vec![5, 6]));
    let said = by_account(&journal, "tarin.py").unwrap_err();
    assert!(said.starts_with("no settlement is of account tarin.py; did you mean train.py?\n"));
    assert!(
        said.contains("\n  there are: ollama, train.py, unattributed (event-lost)\n"),
        "{said}"
    );
    let said = by_label(&journal, Label::Job, "slurm 33").unwrap_err();
    assert!(said.contains("of job slurm 33; did you mean slurm 3?"), "{said}");
    let said = by_label(&journal, Label::Unit, "zzz").unwrap_err();
    assert!(said.contains("of unit zzz\n  there are: ollama.service\n"), "{said}");
}

#[test]
fn a_name_of_any_bytes_is_listed_as_it_can_be_typed() {
    let mut journal = journal();
    journal.settle(900, Row::of(r"\xff\xfe", 90, 900, 9));
    let said = by_account(&journal, r"nope\x").unwrap_err();
    assert!(said.starts_with("no settlement is of account nope\\x\n"), "{said}");
    assert!(said.contains(r"there are: \xff\xfe, ollama"), "{said}");
    assert_eq!(by_account(&journal, r"\xff\xfe").map(|found| found.len()), Ok(1));
}

#[test]
fn names_are_those_that_people_type_and_bills_have() {
    let journal = journal();
    for (label, names) in [
        (Label::Job, &["slurm 3", "3"][..]),
        (Label::Unit, &["ollama.service", "ollama"]),
        (Label::PodUid, &["11112222-3333-4444-5555-666677778888"]),
    ] {
        for name in names {
            assert_eq!(by_label(&journal, label, name), Ok(vec![5, 6]), "{name}");
        }
    }
    let container = ["xtts", "xtts (abababababab)", "abababababab", "docker abababababab"];
    for name in container {
        assert_eq!(by_label(&journal, Label::Container, name), Ok(vec![4]), "{name}");
    }
    // Another that begins so: neither is meant by as much as both have.
    let mut two = self::journal();
    let other = format!("abababababab{}", "c".repeat(52));
    let seq = two.settle(1_000, Row::of("xtts", 11, 900, 9));
    let Some(Figures::Settlement(last)) = two.entries.last_mut().map(|entry| &mut entry.figures)
    else {
        unreachable!()
    };
    let of_id = |(word, _): &&mut (Arc<str>, Arc<str>)| **word == *Label::Container.as_str();
    last.labels.iter_mut().find(of_id).unwrap().1 = other.as_str().into();
    let said = by_label(&two, Label::Container, "docker abababababab").unwrap_err();
    let beginning = "several containers begin with container docker abababababab: ababab";
    assert!(said.starts_with(beginning) && said.contains(&other), "{said}");
    assert_eq!(by_label(&two, Label::Container, "ababababababc"), Ok(vec![seq]));
    assert_eq!(by_label(&two, Label::Container, "xtts"), Ok(vec![4, seq]));
    assert_eq!(by_account(&journal, "unattributed (event-lost)"), Ok(vec![7]));
    assert_eq!(by_account(&journal, "unattributed"), Ok(vec![7]));
}

#[test]
fn what_runs_still_or_was_lost_is_said_to_be_so() {
    let mut journal = journal();
    let lost = journal.open(500, OpenKind::Row, 0, 70, 450, program("gone"));
    journal.open(500, OpenKind::Row, 0, 71, 451, program("serve"));
    journal.open(500, OpenKind::NoDriverRow, 0, 72, 0, program("old"));
    let settled = journal.open(500, OpenKind::Row, 0, 73, 453, program("done"));
    journal.ended(600, lost, Some(GapCause::RowVanished));
    journal.settle(700, Row { opened: Some(settled), ..Row::of("done", 73, 453, 9) });
    let said = by_id(&journal, "71").unwrap_err();
    assert!(
        said.contains(&format!("\n  {} (serve) runs still: it settles", id(71, 451))),
        "{said}"
    );
    let said = by_account(&journal, "gone").unwrap_err();
    assert!(said.contains("(gone) never settles: its row was lost, row-vanished"), "{said}");
    assert!(by_id(&journal, "72").unwrap_err().contains("(old) has no driver row, and never"));
    assert_eq!(by_id(&journal, "73").map(|found| found.len()), Ok(1));
    // In a time in which it had not settled nobody can say that it runs still.
    let early = Span::new(DAY_MS, DAY_MS + 20).unwrap();
    let said = seek_in(&journal, &Choice::id("73"), early).unwrap_err();
    assert!(!said.contains("runs still"), "{said}");
    assert!(said.contains("without --since and --until all of the journal is searched"), "{said}");
    assert!(said.contains("in the time that is asked about are 1 settlements"), "{said}");
}
