//! Bundles that were changed with care: what is found, and by what; what only a witness shows is said to be so.

use std::sync::Arc;

use bytes::Bytes as RawBytes;

use super::made::{
    Bundle, Journal, Part, Said, balanced, ended, faults, fifty, gpu, key, mark, named, open, row,
    said, settlement, unknown, wall,
};
use super::python::{Asked, told};
use crate::audit::verify::{IntegrityWord, KeyWord, Known, Verdict, Witness};
use crate::journal::canon::{self, Canonical as _, Writer};
use crate::journal::entry::{Evidence, Figures, KeyChange};
use crate::journal::note::{SigningKey, key_change_text};
use crate::unit::{Bytes, Ms, WallUs};
use crate::unknown::{GapCause, Observed};

/// Cases that are told to both.
pub(super) struct Cases {
    base: Bundle,
    asked: Asked,
    wanted: Vec<String>,
}

impl Cases {
    pub(super) fn new(base: Bundle) -> Self {
        let (asked, wanted) = (Asked::of(&base), vec![told(&base.verdict())]);
        Self { base, asked, wanted }
    }

    /// Faults of a bundle, which the other one is asked for too.
    fn faults(&mut self, bundle: &Bundle) -> Vec<String> {
        self.faults_with(bundle, &Known::default())
    }

    /// What the other one must say of a proof.
    pub(super) fn proof(&mut self, proof: &str, known: &Known, verdict: &Verdict) {
        self.asked.proof(proof.as_bytes(), known);
        self.wanted.push(told(verdict));
    }

    fn faults_with(&mut self, bundle: &Bundle, known: &Known) -> Vec<String> {
        let verdict = bundle.verdict_with(known);
        self.asked.verdict(&self.base, bundle, known);
        self.wanted.push(told(&verdict));
        faults(&verdict)
    }

    pub(super) fn meet(self, test: &str) {
        let Some(answers) = self.asked.answers(test) else { return };
        for (answer, wanted) in answers.iter().zip(&self.wanted) {
            assert_eq!(answer, wanted);
        }
        assert_eq!(answers.len(), self.wanted.len());
    }
}

fn witness(note: String) -> Known {
    Known { witness: Some(note.into_bytes()), ..Known::default() }
}

fn edited(bundle: &Bundle, name: &str, edit: impl FnOnce(&mut Vec<String>)) -> Bundle {
    let mut lines: Vec<String> = bundle.text(name).lines().map(str::to_owned).collect();
    edit(&mut lines);
    let mut changed = bundle.clone();
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    changed.0.insert(name.to_owned(), text.into_bytes());
    changed
}

/// What somebody does to lines.
type Edit = fn(&mut Vec<String>);

#[test]
fn lines_that_are_gone_moved_or_doubled_are_found_whoever_signs() {
    let journal = Journal::of(fifty());
    let part = journal.all();
    let bundle = journal.bundle(&part);
    let mut cases = Cases::new(bundle.clone());
    let edits: [(Edit, &str); 8] = [
        (|lines| drop(lines.remove(0)), "entries.jsonl 1 stands where another entry must"),
        (|lines| drop(lines.remove(20)), "entries.jsonl 21 stands where another entry must"),
        (|lines| drop(lines.pop()), "entries.jsonl 50 ends before its last entry"),
        (|lines| lines.swap(10, 11), "entries.jsonl 11 stands where another entry must"),
        (
            |lines| lines.insert(7, lines[6].clone()),
            "entries.jsonl 8 stands where another entry must",
        ),
        (|lines| lines.push(lines[49].clone()), "entries.jsonl 50 has entries after its last"),
        (|lines| lines[4].push(' '), "entries.jsonl 5 its readable part is not what its bytes say"),
        (|lines| lines.insert(3, String::new()), "entries.jsonl 4 is not a line of this format"),
    ];
    for (edit, what) in edits {
        let mut changed = edited(&bundle, "entries.jsonl", edit);
        let size = "entries.jsonl has another size than the manifest says".to_owned();
        let bytes = "entries.jsonl has other bytes than the manifest says".to_owned();
        let found = cases.faults(&changed);
        assert!(found[0] == size || found[0] == bytes, "{found:?}");
        assert_eq!(found[1], what);
        // With every hash redone, by the same key.
        changed.seal(&part, journal.period, &journal.key);
        assert_eq!(cases.faults(&changed), [what]);
        // By another one, with the bundle's own key left: nobody else signs for it.
        changed.seal(&part, journal.period, &key(2));
        assert_eq!(
            cases.faults(&changed),
            ["manifest.sig is not signed by a key of this journal", what]
        );
        // And with that key put in its place.
        changed.0.insert("key.pub".to_owned(), format!("{}\n", key(2).public()).into_bytes());
        changed.seal(&part, journal.period, &key(2));
        let found = cases.faults(&changed);
        assert_eq!(found[0], "checkpoint is not signed by a key of this journal");
    }
    cases.meet("lines_that_are_gone_moved_or_doubled_are_found_whoever_signs");
}

