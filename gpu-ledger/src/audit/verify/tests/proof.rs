//! One settlement by itself.

use std::process::Command;

use super::forged::Cases;
use super::made::{Journal, faults, fifty, key};
use super::python::python;
use crate::audit::prove::text;
use crate::audit::verify::{Known, Witness, proof};
use crate::support::skip;

/// The proof of an entry in a journal of fifty.
fn proof_of(journal: &Journal, seq: u64) -> String {
    let line = journal.line(seq, Some(50));
    text(&journal.key.public().to_string(), &journal.checkpoint(50), &line).unwrap()
}

/// The first settlement.
fn settled() -> u64 {
    let place = fifty().iter().position(|one| one.figures.kind() == "settlement").unwrap();
    u64::try_from(place).unwrap() + 1
}

#[test]
fn a_settlement_is_proven_by_itself_and_nothing_else_is() {
    let journal = Journal::of(fifty());
    let seq = settled();
    let good = proof_of(&journal, seq);
    let mut cases = Cases::new(journal.bundle(&journal.all()));
    let mut found = |text: &str, known: &Known| {
        let verdict = proof::verify(Ok(text.as_bytes().to_vec()), known);
        cases.proof(text, known, &verdict);
        verdict
    };
    let verdict = found(&good, &Known::default());
    assert_eq!(faults(&verdict), Vec::<String>::new());
    let proven = verdict.settlement.unwrap();
    assert_eq!((proven.seq, proven.pid), (seq, 100));

    let witness =
        |size| Known { witness: Some(journal.checkpoint(size).into_bytes()), ..Known::default() };
    assert_eq!(found(&good, &witness(50)).witness, Some(Witness::Consistent));
    assert_eq!(found(&good, &witness(40)).witness, Some(Witness::WitnessNotProvable));
    let given = |seed| Known { key: Some(key(seed).public().clone()), ..Known::default() };
    assert_eq!(faults(&found(&good, &given(1))), Vec::<String>::new());
    assert_eq!(faults(&found(&good, &given(2))), [". is not signed by the key that was given"]);

    let other = {
        let mut all = fifty();
        all.truncate(49);
        all.push(super::made::mark(99_000, &[], Vec::new()));
        Journal::of(all)
    };
    let line = journal.line(seq, Some(50));
    let moved = text(&journal.key.public().to_string(), &other.checkpoint(50), &line).unwrap();
    let open = proof_of(&journal, seq - 1);
    let mut cut = good.clone();
    cut.truncate(good.len() / 2);
    for (text, what) in [
        (moved, ". is not in the tree of the checkpoint"),
        (open, ". is not of a settlement"),
        (cut, ". is not written as this format writes it"),
        (String::new(), ". is not of the format gpu-ledger-audit-proof"),
        (
            good.replace("\"version\":1,\"key\"", "\"version\":3,\"key\""),
            ". is of version 3, and this checks version 1",
        ),
        (
            good.replace("\"number8\"", "\"number4\""),
            ". is not the form of entries of this version",
        ),
        (
            good.replace("\"pid\":100", "\"pid\":101"),
            ". its readable part is not what its bytes say",
        ),
        (good.replace("\"key\":\"", "\"key\":\"x"), ". is not a key: name+id+base64"),
        (good.clone() + "\n", ". is not written as this format writes it"),
        (
            good.replace("\n\"schema\"", " \n\"schema\""),
            ". is not written as this format writes it",
        ),
    ] {
        assert_eq!(faults(&found(&text, &Known::default())), [what]);
    }
    cases.meet("a_settlement_is_proven_by_itself_and_nothing_else_is");
}

#[test]
fn a_page_of_python_checks_a_proof() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return skip("a_page_of_python_checks_a_proof", &reason),
    };
    let journal = Journal::of(fifty());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/audit/verify/tests/check_proof.py");
    let check = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Command::new(&python).arg(script).arg(file.path()).output().unwrap()
    };
    for seq in [settled(), 1, 17, 32, 33, 49, 50] {
        let good = proof_of(&journal, seq);
        let output = check(&good);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            printed.starts_with(&format!("entry {seq} is in the journal of 50 entries")),
            "{output:?}"
        );
        let body = good.find("\"body\":\"").unwrap() + 30;
        let other = if good.as_bytes()[body] == b'A' { "B" } else { "A" };
        let mut changed = good;
        changed.replace_range(body..=body, other);
        assert!(!check(&changed).status.success());
    }
}
