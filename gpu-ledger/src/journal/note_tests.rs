//! Notes against what other implementations made, and against every way to spoil one.

use proptest::prelude::*;

use super::*;

/// golang.org/x/mod/sumdb/note, note_test.go.
const GO_PUBLIC: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const GO_PRIVATE: &str =
    "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const GO_TEXT: &str = "If you think cryptography is the answer to your problem,\n\
    then you don't know what your problem is.\n";
const GO_LINE: &str = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgK\
    vqfqdngotpRZb6KE6RyyBwJnAM=\n";

/// Signed by Python's `cryptography` 48 (OpenSSL) with the seed 0, 1, … 31.
const NAME: &str = "gpu-ledger/0123456789abcdef";
const PUBLIC: &str =
    "gpu-ledger/0123456789abcdef+3c28751e+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
const SIGNED: &str = "gpu-ledger/0123456789abcdef\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n\n\
    — gpu-ledger/0123456789abcdef PCh1Hjx8BaiiweoQ5yN/TCQtOzgmGlLCZ5WH8lydg9NHdk2df26HVku/sTr7KQAyWghsOuuc\
    dYG+XAFkAUA95qlmNg0=\n";

fn key() -> SigningKey {
    SigningKey::from_seed(NAME, &std::array::from_fn(|at| u8::try_from(at).unwrap())).unwrap()
}

fn checkpoint() -> Checkpoint {
    let root = BASE64.decode("XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=").unwrap();
    Checkpoint { origin: NAME.into(), size: 8, root: Digest(root.try_into().unwrap()) }
}

#[test]
fn a_note_is_the_one_that_go_signs() {
    let key = SigningKey::from_secret_text(GO_PRIVATE).unwrap();
    assert_eq!(key.secret_text().as_str(), GO_PRIVATE);
    assert_eq!(key.public().to_string(), GO_PUBLIC);
    let note = key.sign_note(GO_TEXT).unwrap();
    assert_eq!(note, format!("{GO_TEXT}\n{GO_LINE}"));
    let public: VerifyingKey = GO_PUBLIC.parse().unwrap();
    assert_eq!(Note::parse(note.as_bytes()).unwrap().verify(&[&public]), Ok(GO_TEXT));
}

#[test]
fn a_checkpoint_is_the_one_that_openssl_signs() {
    let key = key();
    assert_eq!(key.public().to_string(), PUBLIC);
    assert_eq!(checkpoint().sign(&key).unwrap(), SIGNED);
    let public = PUBLIC.parse().unwrap();
    assert_eq!(Checkpoint::open(SIGNED.as_bytes(), &[&public]), Ok(checkpoint()));
    assert_eq!(format!("{key:?}"), format!("SigningKey({PUBLIC}, ..)"), "no secret");
}

#[test]
fn the_examples_of_the_specifications_are_notes() {
    let log = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGz\
        Gku9nTo+zyWE+xeMcTOAYQ8=\n";
    let note = Note::parse(log.as_bytes()).unwrap();
    let read = Checkpoint::parse(note.unproven_text()).unwrap();
    assert_eq!((&*read.origin, read.size), ("example.com/behind-the-sofa", 20_852_163));
    assert_eq!(read.text(), note.unproven_text());
    let poem = "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n\n\
        — quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMc\
        Xxj99ihAQwaqP3ZekRwNtIc=\n";
    let note = Note::parse(poem.as_bytes()).unwrap();
    assert!(note.unproven_text().ends_with(":\n\ned è subito sera.\n"));
    let verified = note.verify(&[key().public()]);
    assert!(matches!(verified, Err(NoteError::Unsigned { .. })), "{verified:?}");
}

