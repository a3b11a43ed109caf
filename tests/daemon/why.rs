//! Why a settlement stands where it does, asked of the daemon by those who may not open its journal.

use std::process::Output;

use serde_json::{Value, json};

use crate::asking::{ONE, OTHER, answer, booked, ledger, socket, text};
use crate::privilege::can_trace;
use crate::support::Sim;

fn explained(output: &Output) -> Value {
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = include_str!("../../gpu-ledger/schema/explain.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&told).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{told}");
    told
}

/// What the daemon answers to a line of this user's, as the object that it is.
fn answered(uid: u32, sim: &Sim, request: &Value) -> Value {
    serde_json::from_str(&answer(uid, sim, request)).unwrap()
}

#[test]
fn a_user_is_told_why_of_their_own_settlements_and_nothing_of_others() {
    if !can_trace("a_user_is_told_why_of_their_own_settlements_and_nothing_of_others") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, _) = booked(&sim, "");
    let place = socket(&sim).to_str().unwrap().to_owned();
    let asked = |uid: u32, words: &[&str]| {
        ledger(uid, uid, &[&["explain", "--socket", &place], words].concat())
    };
    // Root is told the same by the files and through the daemon.
    let state = daemon.state().to_str().unwrap();
    let by_files = ledger(0, 0, &["explain", "--state-dir", state, "--json", "--account", "mine"]);
    let by_files = explained(&by_files);
    assert_eq!(by_files, explained(&asked(0, &["--json", "--account", "mine"])));
    let [mine] = &by_files["settlements"].as_array().unwrap()[..] else { panic!("{by_files}") };
    assert_eq!((&mine["uid"], &mine["grounds"][0]["ground"]), (&json!(ONE), &json!("program")));
    assert!(mine["who"]["argv"].as_array().unwrap().contains(&json!("work")), "{mine}");

    let own = explained(&asked(ONE, &["--json", "--account", "mine"]));
    assert_eq!(own["only_uid"], json!(ONE));
    for part in ["id", "who", "driver", "grounds", "labels", "account"] {
        assert_eq!(own["settlements"][0][part], mine[part], "{part}");
    }
    assert_eq!(own["settlements"][0]["hash"], Value::Null, "it proves nothing here");
    let page = text(&asked(ONE, &[mine["id"].as_str().unwrap()]).stdout);
    assert!(page.ends_with("of the settlements of user 61001 alone\n"), "{page}");
    crate::ledger::assert_fits_a_terminal(&page);

    // By no word are they told anything of another's.
    let theirs = explained(&asked(0, &["--json", "--account", "train"]));
    let theirs = &theirs["settlements"][0];
    assert_eq!(theirs["uid"], json!(OTHER));
    let (seq, pid) = (theirs["seq"].to_string(), theirs["pid"].to_string());
    let id = theirs["id"].as_str().unwrap();
    let words = [
        vec!["--account", "train"],
        vec!["--account", "other users"],
        vec![id],
        vec![&seq],
        vec![&pid],
    ];
    for words in words {
        let refused = asked(ONE, &words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("only those of user 61001 were looked through"), "{words:?}: {said}");
        assert!(refused.stdout.is_empty(), "{words:?}");
        for secret in ["whisper", "there are: train"] {
            assert!(!said.contains(secret), "{words:?}: {said}");
        }
    }
    // Nor by asking for evidence as the program does.
    let of = json!([theirs["seq"], mine["seq"]]);
    let told = answered(ONE, &sim, &json!({ "version": 1, "request": "why", "of": of }));
    let told: Vec<&Value> = told["why"].as_array().unwrap().iter().map(|one| &one["seq"]).collect();
    assert_eq!(told, [&mine["seq"]]);
    let many: Vec<u64> = (0..101).collect();
    let told = answered(ONE, &sim, &json!({ "version": 1, "request": "why", "of": many }));
    assert_eq!(told["error"], "of 101 settlements at once; ask for 100 at most");
    daemon.stop();
}

#[test]
fn what_is_typed_wrongly_is_told_how_and_costs_no_reading() {
    for words in [&["explain", ""][..], &["explain", "ollama"], &["explain", "--job", ""]] {
        // There is no journal there.
        let refused = ledger(0, 0, &[words, &["--state-dir", "/nonexistent"]].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(64), "{words:?}: {said}");
        assert!(said.contains("as in 0a2b3c4d-4711-") || said.contains("--job is empty"), "{said}");
    }
}
