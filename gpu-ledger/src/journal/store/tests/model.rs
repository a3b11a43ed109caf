//! The store against the pure chain and against reading everything.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::made::{self, DAY_MS, EPOCH_MS, Expected, Maker};
use super::{Folder, filled, read, settlement};
use crate::journal::entry::{Change, Correction, Entry, Evidence, Figures};
use crate::journal::store::{Outcome, Reader, Store, StoreError, check};
use crate::journal::{ChainError, Recovered};
use crate::memory::HOUR_MS;
use crate::unit::Span;
use crate::unknown::GapCause;

/// Enters random batches and compares every outcome and the end with the pure chain.
fn against_the_chain(seed: u64, batches: u64) {
    let folder = Folder::new();
    let mut store = folder.store();
    let mut maker = Maker::seeded(seed, Some(store.commitment_key().clone()));
    let mut random = nvsim::random::Random::seeded(seed);
    let mut model = Recovered::default();
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..batches {
        let (mut batch, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..random.between(0, 30) {
            let (draft, what) = maker.next(&model);
            if what == Expected::Entered {
                entries.push(model.seal(draft.clone()).unwrap().entry);
            }
            batch.push(draft);
            expected.push(what);
            // The model does not know what a conflict's entry is: it ends the batch.
            if what == Expected::Conflicting {
                break;
            }
        }
        let appended = store.append(batch).unwrap();
        for (outcome, expected) in appended.outcomes.iter().zip(&expected) {
            match (outcome, expected) {
                (Outcome::Entered { .. }, Expected::Entered)
                | (Outcome::Reoffered { .. }, Expected::Reoffered)
                | (Outcome::Conflicting { seq: None, .. }, Expected::Conflicting) => {}
                (Outcome::Conflicting { of, seq: Some(seq) }, Expected::Conflicting) => {
                    let entry = store.entry(*seq).unwrap().unwrap();
                    let Figures::Conflict(conflict) = &entry.figures else { panic!("{entry:?}") };
                    assert_eq!(conflict.of, *of);
                    assert!(matches!(store.evidence(*seq), Ok(Some(Evidence::Conflict { .. }))));
                    model.follow_read(&entry).unwrap();
                    entries.push(entry);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(store.end(), &model);
        if random.below(5) == 0 {
            drop(store);
            let (again, recovered) = Store::open(&folder.dir()).unwrap();
            assert_eq!(recovered, model);
            store = again;
        }
    }
    assert_eq!(read(&folder.reader(), 0, u64::MAX).unwrap(), entries);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.entries, &report.head), (model.head.seq, &model.head));
    for seq in [1, model.head.seq / 2 + 1, model.head.seq] {
        let wanted = entries.iter().find(|entry| entry.seq == seq).cloned();
        assert_eq!(store.entry(seq).unwrap(), wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn what_is_entered_is_what_the_pure_chain_makes_of_it(seed: u64) {
        against_the_chain(seed, 14);
    }
}

/// Whether an entry bears on a period, said again and in other words than the segments do.
pub(super) fn bears(entries: &[Entry], entry: &Entry, period: Span) -> bool {
    let within = |ms: u64| period.from_ms() <= ms && ms < period.to_ms();
    let of = |seq: u64| entries.iter().find(|entry| entry.seq == seq).unwrap();
    match &entry.figures {
        Figures::Settlement(one) => {
            let span = one.start.and_then(|start| Span::of_row(start, one.held));
            let begins = one.start.is_some_and(|start| within(start.ms()));
            span.is_some_and(|span| span.overlap(period).is_some())
                || begins
                || within(one.read_at.wall.ms())
        }
        Figures::Gap(gap) => Span::new(gap.from.wall.ms(), gap.to.wall.ms())
            .is_some_and(|span| span.overlap(period).is_some()),
        Figures::Epoch(_) | Figures::Coverage(_) | Figures::Key(_) | Figures::Closed(_) => true,
        // What voids its hour bears on all of it.
        Figures::Memory(one) => Span::new(one.hour_ms(), one.hour_ms() + HOUR_MS)
            .is_some_and(|hour| hour.overlap(period).is_some()),
        Figures::Conflict(conflict) => bears(entries, of(conflict.of), period),
        Figures::Correction(Correction { of: named, change }) => {
            let named = of(*named);
            match (&named.figures, change) {
                (Figures::Open(open), Change::Ended { last_seen, .. }) => {
                    let span = Span::new(open.first_seen.began.wall.ms(), last_seen.wall.ms());
                    span.is_some_and(|span| span.overlap(period).is_some())
                }
                _ => bears(entries, named, period),
            }
        }
        Figures::Open(_) | Figures::Mark(_) => false,
    }
}

#[test]
fn a_period_gets_everything_that_bears_on_it_and_little_else() {
    let folder = Folder::new();
    let (entries, end) = filled(&folder, 4, 900);
    let reader = folder.reader();
    let latest = entries.iter().map(|entry| entry.at.stamp.wall.ms()).max().unwrap();
    let mut random = nvsim::random::Random::seeded(9);
    let mut fewest = u64::MAX;
    for _ in 0..60 {
        let from = random.between(EPOCH_MS - 10 * DAY_MS, latest + DAY_MS);
        let to = from + random.below(2 * DAY_MS);
        let period = Span::new(from, to).unwrap();
        let mut found = Vec::new();
        let told = reader.period(from, to, |entry| found.push(entry.clone())).unwrap();
        assert_eq!(told.end, end);
        fewest = fewest.min(told.visited);
        assert!(found.is_sorted_by(|a, b| a.seq < b.seq), "in order, each once");
        let numbers: BTreeSet<u64> = found.iter().map(|entry| entry.seq).collect();
        for entry in entries.iter().filter(|entry| bears(&entries, entry, period)) {
            assert!(numbers.contains(&entry.seq), "{period:?} lacks {entry:?}");
            let named = match &entry.figures {
                Figures::Correction(correction) => Some(correction.of),
                Figures::Conflict(conflict) => Some(conflict.of),
                _ => None,
            };
            assert!(named.is_none_or(|named| numbers.contains(&named)), "{period:?} {entry:?}");
        }
        for entry in &found {
            assert_eq!(Some(entry), entries.iter().find(|known| known.seq == entry.seq));
        }
        let last_mark = entries.iter().rev().find(|one| matches!(one.figures, Figures::Mark(_)));
        assert_eq!(told.last_mark.as_ref(), last_mark);
    }
    assert!(fewest < 300, "a period away from everything reads {fewest} of {}", entries.len());
}

#[test]
fn a_row_that_comes_back_is_booked_once_and_other_contents_are_a_conflict_once() {
    let folder = Folder::new();
    let mut store = folder.store();
    let job = made::Job::of(10, EPOCH_MS, 500);
    let longer = made::Job { held_ms: 501, ..job.clone() };
    let nameless = made::Job { start_ms: None, ..job.clone() };
    // Twice in one batch, and again in later ones.
    let batch = vec![job.draft(None), job.draft(None), nameless.draft(None), longer.draft(None)];
    let outcomes = store.append(batch).unwrap().outcomes;
    assert_eq!(
        outcomes,
        [
            Outcome::Entered { seq: 1 },
            Outcome::Reoffered { of: 1 },
            Outcome::Entered { seq: 2 },
            Outcome::Conflicting { of: 1, seq: Some(3) }
        ]
    );
    let again = vec![longer.draft(None), job.draft(None), nameless.draft(None)];
    let appended = store.append(again).unwrap();
    assert_eq!(
        appended.outcomes,
        [
            Outcome::Conflicting { of: 1, seq: None },
            Outcome::Reoffered { of: 1 },
            Outcome::Reoffered { of: 2 }
        ]
    );
    assert_eq!((appended.reoffered(), appended.conflicts()), (2, 0));
    let Figures::Settlement(settlement) = &job.draft(None).figures else { unreachable!() };
    assert_eq!(store.is_booked(&settlement.key().unwrap()).unwrap(), Some(1));
    assert_eq!(store.end().head.seq, 3);
    assert!(check(&folder.dir()).unwrap().is_whole());
}

#[test]
fn a_batch_that_contradicts_the_journal_leaves_everything_as_it_was() {
    let folder = Folder::new();
    let mut store = folder.store();
    store.append(vec![made::open(9, EPOCH_MS)]).unwrap();
    let before = store.end().clone();
    let batch = vec![settlement(1, None), made::ended(EPOCH_MS, 1), made::ended(EPOCH_MS, 1)];
    let error = store.append(batch).unwrap_err();
    assert!(matches!(error, StoreError::Chain(ChainError::NotOpen { seq: 4, of: 1 })), "{error}");
    assert!(error.can_be_retried());
    assert_eq!(store.end(), &before);
    assert_eq!(folder.reader().end().unwrap(), before);
    let appended = store.append(vec![settlement(1, None), made::ended(EPOCH_MS, 1)]).unwrap();
    assert_eq!(appended.head.seq, 3);
    let open = store.append(vec![made::open(11, EPOCH_MS)]).and_then(|_| store.open_identities());
    let [open] = &open.unwrap()[..] else { panic!("one is open") };
    assert_eq!((open.entry.seq, open.figures.pid.0), (4, 11));
    assert!(open.evidence.identity.is_some());
}

#[test]
fn arguments_are_kept_beside_the_chain_and_can_be_forgotten_without_a_trace() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let secret = settlement(7, Some(&key));
    let kept = secret.argv.clone().unwrap();
    store.append(vec![secret, settlement(8, Some(&key))]).unwrap();
    assert_eq!(store.argv(kept.place()).unwrap(), Some(kept.clone()));
    let found = |folder: &Folder| {
        ["ledger.db", "ledger.db-wal"].iter().any(|name| {
            let bytes = std::fs::read(folder.path().join(name)).unwrap_or_default();
            bytes.windows(kept.argv.bytes.len()).any(|window| window == kept.argv.bytes)
        })
    };
    assert!(found(&folder));
    assert_eq!(store.forget_argv(&[kept.commitment]).unwrap().texts, 1);
    assert_eq!(store.argv(kept.place()).unwrap(), None);
    assert!(!found(&folder), "the text is still in a file");
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_absent), (1, 1));
}

#[test]
fn a_reader_sees_whole_transactions_while_a_writer_writes() {
    let folder = Folder::new();
    let mut store = folder.store();
    let pairs = 150;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut last = 0;
            while last < 2 * pairs {
                let reader: Reader = folder.reader();
                let entries = read(&reader, 0, u64::MAX).unwrap();
                assert!(entries.len().is_multiple_of(2), "half a transaction");
                let count = u64::try_from(entries.len()).unwrap();
                assert!(count >= last);
                last = count;
            }
        });
        for pair in 0..u32::try_from(pairs).unwrap() {
            let batch = vec![
                settlement(2 * pair + 1, None),
                made::gap(GapCause::EventLost, EPOCH_MS, EPOCH_MS + 1),
            ];
            store.append(batch).unwrap();
        }
        reading.join().unwrap();
    });
}
