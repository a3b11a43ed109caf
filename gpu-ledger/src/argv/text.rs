//! What is inside of one word: `NAME=V` and headers; what looks at the rest of it is called from here.

use std::ops::Range;

use super::fields::Fields;
use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::values;

/// A word that is `NAME=V` or `Header: V` as a whole: all that follows is the value, whatever it holds. Whether
/// it is one. `in_text`: a shell comes first, and puts variables in.
pub(super) fn whole(piece: &Piece<'_>, in_text: bool, marks: &mut Marks) -> bool {
    let text = piece.text;
    let dashes = text.iter().take_while(|byte| **byte == b'-').count().min(2);
    let name = name_at(text, dashes);
    let word = text.get(name.clone()).unwrap_or_default();
    let sort = if dashes > 0 { names::sort_of_option(word) } else { names::sort(word) };
    let Some(sort) = sort else { return false };
    let after = name.end.saturating_add(1);
    let rest = text.get(after..).unwrap_or_default();
    let value = match text.get(name.end) {
        Some(b'=') => after,
        Some(b'+') if rest.first() == Some(&b'=') => after.saturating_add(1),
        Some(b':') if !rest.starts_with(b"//") => {
            let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
            // `admin:public_key` and `token:latest` are no headers; `--password:V` is an option.
            let is_header =
                blanks > 0 || dashes > 0 || text.get(name).unwrap_or_default().contains(&b'-');
            if !is_header {
                return false;
            }
            after.saturating_add(blanks)
        }
        // `--password,V`, `--password->V`: where it can be no other option, and no word of a usage.
        Some(b',' | b';' | b'|' | b'/') if dashes == 2 && values::is_made(rest) => after,
        Some(b'>') if dashes == 2 && word.ends_with(b"-") && values::is_made(rest) => after,
        _ => return false,
    };
    let value = value..text.len();
    let raw = text.get(value.clone()).unwrap_or_default();
    // Of a program's `f(password="", n=1)`.
    let rest = raw.strip_prefix(b"\"\"").or_else(|| raw.strip_prefix(b"''")).unwrap_or(raw);
    if in_text && rest.iter().all(|byte| b",;)]}".contains(byte)) {
        return true;
    }
    let inner = values::unquoted(raw);
    let value = value.start.saturating_add(inner.start)..value.start.saturating_add(inner.end);
    if in_text && values::is_put_in(raw) {
        if values::is_command(text.get(value.clone()).unwrap_or_default()) {
            super::shell::put_in(&piece.part(&value), marks);
        }
        return true;
    }
    held(piece, &value, sort, marks);
    // Of another value there may be more to see.
    sort.holds(text.get(value).unwrap_or_default())
}

/// Marks a value as far as it is a secret.
pub(super) fn held(piece: &Piece<'_>, value: &Range<usize>, sort: Sort, marks: &mut Marks) {
    let bytes = piece.text.get(value.clone()).unwrap_or_default();
    if !sort.holds(bytes) {
        return;
    }
    let skipped = match sort {
        Sort::Authorization => scheme_of(bytes),
        Sort::Login | Sort::Pair => {
            bytes.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1)
        }
        _ => 0,
    };
    marks.put(piece, value.start.saturating_add(skipped)..value.end);
}

/// The length of `Bearer ` and the like at the beginning of a header's value.
pub(super) fn scheme_of(value: &[u8]) -> usize {
    let word = value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let blanks = value.iter().skip(word).take_while(|byte| **byte == b' ').count();
    if word > 0 && blanks > 0 { word.saturating_add(blanks) } else { 0 }
}

/// Everything that is found without knowing where the word stands.
pub(super) fn flat(piece: &Piece<'_>, marks: &mut Marks) {
    plain(piece, marks);
    super::decoded::each(piece, marks, plain);
}

fn plain(piece: &Piece<'_>, marks: &mut Marks) {
    super::tokens::mark(piece, marks);
    super::urls::mark(piece, marks);
    super::pem::mark(piece, marks);
    Fields::of(piece, marks).all();
}

pub(super) const fn of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The name that begins at `from`.
pub(super) fn name_at(text: &[u8], from: usize) -> Range<usize> {
    let rest = text.get(from..).unwrap_or_default();
    let length = rest.iter().take_while(|byte| of_name(**byte)).count();
    from..from.saturating_add(length)
}

/// Schemes after which one word is the secret.
pub(super) const SCHEMES: &[&str] =
    &["bearer ", "basic ", "token ", "apikey ", "negotiate ", "key ", "bot "];

pub(super) const fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'=' | b':' | b'|')
}

/// Whether what follows a scheme is a credential and no prose.
pub(super) fn is_credential(value: &[u8], is_bearer: bool) -> bool {
    const PROSE_MAX: usize = 24;
    let has_digit = value.iter().any(u8::is_ascii_digit);
    if is_bearer {
        return value.len() >= 6 && has_digit || value.len() >= PROSE_MAX;
    }
    let inner_capital = value.iter().skip(1).any(u8::is_ascii_uppercase);
    value.len() >= 8 && (has_digit || value.ends_with(b"=") || inner_capital)
}