#[test]
fn a_tail_that_is_cut_is_seen_against_a_witness_and_said_to_be_unprovable_without() {
    let whole = Journal::of(fifty());
    let cut = Journal::of(fifty().into_iter().take(44).collect());
    let bundle = cut.bundle(&cut.all());
    let mut cases = Cases::new(bundle.clone());
    // Whoever holds the key makes a bundle of what is left, and it is whole.
    let verdict = bundle.verdict();
    assert_eq!(verdict.integrity.verdict, IntegrityWord::Good);
    assert_eq!(verdict.witness, Some(Witness::NotGiven));
    assert!(verdict.to_string().contains("whoever can sign can make another bundle"));
    let found = cases.faults_with(&bundle, &witness(whole.checkpoint(50)));
    assert_eq!(
        found,
        [
            "--witness is of a longer journal: the end of this one was cut off, or it was written anew"
        ]
    );
    assert_eq!(cases.faults_with(&bundle, &witness(whole.checkpoint(44))), Vec::<String>::new());
    // An entry that was written anew.
    let mut anew = fifty();
    anew[30] = mark(15_000, &[gpu(1)], Vec::new());
    let anew = Journal::of(anew);
    let changed = anew.bundle(&anew.all());
    let found = cases.faults_with(&changed, &witness(whole.checkpoint(44)));
    assert!(
        found.contains(&"--witness has another root: the journal was changed after it".to_owned())
    );
    assert_eq!(
        changed.verdict_with(&witness(whole.checkpoint(44))).witness,
        Some(Witness::Inconsistent)
    );
    // One of another journal, or of another key.
    let mut other = Journal::of(fifty());
    other.key = key(3);
    assert_eq!(
        cases.faults_with(&bundle, &witness(other.checkpoint(44))),
        ["--witness is not signed by a key of this journal"]
    );
    assert_eq!(
        cases.faults_with(&bundle, &witness("no note\n".to_owned())),
        ["--witness is not a signed note"]
    );
    // An older checkpoint in the place of the bundle's.
    let mut replayed = whole.bundle(&whole.all());
    replayed.0.insert("checkpoint".to_owned(), whole.checkpoint(40).into_bytes());
    replayed.seal(&whole.all(), whole.period, &whole.key);
    assert_eq!(cases.faults(&replayed), ["checkpoint is of another size than the manifest says"]);
    cases.meet("a_tail_that_is_cut_is_seen_against_a_witness_and_said_to_be_unprovable_without");
}

/// The bundle of a journal in which one entry is what `change` makes of it, sealed all over by the journal's own key.
fn with(seq: usize, change: impl FnOnce(&mut Said)) -> Bundle {
    let mut all = fifty();
    change(&mut all[seq - 1]);
    let journal = Journal::of(all);
    journal.bundle(&journal.all())
}

fn evidence(said: &mut Said) -> &mut crate::journal::entry::SettlementEvidence {
    let Evidence::Settlement(evidence) = &mut said.evidence else { panic!("no settlement") };
    evidence
}

fn figures(said: &mut Said) -> &mut crate::journal::entry::SettlementFigures {
    let Figures::Settlement(figures) = &mut said.figures else { panic!("no settlement") };
    figures
}

