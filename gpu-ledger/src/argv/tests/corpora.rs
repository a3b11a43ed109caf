//! Recall and precision over command lines with and without a secret; `tests/data/redaction/README.md` says
//! where they are from.

use serde::Deserialize;

use crate::argv::{REDACTED, redact_words};

/// The bar: of a hundred secrets ninety-nine are found, and of a hundred command lines that change
/// ninety-five held one.
const RECALL_MIN: (usize, usize) = (99, 100);
const PRECISION_MIN: (usize, usize) = (95, 100);

#[derive(Deserialize)]
struct Line {
    argv: Vec<String>,
    secret: Option<String>,
    kind: String,
    source: String,
}

fn lines(text: &str) -> Vec<Line> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of a corpus")).collect()
}

fn held_out() -> (Vec<Line>, Vec<Line>) {
    let secrets = include_str!("../../../../tests/data/redaction/secrets.heldout.jsonl");
    let innocent = include_str!("../../../../tests/data/redaction/innocent.heldout.jsonl");
    (lines(secrets), lines(innocent))
}

fn open() -> (Vec<Line>, Vec<Line>) {
    let secrets = include_str!("../../../../tests/data/redaction/secrets.open.jsonl");
    let innocent = include_str!("../../../../tests/data/redaction/innocent.open.jsonl");
    (lines(secrets), lines(innocent))
}

/// The words as they are kept.
fn kept(line: &Line) -> Vec<Vec<u8>> {
    let words: Vec<&[u8]> = line.argv.iter().map(String::as_bytes).collect();
    let redacted = redact_words(&words, false);
    redacted.map_or_else(
        || words.iter().map(|word| word.to_vec()).collect(),
        |words| words.into_iter().map(std::borrow::Cow::into_owned).collect(),
    )
}

/// Any stretch of a secret this long that is left is the secret left.
const STRETCH: usize = 12;

/// What became of the words of one line with a secret.
struct Outcome {
    is_found: bool,
    /// Words that changed and did not hold it.
    others: usize,
}

fn outcome(line: &Line) -> Outcome {
    let secret = line.secret.as_deref().expect("a secret").as_bytes();
    let after = kept(line);
    let pieces: Vec<&[u8]> = secret.windows(STRETCH.min(secret.len())).collect();
    let left = |word: &Vec<u8>| pieces.iter().any(|piece| contains(word, piece));
    let others = line.argv.iter().zip(&after).filter(|(before, after)| {
        before.as_bytes() != after.as_slice() && !contains(before.as_bytes(), secret)
    });
    Outcome { is_found: !after.iter().any(left), others: others.count() }
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

fn is_left_alone(line: &Line) -> bool {
    kept(line).iter().zip(&line.argv).all(|(after, before)| after == before.as_bytes())
}

struct Counted {
    secrets: usize,
    found: usize,
    innocent: usize,
    changed: usize,
    others: usize,
}

impl Counted {
    fn of((secrets, innocent): &(Vec<Line>, Vec<Line>)) -> Self {
        let outcomes: Vec<Outcome> = secrets.iter().map(outcome).collect();
        Self {
            secrets: secrets.len(),
            found: outcomes.iter().filter(|one| one.is_found).count(),
            innocent: innocent.len(),
            changed: innocent.iter().filter(|line| !is_left_alone(line)).count(),
            others: outcomes.iter().map(|one| one.others).sum(),
        }
    }

    /// Says the counts, and whether they meet the bar.
    fn meets_the_bar(&self, name: &str) -> bool {
        let Self { secrets, found, innocent, changed, others } = self;
        let marked = found + changed;
        println!(
            "{name}: {found} of {secrets} secrets found, {changed} of {innocent} innocent lines changed: recall \
             {found}/{secrets}, precision {found}/{marked}; {others} words changed beside a secret's own"
        );
        found * RECALL_MIN.1 >= secrets * RECALL_MIN.0
            && found * PRECISION_MIN.1 >= marked * PRECISION_MIN.0
    }
}

#[test]
fn the_corpora_are_as_many_and_as_well_formed_as_they_say() {
    let (open, held_out) = (open(), held_out());
    assert_eq!((open.0.len(), open.1.len()), (520, 410));
    assert_eq!((held_out.0.len(), held_out.1.len()), (120, 121));
    for line in open.0.iter().chain(&open.1) {
        assert!(!line.argv.is_empty() && !line.kind.is_empty() && !line.source.is_empty());
    }
    for line in &open.0 {
        let secret = line.secret.as_deref().unwrap();
        assert_eq!(
            line.argv.iter().filter(|word| word.contains(secret)).count(),
            1,
            "{}",
            line.kind
        );
    }
    assert!(open.1.iter().all(|line| line.secret.is_none()));
}

#[test]
fn the_open_corpora_meet_the_bar() {
    let open = open();
    for line in open.0.iter().filter(|line| !outcome(line).is_found) {
        println!("left: {:?} of {:?} ({})", line.secret, line.argv, line.kind);
    }
    for line in open.1.iter().filter(|line| !is_left_alone(line)) {
        let after = kept(line);
        let changed =
            line.argv.iter().zip(&after).filter(|(before, after)| before.as_bytes() != **after);
        let words: Vec<&String> = changed.map(|(before, _)| before).collect();
        println!("changed: {words:?} of {:?} ({})", line.argv, line.kind);
    }
    for line in open.0.iter().filter(|line| outcome(line).others > 0) {
        println!("beside: {:?} ({})", line.argv, line.kind);
    }
    assert!(Counted::of(&open).meets_the_bar("open"));
}

/// Counted, never looked at: no line of it is printed, whatever becomes of it.
#[test]
fn the_held_out_corpora_meet_the_bar() {
    assert!(Counted::of(&held_out()).meets_the_bar("held out"), "see the counts");
}

#[test]
fn what_was_redacted_once_stays_as_it_is() {
    for line in open().0 {
        let after = kept(&line);
        let words: Vec<&[u8]> = after.iter().map(Vec::as_slice).collect();
        assert_eq!(redact_words(&words, false), None, "{}", line.kind);
        assert!(after.iter().any(|word| contains(word, REDACTED)) || !outcome(&line).is_found);
    }
}
