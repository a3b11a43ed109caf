//! What is inside of one word: `NAME=V`, headers, JSON and keyword arguments.

use std::ops::Range;

use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::values;

/// A word that is `NAME=V` or `Header: V` as a whole: all that follows is the value, whatever it holds. Whether
/// it is one.
pub(super) fn whole(piece: &Piece<'_>, marks: &mut Marks) -> bool {
    let text = piece.text;
    let dashes = text.iter().take_while(|byte| **byte == b'-').count().min(2);
    let name = name_at(text, dashes);
    let Some(sort) = names::sort(text.get(name.clone()).unwrap_or_default()) else { return false };
    let after = name.end.saturating_add(1);
    let rest = text.get(after..).unwrap_or_default();
    let value = match text.get(name.end) {
        Some(b'=') => after,
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
        _ => return false,
    };
    let value = value..text.len();
    let inner = values::unquoted(text.get(value.clone()).unwrap_or_default());
    let value = value.start.saturating_add(inner.start)..value.start.saturating_add(inner.end);
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
        Sort::Login => bytes.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1),
        _ => 0,
    };
    marks.put(piece, value.start.saturating_add(skipped)..value.end);
}

/// The length of `Bearer ` and the like at the beginning of a header's value.
fn scheme_of(value: &[u8]) -> usize {
    let word = value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let blanks = value.iter().skip(word).take_while(|byte| **byte == b' ').count();
    if word > 0 && blanks > 0 { word.saturating_add(blanks) } else { 0 }
}

/// Everything that is found without knowing where the word stands.
pub(super) fn flat(piece: &Piece<'_>, marks: &mut Marks) {
    super::tokens::mark(piece, marks);
    super::urls::mark(piece, marks);
    super::pem::mark(piece, marks);
    Fields { piece, marks, place: 0, named: false, identified: false, machine: false, call: 0 }
        .all();
}

const fn of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The name that begins at `from`.
pub(super) fn name_at(text: &[u8], from: usize) -> Range<usize> {
    let rest = text.get(from..).unwrap_or_default();
    let length = rest.iter().take_while(|byte| of_name(**byte)).count();
    from..from.saturating_add(length)
}

/// Looks at every name in a text and at what is given to it.
struct Fields<'a, 'm> {
    piece: &'a Piece<'a>,
    marks: &'m mut Marks,
    place: usize,
    /// The field before was `name` with a secret's name as its value: `{"name": "HF_TOKEN", "value": V}`.
    named: bool,
    /// SQL's `IDENTIFIED` was read.
    identified: bool,
    /// The word of .netrc was read: `machine HOST login USER password V`.
    machine: bool,
    /// Where the last `login(` begins its arguments.
    call: usize,
}

