//! Names inside of a text and what is given to them: assignments, JSON, YAML, keyword arguments, SQL, XML.

use std::ops::Range;

use super::markers::Seen;
use super::marks::{Marks, Piece};
use super::names::{self, Sort};
use super::text::{SCHEMES, held, name_at, of_name, scheme_of};
use super::values;

/// Looks at every name in a text and at what is given to it.
pub(super) struct Fields<'a, 'm> {
    pub(super) piece: &'a Piece<'a>,
    pub(super) marks: &'m mut Marks,
    pub(super) place: usize,
    /// The field before was `name` with a secret's name as its value: `{"name": "HF_TOKEN", "value": V}`.
    named: bool,
    /// The other way round: the value that was read, and has no name yet.
    unnamed: Option<Range<usize>>,
    pub(super) seen: Seen,
    /// Where the last `login(` begins its arguments.
    pub(super) call: usize,
    /// A call that is given a name and then a value has not ended: `setdefault("HF_TOKEN", V)`.
    pub(super) setter: bool,
    /// A parser is told of an option for a secret, and may be told what else it is: `("--token", default=V)`.
    optional: bool,
    /// Up to where lists and objects have been looked at, with all that is in them.
    pub(super) contained: usize,
    /// Where the values without quotes, and those of headers, end that begin before: every one of them would be
    /// looked for again in a word that is full of names.
    bare_end: usize,
    header_end: usize,
    /// The first brace.
    brace: usize,
}

/// What stands between a name and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Equals,
    Colon,
    /// What may mean more than that its right side is the value: a comparison, a choice, a pair, an argument.
    Beside,
}

impl<'a, 'm> Fields<'a, 'm> {
    pub(super) fn of(piece: &'a Piece<'a>, marks: &'m mut Marks) -> Self {
        let brace = piece.text.iter().position(|byte| *byte == b'{');
        Self {
            piece,
            marks,
            place: 0,
            named: false,
            unnamed: None,
            seen: Seen::default(),
            call: 0,
            setter: false,
            optional: false,
            contained: 0,
            bare_end: 0,
            header_end: 0,
            brace: brace.unwrap_or(piece.text.len()),
        }
    }

    pub(super) fn all(&mut self) {
        while let Some(rest) = self.piece.text.get(self.place..) {
            let Some(skipped) = rest.iter().position(|byte| of_name(*byte)) else { break };
            let between = rest.get(..skipped).unwrap_or_default();
            self.setter &= !between.contains(&b')');
            self.optional &= !between.contains(&b')');
            if between.contains(&b'}') {
                self.unnamed = None;
            }
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

    pub(super) fn get(&self, range: Range<usize>) -> &'a [u8] {
        self.piece.text.get(range).unwrap_or_default()
    }

    pub(super) fn rest(&self, from: usize) -> &'a [u8] {
        self.piece.text.get(from..).unwrap_or_default()
    }

    pub(super) fn byte(&self, place: usize) -> Option<u8> {
        self.piece.text.get(place).copied()
    }

    pub(super) fn before(&self, place: usize) -> Option<u8> {
        place.checked_sub(1).and_then(|before| self.byte(before))
    }

    /// Past blanks, and past the end of a line that goes on.
    pub(super) fn past_blanks(&self, from: usize) -> usize {
        let mut place = from;
        loop {
            place = match self.rest(place) {
                [b' ' | b'\t', ..] => place.saturating_add(1),
                [b'\\', b'\n', ..] => place.saturating_add(2),
                _ => return place,
            };
        }
    }

