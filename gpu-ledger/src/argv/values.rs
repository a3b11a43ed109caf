//! What a value looks like.

use super::REDACTED;

/// Values that say whether, not what.
const SWITCHES: &[&str] =
    &["true", "false", "yes", "no", "on", "off", "none", "null", "nil", "undefined", "0", "1"];
/// Fewer bytes than this are no key that a machine made.
const RANDOM_MIN: usize = 16;
/// A count of tokens has at most as many digits.
const COUNT_DIGITS_MAX: usize = 8;
/// How much of a value is looked at to tell what it is: a word may be full of names with values that never end.
const LOOK_MAX: usize = 512;

/// The beginning of a value.
pub(super) fn looked(value: &[u8]) -> &[u8] {
    value.get(..LOOK_MAX).unwrap_or(value)
}

/// Whether nothing is in it: a switch, a placeholder, or what stands for a secret already.
pub(super) fn says_nothing(value: &[u8]) -> bool {
    let enclosed = |open: &[u8], close: &[u8]| value.starts_with(open) && value.ends_with(close);
    value.is_empty()
        || value == REDACTED
        || SWITCHES.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        || value.iter().all(|byte| *byte == b'*')
        || enclosed(b"<", b">")
        || enclosed(b"{{", b"}}")
        || is_format(value)
}

/// Whether something else is put in there: `%s`, `%5d`.
fn is_format(value: &[u8]) -> bool {
    match value {
        [b'%', digits @ .., b's' | b'd' | b'r' | b'v' | b'q'] => {
            digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Whether it is a number that counts something.
pub(super) fn is_count(value: &[u8]) -> bool {
    value.len() <= COUNT_DIGITS_MAX
        && value.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
}

/// Whether a shell or an interpreter would put the value in: `$NAME`, `os.environ["NAME"]`.
pub(super) fn is_reference(value: &[u8]) -> bool {
    const CALLS: &[&[u8]] = &[
        b"os.environ",
        b"os.getenv",
        b"getenv",
        b"environ",
        b"getpass",
        b"process.env",
        b"self.",
        b"args.",
        b"config.",
        b"settings.",
        b"sys.argv",
    ];
    if CALLS.iter().any(|call| value.starts_with(call)) {
        return true;
    }
    match value {
        [b'`', ..] | [b'$', b'(', ..] | [b'$'] => true,
        [b'$', b'{', inner @ ..] => {
            let inner = inner.strip_suffix(b"}").unwrap_or(inner);
            let of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
            let length = inner.iter().take_while(of_name).count();
            // `${NAME:-}` puts nothing in, and `${NAME:?text}` says why there is nothing.
            match inner.get(length..).unwrap_or_default() {
                [] | [b':' | b'-'] | [b':', b'-'] => true,
                rest => matches!(rest, [b'?', ..] | [b':', b'?', ..]),
            }
        }
        [b'$', name @ ..] => name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'),
        _ => false,
    }
}

/// The same of a value with its quotes: between single ones everything is as it is, and between double ones what a
/// shell puts in has the form that variables of the environment have, since other languages have no such thing.
pub(super) fn is_put_in(value: &[u8]) -> bool {
    match value {
        [b'\'', ..] => false,
        [b'"', inner @ ..] => {
            let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
            let is_variable = !inner.iter().any(u8::is_ascii_lowercase) && is_reference(inner);
            is_variable || is_command(inner)
        }
        _ => is_reference(value),
    }
}

/// Whether a shell would put in what a command says: `$(...)`.
pub(super) fn is_command(value: &[u8]) -> bool {
    value.starts_with(b"$(") || value.first() == Some(&b'`')
}

/// Whether it names a file: what is in the file is not on the command line.
pub(super) fn is_path(value: &[u8]) -> bool {
    const ENDINGS: &[&str] = &[
        ".pem", ".key", ".crt", ".cer", ".pub", ".json", ".txt", ".yaml", ".yml", ".toml", ".ini",
        ".env", ".p12", ".pfx", ".jks", ".gpg", ".asc", ".conf", ".cfg", ".der", ".ppk",
    ];
    let ends = |ending: &&str| {
        let from = value.len().checked_sub(ending.len()).and_then(|from| value.get(from..));
        from.is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
    };
    [b"/".as_slice(), b"./", b"../", b"~", b"file:", b"s3:", b"gs:", b"@/", b"@."]
        .iter()
        .any(|begin| value.starts_with(begin))
        || ENDINGS.iter().any(ends)
}

/// Whether it is the name of a program or of what a program is run with.
pub(super) fn is_file(value: &[u8]) -> bool {
    const ENDINGS: &[&str] =
        &["py", "ipynb", "sh", "js", "ts", "rb", "pl", "gguf", "safetensors", "bin", "pt", "log"];
    let ending = value
        .iter()
        .rposition(|byte| *byte == b'.')
        .and_then(|dot| value.get(dot.saturating_add(1)..));
    ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending == known.as_bytes()))
}

/// Whether it looks like a key that a machine made: letters and digits, long, and no path or version.
pub(super) fn is_random(value: &[u8]) -> bool {
    let value = looked(value);
    let of_key = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'=' | b'~')
    };
    value.len() >= RANDOM_MIN
        && value.iter().all(of_key)
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && longest_run(value) >= RANDOM_MIN.div_ceil(2)
}