impl<'a> Fields<'a, '_> {
    fn all(&mut self) {
        while let Some(rest) = self.piece.text.get(self.place..) {
            let Some(skipped) = rest.iter().position(|byte| of_name(*byte)) else { break };
            let mut name = name_at(self.piece.text, self.place.saturating_add(skipped));
            self.place = name.end;
            // `\npassword=V` in a text of a program.
            let escape = name.start.checked_sub(1).and_then(|before| self.byte(before));
            if escape == Some(b'\\') && matches!(self.byte(name.start), Some(b'n' | b't' | b'r')) {
                name.start = name.start.saturating_add(1);
            }
            self.field(&name);
        }
    }

    fn get(&self, range: Range<usize>) -> &'a [u8] {
        self.piece.text.get(range).unwrap_or_default()
    }

    fn byte(&self, place: usize) -> Option<u8> {
        self.piece.text.get(place).copied()
    }

    /// Past blanks.
    fn past_blanks(&self, from: usize) -> usize {
        let rest = self.piece.text.get(from..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        from.saturating_add(blanks)
    }

    /// Past a quote, with the backslashes before it; the quote, where there is one.
    fn past_quote(&self, from: usize) -> (usize, Option<u8>) {
        let rest = self.piece.text.get(from..).unwrap_or_default();
        let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
        match rest.get(slashes) {
            Some(quote @ (b'"' | b'\'')) => {
                (from.saturating_add(slashes).saturating_add(1), Some(*quote))
            }
            _ => (from, None),
        }
    }

    fn field(&mut self, name: &Range<usize>) {
        let word = self.get(name.clone());
        if self.scheme(name) || self.of_sql(name) || self.of_xml(name) {
            return;
        }
        if word.ends_with(b"login") && self.byte(name.end) == Some(b'(') {
            self.call = name.end.saturating_add(1);
        }
        let sort = names::sort(word).or_else(|| {
            // `?key=V`.
            let asked = name.start.checked_sub(1).and_then(|at| self.byte(at));
            let is_query = matches!(asked, Some(b'?' | b'&')) || self.call == name.start;
            (is_query && word.eq_ignore_ascii_case(b"key")).then_some(Sort::Key)
        });
        let is_name = word.eq_ignore_ascii_case(b"name") || word.eq_ignore_ascii_case(b"key");
        let is_value = word.eq_ignore_ascii_case(b"value") && self.named;
        let sort = if is_value { Some(Sort::Token) } else { sort };
        if sort.is_none() && !is_name {
            return;
        }
        let (after, quoted) = self.past_quote(name.end);
        let after =
            if self.byte(after) == Some(b']') && quoted.is_some() { after + 1 } else { after };
        let sign = self.past_blanks(after);
        let next = self.byte(sign.saturating_add(1));
        let is_colon = match (self.byte(sign), next) {
            (Some(b'='), Some(b'=')) => return,
            (Some(b'='), _) => false,
            (Some(b':'), following) if following != Some(b'/') => true,
            _ => return,
        };
        let from = self.past_blanks(sign.saturating_add(1));
        let (begin, quote) = self.past_quote(from);
        // A list: all of it.
        let is_list = quote.is_none()
            && self.byte(begin) == Some(b'[')
            && !self.get(begin..self.piece.text.len()).starts_with(super::REDACTED);
        let value = if is_list { self.list(begin) } else { begin..self.end_of(begin, quote, sort) };
        let Some(sort) = sort else {
            self.named = names::sort(self.get(value)).is_some();
            return;
        };
        self.named = false;
        if is_colon
            && quoted.is_none()
            && quote.is_none()
            && !self.is_yaml(sort, from > sign + 1, &value)
        {
            return;
        }
        if quote.is_none() && values::is_reference(self.get(value.clone())) {
            return;
        }
        held(self.piece, &value, sort, self.marks);
        if sort.holds(self.get(value.clone())) {
            self.place = value.end.max(self.place);
        }
    }

    /// What is inside of the brackets that begin at `begin`.
    fn list(&self, begin: usize) -> Range<usize> {
        let begin = begin.saturating_add(1);
        let rest = self.get(begin..self.piece.text.len());
        let done = if rest.starts_with(super::REDACTED) { super::REDACTED.len() } else { 0 };
        let end = rest.iter().skip(done).position(|byte| *byte == b']');
        begin
            ..end
                .map_or(self.piece.text.len(), |end| begin.saturating_add(done).saturating_add(end))
    }

    /// `<password>V</password>`.
    fn of_xml(&mut self, name: &Range<usize>) -> bool {
        let opened = name.start.checked_sub(1).and_then(|before| self.byte(before)) == Some(b'<');
        if !opened || self.byte(name.end) != Some(b'>') {
            return false;
        }
        let Some(sort) = names::sort(self.get(name.clone())) else { return false };
        let begin = name.end.saturating_add(1);
        let rest = self.get(begin..self.piece.text.len());
        let length = rest.iter().position(|byte| *byte == b'<').unwrap_or(rest.len());
        let value = begin..begin.saturating_add(length);
        held(self.piece, &value, sort, self.marks);
        self.place = value.end;
        true
    }

    /// Whether `name: value` without quotes is a field and no prose.
    fn is_yaml(&self, sort: Sort, is_spaced: bool, value: &Range<usize>) -> bool {
        let bytes = self.get(value.clone());
        if matches!(sort, Sort::Authorization | Sort::Cookie) {
            return true;
        }
        let made = bytes.iter().any(u8::is_ascii_digit);
        let in_braces = || self.get(0..value.start).contains(&b'{');
        if is_spaced { made || bytes.len() >= 16 || in_braces() } else { made && bytes.len() >= 8 }
    }

    /// Where a value ends that begins at `begin`.
    fn end_of(&self, begin: usize, quote: Option<u8>, sort: Option<Sort>) -> usize {
        let rest = self.piece.text.get(begin..).unwrap_or_default();
        let header = matches!(sort, Some(Sort::Authorization | Sort::Cookie));
        let ends = |place: usize, byte: u8| match quote {
            // A quote inside of the value has a backslash; one that was opened with a backslash ends with one.
            Some(quote) if self.byte(begin.saturating_sub(2)) == Some(b'\\') => {
                byte == b'\\'
                    && matches!(rest.get(place.saturating_add(1)), Some(b'"' | b'\'' | b'\\'))
                    || byte == quote
            }
            Some(quote) => {
                let before = place.checked_sub(1).and_then(|before| rest.get(before));
                byte == quote && before != Some(&b'\\')
            }
            None if header => matches!(byte, b'"' | b'\'' | b'\n' | b'\r' | b'\\' | b'`'),
            None => {
                byte.is_ascii_whitespace()
                    || matches!(
                        byte,
                        b',' | b';'
                            | b'&'
                            | b')'
                            | b'}'
                            | b']'
                            | b'>'
                            | b'|'
                            | b'"'
                            | b'\''
                            | b'`'
                            | b'\\'
                            | b'<'
                    )
            }
        };
        // What stands for a secret already ends in a bracket itself.
        let done = if rest.starts_with(super::REDACTED) { super::REDACTED.len() } else { 0 };
        let found = rest.iter().enumerate().skip(done).find(|(place, byte)| ends(*place, **byte));
        let length = found.map_or(rest.len(), |(place, _)| place);
        let end = begin.saturating_add(length);
        if !header || quote.is_some() {
            return end;
        }
        // After a known scheme there is one word; what follows it is no part of the header.
        let value = rest.get(..length).unwrap_or_default();
        let scheme = scheme_of(value);
        let is_known = SCHEMES.iter().any(|known| {
            value.get(..known.len()).is_some_and(|word| word.eq_ignore_ascii_case(known.as_bytes()))
        });
        if scheme == 0 || !is_known {
            return end;
        }
        let word = value.iter().skip(scheme).take_while(|byte| !byte.is_ascii_whitespace()).count();
        begin.saturating_add(scheme).saturating_add(word)
    }

    /// `Bearer V` and `Basic V` where no header's name stands before.
    fn scheme(&mut self, name: &Range<usize>) -> bool {
        let word = self.get(name.clone());
        let is_bearer = word.eq_ignore_ascii_case(b"bearer");
        if !is_bearer && !word.eq_ignore_ascii_case(b"basic") {
            return false;
        }
        let begin = self.past_blanks(name.end);
        if begin == name.end {
            return false;
        }
        let rest = self.piece.text.get(begin..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| is_key_byte(**byte)).count();
        let end = begin.saturating_add(length);
        let is_cut = self.piece.is_cut && end == self.piece.text.len();
        if is_credential(self.get(begin..end), is_bearer) || is_cut {
            self.marks.put(self.piece, begin..end);
            self.place = end;
            return true;
        }
        false
    }

    /// `PASSWORD 'V'` and `IDENTIFIED BY 'V'`; and `password V` of .netrc.
    fn of_sql(&mut self, name: &Range<usize>) -> bool {
        let word = self.get(name.clone());
        let is_by = word.eq_ignore_ascii_case(b"by") && self.identified;
        let is_password = word.eq_ignore_ascii_case(b"password");
        self.identified |= word.eq_ignore_ascii_case(b"identified");
        self.machine |= word == b"machine";
        let begin = self.past_blanks(name.end);
        if !(is_by || is_password) || begin == name.end {
            return false;
        }
        let (begin, quote) = self.past_quote(begin);
        if quote.is_none() && !(self.machine && is_password) {
            return false;
        }
        let value = begin..self.end_of(begin, quote, None);
        held(self.piece, &value, Sort::Password, self.marks);
        self.place = value.end;
        true
    }
}

/// Schemes after which one word is the secret.
const SCHEMES: &[&str] = &["bearer ", "basic ", "token ", "apikey ", "negotiate ", "key ", "bot "];

const fn is_key_byte(byte: u8) -> bool {
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