    /// Past a quote, with the backslashes before it; the quote, where there is one.
    pub(super) fn past_quote(&self, from: usize) -> (usize, Option<u8>) {
        let rest = self.rest(from);
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
        if self.scheme(name) || self.of_sql(name) || self.of_xml(name) || self.typed(name) {
            return;
        }
        // `auth[token]=V` of forms; a program asks for a text's token so.
        let is_indexed = self.before(name.start) == Some(b'[');
        let sort = self.sort_of(name);
        let sort = if is_indexed && sort == Some(Sort::Bare) { Some(Sort::Made) } else { sort };
        if self.byte(name.end) == Some(b'(') {
            self.call_of(word, name.end, sort);
            return;
        }
        let is_name =
            ["name", "key", "value"].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if sort.is_none() && !is_name && names::sort_of_many(word).is_none() {
            return;
        }
        let (after, quoted) = self.past_name(name);
        self.optional |= quoted.is_some() && word.starts_with(b"--") && !names::is_switch(word);
        if quoted.is_none() && self.in_tuple(name, sort) {
            return;
        }
        let Some((sign, after)) = self.sign_or_type(after, quoted.is_some()) else { return };
        let from = self.past_blanks(after);
        // JSON over lines.
        let from = if quoted.is_some() { self.past_lines(from) } else { from };
        if self.many(word, sort, from, sign) || sort.is_none() && !is_name {
            return;
        }
        let (begin, quote) = self.past_opening(from);
        let value = begin..self.end_of(begin, quote, sort);
        let Some(sort) = sort else {
            self.named_after(word, value);
            return;
        };
        if quote.is_none() && sign == Sign::Equals {
            self.instead(begin, sort);
        }
        if sign == Sign::Beside && (quote.is_none() || !self.is_beside(name, after, &value, sort)) {
            return;
        }
        self.named = false;
        if sign == Sign::Colon
            && quoted.is_none()
            && quote.is_none()
            && !self.is_yaml(sort, from > after, &value)
        {
            return;
        }
        let is_none = if quote.is_some() {
            // `"Token: "`: the quote closes a text that ends in a name.
            sign == Sign::Colon && quoted.is_none() && self.before(name.start) == quote
        } else {
            let is_empty = sign == Sign::Equals && from > after;
            let is_empty = is_empty && self.byte(name.end) == Some(b'=');
            self.call_as_value(&value, sort) || is_empty && !is_apart(self.get(value.clone()))
        };
        let is_put_in = quote != Some(b'`') && values::is_put_in(self.get(from..value.end));
        if is_none || is_put_in {
            return;
        }
        held(self.piece, &value, sort, self.marks);
        // `"" + "V"`, `"%s" % "V"`.
        let is_begun = || {
            matches!(sort, Sort::Password | Sort::Token | Sort::Material)
                && values::says_nothing(self.get(value.clone()))
        };
        if sort.holds(self.get(value.clone())) || is_begun() {
            self.place = value.end.max(self.place);
            self.joined(&value, quote, sort);
        }
    }

    /// What kind of secret the name is for, here.
    fn sort_of(&self, name: &Range<usize>) -> Option<Sort> {
        let word = self.get(name.clone());
        let is_default = || word == b"default" && self.byte(name.end) == Some(b'=');
        let is_value = word.eq_ignore_ascii_case(b"value") && self.named
            || (self.optional || self.named) && is_default();
        // QEMU's `secret,id=NAME,data=V`.
        let is_data = word == b"data" && self.piece.text.starts_with(b"secret,");
        if is_value || is_data {
            return Some(Sort::Token);
        }
        names::sort(word).or_else(|| {
            // `?key=V`.
            let asked = self.before(name.start);
            let is_query = matches!(asked, Some(b'?' | b'&')) || self.call == name.start;
            (is_query && word.eq_ignore_ascii_case(b"key")).then_some(Sort::Key)
        })
    }

    /// What stands behind a name, past a type as Python has it, and where what follows it begins. An address has a
    /// colon, too.
    fn sign_or_type(&self, from: usize, is_quoted: bool) -> Option<(Sign, usize)> {
        let (sign, after) = self.sign(from, is_quoted)?;
        if sign != Sign::Colon {
            return Some((sign, after));
        }
        let typed = if is_quoted { None } else { self.past_type(after) };
        match typed {
            Some(after) => Some((Sign::Equals, after)),
            None => (self.byte(after) != Some(b'/')).then_some((sign, after)),
        }
    }

