use proptest::prelude::*;

use crate::argv::{REDACTED, redact, redact_word};
use crate::identity::ARGV_KEPT_MAX;
use crate::kernel::{Argv, ArgvState};

/// Bytes that mean something to the redactor; `_` stands for a blank and `0` for the end of a word.
const PARTS: &str = r#"--password -p mysql curl -u sshpass = : _ 0 0 0 " ' \ { } [ ] ( ) , ; | & :// @ / Bearer_
    Authorization token api_key sk- AKIA eyJ . -----BEGIN_ -----END abc A1b2C3d4E5f6G7h8I9j0 true
    $HOME [redacted] redacted name value login wandb vault kv put set aws < > machine_ password IDENTIFIED_BY_ echo
    --password-stdin openssl -pass pass: --api-keys htpasswd -b key ? ~ Q 8 # login( env -e Cookie:_ x --
    $( ${ ` += => == || .= + b' """ ''' tokens: auth {"tokens":[ --pin= --salt --cookie session= os.environ[" "] ") "}
    <<< <<E read_ -o ProxyCommand= sshpass_-p_ bot123456: rtmp:// /hooks/ bob:x1y2z3w4@h sqlplus /u smbclient -U % send_
    assword set_ setenv_ setdefault(" ", str( \_ - _-_ := ?? or_ secret,data= 482913 hunter2 --passw --tok --api-k -hft
    %5F %3D %255F %3A%2F%2F access%5Ftoken= \u0074oken \u002 % --"token"_ --to\ken_ $' user,_password_=_ 'bob',_ VALUES_(
    default= os.getenv(' ',_' _else_' -u_ --user bob:x1y2 docker printf_%s_ _>_/run/token _|_tee_/run/secret cat_>_/run/pw
    --пароль 密码= contraseña --motdepasse --mdp pop('"#;

/// Options with their values, and words without, that look like what is redacted.
const INNOCENT: &[&str] = &[
    "--max-tokens 512",
    "--max-toke 512",
    "--tokenizer gpt2x1y2",
    "--tok cl100k_base",
    "--tok mixtral8x7b",
    "--token-budget 4096",
    "--keys 128",
    "--key 128",
    "--passes 3",
    "--pas 3",
    "--passthrough q1w2e3",
    "--author bob",
    "--auth-type basic",
    "--to q1w2e3r4t5y6",
    "--top-k 40",
    "--sec 30",
    "--section q1w2e3r4",
    "--api-kwargs x1",
    "--api-version 2024-02-01",
    "--num-key-value-heads 8",
    "--kv-cache-dtype fp8_e5m2",
    "-hf ggml-org/gemma-3-1b-it-GGUF:Q4_K_M",
    "-u 1000:1000",
    "--user bob:staff",
    "-u localhost:8001",
    "--wort q1w2e3r4",
    "--clave columna1",
    "--mdp gridworld8x8",
    "--parallel 4",
    "--eos-token </s>",
    "--pin 17",
    "--seed 42",
    "model.gguf",
    "--http2",
    "--ipv4",
];

/// Such bytes, and some that are no text, glued together at random.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let part = |part: &str| -> Vec<u8> {
        let bytes = part.bytes().map(|byte| if byte == b'_' { b' ' } else { byte });
        if part == "0" {
            vec![0]
        } else if part.ends_with('_') {
            bytes.collect()
        } else {
            part.into()
        }
    };
    let others: [&[u8]; 6] = [b"hf_", b"PRIVATE KEY-----", b"\xff", b"\n", b"\x1b", b"\xc3\xa9"];
    let parts: Vec<Vec<u8>> =
        PARTS.split_ascii_whitespace().map(part).chain(others.map(<[u8]>::to_vec)).collect();
    prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat())
}

fn redacted(bytes: &[u8], is_cut: bool) -> Vec<u8> {
    redact(bytes, is_cut).unwrap_or_else(|| bytes.to_vec())
}

/// Whether what is left is what was there, with some stretches replaced.
fn is_a_redaction(before: &[u8], after: &[u8]) -> bool {
    let words =
        |bytes: &[u8]| bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (before, after) = (words(before), words(after));
    before.len() == after.len()
        && before.iter().zip(&after).all(|(before, after)| {
            if before == after {
                return true;
            }
            // What stands around the marks stood there, in this order.
            let text = String::from_utf8_lossy(after).into_owned();
            let marked = String::from_utf8_lossy(REDACTED).into_owned();
            let mut rest = String::from_utf8_lossy(before).into_owned();
            text.contains(&marked)
                && text.split(&marked).all(|part| match rest.find(part) {
                    Some(at) => {
                        rest.drain(..at + part.len());
                        true
                    }
                    None => false,
                })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_bytes_are_redacted_once_and_for_all(bytes in hostile(), is_cut in any::<bool>()) {
        let once = redacted(&bytes, is_cut);
        prop_assert!(is_a_redaction(&bytes, &once), "{:?}", String::from_utf8_lossy(&once));
        let twice = redacted(&once, is_cut);
        prop_assert_eq!(
            String::from_utf8_lossy(&twice).into_owned(),
            String::from_utf8_lossy(&once).into_owned()
        );
    }

    #[test]
    fn bytes_without_meaning_are_left_alone_and_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..200), is_cut in any::<bool>(),
    ) {
        let once = redacted(&bytes, is_cut);
        prop_assert_eq!(redacted(&once, is_cut), once);
    }

    /// Whatever stands beside them, options and values that are for no secret stay as they are.
    #[test]
    fn innocent_words_stay_as_they_are(words in prop::collection::vec(prop::sample::select(INNOCENT), 0..12)) {
        let line = words.join("\0").replace(' ', "\0");
        prop_assert_eq!(redact(line.as_bytes(), false), None, "{}", line);
        // The same as a script.
        let script = format!("sh\0-c\0exec python3 serve.py {}", words.join(" "));
        prop_assert_eq!(redact(script.as_bytes(), false), None, "{}", script);
    }

    /// The short way of a plain word is a short way and no other.
    #[test]
    fn a_plain_word_by_itself_is_as_in_a_list(
        word in "[a-z0-9./_-]{0,20}((hf_|sk-|AKIA|eyJ|/|password|mysql)[A-Za-z0-9._-]{0,40}){0,2}",
    ) {
        let listed = redacted(word.as_bytes(), false);
        prop_assert_eq!(redact_word(word.as_bytes()).into_owned(), listed);
    }

    /// Whatever stands around it, a password behind its option goes.
    #[test]
    fn a_password_goes_wherever_its_option_stands(
        before in prop::collection::vec("[a-z/.]{1,9}", 0..5), after in prop::collection::vec("[a-z=]{1,9}", 0..5),
    ) {
        let secret = "Zq7#canary#w9X";
        let mut words = before;
        words.extend(["--db-password".to_owned(), secret.to_owned()]);
        words.extend(after);
        let text = redacted(words.join("\0").as_bytes(), false);
        prop_assert!(!String::from_utf8_lossy(&text).contains("canary"));
    }
}

/// A word full of beginnings, sixteen times as long as any that is captured: were each of them followed to the
/// word's end, and from there again, this would not come to its end in hours.
#[test]
fn a_word_full_of_beginnings_comes_to_its_end() {
    const LENGTH: usize = 16 * ARGV_KEPT_MAX;
    let beginnings = [
        "a_key=",
        "a_key=\"\\",
        "token=\"a\"+",
        "api_keys=[",
        "{\"auth\":{",
        "tokens:\n",
        "Cookie: ",
        "password: ab ",
        "TOKEN=$(echo ",
        "--pin ",
        "[\"a\",\"b c\"] ",
        "login <<E\n",
        "https://hooks.slack.com/services/",
        "ProxyCommand=sshpass -p a ",
        "-----BEGIN PRIVATE KEY-----",
    ];
    // Looked at in two ways and more.
    let encoded = [
        "a,token,",
        "token,a='b\\'",
        "password = x or '\\",
        "access%255Ftoken%253D",
        "\\u0074oken=",
        "--to\"k\"en a\\ 'b c' ",
        "echo a | ",
        "cat > /run/token <<E ",
        "login;",
        "-u a:b1 ",
        "密码=",
        "passw%",
    ];
    let long = beginnings.into_iter().map(|beginning| (beginning, LENGTH));
    for (beginning, length) in long.chain(encoded.map(|beginning| (beginning, LENGTH / 8))) {
        let word = beginning.repeat(length / beginning.len());
        let stored = redact(word.as_bytes(), false).unwrap_or(word.into_bytes());
        // Nothing is made longer than a mark for each word of a beginning, of which the shortest has two.
        assert!(stored.len() <= length * 5 / 2, "{beginning:?} became {} bytes", stored.len());
    }
}

/// What a panic or an assertion that fails would print.
#[test]
fn arguments_that_are_printed_for_debugging_hold_no_secret() {
    let bytes = b"train\0--api-key\0Zq7-canary-w9X\0--epochs\x003\0";
    let argv = Argv {
        bytes: bytes.as_slice().into(),
        true_length: u64::try_from(bytes.len()).ok(),
        state: ArgvState::Whole,
    };
    let shown = format!("{argv:?} {argv:#?}");
    assert!(!shown.contains("canary") && shown.contains("--epochs"), "{shown}");
}
