//! Names that stand beside each other, and what is given to them in the same order: `user, password = "bob", "V"` of
//! Python, JavaScript's `[user, password] = [...]`, SQL's `(name, password) VALUES (...)`.

use std::ops::Range;

use super::fields::Fields;
use super::names::Sort;
use super::text::{held, of_name};
use super::values;

/// Names before and behind the one that is looked at.
const NAMES_MAX: usize = 16;
/// How far behind the names a value is looked for.
const LOOK_MAX: usize = 1_024;

impl Fields<'_, '_> {
    /// Marks the text that is given to a name that is one of several. Whether there is one.
    pub(super) fn in_tuple(&mut self, name: &Range<usize>, sort: Option<Sort>) -> bool {
        let Some(sort) = sort else { return false };
        let Some((index, first)) = self.names_before(name.start) else { return false };
        let Some((count, after)) = self.names_behind(name.end) else { return false };
        if index == 0 && count == 0 {
            return false;
        }
        let Some(values) = self.values_of(first, after) else { return false };
        let Some(value) = self.value_at(values, index) else { return false };
        // Texts and their tokens stand beside each other, too.
        if sort != Sort::Bare || values::is_made(self.get(value.clone())) {
            held(self.piece, &value, sort, self.marks);
        }
        true
    }

    /// How many names stand before this one, and where the first begins.
    fn names_before(&self, from: usize) -> Option<(usize, usize)> {
        let mut first = from;
        for index in 0..NAMES_MAX {
            let back = |end: usize, of: fn(u8) -> bool| {
                let before = self.get(0..end).iter().rev();
                end.saturating_sub(before.take_while(|byte| of(**byte)).count())
            };
            let comma = back(first, |byte| byte == b' ');
            if self.before(comma) != Some(b',') {
                return Some((index, first));
            }
            let end = back(comma.saturating_sub(1), |byte| byte == b' ');
            let begin = back(end, of_name);
            if begin == end {
                return None;
            }
            first = begin;
        }
        None
    }

    /// How many names stand behind this one, and where the last ends.
    fn names_behind(&self, from: usize) -> Option<(usize, usize)> {
        let mut end = from;
        for count in 0..NAMES_MAX {
            let comma = self.past_blanks(end);
            if self.byte(comma) != Some(b',') {
                return Some((count, end));
            }
            let begin = self.past_blanks(comma.saturating_add(1));
            let name = super::text::name_at(self.piece.text, begin);
            if name.is_empty() {
                return None;
            }
            end = name.end;
        }
        None
    }

    /// Where the values begin of the names from `first` to `after`. Of a call's arguments there are none: what
    /// encloses them has no end before the equals sign.
    fn values_of(&self, first: usize, after: usize) -> Option<usize> {
        let blanks = self.get(0..first).iter().rev().take_while(|byte| **byte == b' ').count();
        let opened = self.before(first.saturating_sub(blanks));
        let end = self.past_blanks(after);
        let closed = self.byte(end);
        let is_enclosed =
            matches!((opened, closed), (Some(b'('), Some(b')')) | (Some(b'['), Some(b']')));
        let is_free = matches!(opened, None | Some(b';' | b'\n' | b':' | b'"' | b'\''))
            || matches!(opened, Some(byte) if of_name(byte) && blanks > 0);
        let sign = match (is_enclosed, is_free) {
            (true, _) => self.past_blanks(end.saturating_add(1)),
            (false, true) => end,
            (false, false) => return None,
        };
        let rest = self.rest(sign);
        let is_values = || {
            is_enclosed && rest.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"values"))
        };
        let length = match rest {
            [b'=', b'=' | b'>', ..] => return None,
            [b'=', ..] => 1,
            _ if is_values() => 6,
            _ => return None,
        };
        Some(self.past_blanks(sign.saturating_add(length)))
    }

    /// Where a text ends, if that is near: there may be many names, and no end.
    fn end_near(&self, begin: usize, quote: u8) -> Option<usize> {
        let is_escaped = self.byte(begin.saturating_sub(2)) == Some(b'\\');
        let mut before = quote;
        for (place, byte) in self.rest(begin).iter().take(LOOK_MAX).enumerate() {
            let is_slash = std::mem::replace(&mut before, *byte) == b'\\';
            if *byte == quote && (is_escaped || !is_slash) {
                let slash = usize::from(is_escaped && is_slash);
                return Some(begin.saturating_add(place).saturating_sub(slash));
            }
        }
        None
    }

    /// The text at this place among values that commas part.
    fn value_at(&self, from: usize, index: usize) -> Option<Range<usize>> {
        let opens = matches!(self.byte(from), Some(b'(' | b'['));
        let mut place = from.saturating_add(usize::from(opens));
        let limit = from.saturating_add(LOOK_MAX);
        let mut depth: usize = 0;
        let mut commas = 0;
        while place < limit {
            let (begin, quote) = self.past_opening(place);
            if let Some(quote) = quote {
                let end = self.end_near(begin, quote)?;
                if depth == 0 && commas == index {
                    return Some(begin..end);
                }
                let slash = usize::from(self.byte(end) == Some(b'\\'));
                place = end.saturating_add(1).saturating_add(slash);
                continue;
            }
            match self.byte(place)? {
                b'(' | b'[' | b'{' => depth = depth.saturating_add(1),
                b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
                b';' | b'\n' if depth == 0 && !opens => return None,
                b',' if depth == 0 => commas = commas.saturating_add(1),
                _ => {}
            }
            if commas > index {
                return None;
            }
            place = place.saturating_add(1);
        }
        None
    }
}
