//! Secrets that a word or a mark before them tells, with no sign between: a header's scheme, SQL, XML, what a program
//! types.

use std::ops::Range;

use super::fields::Fields;
use super::names::{self, Sort};
use super::text::{held, is_credential, is_key_byte};
use super::values;

/// What was read before that tells what comes after.
#[derive(Default)]
pub(super) struct Seen {
    /// SQL's `IDENTIFIED`.
    identified: bool,
    /// The word of .netrc: `machine HOST login USER password V`.
    machine: bool,
    /// A program that types waits for the question after a password.
    asked: bool,
}

impl Fields<'_, '_> {
    /// `<password>V</password>`.
    pub(super) fn of_xml(&mut self, name: &Range<usize>) -> bool {
        if self.before(name.start) != Some(b'<') || self.byte(name.end) != Some(b'>') {
            return false;
        }
        let Some(sort) = names::sort(self.get(name.clone())) else { return false };
        let begin = name.end.saturating_add(1);
        let rest = self.rest(begin);
        let length = rest.iter().position(|byte| *byte == b'<').unwrap_or(rest.len());
        let value = begin..begin.saturating_add(length);
        held(self.piece, &value, sort, self.marks);
        self.place = value.end;
        true
    }

    /// expect's `expect "assword:"; send "V\r"`.
    pub(super) fn typed(&mut self, name: &Range<usize>) -> bool {
        let word = self.get(name.clone());
        self.seen.asked |= word.ends_with(b"assword") || word.ends_with(b"assphrase");
        if !(word == b"send" && self.seen.asked) {
            return false;
        }
        let from = self.past_blanks(name.end);
        let from = if self.rest(from).starts_with(b"-- ") { from.saturating_add(3) } else { from };
        let (begin, quote) = self.past_quote(self.past_blanks(from));
        if quote.is_none() {
            return false;
        }
        let end = self.end_of(begin, quote, None);
        // The key that ends the line is no part of it.
        let inner = self.get(begin..end);
        let typed = inner.strip_suffix(b"\\r").or_else(|| inner.strip_suffix(b"\\n"));
        let value = begin..begin.saturating_add(typed.unwrap_or(inner).len());
        let text = self.get(value.clone());
        if !values::is_reference(text) && !text.starts_with(b"$env(") {
            held(self.piece, &value, Sort::Password, self.marks);
        }
        self.seen.asked = false;
        self.place = end;
        true
    }

    /// `Bearer V` and `Basic V` where no header's name stands before.
    pub(super) fn scheme(&mut self, name: &Range<usize>) -> bool {
        let word = self.get(name.clone());
        let is_bearer = word.eq_ignore_ascii_case(b"bearer");
        if !is_bearer && !word.eq_ignore_ascii_case(b"basic") {
            return false;
        }
        let begin = self.past_blanks(name.end);
        if begin == name.end {
            return false;
        }
        let length = self.rest(begin).iter().take_while(|byte| is_key_byte(**byte)).count();
        let end = begin.saturating_add(length);
        let is_cut = self.piece.is_cut && end == self.piece.text.len();
        if is_credential(self.get(begin..end), is_bearer) || is_cut {
            self.marks.put(self.piece, begin..end);
            self.place = end;
            return true;
        }
        // `"Bearer " + "V"`.
        let (begin, quote) = self.past_quote(begin);
        if quote.is_some() {
            self.joined(&(begin..begin.saturating_sub(1)), quote, Sort::Password);
        }
        false
    }

    /// Past `FOR 'user'@'host' =` of SQL's `SET PASSWORD`.
    fn past_user(&self, from: usize) -> usize {
        const USER_MAX: usize = 96;
        let rest = self.rest(from);
        let is_for = rest.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"for "));
        let equals = rest.iter().take(USER_MAX).position(|byte| *byte == b'=').filter(|_| is_for);
        equals
            .map_or(from, |equals| self.past_blanks(from.saturating_add(equals).saturating_add(1)))
    }

    /// `PASSWORD 'V'` and `IDENTIFIED BY 'V'`; and `password V` of .netrc.
    pub(super) fn of_sql(&mut self, name: &Range<usize>) -> bool {
        let word = self.get(name.clone());
        let is_by = word.eq_ignore_ascii_case(b"by") && self.seen.identified;
        let is_password = word.eq_ignore_ascii_case(b"password");
        self.seen.identified |= word.eq_ignore_ascii_case(b"identified");
        self.seen.machine |= word == b"machine";
        let begin = self.past_blanks(name.end);
        if !(is_by || is_password) || begin == name.end {
            return false;
        }
        let (begin, quote) = self.past_quote(self.past_user(begin));
        if quote.is_none() && !(self.seen.machine && is_password) {
            return false;
        }
        let value = begin..self.end_of(begin, quote, None);
        held(self.piece, &value, Sort::Password, self.marks);
        self.place = value.end;
        true
    }
}
