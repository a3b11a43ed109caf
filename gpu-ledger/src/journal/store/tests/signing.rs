//! The key and what it signs: nothing that does not continue what it signed before.

use std::os::unix::fs::PermissionsExt as _;

use super::{Folder, archiving, filled, settlement};
use crate::journal::entry::{Entry, Figures, KeyChange, Moment};
use crate::journal::note::{Checkpoint, Note, NoteError, VerifyingKey, key_change_text, origin_of};
use crate::journal::store::{Reader, Signer, Store, StoreError, archive, check};
use crate::journal::tree::check_consistency;

const MACHINE: Option<&[u8]> = Some(b"0123456789abcdef0123456789abcdef");

fn at() -> Moment {
    settlement(1, None).at
}

fn key_of(entry: Option<Entry>) -> KeyChange {
    match entry.unwrap().figures {
        Figures::Key(change) => *change,
        other => panic!("{other:?}"),
    }
}

fn settle(store: &mut Store, pids: std::ops::Range<u32>) {
    store.append(pids.map(|pid| settlement(pid, None)).collect()).unwrap();
}

#[test]
fn the_first_start_makes_a_key_that_is_an_entry_and_signs_what_continues_what_it_signed() {
    let folder = Folder::new();
    let mut store = folder.store();
    let signer = store.signer(at(), MACHINE).unwrap();
    let public = signer.public().clone();
    assert_eq!(public.name(), origin_of(MACHINE.unwrap()));
    let path = folder.path().join("ledger.key");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let first = key_of(store.entry(1).unwrap());
    assert_eq!(*first.key, public.to_string());
    assert_eq!((first.previous, first.signature), (None, None));
    // A second start changes nothing.
    assert_eq!(store.signer(at(), None).unwrap().public(), &public);
    assert_eq!(store.end().head.seq, 1);
    settle(&mut store, 1..50);
    let sealed = store.sign(&signer).unwrap();
    assert_eq!(
        (sealed.checkpoint.size, Some(sealed.checkpoint.root)),
        (50, store.tree_head().map(|head| head.1))
    );
    assert_eq!(Checkpoint::open(sealed.note.as_bytes(), &[&public]).unwrap(), sealed.checkpoint);
    let kept = folder.path().join("checkpoint");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), *sealed.note);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(store.sign(&signer).unwrap(), sealed, "the same bytes each time");
    settle(&mut store, 50..120);
    let next = store.sign(&signer).unwrap();
    drop(store);
    // Another process signs an older size, the same bytes again, and leaves the last one what it is.
    let (beside, reader) = (Signer::open(&folder.dir()).unwrap().unwrap(), folder.reader());
    let mut tree = reader.tree(&[]).unwrap();
    assert_eq!(beside.sign(&mut tree, 50).unwrap(), sealed);
    assert_eq!(beside.last().unwrap().unwrap(), next);
    let path = tree.consistency(50, 120).unwrap();
    let head = |signed: &Checkpoint| (signed.size, signed.root);
    check_consistency(head(&sealed.checkpoint), head(&next.checkpoint), &path).unwrap();
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole() && report.root == Some(next.checkpoint.root), "{:?}", report.faults);
}

