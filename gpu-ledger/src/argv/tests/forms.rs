use bytes::Bytes;

use crate::argv::{CmdlineMode, Stored, StoredText, redact, redact_word, stored};
use crate::kernel::{Argv, ArgvState};

/// A command line with `|` between its words, as it is kept.
fn kept(line: &str, is_cut: bool) -> String {
    let bytes = line.replace('|', "\0").into_bytes();
    let redacted = redact(&bytes, is_cut).unwrap_or(bytes);
    String::from_utf8(redacted).unwrap().replace('\0', "|")
}

#[test]
fn a_secret_goes_and_everything_around_it_stays_byte_for_byte() {
    let cases = [
        ("a|--api-key|V0|--port|8000", "a|--api-key|[redacted]|--port|8000"),
        ("a|--api_key=V0 x|b", "a|--api_key=[redacted]|b"),
        ("a|-Password:hunter2", "a|-Password:[redacted]"),
        ("mysql|-uroot|-phunter2|db", "mysql|-uroot|-p[redacted]|db"),
        ("mysql|-p|db", "mysql|-p|db"),
        ("llama-cli|-p|hunter2", "llama-cli|-p|hunter2"),
        ("docker|run|-p|80:80|x", "docker|run|-p|80:80|x"),
        ("docker|login|-p|x1|h", "docker|login|-p|[redacted]|h"),
        ("psql|postgres://u:p:a@h/d?x=1", "psql|postgres://u:[redacted]@h/d?x=1"),
        ("c|http://a:p/w@h/", "c|http://a:[redacted]@h/"),
        ("c|http://h:8000/a@b", "c|http://h:8000/a@b"),
        ("curl|-H|authorization: bearer abc", "curl|-H|authorization: bearer [redacted]"),
        ("curl|-sSu|me:pw|http://h", "curl|-sSu|me:[redacted]|http://h"),
        (
            r#"x|{"n": 1, "password": "a\"b", "m": 2}"#,
            r#"x|{"n": 1, "password": "[redacted]", "m": 2}"#,
        ),
        (r#"x|{\"token\": \"abc\"}"#, r#"x|{\"token\": \"[redacted]\"}"#),
        (r#"x|{"api_keys": ["a", "b"], "n": 1}"#, r#"x|{"api_keys": [[redacted]], "n": 1}"#),
        (
            r#"x|[{"name": "HF_TOKEN", "value": "abc"}, {"name": "N", "value": "1"}]"#,
            r#"x|[{"name": "HF_TOKEN", "value": "[redacted]"}, {"name": "N", "value": "1"}]"#,
        ),
        ("sh|-c|HF_TOKEN=abc exec run --x 1", "sh|-c|HF_TOKEN=[redacted] exec run --x 1"),
        ("sh|-c|run --token $HF_TOKEN", "sh|-c|run --token $HF_TOKEN"),
        (
            r#"ssh|h|bash -c 'run --password "a b" --n 1; mysql -pxyz'"#,
            r#"ssh|h|bash -c 'run --password "[redacted]" --n 1; mysql -p[redacted]'"#,
        ),
        ("a|--password|--verbose", "a|--password|--verbose"),
        ("a|--password|-x:9]", "a|--password|[redacted]"),
        (
            "a|--max-tokens|4096|--tokenizer|t|--api-key-file|/k",
            "a|--max-tokens|4096|--tokenizer|t|--api-key-file|/k",
        ),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
    let piped = redact(b"sh\0-c\0echo abc | docker login --password-stdin h", false).unwrap();
    assert_eq!(piped, b"sh\0-c\0echo [redacted] | docker login --password-stdin h");
}

#[test]
fn a_private_key_goes_from_its_label_to_its_end_however_it_is_cut_up() {
    let cases = [
        (
            "x|-----BEGIN EC PRIVATE KEY-----\\nabc\\n-----END EC PRIVATE KEY-----|y",
            "x|-----BEGIN EC PRIVATE KEY-----[redacted]-----END EC PRIVATE KEY-----|y",
        ),
        (
            "x|-----BEGIN|PRIVATE|KEY-----|abc|def|-----END|PRIVATE|KEY-----|y",
            "x|-----BEGIN|PRIVATE|KEY-----|[redacted]|[redacted]|-----END|PRIVATE|KEY-----|y",
        ),
        ("x|-----BEGIN PRIVATE KEY-----|abc", "x|-----BEGIN PRIVATE KEY-----|[redacted]"),
        ("x|-----BEGIN CERTIFICATE-----|abc", "x|-----BEGIN CERTIFICATE-----|abc"),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
}

/// Wherever the capture ends inside of a secret, nothing of it but the beginning that tells its kind is left.
#[test]
fn a_secret_that_the_capture_cut_is_one_at_any_length() {
    let lines = [
        ("a|--password|", "hunter2"),
        ("a|HF_TOKEN=", "abcdefgh"),
        ("curl|-H|Authorization: Bearer ", "abcdefgh"),
        ("git|clone|https://me:", "hunterhunter"),
        ("x|{\"password\": \"", "hunter2"),
        ("a|say|hf_", "abcdefghijklmnopqrstuvwxyz"),
        ("a|say|sk-", "abcdefghijk"),
        ("a|say|AKIA", "ABCDEFGHIJKL"),
        ("x|-----BEGIN PRIVATE KEY-----|", "abcdef"),
    ];
    for (before, secret) in lines {
        for length in 1..=secret.len() {
            let shown = kept(&format!("{before}{}", &secret[..length]), true);
            assert!(shown.ends_with("[redacted]"), "{shown} of {before} and {length}");
        }
    }
    assert_eq!(kept("a|--password", true), "a|--password");
    assert_eq!(kept("a|--max-tok", true), "a|--max-tok");
}

#[test]
fn one_text_is_redacted_by_itself() {
    assert_eq!(redact_word(b"train.py").as_ref(), b"train.py");
    assert_eq!(redact_word(b"run --token=abc --n 1").as_ref(), b"run --token=[redacted] --n 1");
    assert_eq!(redact_word(b"\xff --password \xfe\xfd").as_ref(), b"\xff --password [redacted]");
}

fn argv(bytes: &'static [u8], state: ArgvState) -> Argv {
    Argv { bytes: Bytes::from_static(bytes), true_length: Some(99), state }
}

#[test]
fn each_mode_keeps_what_it_says() {
    let of = |bytes, mode| stored(&argv(bytes, ArgvState::Whole), mode);
    let some = |bytes: &'static [u8], text| Stored { bytes: Some(Bytes::from_static(bytes)), text };
    let line = b"/bin/run\0--token\0abc\0";
    assert_eq!(of(line, CmdlineMode::None).bytes, None);
    assert_eq!(of(line, CmdlineMode::Exe), some(b"/bin/run\0", StoredText::Exe));
    let redacted = some(b"/bin/run\0--token\0[redacted]\0", StoredText::Redacted);
    assert_eq!(of(line, CmdlineMode::Redacted), redacted);
    assert_eq!(of(line, CmdlineMode::Full), some(line, StoredText::Captured));
    // Nothing was left out: it is what was captured, in whatever mode.
    assert_eq!(of(b"/bin/run\0", CmdlineMode::Exe), some(b"/bin/run\0", StoredText::Captured));
    let plain = b"/bin/run\0--n\x001\0";
    assert_eq!(of(plain, CmdlineMode::Redacted), some(plain, StoredText::Captured));
    // A title has its arguments in the first word.
    assert_eq!(of(b"run --token abc\0", CmdlineMode::Exe), some(b"run\0", StoredText::Exe));
    assert_eq!(of(b"", CmdlineMode::Exe), some(b"", StoredText::Captured));
    let cut = stored(&argv(b"run\0--token\0a", ArgvState::Truncated), CmdlineMode::Redacted);
    assert_eq!(cut, some(b"run\0--token\0[redacted]", StoredText::Redacted));
    for mode in CmdlineMode::ALL {
        assert_eq!(mode.as_str().parse(), Ok(mode));
    }
    assert_eq!(CmdlineMode::default(), CmdlineMode::Redacted);
    let error = "all".parse::<CmdlineMode>().unwrap_err();
    assert!(error.contains("\"all\"") && error.contains("none, exe, redacted, full"), "{error}");
    for text in [StoredText::Captured, StoredText::Redacted, StoredText::Exe] {
        assert_eq!(StoredText::of(text.as_str()), Some(text));
    }
    assert_eq!(StoredText::of("whole"), None);
}
