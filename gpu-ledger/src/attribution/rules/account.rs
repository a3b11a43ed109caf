//! The account that a rule names: a text in which captures may stand.

use std::sync::Arc;

use crate::escape::{escape, is_unprintable};
use crate::settlement::told_apart;

/// Characters of an account's name; one that captures make longer is cut, and ends in `…`.
pub const ACCOUNT_CHARS_MAX: usize = 256;

/// An account's name, with places for captures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Template {
    text: Arc<str>,
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Capture(Arc<str>),
}

impl Template {
    /// `${name}` is a capture, `$${` stands for `${`, and every other `$` for itself. The error says at which
    /// byte, and what.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        refuse(text)?;
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                pieces.push(Piece::Text(format!("{before}${{")));
                rest = after;
                continue;
            }
            let at = text.len().saturating_sub(after.len()).saturating_sub("${".len());
            let Some((name, behind)) = after.split_once('}') else {
                return Err((
                    at,
                    "`${` without its `}`; for these characters write $${".to_owned(),
                ));
            };
            if !is_capture(name) {
                let likely = likely_capture(name);
                return Err((
                    at,
                    format!(
                        "`${{{name}}}` is no name of a capture; write ${{{likely}}}, and (?P<{likely}>…) in a regex"
                    ),
                ));
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Capture(name.into()));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        let template = Self { text: text.into(), pieces };
        let plain = template.plain();
        if plain.as_deref().is_some_and(|name| told_apart(name) != name) {
            let what =
                format!("{text:?} is a word of the bill's own; give the account another name");
            return Err((0, what));
        }
        Ok(template)
    }

    /// Every capture that it wants, once.
    pub(super) fn captures(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for piece in &self.pieces {
            if let Piece::Capture(name) = piece
                && !names.contains(name)
            {
                names.push(Arc::clone(name));
            }
        }
        names
    }

    /// Words after a `$` without brackets, which stand for themselves: `run` of `x $run`.
    pub(super) fn bare_dollars(&self) -> impl Iterator<Item = &str> {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Capture(_) => None,
        });
        texts.flat_map(|text| text.split('$').skip(1)).filter_map(|after| {
            let is_within = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = after.find(|c| !is_within(c)).unwrap_or(after.len());
            let name = after.get(..end)?;
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_').then_some(name)
        })
    }

    /// The byte at which a `$` without brackets stands before this word.
    pub(super) fn place_of_bare(&self, name: &str) -> usize {
        self.text.find(&format!("${name}")).unwrap_or(0)
    }

    /// The byte at which a capture stands.
    pub(super) fn place_of(&self, name: &str) -> usize {
        self.text.find(&format!("${{{name}}}")).unwrap_or(0)
    }

    /// The name, where no capture is wanted.
    pub(super) fn plain(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Capture(_) => None,
        });
        texts.collect()
    }

    /// The name with these captures, which are text that prints.
    pub(super) fn fill(&self, captures: &[(Arc<str>, String)]) -> Arc<str> {
        let mut name = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Capture(wanted) => {
                    let found = captures.iter().find(|(one, _)| one == wanted);
                    name.push_str(found.map_or("", |(_, text)| text));
                }
            }
        }
        if name.chars().count() > ACCOUNT_CHARS_MAX {
            name = name.chars().take(ACCOUNT_CHARS_MAX.saturating_sub(1)).chain(['…']).collect();
        }
        name.into()
    }

    /// As it is written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Whether a group of a regex can be called so (crate regex, "Grouping and flags").
fn is_capture(name: &str) -> bool {
    let is_within = |c: char| c.is_alphanumeric() || "_.[]".contains(c);
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(is_within)
}

/// A name like this one that a group can have.
fn likely_capture(name: &str) -> String {
    let plain = name.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let plain: String = plain.collect();
    match plain.chars().next() {
        None => "name".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("c{plain}"),
        Some(_) => plain,
    }
}

fn refuse(text: &str) -> Result<(), (usize, String)> {
    if text.trim().is_empty() {
        return Err((
            0,
            "the account has no name; give one such as account = \"ollama\"".to_owned(),
        ));
    }
    if text.trim() != text {
        return Err((0, "the account's name begins or ends with a blank; leave it out".to_owned()));
    }
    if let Some(c) = text.chars().find(|c| is_unprintable(*c)) {
        let shown = escape(c.to_string().as_bytes()).to_string();
        return Err((
            0,
            format!("the account's name has a character in it that does not print, {shown}"),
        ));
    }
    if text.chars().count() > ACCOUNT_CHARS_MAX {
        let what = format!("the account's name is longer than {ACCOUNT_CHARS_MAX} characters");
        return Err((0, what));
    }
    Ok(())
}