    /// `{"name": NAME, "value": V}` and `{"value": V, "name": NAME}`.
    fn named_after(&mut self, word: &[u8], value: Range<usize>) {
        if word.eq_ignore_ascii_case(b"value") {
            self.unnamed = Some(value);
            return;
        }
        self.named = names::sort(self.get(value)).is_some();
        if let Some(value) = self.unnamed.take().filter(|_| self.named) {
            held(self.piece, &value, Sort::Token, self.marks);
        }
    }

    /// Past the ends of lines.
    fn past_lines(&self, from: usize) -> usize {
        if !matches!(self.byte(from), Some(b'\n' | b'\r')) {
            return from;
        }
        let white = self.rest(from).iter().take_while(|byte| byte.is_ascii_whitespace());
        from.saturating_add(white.count())
    }

    /// Whether the text beside a name is its value: of a text and its tokens there is much to compare and to choose,
    /// and a pair may be of two names.
    fn is_beside(
        &self,
        name: &Range<usize>,
        after: usize,
        value: &Range<usize>,
        sort: Sort,
    ) -> bool {
        let is_listed = !self.setter && self.before(after) == Some(b',');
        let is_weak = sort == Sort::Bare || is_listed;
        let is_pair = !is_listed || self.is_pair(name, value);
        is_pair && (!is_weak || values::is_made(self.get(value.clone())))
    }

    /// Whether a name and its value are all there is in their brackets: `("NAME", V)`.
    fn is_pair(&self, name: &Range<usize>, value: &Range<usize>) -> bool {
        let opened = name.start.checked_sub(2).and_then(|before| self.byte(before));
        let closed = self.byte(value.end.saturating_add(1));
        matches!(opened, Some(b'(' | b'[')) && matches!(closed, Some(b')' | b']'))
    }

    /// Past Python's type behind a name: `password: str = V`.
    fn past_type(&self, from: usize) -> Option<usize> {
        const TYPE_MAX: usize = 48;
        let begin = self.past_blanks(from);
        let of_type = |byte: &&u8| of_name(**byte) || matches!(byte, b'[' | b']' | b'|' | b' ');
        let length = self.rest(begin).iter().take(TYPE_MAX).take_while(of_type).count();
        let equals = begin.saturating_add(length);
        let is_given = length > 0 && self.byte(equals) == Some(b'=');
        let after = equals.saturating_add(1);
        (is_given && self.past_opening(self.past_blanks(after)).1.is_some()).then_some(after)
    }

    /// Past what may stand right behind a name: its quote, and what encloses both, as in `environ["NAME"]`, Perl's
    /// `$ENV{NAME}`, `getenv("NAME")` and a shell's `NAME[0]`.
    fn past_name(&self, name: &Range<usize>) -> (usize, Option<u8>) {
        const INDEX_MAX: usize = 8;
        let (after, quoted) = self.past_quote(name.end);
        let is_form = self.before(name.start) == Some(b'[') && self.rest(after).starts_with(b"]=");
        let is_enclosed = quoted.is_some() || is_form || self.before(name.start) == Some(b'{');
        let after = match self.byte(after) {
            Some(b']' | b'}' | b')') if is_enclosed => after.saturating_add(1),
            Some(b'[') => {
                let digits =
                    self.rest(after).iter().skip(1).take_while(|byte| byte.is_ascii_digit());
                let end = after.saturating_add(1).saturating_add(digits.take(INDEX_MAX).count());
                if self.byte(end) == Some(b']') { end.saturating_add(1) } else { after }
            }
            _ => after,
        };
        (after, quoted)
    }

