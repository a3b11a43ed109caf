//! Arguments on their way to where they are kept or shown: how much of them, and without secrets.
//!
//! Purpose: command lines carry passwords and tokens. What is stored or printed of them passes through
//! here first. May touch: nothing. May not: keep what [`redact`] found, grow with anything but its
//! input, or alter a byte that belongs to no secret.
//!
//! Redaction is by words, not by text: what a word means depends on the word before it, and on the
//! program (`-p` is a password to mysql and a prompt to llama.cpp). Everything is one pass from left to
//! right without going back, except into a word that holds a command of its own, and that only
//! `NESTING_MAX` deep, and a second look at what quotes, escapes or other letters hide (`decoded`).
//! It is written by hand and not as regular expressions, since a cut secret at the end of a capture is shorter
//! than any form of it.

mod abbreviated;
mod containers;
mod decoded;
mod fields;
mod foreign;
mod lists;
mod literals;
mod markers;
mod marks;
mod names;
mod pem;
mod programs;
mod sequence;
mod shell;
mod sinks;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod tuples;
mod urls;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use crate::escape::escape;
use crate::kernel::{Argv, ArgvState};

/// What stands in the place of a secret.
pub const REDACTED: &[u8] = b"[redacted]";

/// How often what one pass left is looked through again. The second finds what the first uncovered,
/// where it found anything at all; more are not known to be needed.
const PASSES_MAX: usize = 4;

/// How much of a command line is kept and shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CmdlineMode {
    /// Nothing of it.
    None,
    /// The file of its first word.
    Exe,
    /// All of it without secrets.
    #[default]
    Redacted,
    /// All of it.
    Full,
}

impl CmdlineMode {
    /// All of them, from the least that is kept to the most.
    pub const ALL: [Self; 4] = [Self::None, Self::Exe, Self::Redacted, Self::Full];

    /// The word in the configuration and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Exe => "exe",
            Self::Redacted => "redacted",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for CmdlineMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CmdlineMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is none of none, exe, redacted, full"))
    }
}

/// What of captured arguments may be kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    /// NUL-separated, as in [`Argv`]; `None` where nothing may be kept.
    pub bytes: Option<Bytes>,
    /// How it differs from what was captured.
    pub text: StoredText,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.as_ref().map(|bytes| Printed::bytes(bytes));
        f.debug_struct("Stored").field("bytes", &bytes).field("text", &self.text).finish()
    }
}

/// Arguments without secrets, whatever may be stored: what is printed for those who look for a fault, a panic's
/// text among it, is read by others too.
pub(crate) struct Printed(Vec<u8>);

impl Printed {
    /// Of NUL-separated bytes, which may be cut.
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self(redact(bytes, true).unwrap_or_else(|| bytes.to_vec()))
    }

    /// Of words.
    pub(crate) fn words<W: AsRef<[u8]>>(words: &[W]) -> Self {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        Self::bytes(&words.join(&0))
    }
}

impl fmt::Debug for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.split(|byte| *byte == 0).map(|word| escape(word).to_string());
        f.debug_list().entries(words).finish()
    }
}

/// How a kept text differs from what was captured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoredText {
    /// Not at all: its commitment can be checked.
    Captured,
    /// Secrets were replaced by [`REDACTED`].
    Redacted,
    /// It is the first word's file alone.
    Exe,
}

impl StoredText {
    /// The word in the store and in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::Redacted => "redacted",
            Self::Exe => "exe",
        }
    }

    /// Reads such a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Captured, Self::Redacted, Self::Exe].into_iter().find(|text| text.as_str() == word)
    }
}

/// What may be kept of captured arguments.
#[must_use]
pub fn stored(argv: &Argv, mode: CmdlineMode) -> Stored {
    let is_cut = argv.state == ArgvState::Truncated;
    let as_captured = || Stored { bytes: Some(argv.bytes.clone()), text: StoredText::Captured };
    match mode {
        CmdlineMode::None => Stored { bytes: None, text: StoredText::Captured },
        CmdlineMode::Full => as_captured(),
        CmdlineMode::Redacted => redact(&argv.bytes, is_cut).map_or_else(as_captured, |bytes| {
            Stored { bytes: Some(bytes.into()), text: StoredText::Redacted }
        }),
        CmdlineMode::Exe => {
            let mut file = file_of(&argv.bytes).into_owned();
            // As a whole first word ends.
            if argv.bytes.contains(&0) {
                file.push(0);
            }
            if argv.bytes == file {
                return as_captured();
            }
            Stored { bytes: Some(file.into()), text: StoredText::Exe }
        }
    }
}