#[test]
fn a_journal_that_does_not_continue_what_was_signed_is_not_signed() {
    let folder = Folder::new();
    let mut store = folder.store();
    let signer = store.signer(at(), MACHINE).unwrap();
    settle(&mut store, 1..40);
    store.close().unwrap();
    let older = folder.copy();
    let mut store = folder.store();
    settle(&mut store, 40..60);
    let sealed = store.sign(&signer).unwrap();
    store.close().unwrap();
    // The older copy is put back: shorter first, then as long and longer with other entries.
    for name in ["ledger.db", "ledger.head"] {
        std::fs::copy(older.path().join(name), folder.path().join(name)).unwrap();
    }
    let mut store = folder.store();
    let signer = store.signer(at(), MACHINE).unwrap();
    let told = |store: &Store| {
        let error = store.sign(&signer).unwrap_err();
        assert!(matches!(error, StoreError::Inconsistent { signed: 60, .. }), "{error}");
        let kept = std::fs::read_to_string(folder.path().join("checkpoint")).unwrap();
        assert_eq!(kept, *sealed.note);
    };
    told(&store);
    settle(&mut store, 100..120);
    assert_eq!(store.end().head.seq, 60);
    told(&store);
    settle(&mut store, 120..200);
    told(&store);
    // With the entries that were signed it goes on.
    drop(store);
    for name in ["ledger.db", "ledger.head"] {
        std::fs::copy(older.path().join(name), folder.path().join(name)).unwrap();
    }
    let mut store = folder.store();
    settle(&mut store, 40..70);
    assert_eq!(store.sign(&signer).unwrap().checkpoint.size, 70);
    // What is kept is a checkpoint, or nothing is signed.
    let kept = folder.path().join("checkpoint");
    let text = std::fs::read_to_string(&kept).unwrap().replace("\n70\n", "\n71\n");
    std::fs::write(&kept, text).unwrap();
    let error = store.sign(&signer).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn another_key_is_vouched_for_by_the_one_before_and_a_lost_one_is_seen() {
    let folder = Folder::new();
    let mut store = folder.store();
    let first = store.signer(at(), MACHINE).unwrap().public().clone();
    settle(&mut store, 1..10);
    let old = store.signer(at(), MACHINE).unwrap();
    let by_old = store.sign(&old).unwrap();
    let refused = store.rotate_key(at(), None, true).unwrap_err();
    assert!(refused.to_string().contains("not lost"), "{refused}");
    let next = store.rotate_key(at(), None, false).unwrap();
    assert_ne!(next.public().id(), first.id());
    assert_eq!(next.public().name(), first.name(), "the log is the same");
    assert!(!folder.path().join("ledger.key.next").exists());
    let change = key_of(store.entry(11).unwrap());
    assert_eq!(change.previous.as_deref(), Some(&*first.to_string()));
    let text = key_change_text(&first, &change.key.parse::<VerifyingKey>().unwrap());
    first.check(&text, &change.signature.unwrap()).unwrap();
    // What the old key signed is continued by the new one, which signs the same size anew.
    let by_next = store.sign(&next).unwrap();
    assert_eq!(by_next.checkpoint.size, by_old.checkpoint.size + 1);
    let note = Note::parse(by_next.note.as_bytes()).unwrap();
    assert!(matches!(note.verify(&[&first]), Err(NoteError::Unsigned { .. })));
    note.verify(&[next.public()]).unwrap();

    // The key is gone: nothing is signed before somebody says so, and then nobody vouches for the new one.
    let path = folder.path().join("ledger.key");
    std::fs::remove_file(&path).unwrap();
    let missing = store.signer(at(), MACHINE).unwrap_err();
    assert!(matches!(&missing, StoreError::Key { .. }), "{missing}");
    assert!(missing.to_string().contains("rotate-key --lost"), "{missing}");
    assert!(store.rotate_key(at(), None, false).is_err());
    assert!(!path.exists());
    let new = store.rotate_key(at(), None, true).unwrap();
    let change = key_of(store.entry(12).unwrap());
    assert_eq!(change.previous.as_deref(), Some(&*next.public().to_string()));
    assert_eq!((change.signature, &*change.key), (None, &*new.public().to_string()));
    assert_eq!(new.public().name(), first.name());
    // Another key than the one in force signs nothing either.
    let other = Folder::new();
    other.store().signer(at(), MACHINE).unwrap();
    std::fs::copy(other.path().join("ledger.key"), &path).unwrap();
    let refused = store.signer(at(), MACHINE).unwrap_err();
    assert!(matches!(&refused, StoreError::Key { .. }), "{refused}");
}

#[test]
fn a_change_of_keys_that_is_interrupted_anywhere_ends_with_the_key_that_the_entries_name() {
    let folder = Folder::new();
    let mut store = folder.store();
    // While it was made: a part of it is no key, and is nobody's.
    std::fs::write(folder.path().join("ledger.key.next"), "PRIVATE+KEY+gpu").unwrap();
    let first = store.signer(at(), MACHINE).unwrap().public().clone();
    store.close().unwrap();
    let (key, next) = (folder.path().join("ledger.key"), folder.path().join("ledger.key.next"));
    // Before its entry: the next key is nobody's.
    let other = Folder::new();
    other.store().signer(at(), MACHINE).unwrap();
    std::fs::copy(other.path().join("ledger.key"), &next).unwrap();
    let mut store = folder.store();
    assert_eq!(store.signer(at(), MACHINE).unwrap().public(), &first);
    // After its entry and before the old key is gone.
    let before = std::fs::read(&key).unwrap();
    let new = store.rotate_key(at(), None, false).unwrap().public().clone();
    std::fs::rename(&key, &next).unwrap();
    std::fs::write(&key, before).unwrap();
    assert_eq!(store.signer(at(), MACHINE).unwrap().public(), &new);
    assert!(!next.exists());
    assert_eq!(store.end().head.seq, 2);
    // A key without its entry is entered.
    let fresh = Folder::new();
    std::fs::copy(&key, fresh.path().join("ledger.key")).unwrap();
    let mut store = fresh.store();
    assert_eq!(store.signer(at(), MACHINE).unwrap().public(), &new);
    assert_eq!(*key_of(store.entry(1).unwrap()).key, new.to_string());
}

#[test]
fn a_key_that_others_can_read_or_that_is_none_is_refused() {
    let folder = Folder::new();
    let mut store = folder.store();
    store.signer(at(), MACHINE).unwrap();
    let path = folder.path().join("ledger.key");
    for mode in [0o640, 0o604, 0o660] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = store.signer(at(), MACHINE).unwrap_err();
        assert!(error.to_string().contains("others can read"), "{error}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::hard_link(&path, folder.path().join("second")).unwrap();
    assert!(matches!(store.signer(at(), MACHINE), Err(StoreError::Strange { .. })));
    std::fs::remove_file(folder.path().join("second")).unwrap();
    store.signer(at(), MACHINE).unwrap();
    std::fs::write(&path, "PRIVATE+KEY+nothing").unwrap();
    let error = store.signer(at(), MACHINE).unwrap_err();
    assert!(
        matches!(error, StoreError::Strange { .. }) && !error.to_string().contains("PRIVATE"),
        "{error}"
    );
}

#[test]
fn what_was_archived_is_still_continued_and_its_key_is_known() {
    let (folder, _, cut) = archiving::journal();
    let mut store = folder.store();
    let signer = store.signer(at(), MACHINE).unwrap();
    let older = folder.copy();
    let sealed = store.sign(&signer).unwrap();
    drop(store);
    let archived = archive(&folder.dir(), cut).unwrap();
    let mut store = folder.store();
    assert_eq!(store.signer(at(), None).unwrap().public(), signer.public());
    assert_eq!(store.sign(&signer).unwrap(), sealed);
    settle(&mut store, 5_000..5_003);
    assert_eq!(store.sign(&signer).unwrap().checkpoint.size, sealed.checkpoint.size + 3);
    drop(store);
    // A checkpoint of what lies in the archive needs it.
    let reader = Reader::open(&older.dir()).unwrap();
    let beside = Signer::open(&older.dir()).unwrap().unwrap();
    let small = beside.sign(&mut reader.tree(&[]).unwrap(), 33).unwrap().note;
    std::fs::write(folder.path().join("checkpoint"), &*small).unwrap();
    let store = folder.store();
    store.sign(&signer).unwrap();
    std::fs::write(folder.path().join("checkpoint"), &*small).unwrap();
    std::fs::rename(&archived.file, folder.path().join("elsewhere")).unwrap();
    let error = store.sign(&signer).unwrap_err();
    assert!(matches!(error, StoreError::Archived { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path().join("checkpoint")).unwrap(), *small);
}

#[test]
fn keys_do_not_say_that_anything_was_watched() {
    let folder = Folder::new();
    let (_, end) = filled(&folder, 51, 50);
    let mut store = folder.store();
    store.signer(at(), MACHINE).unwrap();
    store.rotate_key(at(), None, false).unwrap();
    assert_eq!(store.end().head.seq, end.head.seq + 2);
    assert_eq!((store.end().last, store.end().ended_in_order), (end.last, end.ended_in_order));
}