#[test]
fn signatures_of_others_say_nothing_and_a_wrong_one_of_ours_all() {
    let (text, line) = SIGNED.split_once("\n\n").unwrap();
    let public = key().public().clone();
    let other = SigningKey::from_seed("witness.example/w1", &[7; 32]).unwrap();
    let text = format!("{text}\n");
    let beside = BASE64.encode([&other.public().id().0[..], &other.sign(&text)].concat());
    let beside = format!("— witness.example/w1 {beside}\n");
    // Of our name with another id, of our id with another name: neither is our key.
    let ours = BASE64.decode(line.trim_end().rsplit_once(' ').unwrap().1).unwrap();
    let namesake = format!("— {NAME} {}\n", BASE64.encode([&[0; 4], &ours[4..]].concat()));
    let id_alone = format!("— other.example {}\n", BASE64.encode(&ours));
    let note = format!("{text}\n{beside}{namesake}{id_alone}{line}");
    assert_eq!(Checkpoint::open(note.as_bytes(), &[&public]), Ok(checkpoint()));
    let both = [&public, other.public()];
    assert!(Note::parse(note.as_bytes()).unwrap().verify(&both).is_ok());
    let none_of_ours = format!("{text}\n{beside}{namesake}{id_alone}");
    let refused = Checkpoint::open(none_of_ours.as_bytes(), &[&public]);
    assert!(matches!(refused, Err(NoteError::Unsigned { .. })), "{refused:?}");
    let mut wrong = ours;
    wrong[20] ^= 1;
    let with_wrong = format!("{text}\n{line}— {NAME} {}\n", BASE64.encode(&wrong));
    let refused = Checkpoint::open(with_wrong.as_bytes(), &[&public]);
    assert!(matches!(refused, Err(NoteError::Signature { .. })), "{refused:?}");
}

#[test]
fn what_is_no_note_is_refused() {
    let (text, line) = SIGNED.split_once("\n\n").unwrap();
    let many = |count| format!("{text}\n\n{}\n", vec![line.trim_end(); count].join("\n"));
    assert!(Note::parse(many(SIGNATURES_MAX).as_bytes()).is_ok());
    assert_eq!(Note::parse(many(SIGNATURES_MAX + 1).as_bytes()), Err(NoteError::TooLong));
    let long = format!("{}\n\n{line}", "x".repeat(NOTE_BYTES_MAX));
    assert_eq!(Note::parse(long.as_bytes()), Err(NoteError::TooLong));
    let notes = [
        String::new(),
        text.to_owned(),
        format!("{text}\n\n"),
        format!("{text}\n{line}"),
        SIGNED.trim_end().to_owned(),
        SIGNED.replace('—', "-"),
        SIGNED.replace("— gpu", "—  gpu"),
        SIGNED.replace("Ng0=\n", "Ng0\n"),
        SIGNED.replace("Ng0=\n", "Ng0= \n"),
        SIGNED.replace('\n', "\r\n"),
        SIGNED.replace("\n8\n", "\n8\t\n"),
        format!("{text}\n\n{line}\n"),
        format!("{text}\n\n— {NAME} PCh1Hg==\n"),
        format!("{text}\n\n— {NAME}+ {}", line.rsplit_once(' ').unwrap().1),
    ];
    for note in notes {
        let read = Note::parse(note.as_bytes());
        assert!(matches!(read, Err(NoteError::Form(_))), "{note:?}: {read:?}");
    }
    assert!(Note::parse(&[SIGNED.as_bytes(), &[0xff]].concat()).is_err());
    assert!(key().sign_note("no end").is_err());
    assert!(key().sign_note("a\ttab\n").is_err());
}

#[test]
fn what_is_no_checkpoint_is_refused() {
    let root = "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=";
    for text in [
        format!("o\n8\n{root}"),
        "o\n8\n".to_owned(),
        format!("\n8\n{root}\n"),
        format!("o\n08\n{root}\n"),
        format!("o\n+8\n{root}\n"),
        format!("o\n\n{root}\n"),
        format!("o\n18446744073709551616\n{root}\n"),
        "o\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQw==\n".to_owned(),
        "o\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyh=\n".to_owned(),
        format!("o\n8\n{root}\n\n"),
        format!("o\n8\n{root}\n\nmore\n"),
    ] {
        let read = Checkpoint::parse(&text);
        assert!(matches!(read, Err(NoteError::Checkpoint(_))), "{text:?}: {read:?}");
    }
    assert_eq!(Checkpoint::parse(&format!("o\n0\n{root}\nmore\n")).unwrap().size, 0);
    let other = Checkpoint { origin: "o".into(), ..checkpoint() };
    assert!(matches!(other.sign(&key()), Err(NoteError::Origin { .. })));
    let signed = key().sign_note(&other.text()).unwrap();
    let read = Checkpoint::open(signed.as_bytes(), &[key().public()]);
    assert!(matches!(read, Err(NoteError::Origin { .. })), "{read:?}");
    assert!(Checkpoint::open(SIGNED.as_bytes(), &[]).is_err());
}

