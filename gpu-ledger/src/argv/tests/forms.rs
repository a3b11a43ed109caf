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
        (
            r#"x|{"api_keys": ["a", "b"], "n": 1}"#,
            r#"x|{"api_keys": ["[redacted]", "[redacted]"], "n": 1}"#,
        ),
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
        ("a|--wandb-key|made4d0k2q|b", "a|--wandb-key|[redacted]|b"),
        ("a|--acme_key=made0q7wz3x8|b", "a|--acme_key=[redacted]|b"),
        ("a|--acme_key=resnet50d|b", "a|--acme_key=resnet50d|b"),
        ("a|--key|made0q7wz3x8v5n1k4m2p9r|b", "a|--key|[redacted]|b"),
        ("a|--key|LinearRegressionModelV2|b", "a|--key|LinearRegressionModelV2|b"),
        ("a|--hf|made0q7wz3x8v5n1k4m2p9r", "a|--hf|[redacted]"),
        ("a|--license-key|A1B2-C3D4-E5F6", "a|--license-key|[redacted]"),
        ("a|--public-license-key|A1B2-C3D4-E5F6", "a|--public-license-key|A1B2-C3D4-E5F6"),
        ("a|--gradio-auth|u:p,u2:p2", "a|--gradio-auth|u:[redacted]"),
        ("a|--auth|u:p|u2:p2|h:80", "a|--auth|u:[redacted]|u2:[redacted]|h:80"),
        ("gunicorn|--auth|u:p|app:main", "gunicorn|--auth|u:[redacted]|app:main"),
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

/// What is left of the word or of the code around a secret tells what it was for.
#[test]
fn a_secret_goes_out_of_code_lists_and_scripts_and_nothing_else_does() {
    let cases = [
        ("a|--password|=|V0|--n", "a|--password|=|[redacted]|--n"),
        ("a|--password=|V0|--n", "a|--password=|[redacted]|--n"),
        ("a|--password|=V0|--n", "a|--password|=[redacted]|--n"),
        ("a|--token|--|V0|b", "a|--token|--|[redacted]|b"),
        ("a|--token=|--n|1", "a|--token=|--n|1"),
        ("a|--token=|train.py", "a|--token=|train.py"),
        ("a|--password\nV0", "a|--password\n[redacted]"),
        ("sh|-c|a --password \\\n V0 --n", "sh|-c|a --password \\\n [redacted] --n"),
        (r#"x|{"tokens":["a1b2c3d4"],"n":[1]}"#, r#"x|{"tokens":["[redacted]"],"n":[1]}"#),
        (
            r#"x|{"auth":{"type":"basic","tok":["V","T"],"n":[1]}}"#,
            r#"x|{"auth":{"type":"basic","tok":["[redacted]","[redacted]"],"n":[1]}}"#,
        ),
        ("x|{tokens: [a1b2c3d4, b], n: 1}", "x|{tokens: [[redacted], b], n: 1}"),
        (r#"x|{\"api_keys\":[\"V\"]}"#, r#"x|{\"api_keys\":[\"[redacted]\"]}"#),
        ("x|tokens:\n  - a1b2c3d4\nn: 1", "x|tokens:\n  - [redacted]\nn: 1"),
        ("x|f(token=b'V',n=1)", "x|f(token=b'[redacted]',n=1)"),
        (r#"x|f(token="V"+"W",n="1")"#, r#"x|f(token="[redacted]"+"[redacted]",n="1")"#),
        ("x|f(token='''V''',n=1)", "x|f(token='''[redacted]''',n=1)"),
        (r#"x|environ["X_TOKEN"] = 'V'; f()"#, r#"x|environ["X_TOKEN"] = '[redacted]'; f()"#),
        (r#"x|$ENV{X_TOKEN}="V"; f()"#, r#"x|$ENV{X_TOKEN}="[redacted]"; f()"#),
        ("x|f({apiKey:`V`, n:`1`})", "x|f({apiKey:`[redacted]`, n:`1`})"),
        ("x|f(password => 'V', n => '1')", "x|f(password => '[redacted]', n => '1')"),
        ("x|token = open('/run/t').read()", "x|token = open('/run/t').read()"),
        ("sh|-c|TOKEN=$(echo V) a b", "sh|-c|TOKEN=$(echo [redacted]) a b"),
        ("sh|-c|TOKEN=`echo V` a b", "sh|-c|TOKEN=`echo [redacted]` a b"),
        (r#"sh|-c|TOKEN="$(echo 'V')" a b"#, r#"sh|-c|TOKEN="$(echo '[redacted]')" a b"#),
        ("sh|-c|TOKEN=$(cat f) a b", "sh|-c|TOKEN=$(cat f) a b"),
        (r#"sh|-c|TOKEN="$(cat f)" a b"#, r#"sh|-c|TOKEN="$(cat f)" a b"#),
        ("sh|-c|export TOKEN+=V N=1", "sh|-c|export TOKEN+=[redacted] N=1"),
        ("sh|-c|a --password-stdin <<< V; b", "sh|-c|a --password-stdin <<< [redacted]; b"),
        ("sh|-c|TOKEN= python a", "sh|-c|TOKEN= python a"),
        ("a|--pin|4829|--pin-memory|--pin|17", "a|--pin|[redacted]|--pin-memory|--pin|17"),
        ("a|--nonce|12|--salt|x9y8z7w6", "a|--nonce|12|--salt|[redacted]"),
        ("htpasswd|-bc|/etc/htpasswd|u|V", "htpasswd|-bc|/etc/htpasswd|u|[redacted]"),
        (
            "ssh|-o|ProxyCommand=sshpass -p V ssh h|u@h",
            "ssh|-o|ProxyCommand=sshpass -p [redacted] ssh h|u@h",
        ),
        ("vault|write|secret/x|value=V", "vault|write|secret/x|value=[redacted]"),
        ("vault|write|sys/mounts/x|type=kv", "vault|write|sys/mounts/x|type=kv"),
        ("c|https://h/bot123456:V/getMe", "c|https://h/bot[redacted]/getMe"),
        ("c|scr/bob:a1b2c3@h:1/d", "c|scr/bob:[redacted]@h:1/d"),
        ("c|org/model:tag@main", "c|org/model:tag@main"),
        (r#"x|run(["a","--password","V","n"])"#, r#"x|run(["a","--password","[redacted]","n"])"#),
        (r#"x|run(["mysql","-pV"])"#, r#"x|run(["mysql","-p[redacted]"])"#),
        // What a program is given may be named like another.
        ("kubectl|get|mysql|-p1", "kubectl|get|mysql|-p1"),
        ("docker|exec|c|redis-cli|-a|V", "docker|exec|c|redis-cli|-a|[redacted]"),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
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
