//! Arguments: what is committed to, and what is kept.

use super::*;
use crate::argv::StoredText;
use crate::journal::entry::IdentityEvidence;

/// A process whose arguments hold a secret, as captured or as kept.
fn named_with(bytes: &'static [u8]) -> Named {
    let mut named = named(1);
    let argv = Argv {
        bytes: RawBytes::from_static(bytes),
        true_length: Some(23),
        state: ArgvState::Whole,
    };
    let filename = RawBytes::from_static(b"/bin/--token=abc");
    named.image.content = Arc::new(ImageContent { argv, filename, exe: None });
    named
}

fn with(mut news: News, named: Named) -> News {
    match &mut news {
        News::Opened(opened) => opened.attribution = Attribution::Named(Box::new(named)),
        News::Settled(settled) => {
            settled.settlement.attribution = Attribution::Named(Box::new(named));
        }
        _ => panic!("no row"),
    }
    news
}

fn identity(pending: &Pending) -> &IdentityEvidence {
    let identity = match &pending.draft.evidence {
        Evidence::Open(evidence) => evidence.identity.as_ref(),
        Evidence::Settlement(evidence) => evidence.identity.as_ref(),
        _ => None,
    };
    identity.unwrap()
}

#[test]
fn what_is_committed_to_is_what_was_captured_and_what_is_kept_what_the_mode_says() {
    let captured: &[u8] = b"train.py\0--token\0abcde\0";
    let kept: [(CmdlineMode, Option<&[u8]>, StoredText); 4] = [
        (CmdlineMode::None, None, StoredText::Captured),
        (CmdlineMode::Exe, Some(b"train.py\0"), StoredText::Exe),
        (CmdlineMode::Redacted, Some(b"train.py\0--token\0[redacted]\0"), StoredText::Redacted),
        (CmdlineMode::Full, Some(captured), StoredText::Captured),
    ];
    for (mode, bytes, text) in kept {
        let mut drafter = drafter();
        drafter.cmdline(mode);
        let news = with(opened(1, Some(10), 20), named_with(b"train.py\0--token\0abcde\0"));
        let drafts = notes(&mut drafter, [news]);
        let identity = identity(&drafts[0]);
        let (commitment, length) = (identity.argv.commitment, identity.argv.captured_length);
        let wanted = CommitmentKey::new([1; 32]);
        let argv = &named_with(b"train.py\0--token\0abcde\0").image.content.argv;
        assert_eq!((commitment, length), (Some(wanted.commit(argv).unwrap()), 23), "{mode}");
        let said = drafts[0].draft.argv.as_ref().map(|kept| kept.mode);
        assert_eq!(identity.argv.mode, Some(mode));
        assert!(said.is_none_or(|said| said == Some(mode)), "{mode}");
        let found = drafts[0].draft.argv.as_ref().map(|kept| (&kept.argv.bytes[..], kept.text));
        assert_eq!(found, bytes.map(|bytes| (bytes, text)), "{mode}");
        let file: &[u8] = match mode {
            CmdlineMode::None => b"",
            CmdlineMode::Exe | CmdlineMode::Redacted => b"/bin/--token=[redacted]",
            CmdlineMode::Full => b"/bin/--token=abc",
        };
        assert_eq!(identity.filename, file, "{mode}");
    }
}

/// What an earlier run kept may be less than what it committed to.
#[test]
fn after_a_restart_a_settlement_commits_to_what_the_earlier_run_captured() {
    let (mut made, mut first) = (Made::default(), drafter());
    let news = with(opened(1, Some(10), 20), named_with(b"train.py\0--token\0abcde\0"));
    let drafts = notes(&mut first, [news]);
    let wanted = identity(&drafts[0]).clone();
    made.enter(drafts);
    let mut second = drafter();
    let mut earlier = made.earlier();
    earlier[0].evidence.identity = Some(wanted.clone());
    second.resume(earlier, &BTreeMap::new(), stamp(400));
    let redacted = named_with(b"train.py\0--token\0[redacted]\0");
    let again = notes(&mut second, [with(settled(1, 10, 600), redacted)]);
    assert_eq!(identity(&again[0]).argv, wanted.argv);
    assert_eq!(again[0].draft.argv, None);
    // Under a mode that keeps less it is not shown what the earlier one kept, and under one that keeps more no more.
    let modes = [
        (CmdlineMode::None, CmdlineMode::None),
        (CmdlineMode::Exe, CmdlineMode::None),
        (CmdlineMode::Full, CmdlineMode::Redacted),
    ];
    for (place, (mode, said)) in (601..).zip(modes) {
        second.cmdline(mode);
        let redacted = named_with(b"train.py\0--token\0[redacted]\0");
        let again = notes(&mut second, [with(settled(1, 10, place), redacted)]);
        assert_eq!(identity(&again[0]).argv.commitment, wanted.argv.commitment);
        assert_eq!((identity(&again[0]).argv.mode, &again[0].draft.argv), (Some(said), &None));
    }
    second.cmdline(CmdlineMode::default());
    // Another image of the process is committed to as it is.
    let mut later = named_with(b"other.py\0--token\0vwxyz\0");
    later.image.since = BootNs(9);
    let again = notes(&mut second, [with(settled(1, 10, 700), later)]);
    assert_ne!(identity(&again[0]).argv.commitment, wanted.argv.commitment);
    assert_eq!(again[0].draft.argv.as_ref().unwrap().text, StoredText::Redacted);
}
