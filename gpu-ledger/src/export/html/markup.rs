//! The one writer of the page: nothing that a stranger named gets into it but through [`safe`].

use std::fmt;
use std::fmt::Write as _;

use crate::escape::printable;

/// A name as text: of an element, or of an attribute in quotes (HTML, 13.3). What moves a cursor or turns the direction
/// of text is `\xHH`.
pub(super) fn safe(name: &str) -> String {
    let mut text = String::new();
    for character in printable(name.as_bytes()).to_string().chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            character => text.push(character),
        }
    }
    text
}

/// The page as it grows.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    /// What is markup already.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// A line of it.
    pub(super) fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    /// Everything.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}
