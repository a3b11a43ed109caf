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
        ("llama-server|-hft|V0|-hff|m.gguf", "llama-server|-hft|[redacted]|-hff|m.gguf"),
        ("local-ai|run|--p2ptoken|V0|--p2p", "local-ai|run|--p2ptoken|[redacted]|--p2p"),
        ("mpiexec|-genv|HF_TOKEN|V0|-n|2", "mpiexec|-genv|HF_TOKEN|[redacted]|-n|2"),
        ("hf|jobs|run|--secrets|HF_TOKEN=V0|i", "hf|jobs|run|--secrets|HF_TOKEN=[redacted]|i"),
        (
            "a|--use_auth_token|True|--use_auth_token|a/b",
            "a|--use_auth_token|True|--use_auth_token|a/b",
        ),
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

/// A line that holds no secret.
const fn unchanged(line: &str) -> (&str, &str) {
    (line, line)
}

/// argparse and getopt_long take a beginning that no other option has.
#[test]
fn an_option_that_is_cut_short_is_one_where_no_other_goes_on_from_it() {
    let cases = [
        ("a|--passw|V0|--passwo=V1", "a|--passw|[redacted]|--passwo=[redacted]"),
        (
            "a|--passphr|V0|--secr|V1|--creden|V2",
            "a|--passphr|[redacted]|--secr|[redacted]|--creden|[redacted]",
        ),
        (
            "a|--api-k|V0|--api_ke=V1|--apik|V2",
            "a|--api-k|[redacted]|--api_ke=[redacted]|--apik|[redacted]",
        ),
        ("a|--access-tok|V0|--client-sec|V1", "a|--access-tok|[redacted]|--client-sec|[redacted]"),
        ("a|--tok|made9q8y7z6w|--tok|Zq7#x9", "a|--tok|[redacted]|--tok|[redacted]"),
        unchanged("a|--tok|gpt2|--tok|cl100k_base|--tok|mixtral8x7b|--tok|a/b|--to|made9q8y7z6w"),
        unchanged(
            "a|--pas|x1y2z3|--passt|x1y2z3|--sec|x1y2z3|--ke|x1y2z3|--api|x1y2z3|--author|x1y2z3",
        ),
        unchanged("a|--auth-t|basic|--access-t|read|--hf-t|q8_0|--top-k|40|--max-tok|4096"),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
}

#[test]
fn a_word_with_dashes_is_a_value_where_no_option_is_called_so() {
    let cases = [
        ("a|--password|--h0nt3r2|--n", "a|--password|[redacted]|--n"),
        ("a|--password|--hun#ter|--n", "a|--password|[redacted]|--n"),
        ("a|--token|--foo--bar", "a|--token|[redacted]"),
        ("docker|login|-p|--9abc|h", "docker|login|-p|[redacted]|h"),
        ("a|--password=--hunter|b", "a|--password=[redacted]|b"),
        unchanged(
            "a|--password|--hunter2|--token|--http2|--api-key|--x264opts|--token|--ServerApp.port=1",
        ),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
}

#[test]
fn names_in_other_bytes_are_read_in_plain() {
    let cases = [
        ("c|h?access%5Ftoken=V&n=1", "c|h?access%5Ftoken=[redacted]&n=1"),
        ("c|h?access%255Ftoken=V&n=1", "c|h?access%255Ftoken=[redacted]&n=1"),
        (
            "c|h?next=https%3A%2F%2Fbob%3AV%40i%2F&n=1",
            "c|h?next=https%3A%2F%2Fbob%3A[redacted]%40i%2F&n=1",
        ),
        (r#"c|{"\u0074oken": "V", "n": 1}"#, r#"c|{"\u0074oken": "[redacted]", "n": 1}"#),
        (
            r#"sh|-c|a --"token" V --to\ken W b"#,
            r#"sh|-c|a --"token" [redacted] --to\ken [redacted] b"#,
        ),
        ("sh|-c|a $'--token' V --n $'W' b", "sh|-c|a $'--token' [redacted] --n $'W' b"),
        (r#"sh|-c|HF_TOK""EN=V a --'n' 1"#, r#"sh|-c|HF_TOK""EN=[redacted] a --'n' 1"#),
        ("a|--пароль|V|--n|1", "a|--пароль|[redacted]|--n|1"),
        (r#"a|{"contraseña": "V", "n": 1}"#, r#"a|{"contraseña": "[redacted]", "n": 1}"#),
        (
            "a|--mot-de-passe|V|--api-schlüssel=W|--passe|3",
            "a|--mot-de-passe|[redacted]|--api-schlüssel=[redacted]|--passe|3",
        ),
        unchanged("c|h?max%5Ftokens=512&n=50%25|--schlüssel|a1b2c3|--clave|a1b2c3"),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
}

#[test]
fn code_gives_several_values_to_several_names() {
    let cases = [
        ("p|user, password = 'bob', 'V'; f()", "p|user, password = 'bob', '[redacted]'; f()"),
        (
            "p|(user, password, n) = ('bob', 'V', 3)",
            "p|(user, password, n) = ('bob', '[redacted]', 3)",
        ),
        (
            "n|const [user, password] = [f('a,b'), 'V']",
            "n|const [user, password] = [f('a,b'), '[redacted]']",
        ),
        (
            "m|INSERT INTO u (name, password) VALUES ('bob', 'V')",
            "m|INSERT INTO u (name, password) VALUES ('bob', '[redacted]')",
        ),
        (
            "p|t = os.getenv('HF_TOKEN', 'V'); n = os.getenv('N', 'W')",
            "p|t = os.getenv('HF_TOKEN', '[redacted]'); n = os.getenv('N', 'W')",
        ),
        (
            "p|a('--token', default='V'); a('--n', default='W')",
            "p|a('--token', default='[redacted]'); a('--n', default='W')",
        ),
        ("p|x = 1; password = 'a' 'V'", "p|x = 1; password = '[redacted]' '[redacted]'"),
        ("p|x = 1; password = y or 'V'", "p|x = 1; password = [redacted] or '[redacted]'"),
        unchanged("p|loss, tokens = f(x), 'abc'; def g(user, password): return 'W'"),
        unchanged(r#"p|connect(password="", user="bob")"#),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
}

#[test]
fn a_login_goes_and_a_group_stays() {
    let cases = [
        ("a|-u|bob:hunter2|h", "a|-u|bob:[redacted]|h"),
        ("a|-ubob:hunter2|--user=eve:x1", "a|-ubob:[redacted]|--user=eve:[redacted]"),
        ("a|--auth=u:p1|u2:p2|h:80", "a|--auth=u:[redacted]|u2:[redacted]|h:80"),
        ("sh|-c|a -u bob:hunter2 -u $N:$P h", "sh|-c|a -u bob:[redacted] -u $N:$P h"),
        unchanged("docker|run|-u|app:staff2x|--user=app:staff2x|x"),
        unchanged(
            "a|-u|1000:1000|-u|localhost:8001|-u|bob:staff|-u|org/m:t1x|--run-as-user|app:staff2x",
        ),
        unchanged("python|-u|app:main2x"),
    ];
    for (line, wanted) in cases {
        assert_eq!(kept(line, false), wanted);
    }
}

/// What a script writes to where secrets are.
#[test]
fn what_is_written_for_a_secret_goes() {
    let cases = [
        ("printf %s V > /run/token; a b", "printf %s [redacted] > /run/token; a b"),
        (
            "echo V | sudo tee -a /run/secret > /dev/null",
            "echo [redacted] | sudo tee -a /run/secret > /dev/null",
        ),
        (
            "echo V 2>/dev/null | tr -d x | docker login --password-stdin h",
            "echo [redacted] 2>/dev/null | tr -d x | docker login --password-stdin h",
        ),
        ("cat <<E > /run/secrets/x\nV\nE\na b", "cat <<E > /run/secrets/x\n[redacted]\nE\na b"),
        (
            "echo logging in; gh auth login --with-token < /run/token",
            "echo logging in; gh auth login --with-token < /run/token",
        ),
        (
            "echo a > tokens.txt; echo 42 > /run/token; echo a > token.log",
            "echo a > tokens.txt; echo 42 > /run/token; echo a > token.log",
        ),
        ("printf %s \"$HF_TOKEN\" > /run/token", "printf %s \"$HF_TOKEN\" > /run/token"),
    ];
    for (line, wanted) in cases {
        let redacted = redact(&[b"sh\0-c\0", line.as_bytes()].concat(), false);
        let shown = redacted
            .map_or_else(|| format!("sh\0-c\0{line}"), |bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(shown, format!("sh\0-c\0{wanted}"));
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