#[test]
fn what_is_no_key_is_refused() {
    let public = |bytes: &[u8]| format!("n+{:08x}+{}", 0, BASE64.encode(bytes));
    for text in [
        "",
        "n",
        "n+00000000",
        &PUBLIC.replace("3c28751e", "3c28751f"),
        &PUBLIC.replace("3c28751e", "3C28751E"),
        &PUBLIC.replace("gpu-ledger/", "gpu ledger/"),
        &format!("{PUBLIC} "),
        &public(&[1; 32]),
        &public(&[4; 33]),
        // The neutral element, for which one signature passes on every text.
        &public(&[&[1, 1][..], &[0; 31]].concat()),
        GO_PRIVATE,
    ] {
        let read = text.parse::<VerifyingKey>();
        assert!(matches!(read, Err(NoteError::Key(_))), "{text:?}: {read:?}");
    }
    assert!(SigningKey::from_secret_text(PUBLIC).is_err());
    assert!(SigningKey::from_secret_text(&GO_PRIVATE.replace("c74f20a3", "c74f20a4")).is_err());
    assert!(SigningKey::from_seed("", &[1; 32]).is_err());
    assert_eq!(format!("{PUBLIC}\n").parse::<VerifyingKey>().unwrap().to_string(), PUBLIC);
}

#[test]
fn the_next_key_is_vouched_for_by_the_one_before() {
    let (old, next) = (key(), SigningKey::from_seed(NAME, &[9; 32]).unwrap());
    let text = key_change_text(old.public(), next.public());
    let signature = old.sign(&text);
    old.public().check(&text, &signature).unwrap();
    assert!(next.public().check(&text, &signature).is_err());
    let reversed = key_change_text(next.public(), old.public());
    assert!(old.public().check(&reversed, &signature).is_err());
    assert!(old.public().check(&text, &signature[..63]).is_err());
}

#[test]
fn an_origin_is_the_machines_and_does_not_tell_it() {
    // sha256sum of "gpu-ledger machine" and the id.
    let id = b"0123456789abcdef0123456789abcdef";
    assert_eq!(origin_of(id), "gpu-ledger/be07101e03c05620");
    assert!(SigningKey::from_seed(&origin_of(id), &[1; 32]).is_ok());
}

proptest! {
    #[test]
    fn every_turned_bit_of_a_signed_checkpoint_is_found(at in 0..SIGNED.len(), bit in 0_u8..8) {
        let mut bytes = SIGNED.as_bytes().to_vec();
        bytes[at] ^= 1 << bit;
        prop_assert!(Checkpoint::open(&bytes, &[key().public()]).is_err());
    }

    #[test]
    fn any_bytes_are_a_note_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(note) = Note::parse(&bytes) {
            let _ = Checkpoint::parse(note.unproven_text());
        }
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(text.parse::<VerifyingKey>().is_err());
    }

    #[test]
    fn what_is_signed_is_read_again(
        text in "([^\u{0}-\u{1f}]{0,20}\n){1,6}", size in any::<u64>(), root in any::<[u8; 32]>(),
    ) {
        let key = key();
        let note = key.sign_note(&text).unwrap();
        prop_assert_eq!(Note::parse(note.as_bytes()).unwrap().verify(&[key.public()]), Ok(&*text));
        let checkpoint = Checkpoint { origin: NAME.into(), size, root: Digest(root) };
        let signed = checkpoint.sign(&key).unwrap();
        prop_assert_eq!(Checkpoint::open(signed.as_bytes(), &[key.public()]), Ok(checkpoint));
    }
}