/// A file name as it is kept: in the evidence, which is hashed and stays.
#[must_use]
pub fn stored_file(name: &[u8], mode: CmdlineMode) -> Cow<'_, [u8]> {
    match mode {
        CmdlineMode::None => Cow::Borrowed(&[]),
        CmdlineMode::Full => Cow::Borrowed(name),
        CmdlineMode::Exe | CmdlineMode::Redacted => {
            // By itself the file's own name may be seen for what it is, and within the path not.
            let base =
                name.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at.saturating_add(1));
            let (folder, base) = name.split_at(base);
            match (redact_word(name), redact_word(base)) {
                (Cow::Borrowed(_), Cow::Borrowed(_)) => Cow::Borrowed(name),
                (Cow::Owned(redacted), _) => Cow::Owned(redacted),
                (_, Cow::Owned(base)) => [redact_word(folder).as_ref(), &base].concat().into(),
            }
        }
    }
}

/// The first word's file, without secrets. A title that a process gave itself is one word with spaces:
/// what follows the first one may be arguments.
fn file_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    let end = bytes.iter().position(|byte| *byte == 0 || byte.is_ascii_whitespace());
    redact_word(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())
}

/// NUL-separated arguments without their secrets; `None` where there are none. `is_cut`: the capture ended
/// inside the last word, so that a secret there may be shorter than its kind ever is.
#[must_use]
pub fn redact(bytes: &[u8], is_cut: bool) -> Option<Vec<u8>> {
    let words: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let redacted = redact_words(&words, is_cut)?;
    let joined: Vec<&[u8]> = redacted.iter().map(AsRef::as_ref).collect();
    Some(joined.join(&0))
}

/// The same of words; each that holds no secret is as it was.
#[must_use]
pub fn redact_words<'a>(words: &[&'a [u8]], is_cut: bool) -> Option<Vec<Cow<'a, [u8]>>> {
    let first = pass(words, is_cut)?;
    let mut kept: Vec<Cow<'a, [u8]>> = words.iter().map(|word| Cow::Borrowed(*word)).collect();
    let mut next = Some(first);
    for _ in 0..PASSES_MAX {
        let Some(changed) = next.take() else { break };
        for (place, word) in changed {
            if let Some(kept) = kept.get_mut(place) {
                *kept = Cow::Owned(word);
            }
        }
        let seen: Vec<&[u8]> = kept.iter().map(AsRef::as_ref).collect();
        next = pass(&seen, is_cut);
    }
    // Still not at rest: words that go on changing are not told apart any more.
    for (place, _) in next.into_iter().flatten() {
        if let Some(kept) = kept.get_mut(place) {
            *kept = Cow::Borrowed(REDACTED);
        }
    }
    Some(kept)
}

/// One text that is no list of words, such as a program's name or a title.
#[must_use]
pub fn redact_word(word: &[u8]) -> Cow<'_, [u8]> {
    // Names are asked for often, and most are plain: in such a word nothing is given to anything, and only a known
    // token may stand.
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if word.iter().all(is_plain) {
        let piece = marks::Piece { word: 0, start: 0, text: word, is_cut: false };
        let mut marks = marks::Marks::of(&[word]);
        tokens::mark(&piece, &mut marks);
        let changed = marks.apply(&[word]).into_iter().next();
        return changed.map_or(Cow::Borrowed(word), |(_, word)| Cow::Owned(word));
    }
    let redacted = redact_words(&[word], false).and_then(|words| words.into_iter().next());
    redacted.unwrap_or(Cow::Borrowed(word))
}

/// The words that change, by their places.
fn pass(words: &[&[u8]], is_cut: bool) -> Option<Vec<(usize, Vec<u8>)>> {
    let mut marks = marks::Marks::of(words);
    sequence::top(&marks::Piece::all(words, is_cut), &mut marks);
    let changed = marks.apply(words);
    (!changed.is_empty()).then_some(changed)
}