#[test]
fn what_cannot_be_is_found_even_under_the_journals_own_key() {
    let journal = Journal::of(fifty());
    let mut cases = Cases::new(journal.bundle(&journal.all()));
    // The first entries: coverage, two epochs, an open one, its settlement.
    let at = 1 + fifty().iter().position(|one| one.figures.kind() == "settlement").unwrap();
    let last = fifty().iter().filter(|one| one.figures.kind() == "settlement").count();
    let one = |what: &str| vec![format!("entries.jsonl {at} {what}")];
    let of_row = || one("its figures are not those of its row");
    let not_final = with(at, |said| evidence(said).row.running = true);
    assert_eq!(cases.faults(&not_final), one("is booked of a row that is not final"));
    let other_pid = with(at, |said| evidence(said).row.pid.0 += 1);
    assert_eq!(cases.faults(&other_pid), of_row());
    let other_gpu = with(at, |said| evidence(said).row.gpu = gpu(9));
    assert_eq!(cases.faults(&other_gpu), of_row());
    let held = with(at, |said| evidence(said).row.held = Ms(99));
    assert_eq!(cases.faults(&held), of_row());
    let peak = with(at, |said| evidence(said).row.memory_peak = Observed::Known(Bytes(1)));
    assert_eq!(cases.faults(&peak), of_row());
    let read = with(at, |said| evidence(said).seen.ended.wall = wall(1));
    assert_eq!(cases.faults(&read), of_row());
    let none = with(at, |said| said.evidence = Evidence::None);
    assert_eq!(cases.faults(&none), one("is booked without a row of the driver"));
    let began = with(at, |said| {
        figures(said).start = Some(WallUs(0));
        evidence(said).row.start = Some(WallUs(0));
    });
    assert_eq!(cases.faults(&began), one("is booked of a row that began in 1970"));
    let sums = with(at, |said| figures(said).booked.held_ms += 1);
    let found = cases.faults(&sums);
    let what = "the sums that it carries are not those of the entries before it";
    assert_eq!(found[0], format!("entries.jsonl {at} {what}"));
    assert_eq!(found.len(), 2, "the next one of the GPU differs too: {found:?}");
    let opened = with(at, |said| figures(said).opened = Some(1));
    let found = cases.faults(&opened);
    assert_eq!(found[0], format!("entries.jsonl {at} replaces an entry that is not open"));
    assert!(last > 2);
    cases.meet("what_cannot_be_is_found_even_under_the_journals_own_key");
}

#[test]
fn what_entries_contradict_between_them_is_found_under_the_journals_own_key() {
    let journal = Journal::of(fifty());
    let mut cases = Cases::new(journal.bundle(&journal.all()));
    let mut found = |all: Vec<Said>, part: fn(&Journal) -> Part| {
        let journal = Journal::of(all);
        cases.faults(&journal.bundle(&part(&journal)))
    };
    let more = |more: Vec<Said>| balanced(unknown().into_iter().chain(more).collect());
    // The row of entry 3, once more: by itself, and with the first one beside the range.
    let again = || more(vec![settlement(2_000, &gpu(1), (7, Some(100), 41), named("b"), None)]);
    let what = "entries.jsonl 10 books a row that is booked already".to_owned();
    assert_eq!(found(again(), Journal::all), std::slice::from_ref(&what));
    let beside = |journal: &Journal| Part { first: 5, beside: vec![3], ..journal.all() };
    assert_eq!(found(again(), beside), [what]);
    let startless = || more(vec![settlement(500, &gpu(1), (8, None, 50), named("b"), None)]);
    assert_eq!(
        found(startless(), Journal::all),
        ["entries.jsonl 10 books a row that is booked already"]
    );
    let marked = more(vec![mark(2_000, &[gpu(1)], vec![6, 7])]);
    assert_eq!(
        found(marked, Journal::all),
        ["entries.jsonl 10 lists other open entries than the entries before it leave open"]
    );
    let twice = more(vec![ended(2_000, 7, None)]);
    assert_eq!(found(twice, Journal::all), ["entries.jsonl 10 ends an entry that is not open"]);
    // A range that begins with other open entries than there were.
    let journal = Journal::of(unknown());
    let part = Part { first: 8, beside: vec![6, 7], ..journal.all() };
    let bundle = journal.bundle(&part);
    assert_eq!(cases.faults(&bundle), Vec::<String>::new());
    for (from, to, what) in [
        ("[6,7]", "[6]", "entries.jsonl 8 ends an entry that is not open"),
        (
            "[6,7]",
            "[2,6,7]",
            "entries.jsonl 9 lists other open entries than the entries before it leave open",
        ),
        ("[6,7]", "[7,6]", "range.json has an opening that is not in order"),
        ("[6,7]", "[6,8]", "range.json has an opening that is not of entries before the range"),
        ("\"left\":[", "\"left\":[\"00\",", "range.json is not written as this format writes it"),
        ("\"first\":8", "\"first\":7", "range.json is of another range than the manifest says"),
        ("\"last\":9", "\"last\":9.0", "range.json is not written as this format writes it"),
        ("\"version\":1", "\"version\":2", "range.json is of version 2, and this checks version 1"),
    ] {
        let changed =
            edited(&bundle, "range.json", |lines| lines[0] = lines[0].replacen(from, to, 1));
        let mut changed = changed;
        changed.seal(&part, journal.period, &journal.key);
        assert_eq!(cases.faults(&changed), [what], "{to}");
    }
    cases.meet("what_entries_contradict_between_them_is_found_under_the_journals_own_key");
}

