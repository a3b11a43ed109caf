//! Options that are cut short: `--passw V` for `--password V`.
//!
//! Python's argparse (`allow_abbrev`, on by default) and getopt_long take every beginning of a long option that no
//! other option of the program has. Which options a program has is not known here, so that a beginning counts
//! only where hardly another word goes on from it: `passw` but not `pas` (passes), `secr` but not `sec` (seconds),
//! `api-k` but not `api` or `k`. `tok` may be `token` or `tokenizer`: there the value tells.

use super::names::{self, Sort};

/// Words that options end in, and how much of each is enough to be no other word.
const WORDS: &[(&str, usize)] = &[
    ("password", 5),
    ("passphrase", 6),
    ("passcode", 6),
    ("secret", 4),
    ("secrets", 4),
    ("credentials", 4),
    ("authorization", 10),
];
/// Whole names that may be cut anywhere behind this much.
const NAMES: &[(&str, usize)] = &[
    ("apikey", 4),
    ("accesskey", 7),
    ("accesstoken", 9),
    ("apitoken", 6),
    ("authtoken", 7),
    ("bearertoken", 7),
    ("clientsecret", 9),
    ("privatekey", 8),
    ("refreshtoken", 10),
    ("secretaccesskey", 8),
    ("secretkey", 7),
    ("oauth2bearer", 7),
];
/// The least of `token`: `to` is a word.
const TOKEN_MIN: usize = 3;

/// What kind of secret an option is for that is cut short and has no name by itself.
pub(super) fn sort(name: &[u8]) -> Option<Sort> {
    let parts = names::parts(name);
    let last = parts.last()?.as_str();
    let compact = parts.concat();
    let is_begun = |word: &str, begun: &str, least: usize| {
        begun.len() >= least && begun.len() < word.len() && word.starts_with(begun)
    };
    if let Some((word, _)) = WORDS.iter().find(|(word, least)| is_begun(word, last, *least)) {
        return names::sort(word.as_bytes());
    }
    if let Some((name, _)) = NAMES.iter().find(|(name, least)| is_begun(name, &compact, *least)) {
        return names::sort(name.as_bytes());
    }
    if is_begun("token", last, TOKEN_MIN) {
        return names::sort(&with(name, last, b"token")).map(|_| Sort::Cut);
    }
    // `--hf-t V`, where the value is no type, time or name.
    let before = parts.iter().rev().nth(1).map_or("", String::as_str);
    if is_begun("token", last, 1) && matches!(before, "hf" | "hub" | "auth" | "access" | "api") {
        return Some(Sort::Cut);
    }
    // `--wandb-k V`.
    let of_account = || names::sort(&with(name, last, b"key"));
    if is_begun("key", last, 1) { of_account().filter(|sort| *sort == Sort::Account) } else { None }
}

/// A name with its last part in full.
fn with(name: &[u8], last: &str, full: &[u8]) -> Vec<u8> {
    let kept = name.len().saturating_sub(last.len());
    [name.get(..kept).unwrap_or_default(), full].concat()
}
