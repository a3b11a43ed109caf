//! Lists and objects of secrets, in JSON, YAML, TOML and the languages that write them so.

use std::ops::Range;

use super::REDACTED;
use super::fields::{Fields, Sign};
use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::text::held;
use super::values;

/// What is in a list.
struct Scalar {
    /// Where it begins with its quotes.
    from: usize,
    value: Range<usize>,
    /// Where it ends with them.
    after: usize,
    is_quoted: bool,
}

/// A list or an object that is all there is to a word, behind an option: `--tokens '["V"]'`. Whether it is one.
pub(super) fn whole(piece: &Piece<'_>, name: &[u8], marks: &mut Marks) -> bool {
    let opens = matches!(piece.text, [b'[' | b'{', ..]) && !piece.text.starts_with(REDACTED);
    let Some(sort) = names::sort_of_many(name).filter(|_| opens) else { return false };
    Fields::of(piece, marks).container(0, sort);
    true
}

/// An object that has secrets somewhere in it, whatever they are called there.
pub(super) fn of_secrets(piece: &Piece<'_>, marks: &mut Marks) {
    if piece.text.first() == Some(&b'{') {
        Fields::of(piece, marks).container(0, Sort::Made);
    }
}

impl Fields<'_, '_> {
    /// Looks at the list or the object that begins at `from`, where there is one.
    pub(super) fn many(
        &mut self,
        name: &[u8],
        sort: Option<Sort>,
        from: usize,
        sign: Sign,
    ) -> bool {
        let Some(many) = names::sort_of_many(name) else { return false };
        // In quotes: what has a sort of its own goes as a whole.
        let (begin, quote) = self.past_quote(from);
        let begin = if sort.is_none() && quote.is_some() { begin } else { from };
        let rest = self.rest(begin);
        let opens = match rest.first() {
            Some(b'[' | b'{') => !rest.starts_with(REDACTED),
            Some(b'(') => sign == Sign::Equals,
            Some(b'\n' | b'\r') => {
                self.block(begin, many);
                return true;
            }
            // `password: |-`: a text of lines.
            Some(b'|' | b'>') if sign == Sign::Colon => {
                let of_sign = |byte: &&u8| matches!(byte, b'|' | b'>' | b'-' | b'+' | b' ');
                let end = begin.saturating_add(rest.iter().take_while(of_sign).count());
                if self.byte(end) != Some(b'\n') {
                    return false;
                }
                self.block(end, many);
                return true;
            }
            _ => false,
        };
        if opens && begin >= self.contained {
            self.container(begin, many);
        }
        opens
    }

