//! Secrets as programs have them in their source: `python -c`, `node -e`, `perl -e`.

use std::ops::Range;

use super::fields::Fields;
use super::names::{self, Sort};
use super::text::{held, name_at, of_name};
use super::values;

/// Calls that are given a name and then its value.
const SETTERS: &str = "setdefault pop getattr putenv setenv getenv get define setattr set put add append env header setHeader \
    setRequestHeader setProperty setItem environ";
/// Calls that are given a user and a password.
const LOGINS: &str =
    "login HTTPBasicAuth HTTPDigestAuth BasicAuth basic_auth authenticate auth credentials";
/// Calls that are given a question, or where a secret is, and not the secret.
const ASKERS: &str = "input getpass prompt ask open read read_text Path getenv get environ env run check_output getoutput \
    readFileSync file_get_contents secret get_secret load";
/// Calls that are given a password to be hashed, and then how.
const HASHES: &str = "crypt hashpw generate_password_hash make_password hash_password passwd";
/// Texts that are put together of more parts than this are looked at no further.
const PARTS_MAX: usize = 64;

fn has(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|known| known.as_bytes() == word)
}

impl Fields<'_, '_> {
    /// Past what opens a value: a quote, with the letters of Python before it (`b'V'`), three of them, a quote of a
    /// JavaScript's template; the quote, where there is one.
    pub(super) fn past_opening(&self, from: usize) -> (usize, Option<u8>) {
        const LETTERS_MAX: usize = 2;
        let letters = |byte: &&u8| {
            matches!(byte.to_ascii_lowercase(), b'b' | b'r' | b'u' | b'f' | b'$' | b'@')
        };
        let count = self.rest(from).iter().take_while(letters).take(LETTERS_MAX).count();
        let place = from.saturating_add(count);
        let (begin, quote) = self.past_quote(place);
        if let Some(quote) = quote {
            let is_thrice = self.rest(place).starts_with(&[quote; 3]);
            return (if is_thrice { begin.saturating_add(2) } else { begin }, Some(quote));
        }
        // In a shell there is a command between them.
        let rest = self.rest(from);
        let end = || values::looked(rest).iter().skip(1).position(|byte| *byte == b'`');
        let is_word = |end: usize| !rest.iter().take(end).any(u8::is_ascii_whitespace);
        if rest.first() == Some(&b'`') && end().is_some_and(is_word) {
            return (from.saturating_add(1), Some(b'`'));
        }
        (from, None)
    }

    /// Whether three quotes stand before `begin`, and not one behind an empty text.
    pub(super) fn is_thrice(&self, begin: usize, quote: u8) -> bool {
        begin.checked_sub(3).is_some_and(|from| self.get(from..begin) == [quote; 3])
    }

    /// `"a" + "V"`, `"a" "V"` and Perl's `"a" . "V"`: what else the text at `value` is put together of.
    pub(super) fn joined(&mut self, value: &Range<usize>, quote: Option<u8>, sort: Sort) {
        let Some(quote) = quote else { return };
        let past = |fields: &Self, end: usize, begin: usize, quote: u8| {
            let slashes = fields.rest(end).iter().take_while(|byte| **byte == b'\\').count();
            let length = if fields.is_thrice(begin, quote) { 3 } else { 1 };
            end.saturating_add(slashes).saturating_add(length)
        };
        let mut place = past(self, value.end, value.start, quote);
        for _ in 0..PARTS_MAX {
            let blank = self.past_blanks(place);
            let operator = match self.rest(blank) {
                [b'.', b'.', ..] => 2,
                // `"%s" % "V"`.
                [b'+' | b'.' | b'%', ..] => 1,
                _ => 0,
            };
            let from = self.past_blanks(blank.saturating_add(operator));
            let (begin, quote) = self.past_opening(from);
            let Some(quote) = quote else {
                // A variable between two texts.
                let name = self.rest(from).iter().take_while(|byte| of_name(**byte)).count();
                if operator == 0 || name == 0 {
                    return;
                }
                place = from.saturating_add(name);
                continue;
            };
            let end = self.end_of(begin, Some(quote), None);
            let after = past(self, end, begin, quote);
            // In a shell it may be another word: a program, a file, an option, what is put in.
            let is_closed = || {
                let next = self.byte(self.past_blanks(after));
                let is_more = matches!(next, None | Some(b'\n' | b'"' | b'\''));
                let text = self.get(begin..end);
                let is_word = values::is_path(text) || matches!(text, [b'-' | b'$', ..]);
                matches!(next, Some(b')' | b',' | b';' | b']' | b'}' | b'+' | b'.'))
                    || is_more && !is_word
            };
            if operator == 0 && blank > place && !is_closed() || begin > self.piece.text.len() {
                return;
            }
            held(self.piece, &(begin..end), sort_of_part(sort), self.marks);
            self.place = self.place.max(end);
            place = after;
        }
    }

