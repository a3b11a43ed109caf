//! What somebody had erased is nowhere any more, and everything else proves as before.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;

use super::{Folder, archiving, read, settlement};
use crate::journal::entry::{Draft, Evidence};
use crate::journal::store::{
    Reader, Whose, archive, check, check_archives, erase_in_archives, texts_of,
};

/// A word that stands in no other text, and no other file.
const CANARY: &str = "--prompt=the-quick-brown-canary";

fn with_words(mut draft: Draft, words: &str, uid: u32, folder: &Folder) -> Draft {
    let key = folder.reader().key().unwrap().unwrap();
    let kept = draft.argv.as_mut().unwrap();
    kept.argv.bytes = format!("python3\0train.py\0{words}\0").into_bytes().into();
    kept.commitment = key.commit(&kept.argv).unwrap();
    let Evidence::Settlement(evidence) = &mut draft.evidence else { unreachable!() };
    let identity = evidence.identity.as_mut().unwrap();
    (identity.argv.commitment, identity.user.uid) = (Some(kept.commitment), Some(uid));
    draft
}

/// Names of the files in which bytes stand.
fn files_with(folder: &Folder, bytes: &[u8]) -> Vec<String> {
    let files = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    let found = files.filter(|file| {
        let content = std::fs::read(file.path()).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    });
    found.map(|file| String::from_utf8_lossy(file.file_name().as_bytes()).into_owned()).collect()
}

#[test]
fn an_erased_text_is_in_no_file_any_more_and_is_not_kept_again_and_all_is_proven_as_before() {
    let (folder, entries, cut) = archiving::journal();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let typed = |pid| with_words(settlement(pid, Some(&key)), CANARY, 1_001, &folder);
    store.append(vec![typed(9_001)]).unwrap();
    store.close().unwrap();
    let before = folder.reader().end().unwrap();
    archive(&folder.dir(), cut).unwrap();
    // In the log as well.
    let mut store = folder.store();
    store.append(vec![typed(9_002)]).unwrap();
    assert!(files_with(&folder, CANARY.as_bytes()).contains(&"ledger.db".to_owned()));
    let is_theirs = |_: &_, evidence: &Evidence| {
        evidence.identity().is_some_and(|identity| identity.user.uid == Some(1_001))
    };
    let Whose { own, shared } = texts_of(&folder.dir(), is_theirs).unwrap();
    assert_eq!((own.len(), shared.len()), (1, 0));
    let all: Vec<_> = own.iter().copied().collect();
    let forgotten = store.forget_argv(&all).unwrap();
    assert_eq!((forgotten.texts, forgotten.log_is_empty), (1, true));
    assert_eq!(files_with(&folder, CANARY.as_bytes()), Vec::<String>::new());
    // The same process settles once more on another GPU.
    store.append(vec![typed(9_003)]).unwrap();
    assert_eq!(files_with(&folder, CANARY.as_bytes()), Vec::<String>::new());
    drop(store);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole() && report.argv_absent == 1, "{report:?}");
    assert_eq!(read(&folder.reader(), 0, u64::MAX).unwrap().len(), entries.len() + 3 - 64);
    assert!(folder.reader().end().unwrap().head.seq > before.head.seq);
}

#[test]
fn an_archive_loses_the_text_and_nothing_else_and_what_is_archived_later_stays_erased() {
    let (folder, entries, cut) = archiving::journal();
    let first = settlement(101, folder.store().commitment_key().into()).argv.unwrap();
    let archived = archive(&folder.dir(), cut).unwrap();
    let own = BTreeSet::from([first.commitment]);
    assert_eq!(erase_in_archives(&folder.dir(), &own).unwrap(), 1);
    assert_eq!(erase_in_archives(&folder.dir(), &own).unwrap(), 0);
    assert_eq!(Reader::open_file(&archived.file).unwrap().argv(first.place()).unwrap(), None);
    let checked = check_archives(&folder.dir()).unwrap();
    assert!(checked.archives.iter().all(|one| one.report.is_whole()), "{checked:?}");
    let mut store = folder.store();
    let words: Vec<_> = own.iter().copied().collect();
    store.forget_argv(&words).unwrap();
    store.close().unwrap();
    let later = entries.last().unwrap().at.stamp.wall;
    archive(&folder.dir(), later).unwrap();
    let mut store = folder.store();
    let again = settlement(20_101, store.commitment_key().into());
    let again = Draft { argv: Some(first.clone()), ..again };
    store.append(vec![again]).unwrap();
    assert_eq!(store.argv(first.place()).unwrap(), None);
}

/// Two people typed the same words.
#[test]
fn what_others_have_too_is_told_apart() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let of = |pid, words, uid| with_words(settlement(pid, Some(&key)), words, uid, &folder);
    let drafts = vec![of(1, "a", 1_001), of(2, "a", 1_002), of(3, "b", 1_001)];
    let [both, _, alone] = [0, 1, 2].map(|place: usize| drafts[place].argv.clone().unwrap());
    store.append(drafts).unwrap();
    let whose = texts_of(&folder.dir(), |_, evidence| {
        evidence.identity().is_some_and(|identity| identity.user.uid == Some(1_001))
    });
    let wanted = Whose {
        own: BTreeSet::from([alone.commitment]),
        shared: BTreeSet::from([both.commitment]),
    };
    assert_eq!(whose.unwrap(), wanted);
}

/// Somebody who reads keeps the log from being emptied: it is said, and not passed over.
#[test]
fn a_log_that_could_not_be_emptied_is_told() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    let draft = settlement(1, Some(&key));
    let kept = draft.argv.clone().unwrap();
    store.append(vec![draft]).unwrap();
    let reader = folder.reader();
    let reading = reader.at_one_moment(|_| {
        assert!(reader.has_text(kept.commitment)?);
        store.forget_argv(&[kept.commitment])
    });
    let told = reading.unwrap();
    assert!(!told.log_is_empty && told.texts == 1, "{told:?}");
    drop(reader);
    let again = store.forget_argv(&[]).unwrap();
    assert_eq!((again.texts, again.log_is_empty), (0, true));
}
