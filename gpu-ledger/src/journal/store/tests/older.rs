//! Journals of older schema versions: of version 1, which kept arguments only as captured, and of version 2, in which the
//! first mode that kept them kept them for every entry.

use super::modes::{SAFE, WHOLE, leaking, told, words};
use super::{Folder, settlement};
use crate::argv::{CmdlineMode, StoredText};
use crate::billing::JournalFiles;
use crate::journal::entry::{Draft, Evidence};
use crate::journal::store::{Reader, Store, StoreError, check, check_file};

/// What takes away the tables of keys and of closed periods, which version 4 did not have.
const AUDIT_GONE: &str = "DROP VIEW signing_keys; DROP VIEW closings; DROP TABLE signing_key; DROP TABLE closed; \
     DROP TABLE erased; DROP TABLE subtree;";

/// Turns a closed journal or an archive into one of version 4.
pub(super) fn make_version_4(path: &std::path::Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let steps = format!("BEGIN; {AUDIT_GONE} PRAGMA user_version = 4; COMMIT");
    connection.execute_batch(&steps).unwrap();
}

/// Turns the file of a closed journal into one of this version.
fn make_old(folder: &Folder, version: u32) {
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    let (old, columns) = match version {
        1 => (include_str!("../argv.v1.sql"), "commitment, bytes, true_length, state"),
        _ => (include_str!("../argv.v2.sql"), "commitment, bytes, true_length, state, text"),
    };
    let steps = format!(
        "BEGIN; {AUDIT_GONE} DROP VIEW memory_held; DROP TABLE memory; DROP TRIGGER argv_insert; DROP TRIGGER argv_update; ALTER TABLE argv RENAME TO new; {old}; \
         INSERT INTO argv SELECT {columns} FROM new; DROP TABLE new; PRAGMA user_version = {version}; COMMIT"
    );
    connection.execute_batch(&steps).unwrap();
}

/// The same draft without its mode.
fn of_old(mut draft: Draft) -> Draft {
    if let Evidence::Settlement(evidence) = &mut draft.evidence {
        evidence.identity.as_mut().unwrap().argv.mode = None;
    }
    draft.argv.as_mut().unwrap().mode = None;
    draft
}

/// Of an older entry nobody knows its mode: no secret is told of what some mode kept then, and of one without a file name,
/// which may have been of the mode that keeps nothing, nothing at all.
#[test]
fn an_entry_that_does_not_say_its_mode_is_told_no_secret_and_none_of_what_came_later() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let drafts = [(1, CmdlineMode::Full), (2, CmdlineMode::Redacted), (3, CmdlineMode::None)];
    for (pid, as_of) in drafts {
        store.append(vec![leaking(pid, &key, None, as_of)]).unwrap();
    }
    store.close().unwrap();
    make_old(&folder, 2);
    let by_itself = folder.path().join("archive.db");
    std::fs::copy(folder.dir().journal(), &by_itself).unwrap();
    let report = check_file(&by_itself).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_redacted, report.argv_absent), (1, 0, 0));
    std::fs::remove_file(&by_itself).unwrap();
    let (mut store, _) = Store::open(&folder.dir()).unwrap();
    let check_told = |later: Option<(StoredText, &str)>| {
        let files = JournalFiles::open_beside_writer(&folder.dir()).unwrap();
        let found: Vec<_> = (1..=3).map(|seq| told(&files, seq)).collect();
        let found: Vec<_> = found.iter().map(|one| words(one.as_ref())).collect();
        let safe = Some((StoredText::Redacted, SAFE));
        assert_eq!(found, [safe, safe, None]);
        if later.is_some() {
            assert_eq!(words(told(&files, 4).as_ref()), later);
        }
    };
    check_told(None);
    let full = CmdlineMode::Full;
    store.append(vec![leaking(4, &key, Some(full), full)]).unwrap();
    check_told(Some((StoredText::Captured, WHOLE)));
    drop(store);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_redacted, report.argv_absent), (2, 0, 0));
}

