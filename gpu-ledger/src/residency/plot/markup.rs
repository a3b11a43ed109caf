//! The one writer of markup: nothing that a stranger named gets into a picture but through here.

use std::fmt::{self, Write as _};

use super::font;
use super::px::Px;
use super::style::Look;
use crate::escape::escape_markup;

/// Which characters a text may show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Glyphs {
    /// All that print: a browser finds fonts.
    Any,
    /// Those of the embedded font; others as `\xHH`, so that none becomes an empty box.
    Embedded,
}

/// Where a text is put against its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A picture as it grows.
#[derive(Debug)]
pub(super) struct Markup {
    text: String,
    glyphs: Glyphs,
    /// Stands before every id, so that several pictures fit into one page.
    prefix: String,
}

impl Markup {
    /// Nothing yet.
    pub(super) fn new(glyphs: Glyphs, prefix: String) -> Self {
        Self { text: String::new(), glyphs, prefix }
    }

    /// Another of the same picture, with nothing in it.
    pub(super) fn sibling(&self) -> Self {
        Self::new(self.glyphs, self.prefix.clone())
    }

    /// What was written.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Markup of this product's own.
    pub(super) fn raw(&mut self, markup: fmt::Arguments<'_>) {
        let outcome = self.text.write_fmt(markup);
        // Writing to a `String` cannot fail.
        debug_assert!(outcome.is_ok());
    }

    /// An id, as it stands in this picture.
    pub(super) fn id(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A text, made safe.
    pub(super) fn escaped(&self, text: &str) -> String {
        let mut safe = String::new();
        let mut buffer = [0; 4];
        for character in text.chars() {
            // Names come here safe already, and are no other for it.
            if character == '\\' {
                safe.push(character);
                continue;
            }
            let encoded: &str = character.encode_utf8(&mut buffer);
            if self.glyphs == Glyphs::Embedded && !font::covers(character) && !is_control(character)
            {
                for byte in encoded.bytes() {
                    let outcome = write!(safe, "\\x{byte:02x}");
                    debug_assert!(outcome.is_ok());
                }
            } else {
                safe.push_str(&escape_markup(encoded.as_bytes()));
            }
        }
        safe
    }

    /// A text at a place.
    pub(super) fn text(&mut self, class: &str, anchor: Anchor, x: Px, y: Px, text: &str) {
        let safe = self.escaped(text);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.raw(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{safe}</text>\n"
        ));
    }

    /// A rectangle.
    pub(super) fn rect(&mut self, class: &str, place: Place) {
        let Place { x, y, width, height } = place;
        self.raw(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n"
        ));
    }

    /// A path; none where there is nothing to draw.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        if !path.is_empty() {
            self.raw(format_args!("<path class=\"{class}\" d=\"{path}\"/>\n"));
        }
    }

    /// A path that looks like a band.
    pub(super) fn band(&mut self, look: &Look, path: &str) {
        if path.is_empty() {
            return;
        }
        if let Some(colour) = &look.colour {
            self.raw(format_args!("<path class=\"{colour}\" d=\"{path}\"/>\n"));
        }
        if let Some(sign) = &look.sign {
            let id = self.id(sign);
            self.raw(format_args!("<path fill=\"url(#{id})\" d=\"{path}\"/>\n"));
        }
    }
}

/// Controls are escaped in any font.
fn is_control(character: char) -> bool {
    crate::escape::is_unprintable(character)
}

/// A rectangle's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Left edge.
    pub(super) x: Px,
    /// Top edge.
    pub(super) y: Px,
    /// From left to right.
    pub(super) width: Px,
    /// From top to bottom.
    pub(super) height: Px,
}

#[cfg(test)]
mod tests {
    use super::{Anchor, Glyphs, Markup, Px};

    #[test]
    fn a_name_stays_a_name() {
        for (glyphs, modell) in [(Glyphs::Any, "模"), (Glyphs::Embedded, r"\xe6\xa8\xa1")] {
            let mut markup = Markup::new(glyphs, String::new());
            let name = "</text><script>\u{1b}\u{202e}\"模";
            markup.text("t", Anchor::End, Px::of(1), Px::of(2), name);
            let expected = format!(
                "<text class=\"t\" x=\"1\" y=\"2\" text-anchor=\"end\">&lt;/text&gt;&lt;script&gt;\
                 \\x1b\\xe2\\x80\\xae&quot;{modell}</text>\n"
            );
            assert_eq!(markup.into_text(), expected);
        }
    }
}
