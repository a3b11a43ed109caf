//! The journal in parts: what was archived is whole by itself, and what goes on knows all that it must.

use super::made::{self, EPOCH_MS};
use super::{Folder, filled, read, settlement};
use crate::journal::entry::{Entry, Figures};
use crate::journal::store::{
    Outcome, Reader, Store, StoreError, archive, check, check_archives, check_file,
};
use crate::unit::WallUs;

/// A journal with something open in its first entry, and the moment that cuts it about in the middle.
pub(super) fn journal() -> (Folder, Vec<Entry>, WallUs) {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    store.append(vec![made::open(7, EPOCH_MS)]).unwrap();
    for pid in 0..12 {
        let batch = (1..=10).map(|n| settlement(pid * 10 + n + 100, Some(&key))).collect();
        store.append(batch).unwrap();
    }
    store.close().unwrap();
    let entries = read(&folder.reader(), 0, u64::MAX).unwrap();
    let cut = entries[70].at.stamp.wall;
    (folder, entries, cut)
}

#[test]
fn both_parts_are_whole_and_together_what_there_was() {
    let (folder, entries, cut) = journal();
    let before = folder.reader().end().unwrap();
    let archived = archive(&folder.dir(), cut).unwrap();
    assert_eq!((archived.first, archived.last), (1, 64));
    for report in [check(&folder.dir()).unwrap(), check_file(&archived.file).unwrap()] {
        assert!(report.is_whole(), "{:?}", report.faults);
    }
    let old = Reader::open_file(&archived.file).unwrap();
    let new = folder.reader();
    assert_eq!(new.base(), 64);
    assert_eq!(old.journal(), new.journal());
    let mut together = read(&old, 0, u64::MAX).unwrap();
    together.extend(read(&new, 0, u64::MAX).unwrap());
    assert_eq!(together, entries);
    // Sums, what is open and what named it go on as if nothing had happened.
    assert_eq!(new.end().unwrap(), before);
    assert_eq!(new.open_identities().unwrap()[0].entry, entries[0]);
    let kept = settlement(101, folder.store().commitment_key().into()).argv.unwrap();
    assert_eq!(old.argv(kept.place()).unwrap(), Some(kept));
}

#[test]
fn a_row_that_was_archived_and_comes_back_is_still_booked() {
    let (folder, entries, cut) = journal();
    archive(&folder.dir(), cut).unwrap();
    let mut store = folder.store();
    let longer = made::Job { held_ms: 501, ..made::Job::of(101, EPOCH_MS + 101_000, 500) };
    let batch = vec![settlement(101, None), longer.draft(None), settlement(9_000, None)];
    let outcomes = store.append(batch).unwrap().outcomes;
    let next = u64::try_from(entries.len()).unwrap() + 1;
    assert_eq!(
        outcomes,
        [
            Outcome::Reoffered { of: 2 },
            Outcome::Conflicting { of: 2, seq: Some(next) },
            Outcome::Entered { seq: next + 1 }
        ]
    );
    // What was open before the cut ends after it.
    store.append(vec![made::ended(EPOCH_MS + 10, 1)]).unwrap();
    drop(store);
    assert!(check(&folder.dir()).unwrap().is_whole());
    assert!(folder.reader().end().unwrap().unresolved.is_empty());
}

