//! `SHA256SUMS`: the hash of every other file, as sha256sum(1) of coreutils writes and checks it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Hashes by path within the batch.
pub(super) type Hashes = BTreeMap<String, String>;

/// The file's text.
pub(super) fn text(hashes: &Hashes) -> String {
    let mut text = String::new();
    for (path, hash) in hashes {
        // Two blanks: read as bytes. No path of a batch has to be escaped.
        let _ = writeln!(text, "{hash}  {path}");
    }
    text
}

/// What a recorded file says differently from what is there: by file, why. Empty: it says the same, byte
/// for byte.
pub(super) fn differences(recorded: &str, there: &Hashes) -> Vec<(String, String)> {
    let line =
        |line: &str| line.split_once("  ").map(|(hash, path)| (path.to_owned(), hash.to_owned()));
    let said: Hashes = recorded.lines().filter_map(line).collect();
    let mut differences = Vec::new();
    for (path, hash) in there {
        let why = match said.get(path) {
            Some(known) if known == hash => continue,
            Some(_) => "its SHA-256 is not the one in SHA256SUMS",
            None => "it is not in SHA256SUMS",
        };
        differences.push((path.clone(), why.to_owned()));
    }
    for path in said.keys().filter(|path| !there.contains_key(*path)) {
        differences.push((super::SUMS.to_owned(), format!("it lists {path}, which is not there")));
    }
    if recorded != text(there) && differences.is_empty() {
        let why = "it is not as it is written: lines sorted by path, hash, two blanks, path";
        differences.push((super::SUMS.to_owned(), why.to_owned()));
    }
    differences
}