    /// Marks what is in the brackets that open at `open`. What has a name that is for a secret is found by its name.
    pub(super) fn container(&mut self, open: usize, sort: Sort) {
        let in_parens = self.byte(open) == Some(b'(');
        let mut place = open;
        let mut depth: usize = 0;
        let mut key: Option<Range<usize>> = None;
        // Where a name ended, and how deep what is asked of it stands: `environ["NAME"]`.
        let mut bare = usize::MAX;
        let mut index: Option<usize> = None;
        while let Some(byte) = self.byte(place) {
            match byte {
                b'[' | b'{' | b'(' if !self.rest(place).starts_with(REDACTED) => {
                    index = index.or((place == bare).then_some(depth));
                    depth = depth.saturating_add(1);
                    place = place.saturating_add(1);
                    continue;
                }
                b']' | b'}' | b')' => {
                    depth = depth.saturating_sub(1);
                    key = None;
                    index = index.filter(|index| *index < depth);
                    place = place.saturating_add(1);
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                _ => {}
            }
            let scalar = self.scalar(place);
            if scalar.value.is_empty() {
                place = scalar.after.max(place.saturating_add(1));
                continue;
            }
            place = scalar.after;
            let sign = self.past_blanks(place);
            if matches!(self.byte(sign), Some(b':' | b'=')) {
                key = Some(scalar.value);
                place = sign.saturating_add(1);
                continue;
            }
            if !scalar.is_quoted {
                bare = place;
            }
            let name = key.clone().map_or(b"".as_slice(), |key| self.get(key));
            let is_value = !self.is_code(&scalar, in_parens) && !names::is_plain(name);
            if index.is_none() && is_value {
                self.inner(scalar.value, names::sort_of_many(name).unwrap_or(sort));
            }
        }
        self.contained = self.contained.max(place);
    }

    /// The text, the number or the name that begins at `from`.
    fn scalar(&mut self, from: usize) -> Scalar {
        let (begin, quote) = self.past_opening(from);
        if quote.is_none() {
            let after = self.end_of_plain(from);
            return Scalar { from, value: from..after, after, is_quoted: false };
        }
        let end = self.end_of(begin, quote, None);
        let slashes = self.rest(end).iter().take_while(|byte| **byte == b'\\').count();
        let after = end.saturating_add(slashes).saturating_add(1);
        Scalar { from, value: begin..end, after, is_quoted: true }
    }

    /// Whether it is a part of a program, or a number, and no value.
    fn is_code(&self, scalar: &Scalar, in_parens: bool) -> bool {
        let bytes = self.get(scalar.value.clone());
        let is_call = || matches!(self.byte(scalar.after), Some(b'(' | b'['));
        let is_name = || in_parens && !values::is_made(bytes);
        values::is_put_in(self.get(scalar.from..scalar.value.end))
            || !scalar.is_quoted && (values::is_count(bytes) || is_call() || is_name())
    }

    /// Marks what stands in a list or an object.
    fn inner(&mut self, value: Range<usize>, sort: Sort) {
        if !matches!(sort, Sort::Login | Sort::Cookie | Sort::Cookies | Sort::Pair) {
            held(self.piece, &value, sort, self.marks);
            return;
        }
        // All that is in there is for it.
        let bytes = self.get(value.clone());
        if !values::says_nothing(bytes) && !values::is_count(bytes) && !values::is_path(bytes) {
            self.marks.put(self.piece, value);
        }
    }

    /// The end of what has no quotes in a list.
    fn end_of_plain(&self, from: usize) -> usize {
        let rest = self.rest(from);
        if rest.starts_with(REDACTED) {
            return from.saturating_add(REDACTED.len());
        }
        let ends = |byte: &u8| {
            super::fields::ends_bare(*byte) || matches!(byte, b'[' | b'{' | b'(' | b':' | b'=')
        };
        from.saturating_add(rest.iter().position(ends).unwrap_or(rest.len()))
    }

    /// YAML's lists and objects with a line for each: `tokens:`, `- V`; `stringData:`, `name: V`.
    fn block(&mut self, from: usize, sort: Sort) {
        let outer = self.indent_before(from);
        let mut place = from;
        loop {
            let white =
                self.rest(place).iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let item = place.saturating_add(white);
            let line = self.rest(item).iter().take_while(|byte| !matches!(byte, b'\n' | b'\r'));
            let end = item.saturating_add(line.count());
            let blanks =
                self.get(place..item).iter().rev().take_while(|byte| **byte != b'\n').count();
            let line = self.get(item..end);
            let name = line.iter().take_while(|byte| super::text::of_name(**byte)).count();
            let is_item = line.starts_with(b"- ");
            let is_field = name > 0 && line.get(name) == Some(&b':') && blanks > outer;
            let begin = if is_item { 2 } else { name.saturating_add(1) };
            if !is_item && !is_field || end == place {
                // `password:`, and its value alone in the next line.
                if place == from && blanks > outer && !line.is_empty() {
                    self.below(item..end, sort);
                }
                return;
            }
            let begin = self.past_blanks(item.saturating_add(begin));
            let inner = values::unquoted(self.get(begin..end));
            let value = begin.saturating_add(inner.start)..begin.saturating_add(inner.end);
            // What has a name of its own is found by it.
            let name = line.get(..name).unwrap_or_default();
            let is_other = is_field && (names::is_plain(name) || names::sort(name).is_some())
                || self.get(value.clone()).contains(&b':');
            if !is_other && (is_item || sort != Sort::Bare) {
                held(self.piece, &value, sort, self.marks);
            }
            place = end;
        }
    }

    /// Marks one word that stands in the line below its name: in a text there are more of them.
    fn below(&mut self, line: Range<usize>, sort: Sort) {
        let raw = self.get(line.clone());
        let inner = values::unquoted(raw);
        let is_one_word = inner.len() < raw.len() || !raw.iter().any(u8::is_ascii_whitespace);
        // As beside it: `Secret:` in a text has a word below it, too.
        let is_sure = values::is_made(raw)
            || matches!(sort, Sort::Password | Sort::Token)
                && (raw.len() >= 16 || raw.iter().any(u8::is_ascii_digit));
        if is_one_word && is_sure && !values::is_put_in(raw) {
            let at = |place: usize| line.start.saturating_add(place);
            held(self.piece, &(at(inner.start)..at(inner.end)), sort, self.marks);
        }
    }

    /// How far in the line begins that ends at `from`.
    fn indent_before(&self, from: usize) -> usize {
        const LINE_MAX: usize = 128;
        let before = self.get(from.saturating_sub(LINE_MAX)..from);
        let line =
            before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end.saturating_add(1));
        let line = before.get(line..).unwrap_or_default();
        line.iter().take_while(|byte| matches!(byte, b' ' | b'-')).count()
    }
}