#[test]
fn archiving_goes_on_from_what_was_archived_before() {
    let folder = Folder::new();
    let (entries, end) = filled(&folder, 31, 400);
    let mut parts = Vec::new();
    for place in [120, 240, 390] {
        match archive(&folder.dir(), entries[place].at.stamp.wall) {
            Ok(archived) => parts.push(archived),
            Err(StoreError::NothingToArchive { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(parts.len() >= 2, "{parts:?}");
    let mut together = Vec::new();
    for part in &parts {
        let report = check_file(&part.file).unwrap();
        assert!(report.is_whole(), "{:?}", report.faults);
        together.extend(read(&Reader::open_file(&part.file).unwrap(), 0, u64::MAX).unwrap());
    }
    together.extend(read(&folder.reader(), 0, u64::MAX).unwrap());
    assert_eq!(together, entries);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!(Store::open(&folder.dir()).unwrap().1, end);
}

#[test]
fn nothing_is_archived_while_somebody_writes_or_reads_or_where_nothing_is_old() {
    let (folder, entries, cut) = journal();
    let whole = std::fs::read(folder.dir().journal()).unwrap();
    let error = archive(&folder.dir(), WallUs(1)).unwrap_err();
    assert!(matches!(error, StoreError::NothingToArchive { .. }), "{error}");
    let store = folder.store();
    let error = archive(&folder.dir(), cut).unwrap_err();
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    store.close().unwrap();
    assert_eq!(std::fs::read(folder.dir().journal()).unwrap(), whole);
    assert_eq!(read(&folder.reader(), 0, u64::MAX).unwrap(), entries);
}

#[test]
fn an_archive_that_a_killed_predecessor_finished_is_taken_and_a_broken_one_refused() {
    let (folder, entries, cut) = journal();
    let before = folder.copy();
    let archived = archive(&folder.dir(), cut).unwrap();
    // Killed between the archive's rename and the journal's.
    let name = archived.file.file_name().unwrap();
    std::fs::copy(&archived.file, before.path().join(name)).unwrap();
    std::fs::write(before.path().join("ledger.db.next"), b"half a journal").unwrap();
    let again = archive(&before.dir(), cut).unwrap();
    assert_eq!((again.last, again.hash), (archived.last, archived.hash));
    assert!(check(&before.dir()).unwrap().is_whole());

    let (broken, ..) = journal();
    let other = archive(&broken.dir(), cut).unwrap();
    // Another journal's archive has another name.
    assert_ne!(other.file.file_name(), archived.file.file_name());
    assert!(entries.iter().all(|entry| !matches!(entry.figures, Figures::Conflict(_))));
}

#[test]
fn the_archives_beside_a_journal_are_checked_and_missing_ones_told() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 33, 400);
    assert_eq!(check_archives(&folder.dir()).unwrap().missing, 0);
    let mut parts = Vec::new();
    for place in [120, 240, 390] {
        parts.extend(archive(&folder.dir(), entries[place].at.stamp.wall).ok());
    }
    assert!(parts.len() >= 2, "{parts:?}");
    let checked = check_archives(&folder.dir()).unwrap();
    assert_eq!((checked.missing, checked.archives.len()), (0, parts.len()));
    for (one, part) in checked.archives.iter().rev().zip(&parts) {
        assert_eq!((&one.path, one.report.head.seq), (&part.file, part.last));
        assert!(one.report.is_whole(), "{:?}", one.report.faults);
    }
    // The oldest gone: what it had is missing, and the others are checked still.
    let kept = std::fs::read(&parts[0].file).unwrap();
    std::fs::remove_file(&parts[0].file).unwrap();
    let without = check_archives(&folder.dir()).unwrap();
    assert_eq!((without.missing, without.archives.len()), (parts[0].last, parts.len() - 1));
    // One that is damaged, and one that is no journal, are here and faulty.
    let mut damaged = kept.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 4_096].fill(0);
    for bytes in [&damaged[..], b"nothing of ours"] {
        std::fs::write(&parts[0].file, bytes).unwrap();
        let faulty = check_archives(&folder.dir()).unwrap();
        assert!(!faulty.archives.last().unwrap().report.is_whole());
    }
    // A part of this journal under the name of another does not continue what it must.
    std::fs::copy(&parts[1].file, &parts[0].file).unwrap();
    let exchanged = check_archives(&folder.dir()).unwrap();
    let last = exchanged.archives.last().unwrap();
    assert!(last.report.faults.iter().any(|fault| fault.what.contains("what follows it")));
    assert!(check(&folder.dir()).unwrap().is_whole());
}
