//! What a value looks like.

use super::REDACTED;

/// Values that say whether, not what.
const SWITCHES: &[&str] =
    &["true", "false", "yes", "no", "on", "off", "none", "null", "nil", "undefined", "0", "1"];
/// Fewer bytes than this are no key that a machine made.
const RANDOM_MIN: usize = 16;
/// A count of tokens has at most as many digits.
const COUNT_DIGITS_MAX: usize = 8;

/// Whether nothing is in it: a switch, a placeholder, or what stands for a secret already.
pub(super) fn says_nothing(value: &[u8]) -> bool {
    let enclosed = |open: &[u8], close: &[u8]| value.starts_with(open) && value.ends_with(close);
    value.is_empty()
        || value == REDACTED
        || SWITCHES.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        || value.iter().all(|byte| *byte == b'*')
        || enclosed(b"<", b">")
        || enclosed(b"{{", b"}}")
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
    ];
    if CALLS.iter().any(|call| value.starts_with(call)) {
        return true;
    }
    match value {
        [b'`', ..] | [b'$', b'(', ..] | [b'$'] => true,
        [b'$', name @ ..] => {
            let name = name.strip_prefix(b"{").unwrap_or(name);
            let name = name.strip_suffix(b"}").unwrap_or(name);
            name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        }
        _ => false,
    }
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

/// Whether it looks like a key that a machine made: letters and digits, long, and no path or version.
pub(super) fn is_random(value: &[u8]) -> bool {
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
    let of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let inner = value.get(1..).unwrap_or_default();
    value.len() >= LEAST
        && value.iter().all(of_base64)
        && inner.iter().any(u8::is_ascii_lowercase)
        && (inner.iter().any(u8::is_ascii_uppercase) || value.ends_with(b"="))
}

/// The longest stretch of letters and digits.
pub(super) fn longest_run(value: &[u8]) -> usize {
    let runs = value.split(|byte| !byte.is_ascii_alphanumeric());
    runs.map(<[u8]>::len).max().unwrap_or(0)
}

/// Whether a word is an option and no value: `--name`, `--name=value`, `-x`, `-name`, `-j8`. What else begins with a
/// dash may be a password.
pub(super) fn is_option(word: &[u8]) -> bool {
    /// A longer word after one dash is no option that a program has.
    const ONE_DASH_MAX: usize = 16;
    const NUMBER_MAX: usize = 4;
    let name = |rest: &[u8], of_name: fn(&u8) -> bool| {
        let end = rest.iter().position(|byte| *byte == b'=').unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        name.first().is_some_and(u8::is_ascii_alphabetic) && name.iter().all(of_name)
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

/// Without a pair of quotes around it; the place of what is left.
pub(super) fn unquoted(value: &[u8]) -> std::ops::Range<usize> {
    match value {
        [quote @ (b'"' | b'\''), .., last] if last == quote => 1..value.len().saturating_sub(1),
        [b'"' | b'\'', _, ..] => 1..value.len(),
        _ => 0..value.len(),
    }
}