#[test]
fn a_journal_without_redacted_texts_is_brought_up_to_date_and_a_file_by_itself_is_read_as_it_is() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let drafts = vec![of_old(settlement(1, Some(&key))), of_old(settlement(2, Some(&key)))];
    let kept = drafts[0].argv.clone().unwrap();
    store.append(drafts).unwrap();
    store.close().unwrap();
    make_old(&folder, 1);
    // Beside no daemon it waits for one.
    let error = Reader::open(&folder.dir()).unwrap_err();
    assert!(error.to_string().contains("brings up to date"), "{error}");
    // An archive waits for nobody.
    let archive = folder.path().join("archive.db");
    std::fs::copy(folder.dir().journal(), &archive).unwrap();
    let by_itself = Reader::open_file(&archive).unwrap();
    assert_eq!(by_itself.argv(kept.place()).unwrap(), Some(kept.clone()));
    let report = check_file(&archive).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_redacted), (2, 0));
    std::fs::remove_file(&archive).unwrap();
    let (store, _) = Store::open(&folder.dir()).unwrap();
    assert_eq!(store.argv(kept.place()).unwrap(), Some(kept));
    drop(store);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_unproven), (2, 0));
}

#[test]
fn a_journal_from_before_memory_was_sampled_gets_its_table_and_an_archive_of_one_is_whole_without()
{
    let folder = Folder::new();
    let mut store = folder.store();
    store.append(vec![settlement(1, None)]).unwrap();
    store.close().unwrap();
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    let steps =
        format!("{AUDIT_GONE} DROP VIEW memory_held; DROP TABLE memory; PRAGMA user_version = 3");
    connection.execute_batch(&steps).unwrap();
    drop(connection);
    let archive = folder.path().join("archive.db");
    std::fs::copy(folder.dir().journal(), &archive).unwrap();
    let report = check_file(&archive).unwrap();
    assert!(report.is_whole() && report.entries == 1, "{:?}", report.faults);
    std::fs::remove_file(&archive).unwrap();
    let (mut store, _) = Store::open(&folder.dir()).unwrap();
    store.append(vec![super::made::memory(super::made::EPOCH_MS + 5_000, 1)]).unwrap();
    drop(store);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole() && report.entries == 2, "{:?}", report.faults);
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    let sql = "SELECT account, gib_s > 0, known_ms FROM memory_held";
    let told = connection.query_row(sql, [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, row.get::<_, u64>(2)?))
    });
    assert_eq!(told.unwrap(), ("ollama".to_owned(), true, 100_000));
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
    assert_eq!(store.argv(redacted.place()).unwrap(), Some(redacted.clone()));
    // Kept once: another text under the same mode changes nothing.
    let again = settlement(41, Some(&key));
    assert_eq!(again.argv.as_ref().unwrap().commitment, redacted.commitment);
    store.append(vec![again]).unwrap();
    assert_eq!(store.argv(redacted.place()).unwrap(), Some(redacted));
    store.close().unwrap();
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert_eq!((report.argv_kept, report.argv_redacted, report.argv_absent), (2, 1, 0));
    // One that says that it is as captured and is not is a fault.
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    connection.execute("DELETE FROM argv WHERE commitment = ?", [whole.commitment.0]).unwrap();
    let columns = rusqlite::params![whole.commitment.0, b"other\0".as_slice()];
    let insert = "INSERT INTO argv VALUES (?, 'full', ?, 30, 'whole', 'captured')";
    connection.execute(insert, columns).unwrap();
    drop(connection);
    let report = check(&folder.dir()).unwrap();
    assert!(report.faults[0].what.contains("not what was committed to"), "{:?}", report.faults);
    // And a word that nobody knows, as well.
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    connection.execute("DELETE FROM argv WHERE commitment = ?", [whole.commitment.0]).unwrap();
    let insert = "INSERT INTO argv VALUES (?, 'full', ?, 30, 'whole', 'half')";
    connection.execute(insert, rusqlite::params![whole.commitment.0, b"a".as_slice()]).unwrap();
    drop(connection);
    let report = check(&folder.dir()).unwrap();
    assert!(report.faults[0].what.contains("not readable"), "{:?}", report.faults);
    let error = folder.reader().argv(whole.place()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
