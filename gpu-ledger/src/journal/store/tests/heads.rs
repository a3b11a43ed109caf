//! The journal as it stood at an entry: what a journal that never went further would say, and nothing else.

use std::collections::BTreeSet;

use nvsim::random::Random;

use super::made::{DAY_MS, EPOCH_MS};
use super::{Folder, filled};
use crate::journal::Recovered;
use crate::journal::entry::{Entry, Figures};
use crate::journal::store::{Extent, Reader, StoreError, archive};
use crate::unit::{Span, WallUs};

fn read(reader: &Reader, period: (u64, u64), extent: Extent) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    reader.period_within(period, extent, |entry| entries.push(entry.clone()))?;
    Ok(entries)
}

/// What a follower of the first entries knows.
fn end_at(entries: &[Entry], head: u64) -> Recovered {
    let mut end = Recovered::default();
    for entry in entries.iter().take_while(|entry| entry.seq <= head) {
        end.follow_read(entry).unwrap();
    }
    end
}

#[test]
fn at_every_head_a_period_gets_what_bore_on_it_then_and_the_end_is_that_of_then() {
    let folder = Folder::new();
    let (entries, end) = filled(&folder, 11, 420);
    let reader = folder.reader();
    let last = end.head.seq;
    let mut random = Random::seeded(3);
    for round in 0..60_u64 {
        // The edges of segments, their neighbours, the ends, and anywhere.
        let head = match round {
            0 => 1,
            1 => last,
            2..=10 => (32 * (round - 1)).min(last),
            11..=20 => (32 * (round - 10) + 1).min(last),
            _ => random.between(1, last),
        };
        let from = random.between(EPOCH_MS - DAY_MS, EPOCH_MS + 12 * DAY_MS);
        let period = Span::new(from, from + random.between(1, 2 * DAY_MS)).unwrap();
        let of_then: Vec<Entry> = entries.iter().filter(|one| one.seq <= head).cloned().collect();
        let mut found = Vec::new();
        let told = reader
            .period_within((period.from_ms(), period.to_ms()), Extent::at(head), |entry| {
                found.push(entry.clone());
            })
            .unwrap();
        assert_eq!(told.end, end_at(&entries, head), "{head}");
        assert!(found.iter().all(|entry| entry.seq <= head), "{head}");
        assert!(found.is_sorted_by(|a, b| a.seq < b.seq));
        let numbers: BTreeSet<u64> = found.iter().map(|entry| entry.seq).collect();
        for entry in of_then.iter().filter(|one| super::model::bears(&of_then, one, period)) {
            assert!(numbers.contains(&entry.seq), "at {head} {period:?} lacks {entry:?}");
        }
        let last_mark = of_then.iter().rev().find(|one| matches!(one.figures, Figures::Mark(_)));
        assert_eq!(told.last_mark.as_ref(), last_mark, "{head}");
        // From the last mark of then on everything is given, whatever it bears on.
        for entry in of_then.iter().filter(|one| last_mark.is_some_and(|mark| mark.seq <= one.seq))
        {
            assert!(numbers.contains(&entry.seq), "at {head}: {entry:?}");
        }
        // Of what comes after another head no more, and no less, than the rest.
        let after = random.below(head + 1);
        let rest = read(&reader, (from, period.to_ms()), Extent { after, head: Some(head) });
        found.retain(|entry| entry.seq > after);
        assert_eq!(rest.unwrap(), found, "{after} to {head}");
    }
    for head in [0, last + 1, u64::MAX] {
        let refused = read(&reader, (0, u64::MAX), Extent::at(head));
        assert!(matches!(refused, Err(StoreError::NoSuchHead { .. })), "{head}: {refused:?}");
    }
}

#[test]
fn a_head_is_proven_to_lie_on_the_way_to_the_end_that_is_there() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 12, 120);
    folder.store().close().unwrap();
    let last = entries.last().unwrap().seq;
    assert_ne!(last % 32, 0, "it stands after the last segment");
    // After the head in its segment, and in the tail, which the end's own proof covers.
    for seq in [70, last] {
        let copy = folder.copy();
        let path = copy.path().join("ledger.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("DROP TRIGGER entry_update").unwrap();
        let sql = "UPDATE entry SET hash = zeroblob(32) WHERE seq = ?";
        connection.execute(sql, [seq]).unwrap();
        let trigger = "CREATE TRIGGER entry_update BEFORE UPDATE ON entry\n\
            BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END";
        connection.execute_batch(trigger).unwrap();
        drop(connection);
        let refused = read(&copy.reader(), (0, u64::MAX), Extent::at(66));
        assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{seq}");
    }
    let whole = read(&folder.reader(), (0, u64::MAX), Extent::at(66)).unwrap();
    assert_eq!(whole, entries[..66]);
}

#[test]
fn the_last_entry_that_was_learnt_by_a_moment_is_found_and_proven_though_clocks_step() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 13, 200);
    let reader = folder.reader();
    let mut moments: Vec<WallUs> = entries.iter().map(|entry| entry.at.stamp.wall).collect();
    moments.push(WallUs(0));
    moments.push(WallUs(u64::MAX));
    for moment in moments {
        for at in [moment, WallUs(moment.0.saturating_sub(1))] {
            let wanted = entries.iter().rev().find(|entry| entry.at.stamp.wall <= at);
            let found = reader.last_learnt_by(at).unwrap();
            assert_eq!(found, wanted.map(|entry| entry.seq), "{at:?}");
        }
    }
}

#[test]
fn a_head_in_an_archive_is_read_there_and_one_that_is_gone_is_said_to_be() {
    let (folder, entries, cut) = super::archiving::journal();
    let archived = archive(&folder.dir(), cut).unwrap();
    let old = Reader::open_file(&archived.file).unwrap();
    assert_eq!(read(&old, (0, u64::MAX), Extent::at(40)).unwrap(), entries[..40]);
    let new = folder.reader();
    let refused = read(&new, (0, u64::MAX), Extent::at(40)).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("has entries 65 to") && told.contains("put the archives"), "{told}");
    assert_eq!(read(&new, (0, u64::MAX), Extent::at(66)).unwrap(), entries[64..66]);
    // Both together, as a bill reads them.
    let files = crate::billing::JournalFiles::open(&folder.dir()).unwrap();
    for head in [1, 40, 64, 65, 121] {
        let mut all = Vec::new();
        let visited = files.visit((0, u64::MAX), Extent::at(head), &mut |entry| {
            all.push(entry.clone());
        });
        let head = usize::try_from(head).unwrap();
        assert_eq!(visited.unwrap().end.head.seq, entries[head - 1].seq);
        assert_eq!(all, entries[..head]);
    }
    let by = files.last_learnt_by(entries[9].at.stamp.wall).unwrap();
    let wanted = entries.iter().rev().find(|one| one.at.stamp.wall <= entries[9].at.stamp.wall);
    assert_eq!(by, wanted.map(|one| one.seq));
}