    /// What stands behind a name, and where what follows it begins.
    fn sign(&self, from: usize, is_quoted: bool) -> Option<(Sign, usize)> {
        let place = self.past_blanks(from);
        let rest = self.rest(place);
        let (sign, length) = match rest {
            [b'=' | b'!', b'=', b'=', ..] => (Sign::Beside, 3),
            [b'|', b'|', b'=', ..] | [b'?', b'?', b'=', ..] => (Sign::Equals, 3),
            [b':' | b'+' | b'.' | b'?', b'=', ..] => (Sign::Equals, 2),
            [b'=' | b'!', b'=', ..] | [b'=', b'>', ..] | [b'|', b'|', ..] | [b'?', b'?', ..] => {
                (Sign::Beside, 2)
            }
            [b'=', ..] => (Sign::Equals, 1),
            [b':', ..] => (Sign::Colon, 1),
            // YAML's `? name`, and its value in a line of its own.
            [b'\n', b':', b' ', ..] => (Sign::Colon, 2),
            [b'o', b'r', b' ', ..] if place > from => (Sign::Beside, 2),
            // `setdefault("NAME", V)` and `("NAME", V)`.
            [b',', ..] if is_quoted => (Sign::Beside, 1),
            _ => return None,
        };
        Some((sign, place.saturating_add(length)))
    }

    /// Whether `name: value` without quotes is a field and no prose.
    fn is_yaml(&self, sort: Sort, is_spaced: bool, value: &Range<usize>) -> bool {
        let bytes = self.get(value.clone());
        if matches!(sort, Sort::Authorization | Sort::Cookie) {
            return true;
        }
        let made = values::looked(bytes).iter().any(u8::is_ascii_digit);
        let in_braces = || self.brace < value.start;
        if is_spaced {
            made || bytes.len() >= 16 || in_braces()
        } else {
            made && bytes.len() >= 8 || values::is_made(bytes)
        }
    }

    /// Where a value ends that begins at `begin`.
    pub(super) fn end_of(&mut self, begin: usize, quote: Option<u8>, sort: Option<Sort>) -> usize {
        let rest = self.piece.text.get(begin..).unwrap_or_default();
        let header = quote.is_none() && matches!(sort, Some(Sort::Authorization | Sort::Cookie));
        // What stands for a secret already.
        let done = if rest.starts_with(super::REDACTED) { super::REDACTED.len() } else { 0 };
        let seen = if header { self.header_end } else { self.bare_end };
        let length = if quote.is_none() && begin.saturating_add(done) < seen {
            seen.saturating_sub(begin)
        } else {
            let ends = |place: usize, byte: u8| match quote {
                Some(quote) if self.is_thrice(begin, quote) => {
                    rest.get(place..).unwrap_or_default().starts_with(&[quote; 3])
                }
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
                // What stands for a secret in the middle ends in a bracket itself.
                None => {
                    let seen = || rest.get(..=place).unwrap_or_default().ends_with(super::REDACTED);
                    ends_bare(byte) && !(byte == b']' && seen())
                }
            };
            let found =
                rest.iter().enumerate().skip(done).find(|(place, byte)| ends(*place, **byte));
            found.map_or(rest.len(), |(place, _)| place)
        };
        let end = begin.saturating_add(length);
        match (quote, header) {
            (None, true) => self.header_end = end,
            (None, false) => self.bare_end = end,
            _ => {}
        }
        if !header {
            return end;
        }
        // After a known scheme there is one word; what follows it is no part of the header.
        let value = rest.get(..length).unwrap_or_default();
        let is_known = SCHEMES.iter().any(|known| {
            value.get(..known.len()).is_some_and(|word| word.eq_ignore_ascii_case(known.as_bytes()))
        });
        if !is_known {
            return end;
        }
        let scheme = scheme_of(value);
        let word = value.iter().skip(scheme).take_while(|byte| !byte.is_ascii_whitespace()).count();
        begin.saturating_add(scheme).saturating_add(word)
    }
}

/// Whether what stands apart behind `NAME=` is its value, and no program that is run with an empty variable.
fn is_apart(value: &[u8]) -> bool {
    const LEAST: usize = 8;
    value.len() >= LEAST && values::is_made(value)
}

/// What no value without quotes goes on over.
pub(super) const fn ends_bare(byte: u8) -> bool {
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
