//! Journals of schema version 1, which kept arguments only as captured.

use super::{Folder, settlement};
use crate::argv::StoredText;
use crate::journal::store::{Reader, Store, StoreError, check, check_file};

/// Turns the file of a closed journal into one of version 1.
fn make_old(folder: &Folder) {
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    let old = include_str!("../argv.v1.sql");
    let steps = format!(
        "BEGIN; DROP TRIGGER argv_insert; DROP TRIGGER argv_update; ALTER TABLE argv RENAME TO new; {old}; \
         INSERT INTO argv SELECT commitment, bytes, true_length, state FROM new; DROP TABLE new; \
         PRAGMA user_version = 1; COMMIT"
    );
    connection.execute_batch(&steps).unwrap();
}

#[test]
fn a_journal_without_redacted_texts_is_brought_up_to_date_and_a_file_by_itself_is_read_as_it_is() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let drafts = vec![settlement(1, Some(&key)), settlement(2, Some(&key))];
    let kept = drafts[0].argv.clone().unwrap();
    store.append(drafts).unwrap();
    store.close().unwrap();
    make_old(&folder);
    // Beside no daemon it waits for one.
    let error = Reader::open(&folder.dir()).unwrap_err();
    assert!(error.to_string().contains("brings up to date"), "{error}");
    // An archive waits for nobody.
    let archive = folder.path().join("archive.db");
    std::fs::copy(folder.dir().journal(), &archive).unwrap();
    let by_itself = Reader::open_file(&archive).unwrap();
    assert_eq!(by_itself.argv(kept.commitment).unwrap(), Some(kept.clone()));
    let report = check_file(&archive).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_redacted), (2, 0));
    std::fs::remove_file(&archive).unwrap();
    let (store, _) = Store::open(&folder.dir()).unwrap();
    assert_eq!(store.argv(kept.commitment).unwrap(), Some(kept));
    drop(store);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_unproven), (2, 0));
}

#[test]
fn a_text_that_is_less_than_what_was_committed_to_says_so_and_none_else_may_differ() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let mut drafts = vec![settlement(1, Some(&key)), settlement(2, Some(&key))];
    let redacted = drafts[0].argv.as_mut().unwrap();
    (redacted.argv.bytes, redacted.text) =
        (b"train.py\0[redacted]\0".as_slice().into(), StoredText::Redacted);
    let (redacted, whole) = (redacted.clone(), drafts[1].argv.clone().unwrap());
    store.append(drafts).unwrap();
    assert_eq!(store.argv(redacted.commitment).unwrap(), Some(redacted.clone()));
    // Kept once: another mode changes nothing.
    let again = settlement(41, Some(&key));
    assert_eq!(again.argv.as_ref().unwrap().commitment, redacted.commitment);
    store.append(vec![again]).unwrap();
    assert_eq!(store.argv(redacted.commitment).unwrap(), Some(redacted));
    store.close().unwrap();
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_redacted, report.argv_absent), (2, 1, 0));
    // One that says that it is as captured and is not is a fault.
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    connection.execute("DELETE FROM argv WHERE commitment = ?", [whole.commitment.0]).unwrap();
    let columns = rusqlite::params![whole.commitment.0, b"other\0".as_slice()];
    let insert = "INSERT INTO argv VALUES (?, ?, 30, 'whole', 'captured')";
    connection.execute(insert, columns).unwrap();
    drop(connection);
    let report = check(&folder.dir()).unwrap();
    assert!(report.faults[0].what.contains("not what was committed to"), "{:?}", report.faults);
    // And a word that nobody knows, as well.
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    connection.execute("DELETE FROM argv WHERE commitment = ?", [whole.commitment.0]).unwrap();
    let insert = "INSERT INTO argv VALUES (?, ?, 30, 'whole', 'half')";
    connection.execute(insert, rusqlite::params![whole.commitment.0, b"a".as_slice()]).unwrap();
    drop(connection);
    let report = check(&folder.dir()).unwrap();
    assert!(report.faults[0].what.contains("not readable"), "{:?}", report.faults);
    let error = folder.reader().argv(whole.commitment).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
