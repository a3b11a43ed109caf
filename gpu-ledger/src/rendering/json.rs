//! JSON that loses nothing and moves no cursor.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::escape::is_unprintable;

/// The report, as one line of JSON.
///
/// # Errors
/// Where a value cannot be written as JSON, which no report's can.
pub fn json(report: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    report.serialize(&mut Serializer::with_formatter(&mut bytes, Harmless))?;
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// Compact JSON in which every character that a terminal would act on is written `\uXXXX`: the
/// C0 ones JSON demands, and the rest (DEL, C1, changes of direction, line separators) as well.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = fragment;
        while let Some((at, found)) = plain.char_indices().find(|(_, c)| is_unprintable(*c)) {
            let (before, rest) = plain.split_at(at);
            CompactFormatter.write_string_fragment(writer, before)?;
            let mut units = [0; 2];
            for unit in found.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            plain = rest.get(found.len_utf8()..).unwrap_or("");
        }
        CompactFormatter.write_string_fragment(writer, plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_is_escaped_and_comes_back_whole() {
        let hostile = "a\u{1b}[2J\u{9b}b\u{202e}c\u{7f}\u{2028}d\\\n\u{1f600}";
        let mut bytes = Vec::new();
        hostile.serialize(&mut Serializer::with_formatter(&mut bytes, Harmless)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.chars().any(is_unprintable), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hostile);
    }
}
