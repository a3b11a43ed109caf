//! Where a command of a script writes what it prints: to a file that is for a secret, or to a program that reads one.

use super::names::{self, Sort};
use super::shell::Command;

/// Folders in which every file is a secret.
const FOLDERS: &str = "secrets .secrets credentials";
/// Files that hold one, whose names do not say so.
const FILES: &str = ".pgpass kaggle.json";
/// Files that are named for what they speak of: logs, tables, programs, and those whose fields have names.
const OTHERS: &str =
    "log out err csv tsv jsonl py sh js ts ipynb md html pub json yaml yml toml ini";
/// Programs of a pipe, at most, between one that prints a secret and the one that takes it.
const PIPE_MAX: usize = 4;

fn has(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|known| known.as_bytes() == word)
}

/// What of a shell's line is no word of a program: `>`, `>FILE`, `2>`, `<<<`.
pub(super) const fn is_redirection(word: &[u8]) -> bool {
    matches!(word, [b'>' | b'<', ..] | [b'0'..=b'9', b'>', ..])
}

/// The sign of one alone: what follows it is a file.
pub(super) fn is_sign(word: &[u8]) -> bool {
    is_redirection(word) && word.iter().all(|byte| !byte.is_ascii_alphabetic() && *byte != b'/')
}

impl Command<'_> {
    /// What kind of secret the file is for that it writes to.
    pub(super) fn file(&self) -> Option<Sort> {
        let texts = || self.words.iter().map(|piece| piece.text);
        let behind = |sign: &[u8]| {
            let mut words = texts().skip_while(move |word| *word != sign).skip(1);
            words.next()
        };
        let joined = texts().filter_map(|word| match word {
            [b'>', b'>' | b'|', name @ ..] | [b'>', name @ ..] => Some(name),
            _ => None,
        });
        let is_tee = texts().take(3).any(|word| word == b"tee" || word.ends_with(b"/tee"));
        let of_tee = texts().filter(|_| is_tee).filter(|word| !word.starts_with(b"-"));
        let of_tee = of_tee.skip_while(|word| !word.ends_with(b"tee")).skip(1);
        let signs = [b">".as_slice(), b">>", b">|"].into_iter().filter_map(behind);
        let blocks = texts().filter_map(|word| word.strip_prefix(b"of="));
        joined.chain(signs).chain(of_tee).chain(blocks).find_map(sort_of_file)
    }
}

/// Where what the first of these commands prints comes to rest.
pub(super) fn sink(commands: &[Command<'_>]) -> Option<Sort> {
    for (place, command) in commands.iter().enumerate().take(PIPE_MAX) {
        let taken = (place > 0 && command.takes()).then_some(Sort::Password);
        if let Some(sort) = taken.or_else(|| command.file()) {
            return Some(sort);
        }
        if command.end != b'|' {
            break;
        }
    }
    None
}

/// What kind of secret a file of this name is for.
fn sort_of_file(path: &[u8]) -> Option<Sort> {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let base = parts.next().filter(|base| !base.is_empty())?;
    if has(FILES, base) || parts.any(|folder| has(FOLDERS, folder)) {
        return Some(Sort::Password);
    }
    let base = base.strip_prefix(b".").unwrap_or(base);
    let mut dots = base.splitn(2, |byte| *byte == b'.');
    let stem = dots.next().unwrap_or_default();
    // What all may read whose keys are in there.
    let is_other = dots.next().is_some_and(|ending| has(OTHERS, ending));
    if is_other || stem.starts_with(b"authorized") {
        return None;
    }
    match names::sort(stem)? {
        Sort::Login | Sort::Pair | Sort::Authorization => Some(Sort::Password),
        Sort::Cookie | Sort::Cookies | Sort::Session => None,
        sort => Some(sort),
    }
}