#[test]
fn bytes_that_decode_and_are_not_canonical_are_found() {
    let journal = Journal::of(fifty());
    let mut cases = Cases::new(journal.bundle(&journal.all()));
    let bodies: [(&str, Vec<u8>); 4] = [
        ("nothing", Vec::new()),
        ("no list", b"A\0\0\0\x01x".to_vec()),
        ("more than it has", {
            let one = &fifty()[4];
            let mut writer = Writer::default();
            writer.list(|writer| {
                one.at.put(writer);
                one.figures.put(writer);
                1_u32.put(writer);
            });
            writer.finish().unwrap()
        }),
        ("bytes after it", {
            let one = &fifty()[4];
            [canon::encode(&(one.at, one.figures.clone())).unwrap(), b"A\0\0\0\0".to_vec()].concat()
        }),
    ];
    for (name, body) in bodies {
        let found = cases.faults(&with(5, |said| said.body = Some(body)));
        assert_eq!(found, ["entries.jsonl 5 its bytes are not canonical"], "{name}");
    }
    cases.meet("bytes_that_decode_and_are_not_canonical_are_found");
}

#[test]
fn what_is_readable_says_what_the_bytes_say_and_nothing_else() {
    let journal = Journal::of(fifty());
    let part = journal.all();
    let bundle = journal.bundle(&part);
    let mut cases = Cases::new(bundle.clone());
    for (from, to) in [
        ("\"held\":0,", "\"held\":7,"),
        ("train", "brain"),
        ("\"uid\":1000", "\"uid\":1000 "),
        ("\"pid\":100,", "\"pid\":1e2,"),
        ("\"entry\":{", "\"entry\":{\"entry\":1,"),
        (r"\n", r"\u000a"),
    ] {
        let mut changed = edited(&bundle, "entries.jsonl", |lines| {
            let line = lines
                .iter_mut()
                .find(|line| line.contains(from) && line.contains("\"settlement\":{"))
                .unwrap();
            *line = line.replacen(from, to, 1);
        });
        changed.seal(&part, journal.period, &journal.key);
        let found = cases.faults(&changed);
        assert!(found[0].ends_with("its readable part is not what its bytes say"), "{found:?}");
    }
    cases.meet("what_is_readable_says_what_the_bytes_say_and_nothing_else");
}

fn change(key: &SigningKey, previous: Option<&SigningKey>, by: Option<&SigningKey>) -> Said {
    let signature = by.zip(previous).map(|(by, previous)| {
        RawBytes::copy_from_slice(&by.sign(&key_change_text(previous.public(), key.public())))
    });
    let text = |key: &SigningKey| Arc::<str>::from(key.public().to_string());
    let change = KeyChange { key: text(key), previous: previous.map(text), signature };
    said(5_000, Figures::Key(Box::new(change)), Evidence::None)
}