    /// A call: what it is given may be a secret by its place.
    pub(super) fn call_of(&mut self, word: &[u8], paren: usize, sort: Option<Sort>) {
        const ARGUMENTS_MAX: usize = 4;
        let name = word.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
        let begin = paren.saturating_add(1);
        if has(SETTERS, name) {
            self.setter = true;
        }
        if name == b"login" {
            self.call = begin;
        }
        let is_login = has(LOGINS, name);
        let is_hash = has(HASHES, name);
        let is_setter = is_hash || sort.is_some() && names::is_setter(name);
        if !is_login && !is_setter {
            return;
        }
        let first = self.literal(begin);
        let end = match &first {
            Some(first) => first.end.saturating_add(1),
            None => name_at(self.piece.text, begin).end,
        };
        // The last of several: `credentials("host", "realm", "user", V)`.
        let mut after = self.past_blanks(end);
        let mut second = None;
        for _ in 1..ARGUMENTS_MAX {
            let next = if self.byte(after) == Some(b',') {
                self.literal(after.saturating_add(1))
            } else {
                None
            };
            let Some(next) = next else { break };
            after = self.past_blanks(next.end.saturating_add(1));
            second = Some(next);
        }
        let is_lone = |first: &Range<usize>| is_setter || values::is_made(self.get(first.clone()));
        let first = first.filter(|first| is_lone(first) && !(is_login && second.is_some()));
        let second = second.filter(|_| !is_hash);
        for secret in [first, second].into_iter().flatten() {
            held(self.piece, &secret, Sort::Password, self.marks);
            self.place = self.place.max(secret.end);
        }
    }

    /// `token=str("V")`: a call in the place of a value. What it is given may be the secret; what it is called is not.
    pub(super) fn call_as_value(&mut self, value: &Range<usize>, sort: Sort) -> bool {
        let text = self.get(value.clone());
        let name = text.iter().take_while(|byte| of_name(**byte)).count();
        let is_call =
            name > 0 && text.get(name) == Some(&b'(') && name.saturating_add(1) == text.len();
        if !is_call {
            return false;
        }
        let last = text.get(..name).unwrap_or_default().rsplit(|byte| *byte == b'.').next();
        let next = self.byte(value.end);
        if next == Some(b')') {
            return true;
        }
        if !matches!(next, Some(b'"' | b'\'')) {
            return false;
        }
        if !last.is_some_and(|last| has(ASKERS, last))
            && let Some(text) = self.literal(value.end)
        {
            held(self.piece, &text, sort_of_part(sort), self.marks);
            self.place = self.place.max(text.end);
        }
        true
    }

    /// The text that stands at `from`, without its quotes.
    fn literal(&mut self, from: usize) -> Option<Range<usize>> {
        let white = self.rest(from).iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (begin, quote) = self.past_opening(self.past_blanks(from.saturating_add(white)));
        let quote = quote?;
        let end = self.end_of(begin, Some(quote), None);
        Some(begin..end)
    }

    /// `token = x or "V"`, `x if y else "V"`, `x || "V"`: the text that stands in for what begins at `from`.
    pub(super) fn instead(&mut self, from: usize, sort: Sort) {
        const LOOK_MAX: usize = 128;
        const OPERATORS: [&[u8]; 4] = [b" or ", b" else ", b" || ", b" ?? "];
        let rest = self.rest(from);
        let line = rest.iter().take(LOOK_MAX).take_while(|byte| !matches!(byte, b'\n' | b';'));
        let line = rest.get(..line.count()).unwrap_or_default();
        for operator in OPERATORS {
            let Some(place) = super::pem::find(line, operator) else { continue };
            let after = from.saturating_add(place).saturating_add(operator.len());
            let Some(text) = self.literal(after) else { continue };
            if sort != Sort::Bare || values::is_made(self.get(text.clone())) {
                held(self.piece, &text, sort, self.marks);
            }
        }
    }
}

/// A part of a key is shorter than a key is.
const fn sort_of_part(sort: Sort) -> Sort {
    match sort {
        Sort::Key | Sort::Made | Sort::Session | Sort::Initials | Sort::Bare => Sort::Password,
        sort => sort,
    }
}
