//! Bytes of strangers, made safe to print.
//!
//! Purpose: the one way in which argv, file names, cgroup paths and names reach a terminal or a
//! table. May touch: nothing. May not: lose a byte, or let one through that moves a cursor, turns
//! the direction of text or ends a line.
//!
//! A byte that is not shown as it is becomes `\xHH`, a backslash `\\`, so the original can be told.
//! That is done once, where bytes become a name ([`escape`]): a journal's names are text, and bytes need be none.
//! What is a name already is printed as it stands ([`printable`]): what is read off a page can be typed.

use std::fmt;

/// Bytes that print escaped, in full.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a [u8]);

/// Shows `bytes` with everything unprintable as `\xHH`.
#[must_use]
pub const fn escape(bytes: &[u8]) -> Escaped<'_> {
    Escaped(bytes)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_some() || f.precision().is_some() {
            // A table pads what is printed, not what was read.
            return f.pad(&escape_bounded(self.0, usize::MAX));
        }
        pieces(self.0, r"\\", |piece| f.write_str(piece))
    }
}

/// A text that prints as it stands, but for what would move a cursor.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(&'a [u8]);

/// Shows a name: what is unprintable in it as `\xHH`, as [`escape`] does, and a backslash as itself.
#[must_use]
pub const fn printable(name: &[u8]) -> Printable<'_> {
    Printable(name)
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_some() || f.precision().is_some() {
            return f.pad(&printable_bounded(self.0, usize::MAX));
        }
        pieces(self.0, "\\", |piece| f.write_str(piece))
    }
}

/// [`printable`] in at most `chars_max` characters, cut as [`escape_bounded`] cuts.
#[must_use]
pub fn printable_bounded(name: &[u8], chars_max: usize) -> String {
    bounded(name, "\\", chars_max)
}

/// The escaped text in at most `chars_max` characters. What is cut ends in `…`, which counts as one;
/// an escape is never cut in half.
#[must_use]
pub fn escape_bounded(bytes: &[u8], chars_max: usize) -> String {
    bounded(bytes, r"\\", chars_max)
}

fn bounded(bytes: &[u8], backslash: &str, chars_max: usize) -> String {
    let mut text = String::new();
    let mut chars: usize = 0;
    // Where to cut if the text turns out too long: the last place that leaves room for the mark.
    let mut cut = 0;
    let outcome = pieces(bytes, backslash, |piece| {
        let length = piece.chars().count();
        if chars.saturating_add(length) > chars_max {
            return Err(fmt::Error);
        }
        text.push_str(piece);
        chars = chars.saturating_add(length);
        if chars < chars_max {
            cut = text.len();
        }
        Ok(())
    });
    if outcome.is_err() {
        text.truncate(cut);
        if chars_max > 0 {
            text.push('…');
        }
    }
    text
}

/// The bytes of an escaped text. What is no escape of ours stands for itself.
#[must_use]
pub fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.strip_prefix(b"x").and_then(|tail| tail.get(..2));
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, used) = match (first, byte, tail.first()) {
            (b'\\', Some(byte), _) => (byte, 3),
            (b'\\', None, Some(b'\\')) => (b'\\', 1),
            _ => (first, 0),
        };
        bytes.push(byte);
        rest = tail.get(used..).unwrap_or_default();
    }
    bytes
}

/// Hands out the text piece by piece: one character, or one escape. `backslash` is what stands for one.
fn pieces(bytes: &[u8], backslash: &str, mut emit: impl FnMut(&str) -> fmt::Result) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        let mut buffer = [0; 4];
        for character in chunk.valid().chars() {
            let encoded = character.encode_utf8(&mut buffer);
            if character == '\\' {
                emit(backslash)?;
            } else if is_printable(character) {
                emit(encoded)?;
            } else {
                for byte in encoded.bytes() {
                    emit(&format!("\\x{byte:02x}"))?;
                }
            }
        }
        for byte in chunk.invalid() {
            emit(&format!("\\x{byte:02x}"))?;
        }
    }
    Ok(())
}

/// The text for the inside of an element or of an attribute in quotes: HTML and SVG alike (XML 1.0, 2.4; HTML, 13.3).
/// What is unprintable is `\xHH` first: most control characters may stand in neither, not even as references.
#[must_use]
pub fn escape_markup(bytes: &[u8]) -> String {
    let mut text = String::new();
    let outcome = pieces(bytes, r"\\", |piece| {
        match piece {
            "&" => text.push_str("&amp;"),
            "<" => text.push_str("&lt;"),
            ">" => text.push_str("&gt;"),
            "\"" => text.push_str("&quot;"),
            "'" => text.push_str("&#39;"),
            // Not told from others by every reader of XML: noncharacters are none of its characters.
            "\u{fffe}" | "\u{ffff}" => text.push('\u{fffd}'),
            piece => text.push_str(piece),
        }
        Ok(())
    });
    // Writing to a `String` cannot fail.
    debug_assert!(outcome.is_ok());
    text
}