#[test]
fn a_key_that_was_given_leads_to_the_one_that_signed_or_is_a_fault() {
    let keys = [key(1), key(2), key(3)];
    let journal = |last: Vec<Said>, signer: u8| {
        let mut journal = Journal::of(balanced(fifty().into_iter().chain(last).collect()));
        journal.key = key(signer);
        journal
    };
    let rotated = journal(
        vec![
            change(&keys[0], None, None),
            change(&keys[1], Some(&keys[0]), Some(&keys[0])),
            change(&keys[2], Some(&keys[1]), Some(&keys[1])),
        ],
        3,
    );
    let bundle = rotated.bundle(&rotated.all());
    let mut cases = Cases::new(bundle.clone());
    let given = |seed: u8| Known { key: Some(key(seed).public().clone()), ..Known::default() };
    for seed in 1..=3 {
        assert_eq!(cases.faults_with(&bundle, &given(seed)), Vec::<String>::new());
        assert_eq!(bundle.verdict_with(&given(seed)).key.verdict, KeyWord::Given);
    }
    let not_given = "key.pub is not the key that was given, and no entry leads from that to it";
    assert_eq!(cases.faults_with(&bundle, &given(4)), [not_given]);
    // A checkpoint that the first key signed is one of this journal.
    let mut old = Journal::of(fifty());
    old.key = key(1);
    assert_eq!(cases.faults_with(&bundle, &witness(old.checkpoint(50))), Vec::<String>::new());

    let forged = journal(
        vec![change(&keys[0], None, None), change(&keys[1], Some(&keys[0]), Some(&keys[2]))],
        2,
    );
    let found = cases.faults(&forged.bundle(&forged.all()));
    assert_eq!(
        found,
        [
            "entries.jsonl 52 is a key that the one before it did not sign",
            "key.pub is not the key that the entries name last"
        ]
    );
    let skipped = journal(vec![change(&keys[0], None, None), change(&keys[2], None, None)], 3);
    assert_eq!(
        cases.faults(&skipped.bundle(&skipped.all()))[0],
        "entries.jsonl 52 does not name the key before it"
    );
    // One that was lost signs for nobody: what it signed is still of this journal, and it leads nowhere.
    let lost =
        journal(vec![change(&keys[0], None, None), change(&keys[1], Some(&keys[0]), None)], 2);
    let bundle = lost.bundle(&lost.all());
    assert_eq!(cases.faults_with(&bundle, &given(2)), Vec::<String>::new());
    assert_eq!(bundle.verdict().exit_status(), 2);
    assert_eq!(cases.faults_with(&bundle, &given(1)), [not_given]);
    assert_eq!(cases.faults_with(&bundle, &witness(old.checkpoint(50))), Vec::<String>::new());
    cases.meet("a_key_that_was_given_leads_to_the_one_that_signed_or_is_a_fault");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn a_bundle_that_is_none_is_told_by_what_it_is_not() {
    let journal = Journal::of(fifty());
    let part = journal.all();
    let bundle = journal.bundle(&part);
    let mut cases = Cases::new(bundle.clone());
    let manifest = bundle.text("manifest.json");
    let deep = "[".repeat(100_000);
    for (text, what) in [
        (String::new(), "is not of the format gpu-ledger-audit"),
        ("\u{feff}".to_owned() + &manifest, "is not of the format gpu-ledger-audit"),
        (
            manifest.replace("\"version\":1", "\"version\":2"),
            "is of version 2, and this checks version 1",
        ),
        (
            manifest.replace("\"version\":1", "\"version\":01"),
            "is not of the format gpu-ledger-audit",
        ),
        (
            manifest.replace("\"first\":1,", "\"first\":1,\"first\":1,"),
            "is not written as this format writes it",
        ),
        (
            manifest.replace("\"first\":1,", "\"first\":NaN,"),
            "is not written as this format writes it",
        ),
        (
            manifest.replace("\"first\":1,", &format!("\"first\":{deep},")),
            "is not written as this format writes it",
        ),
        (
            manifest.replace("\"host\":\"h\"", "\"host\":\"\\ud800\""),
            "is not written as this format writes it",
        ),
        (manifest.replace('\n', "\r\n"), "is not written as this format writes it"),
        (manifest.clone() + "\n", "is not written as this format writes it"),
        (
            manifest.replace("\"name\":\"bill.csv\"", "\"name\":\"../bill.csv\""),
            "names a file that no bundle has: ../bill.csv",
        ),
        (
            manifest.replace("\"name\":\"bill.csv\"", "\"name\":\"/etc/passwd\""),
            "names a file that no bundle has: /etc/passwd",
        ),
        (
            manifest.replace("\"name\":\"bill.csv\"", "\"name\":\"a/b/c\""),
            "names a file that no bundle has: a/b/c",
        ),
        (
            manifest.replace("\"name\":\"bill.csv\"", "\"name\":\"b\\nß\""),
            "names a file that no bundle has: b\\x0a\\xc3\\x9f",
        ),
        (
            manifest.replace("\"name\":\"bill.csv\"", "\"name\":\"manifest.json\""),
            "names a file that no bundle has: manifest.json",
        ),
        (
            manifest.replace("\"name\":\"bill.csv\"", "\"name\":\"zz.csv\""),
            "does not name its files in order, each once",
        ),
        (
            manifest.replace("\"name\":\"schema.json\"", "\"name\":\"schemas.json\""),
            "does not name schema.json",
        ),
        (manifest.replace("\"size\":50", "\"size\":49"), "has a range that no journal has"),
        (
            manifest.replace("\"since_ms\":\"1", "\"since_ms\":\"9"),
            "has a period that ends before it begins",
        ),
    ] {
        let mut changed = bundle.clone();
        changed.set_manifest(&text, &journal.key);
        assert_eq!(cases.faults(&changed), [format!("manifest.json {what}")]);
    }
    let digest = "0".repeat(64);
    let line = |n| format!("{{\"name\":\"a{n:05}\",\"bytes\":\"0\",\"sha256\":\"{digest}\"}},\n");
    let many = (0..5_000).map(line).collect::<Vec<_>>().concat();
    let mut changed = bundle.clone();
    changed.set_manifest(
        &manifest.replace("\"files\":[\n", &format!("\"files\":[\n{many}")),
        &journal.key,
    );
    assert_eq!(cases.faults(&changed), ["manifest.json names more files than a bundle has"]);

    for (name, bytes, what) in [
        ("checkpoint", b"".to_vec(), "checkpoint is not a signed note"),
        ("key.pub", b"x\n".to_vec(), "key.pub is not a key: name+id+base64"),
        ("schema.json", b"{}".to_vec(), "schema.json is not the form of entries of this version"),
        ("entries.jsonl", b"\xff\n".to_vec(), "entries.jsonl 1 is not a line of this format"),
        ("entries.jsonl", b"no end".to_vec(), "entries.jsonl 1 the file ends inside a line"),
        ("entries.jsonl", b"".to_vec(), "entries.jsonl 50 ends before its last entry"),
        ("entries.jsonl", vec![b'x'; 17 << 20], "entries.jsonl 1 a line is longer than 16 MiB"),
    ] {
        let mut changed = bundle.clone();
        changed.0.insert(name.to_owned(), bytes);
        changed.seal(&part, journal.period, &journal.key);
        let found = cases.faults(&changed);
        let wanted = if what.contains("ends before") {
            "entries.jsonl 1 ends before its last entry"
        } else {
            what
        };
        assert_eq!(found, [wanted], "{name}");
    }
    // Files that are missing, or that nobody names.
    for name in bundle.0.keys() {
        let mut changed = bundle.clone();
        changed.0.remove(name);
        let found = cases.faults(&changed);
        assert!(!found.is_empty(), "{name}");
    }
    let mut changed = bundle.clone();
    changed.0.insert("more".to_owned(), Vec::new());
    assert_eq!(cases.faults(&changed), ["more is not in the manifest"]);
    cases.meet("a_bundle_that_is_none_is_told_by_what_it_is_not");
}

#[test]
fn a_gap_a_loss_and_what_has_no_context_are_told_alike() {
    let mut all = unknown();
    all.push(super::made::gap(1_100, GapCause::AgentDown, 1_200));
    all.push(open(1_300, &gpu(2), 12));
    let mut journal = Journal::of(balanced(all));
    let mut cases = Cases::new(journal.bundle(&journal.all()));
    for (since, until) in [(0, 400), (500, 1_150), (1_150, 1_250), (2_000, 3_000)] {
        let began = wall(0).ms();
        journal.period = (began + since, began + until);
        for (first, beside) in [(1, vec![]), (8, vec![6, 7]), (8, vec![]), (10, vec![1, 2, 9])] {
            let part = Part { first, beside, ..journal.all() };
            let bundle = journal.bundle(&part);
            let is_good = cases.faults(&bundle).is_empty();
            // What ends an entry that no list of open ones has is a fault; without its own line it is unknown.
            assert!(is_good, "{part:?}: {}", bundle.verdict());
        }
    }
    let _row = row(&gpu(1), 1, None, 1);
    cases.meet("a_gap_a_loss_and_what_has_no_context_are_told_alike");
}