/// Whether it looks like bytes in base 64: capitals among small letters, or the sign that fills it up.
pub(super) fn is_base64(value: &[u8]) -> bool {
    const LEAST: usize = 12;
    let value = looked(value);
    let of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let inner = value.get(1..).unwrap_or_default();
    value.len() >= LEAST
        && value.iter().all(of_base64)
        && inner.iter().any(u8::is_ascii_lowercase)
        && (inner.iter().any(u8::is_ascii_uppercase) || value.ends_with(b"="))
}

/// Whether somebody made it up to be hard to guess: letters among digits, and no word, number, version, name of a
/// file or of an algorithm. A weaker sign than [`is_random`], for names that are nearly always for secrets.
pub(super) fn is_made(value: &[u8]) -> bool {
    const LEAST: usize = 6;
    let value = looked(value);
    let is_one_word = value.iter().all(|byte| {
        !byte.is_ascii_whitespace()
            && !matches!(
                byte,
                b'<' | b'>' | b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'|' | b',' | b';' | b'*'
            )
    });
    if value.len() < LEAST || !is_one_word {
        return false;
    }
    let has = |of: fn(&u8) -> bool| value.iter().any(of);
    let is_mixed = has(u8::is_ascii_digit)
        && (has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)
            || value.split(|byte| !byte.is_ascii_alphanumeric()).any(|run| {
                let digits = run.iter().filter(|byte| byte.is_ascii_digit()).count();
                run.len() >= LEAST && (1..run.len()).contains(&digits)
            }));
    is_mixed && !is_path(value) && !is_uuid(value) && !is_version(value) && !is_algorithm(value)
}

/// Whether letters and digits, or capitals and small letters, change places in it as nobody names a thing: more often
/// than in `yolov8n`, `text2image` and `LlamaForCausalLM2`.
pub(super) fn is_tangled(value: &[u8]) -> bool {
    const LEAST: usize = 10;
    /// Between letters and digits.
    const TURNS_MIN: usize = 3;
    /// A share of the run: kinds drawn by chance change at six of ten places.
    const CHANGES_MIN: (usize, usize) = (1, 2);
    let value = looked(value);
    let changes = |run: &[u8], kind: fn(&u8) -> u8| {
        run.iter().zip(run.iter().skip(1)).filter(|(one, next)| kind(one) != kind(next)).count()
    };
    let is_knot = |run: &[u8]| {
        let turns = changes(run, |byte| u8::from(byte.is_ascii_digit()));
        let all = changes(run, |byte| match byte {
            b'0'..=b'9' => 1,
            b'A'..=b'Z' => 2,
            _ => 0,
        });
        let is_often = all.saturating_mul(CHANGES_MIN.1) >= run.len().saturating_mul(CHANGES_MIN.0);
        run.len() >= LEAST && (turns >= TURNS_MIN || is_often)
    };
    is_made(value)
        && !value.iter().any(|byte| matches!(byte, b'/' | b':'))
        && !is_file(value)
        && value.split(|byte| !byte.is_ascii_alphanumeric()).any(is_knot)
}

/// Whether it names a size, as `mixtral8x7b` and `gridworld8x8` do.
pub(super) fn has_sizes(value: &[u8]) -> bool {
    let mut threes = looked(value).windows(3);
    threes.any(|three| matches!(three, [b'0'..=b'9', b'x', b'0'..=b'9']))
}

/// Whether signs stand among its letters and digits that no model, file, version or list has in its name: `Zq7#x9`.
pub(super) fn is_unlike_names(value: &[u8]) -> bool {
    const LEAST: usize = 6;
    let value = looked(value);
    let has = |of: fn(&u8) -> bool| value.iter().any(of);
    value.len() >= LEAST
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && has(|byte| b"#$%^&*!+~?".contains(byte))
        && !has(|byte| byte.is_ascii_whitespace() || b":@/,;<>[]{}()|".contains(byte))
}

/// Whether it is in groups of capitals and digits, as licences are: `A1B2-C3D4-E5F6`.
pub(super) fn is_serial(value: &[u8]) -> bool {
    const GROUPS_MIN: usize = 3;
    const GROUP: std::ops::RangeInclusive<usize> = 4..=8;
    let value = looked(value);
    let mut groups = value.split(|byte| *byte == b'-');
    let length = groups.next().unwrap_or_default().len();
    let of_serial = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'-';
    GROUP.contains(&length)
        && value.iter().all(of_serial)
        && value.iter().any(u8::is_ascii_digit)
        && groups.clone().count() >= GROUPS_MIN.saturating_sub(1)
        && groups.all(|group| group.len() == length)
}

/// Whether it numbers a thing (RFC 9562), as sessions and rows are.
pub(super) fn is_uuid(value: &[u8]) -> bool {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let parts = value.get(..37).unwrap_or(value).split(|byte| *byte == b'-');
    value.iter().take(37).all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
        && parts.map(<[u8]>::len).eq(LENGTHS)
}