/// Whether a character would move a cursor, turn the direction of text or end a line.
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    !is_printable(character)
}

/// Whether a character may reach a terminal: no control (C0, DEL, C1), no line or paragraph separator, nothing that turns
/// or joins text without being seen, and nothing that looks like a blank or like nothing and is neither (Unicode 15.1:
/// UAX #9; `Default_Ignorable_Code_Point` of DerivedCoreProperties.txt; `White_Space` of PropList.txt but the blank
/// itself; the blank pattern of Braille).
fn is_printable(character: char) -> bool {
    let is_other_blank = character != ' ' && character.is_whitespace();
    !character.is_control()
        && !is_other_blank
        && !matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_move_a_cursor_or_turn_text_is_shown_as_its_bytes() {
        let cases: [(&[u8], &str); 15] = [
            (b"llama-server", "llama-server"),
            ("größe 模型 🦙".as_bytes(), "größe 模型 🦙"),
            (b"a\nb\tc\0", r"a\x0ab\x09c\x00"),
            (b"\x1b[2J", r"\x1b[2J"),
            (b"\x7f", r"\x7f"),
            ("\u{9b}31m".as_bytes(), r"\xc2\x9b31m"),
            ("a\u{202e}b".as_bytes(), r"a\xe2\x80\xaeb"),
            ("\u{2066}\u{2069}".as_bytes(), r"\xe2\x81\xa6\xe2\x81\xa9"),
            ("\u{2028}\u{2029}".as_bytes(), r"\xe2\x80\xa8\xe2\x80\xa9"),
            ("\u{200e}\u{200f}".as_bytes(), r"\xe2\x80\x8e\xe2\x80\x8f"),
            (b"\xff\xc3(", r"\xff\xc3("),
            (br"C:\x1b", r"C:\\x1b"),
            ("a\u{a0}(b)\u{3000}".as_bytes(), r"a\xc2\xa0(b)\xe3\x80\x80"),
            ("a\u{fe0f}\u{34f}".as_bytes(), r"a\xef\xb8\x8f\xcd\x8f"),
            ("\u{2800}\u{3164}\u{e0100}".as_bytes(), r"\xe2\xa0\x80\xe3\x85\xa4\xf3\xa0\x84\x80"),
        ];
        for (bytes, shown) in cases {
            assert_eq!(escape(bytes).to_string(), shown);
        }
        assert_eq!(format!("{:>6}|", escape(b"\n")), r"  \x0a|");
    }

    #[test]
    fn a_bound_cuts_between_characters_and_says_so() {
        assert_eq!(escape_bounded(b"abcdef", 6), "abcdef");
        assert_eq!(escape_bounded(b"abcdefg", 6), "abcde…");
        assert_eq!(escape_bounded(b"abc\x1bdef", 6), "abc…");
        assert_eq!(escape_bounded("ééé".as_bytes(), 2), "é…");
        assert_eq!(escape_bounded(b"abc", 1), "…");
        assert_eq!(escape_bounded(b"abc", 0), "");
    }

    #[test]
    fn markup_holds_no_sign_of_its_own_and_no_control() {
        let cases: [(&[u8], &str); 6] = [
            (b"a & b", "a &amp; b"),
            (
                b"</text><script>alert(1)</script>",
                "&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            (b"\" onload='x'", "&quot; onload=&#39;x&#39;"),
            (b"\x00\x1b\n]]>", r"\x00\x1b\x0a]]&gt;"),
            ("gr\u{f6}\u{df}e \u{202e}\u{ffff}".as_bytes(), "größe \\xe2\\x80\\xae\u{fffd}"),
            (b"\xff&lt;", r"\xff&amp;lt;"),
        ];
        for (bytes, shown) in cases {
            assert_eq!(escape_markup(bytes), shown);
        }
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        for text in ["\\", "\\x", "\\x1", "\\xzz", "\\n", "plain", "\\x+1", "é\\"] {
            assert_eq!(unescape(text), text.as_bytes(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_none_is_dangerous(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let text = escape(&bytes).to_string();
            prop_assert_eq!(unescape(&text), bytes.clone());
            prop_assert!(text.chars().all(is_printable));
        }

        #[test]
        fn a_name_is_printed_as_it_stands(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let name = escape(&bytes).to_string();
            prop_assert_eq!(printable(name.as_bytes()).to_string(), name);
            // And whatever is none is safe all the same.
            prop_assert!(printable(&bytes).to_string().chars().all(is_printable));
        }

        #[test]
        fn markup_is_one_text(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let text = escape_markup(&bytes);
            prop_assert!(!text.contains(['<', '>', '"', '\'']) && text.chars().all(is_printable));
            let ends = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            let is_reference = |rest: &str| ends.iter().any(|end| rest.starts_with(end));
            prop_assert!(text.split('&').skip(1).all(is_reference));
        }

        #[test]
        fn a_bound_holds(bytes in prop::collection::vec(any::<u8>(), 0..64), max in 0_usize..40) {
            prop_assert!(escape_bounded(&bytes, max).chars().count() <= max);
        }
    }
}
