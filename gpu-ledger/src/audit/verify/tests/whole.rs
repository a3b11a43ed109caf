//! Bundles that are whole.

use super::made::{Journal, faults, fifty, key, unknown};
use crate::audit::verify::{CompletenessWord, IntegrityWord, KeyWord, Known, Witness};

#[test]
fn a_whole_bundle_in_which_everything_is_known_is_good_and_complete() {
    let journal = Journal::of(fifty());
    let verdict = journal.bundle(&journal.all()).verdict();
    assert_eq!(faults(&verdict), Vec::<String>::new());
    let completeness = verdict.completeness.clone().unwrap();
    assert_eq!(completeness.unknown, Vec::new());
    assert_eq!(completeness.verdict, CompletenessWord::Complete);
    assert_eq!(verdict.exit_status(), 0);
    assert_eq!(
        (verdict.key.verdict, verdict.witness),
        (KeyWord::NotGiven, Some(Witness::NotGiven))
    );
    assert_eq!(verdict.freshness.unwrap().period_seen_to_end, Some(true));
    assert_eq!(verdict.bundle.unwrap().settlements, 2);
}

#[test]
fn what_is_not_known_is_told_with_its_size() {
    let journal = Journal::of(unknown());
    let verdict = journal.bundle(&journal.all()).verdict();
    assert_eq!(verdict.integrity.verdict, IntegrityWord::Good, "{verdict}");
    assert_eq!(verdict.exit_status(), 2);
    insta::assert_snapshot!(verdict.to_string());
}

#[test]
fn any_part_of_a_journal_proves_itself() {
    let journal = Journal::of(fifty());
    for (first, last, size) in
        [(1, 1, 1), (1, 1, 50), (50, 50, 50), (2, 49, 50), (17, 32, 50), (16, 33, 49), (33, 47, 47)]
    {
        let mut part = journal.all();
        (part.first, part.last, part.size) = (first, last, size);
        part.beside = (1..=size).filter(|seq| *seq < first || *seq > last).step_by(3).collect();
        let verdict = journal.bundle(&part).verdict();
        assert_eq!(faults(&verdict), Vec::<String>::new(), "{part:?}");
    }
}

#[test]
fn an_older_checkpoint_is_met_where_a_root_of_its_size_can_be_had() {
    let journal = Journal::of(fifty());
    let mut part = journal.all();
    (part.first, part.last, part.size, part.consistency) = (21, 40, 50, vec![5]);
    let bundle = journal.bundle(&part);
    // 4 and 16: whole subtrees of the left; 5: by its proof; 48: whole subtrees of the right.
    let met: Vec<u64> = (1..=50)
        .filter(|size| {
            let known =
                Known { witness: Some(journal.checkpoint(*size).into_bytes()), ..Known::default() };
            let verdict = bundle.verdict_with(&known);
            assert_eq!(faults(&verdict), Vec::<String>::new());
            let is_met = verdict.witness == Some(Witness::Consistent);
            assert!(is_met || verdict.witness == Some(Witness::WitnessNotProvable));
            is_met
        })
        .collect();
    let wanted: Vec<u64> = [5, 16].into_iter().chain(20..=40).chain([48, 50]).collect();
    assert_eq!(met, wanted);
}

#[test]
fn a_key_that_was_given_is_the_one_that_signed_or_a_fault() {
    let journal = Journal::of(fifty());
    let bundle = journal.bundle(&journal.all());
    let with = |key: &crate::journal::note::SigningKey| {
        let known = Known { key: Some(key.public().clone()), ..Known::default() };
        bundle.verdict_with(&known)
    };
    let own = with(&journal.key);
    assert_eq!((own.key.verdict, own.exit_status()), (KeyWord::Given, 0));
    let wanted =
        "key.pub is not the key that was given, and no entry leads from that to it".to_owned();
    assert_eq!(faults(&with(&key(2))), [wanted]);
}