/// `1.2.3` and `v2.0-rc1`; addresses, too.
pub(super) fn is_version(value: &[u8]) -> bool {
    let number = value.strip_prefix(b"v").unwrap_or(value);
    number.first().is_some_and(u8::is_ascii_digit) && number.contains(&b'.')
}

/// Whether it names how something is hashed, and not what with.
fn is_algorithm(value: &[u8]) -> bool {
    const NAME_MAX: usize = 20;
    const BEGINNINGS: &[&str] = &[
        "sha", "md5", "blake", "hmac", "aes", "ripemd", "poly1305", "chacha", "pbkdf", "argon",
        "scrypt", "bcrypt",
    ];
    let begins = |name: &&str| {
        value.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
    };
    value.len() <= NAME_MAX && BEGINNINGS.iter().any(begins)
}

/// Whether it names how somebody proves who they are, or where, and not what with: `oauth2`, `scram-sha-256`.
pub(super) fn is_method(value: &[u8]) -> bool {
    const BEGINNINGS: &[&str] = &[
        "oauth", "openid", "oidc", "saml", "ldap", "krb", "kerberos", "ntlm", "scram", "digest",
        "basic", "bearer", "tls", "mtls", "ssl", "x509", "sigv", "aws", "sasl", "cram", "jwt",
        "http", "pam", "rs256", "es256", "hs256", "gssapi", "spnego", "radius", "trust", "plain",
    ];
    let begins = |name: &&str| {
        value.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
    };
    value.iter().any(|byte| matches!(byte, b'/' | b':' | b'.' | b'@'))
        || BEGINNINGS.iter().any(begins)
}

/// Whether it is a session that may be gone on with by whoever has it, and no name or number of one.
pub(super) fn is_session(value: &[u8]) -> bool {
    /// A number without its dashes.
    const NUMBER: usize = 32;
    if value.starts_with(b"ses_") || is_uuid(value) || !(is_random(value) || is_base64(value)) {
        return false;
    }
    let value = looked(value);
    let is_number = value.len() == NUMBER && value.iter().all(u8::is_ascii_hexdigit);
    let is_mixed = value.split(|byte| !byte.is_ascii_alphanumeric()).any(|run| {
        run.iter().any(u8::is_ascii_digit)
            && run.iter().any(u8::is_ascii_lowercase)
            && run.iter().any(u8::is_ascii_uppercase)
    });
    is_mixed || value.len() >= NUMBER && !is_number
}

/// The longest stretch of letters and digits.
pub(super) fn longest_run(value: &[u8]) -> usize {
    let runs = value.split(|byte| !byte.is_ascii_alphanumeric());
    runs.map(<[u8]>::len).max().unwrap_or(0)
}

/// Whether a word is an option and no value: `--name`, `--name=value`, `-x`, `-name`, `-j8`. What else begins with a
/// dash may be a password, where one is expected: argparse takes no such value, getopt_long and Go's flags do.
pub(super) fn is_option(word: &[u8]) -> bool {
    /// A longer word after one dash is no option that a program has.
    const ONE_DASH_MAX: usize = 16;
    const NUMBER_MAX: usize = 4;
    let name = |rest: &[u8], of_name: fn(&u8) -> bool| {
        let end = rest.iter().position(|byte| *byte == b'=').unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        name.first().is_some_and(u8::is_ascii_alphabetic)
            && name.iter().all(of_name)
            && !is_unlike_options(name)
    };
    match word {
        [b'-', b'-'] => true,
        [b'-', b'-', rest @ ..] => {
            name(rest, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        }
        [b'-', letter, digits @ ..]
            if letter.is_ascii_alphabetic() && digits.len() <= NUMBER_MAX && is_count(digits) =>
        {
            true
        }
        [b'-', rest @ ..] => {
            let lower = |byte: &u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_');
            rest.len() <= ONE_DASH_MAX && name(rest, lower)
        }
        _ => false,
    }
}

/// Whether no option is called so, though its bytes would do: separators behind each other or at the end, a long
/// name with none, letters and digits that change places more often than in `x264opts` and `k8s`.
fn is_unlike_options(name: &[u8]) -> bool {
    const RUN_MAX: usize = 40;
    const RUN_MIN: usize = 6;
    const TURNS_MIN: usize = 3;
    let is_separator = |byte: &u8| matches!(byte, b'-' | b'_' | b'.');
    let is_tangled = |run: &[u8]| {
        let turns = run.iter().zip(run.iter().skip(1));
        let turns = turns.filter(|(one, next)| one.is_ascii_digit() != next.is_ascii_digit());
        run.len() > RUN_MAX || run.len() >= RUN_MIN && turns.count() >= TURNS_MIN
    };
    name.split(is_separator).any(|run| run.is_empty() || is_tangled(run))
}

/// Without a pair of quotes around it; the place of what is left.
pub(super) fn unquoted(value: &[u8]) -> std::ops::Range<usize> {
    match value {
        [quote @ (b'"' | b'\''), .., last] if last == quote => 1..value.len().saturating_sub(1),
        [b'"' | b'\'', _, ..] => 1..value.len(),
        _ => 0..value.len(),
    }
}
