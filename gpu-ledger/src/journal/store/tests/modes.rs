//! What is kept of arguments belongs to the mode that was in force, whatever other modes keep of the same ones.

use bytes::Bytes;

use super::{Folder, settlement};
use crate::argv::{CmdlineMode, Stored, StoredText, stored};
use crate::billing::JournalFiles;
use crate::journal::CommitmentKey;
use crate::journal::entry::{ArgvPlace, Draft, Evidence, KeptArgv};
use crate::journal::store::{Reader, archive, check, check_file};
use crate::kernel::{Argv, ArgvState};

pub(super) const WHOLE: &str = "python3\0leak.py\0--api-key\0ZSECRETleak\0";
pub(super) const SAFE: &str = "python3\0leak.py\0--api-key\0[redacted]\0";
const FILE: &str = "python3\0";

/// A settlement of one command line with a secret in it, under a mode; `None`: as entries were that did not say theirs.
pub(super) fn leaking(
    pid: u32,
    key: &CommitmentKey,
    mode: Option<CmdlineMode>,
    as_of: CmdlineMode,
) -> Draft {
    let mut draft = settlement(pid, Some(key));
    let Evidence::Settlement(evidence) = &mut draft.evidence else { panic!() };
    let identity = evidence.identity.as_mut().unwrap();
    let bytes: &[u8] = b"python3\0leak.py\0--api-key\0ZSECRETleak\0";
    let whole = Argv { bytes: bytes.into(), true_length: Some(39), state: ArgvState::Whole };
    let commitment = key.commit(&whole).unwrap();
    (identity.argv.commitment, identity.argv.mode) = (Some(commitment), mode);
    let Stored { bytes, text } = stored(&whole, as_of);
    draft.argv =
        bytes.map(|bytes| KeptArgv { commitment, mode, argv: Argv { bytes, ..whole }, text });
    if as_of == CmdlineMode::None {
        identity.filename = Bytes::new();
    }
    draft
}

/// What those are told who ask why, by the entry's number.
pub(super) fn told(files: &JournalFiles, seq: u64) -> Option<(StoredText, String)> {
    let kept = files.why(seq).unwrap().unwrap().argv?;
    Some((kept.text, String::from_utf8(kept.argv.bytes.to_vec()).unwrap()))
}

/// The same as text, for comparisons.
pub(super) fn words(found: Option<&(StoredText, String)>) -> Option<(StoredText, &str)> {
    found.map(|(text, words)| (*text, words.as_str()))
}

#[test]
fn what_is_kept_belongs_to_the_mode_of_its_entry_whichever_came_first() {
    use CmdlineMode::{Exe, Full, None as Nothing, Redacted};
    for order in [[Full, Redacted, Exe, Nothing], [Nothing, Exe, Redacted, Full]] {
        let folder = Folder::new();
        let mut store = folder.store();
        let key = store.commitment_key().clone();
        // Each of them twice: what was kept first under a mode stays.
        let modes: Vec<CmdlineMode> = order.into_iter().chain(order).collect();
        for (pid, mode) in (1..).zip(&modes) {
            store.append(vec![leaking(pid, &key, Some(*mode), *mode)]).unwrap();
        }
        let files = JournalFiles::open_beside_writer(&folder.dir()).unwrap();
        for (seq, mode) in (1..).zip(&modes) {
            let wanted = match mode {
                Full => Some((StoredText::Captured, WHOLE)),
                Redacted => Some((StoredText::Redacted, SAFE)),
                Exe => Some((StoredText::Exe, FILE)),
                Nothing => None,
            };
            let found = told(&files, seq);
            assert_eq!(words(found.as_ref()), wanted, "{mode} in {order:?}");
        }
        drop(files);
        let report = check(&folder.dir()).unwrap();
        assert!(report.is_whole(), "{:?}", report.faults);
        assert_eq!((report.argv_kept, report.argv_redacted, report.argv_absent), (3, 2, 1));
        // Deleted are all of them.
        let commitment = leaking(1, &key, None, Full).argv.unwrap().commitment;
        assert_eq!(store.forget_argv(&[commitment]).unwrap().texts, 3);
        let files = JournalFiles::open_beside_writer(&folder.dir()).unwrap();
        for seq in 1..=8 {
            assert_eq!(told(&files, seq), None);
        }
    }
}

#[test]
fn an_archive_and_what_goes_on_have_each_the_texts_of_their_own_entries() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = store.commitment_key().clone();
    for pid in 1..=40 {
        let mode = if pid <= 32 { CmdlineMode::Full } else { CmdlineMode::Redacted };
        store.append(vec![leaking(pid, &key, Some(mode), mode)]).unwrap();
    }
    store.close().unwrap();
    let cut = folder.reader().entry(36).unwrap().unwrap().at.stamp.wall;
    let archived = archive(&folder.dir(), cut).unwrap();
    assert_eq!(archived.last, 32);
    let commitment = leaking(1, &key, None, CmdlineMode::Full).argv.unwrap().commitment;
    let of = |reader: &Reader, mode| {
        let place = ArgvPlace { commitment, mode: Some(mode) };
        reader.argv(place).unwrap().map(|kept| kept.text)
    };
    let (old, new) = (Reader::open_file(&archived.file).unwrap(), folder.reader());
    let both = [&old, &new]
        .map(|one| [CmdlineMode::Full, CmdlineMode::Redacted].map(|mode| of(one, mode)));
    assert_eq!(both, [[Some(StoredText::Captured), None], [None, Some(StoredText::Redacted)]]);
    for report in [check(&folder.dir()).unwrap(), check_file(&archived.file).unwrap()] {
        assert!(report.is_whole(), "{:?}", report.faults);
    }
}
