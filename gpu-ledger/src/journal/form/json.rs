//! Canonical bytes to JSON by their form, in one pass.
//!
//! | form | JSON |
//! |---|---|
//! | number of 4 or 8 bytes | a number, all digits of it |
//! | number of 16 bytes, digest | 32 or 64 hexadecimal digits, as text |
//! | bool | `true`, `false` |
//! | text, word | text; escaped are `"`, `\` and what is below U+0020, as `\n` and the like, else `\u00xx` |
//! | bytes | base64 (RFC 4648 section 4, with padding), as text |
//! | time | `{"at":"2026-07-27T19:25:31.123456+00:00","us":"1785180331123456"}`; `at` is null past the year 9999 |
//! | maybe | the value, or null |
//! | list, set, pair | an array |
//! | record | an object of its fields in their order; a last field that is left out is null; a single field called `0` is that value |
//! | tagged | an object of one member: the word, with an object of what it brings; a single field called `0` is that value |

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Span;
use jiff::civil::{Date, date};

use super::{Fields, Form, Width};
use crate::journal::canon::{CanonError, Reader, no_such};

const US_PER_DAY: u64 = 86_400_000_000;
const US_PER_S: u64 = 1_000_000;
const EPOCH: Date = date(1970, 1, 1);

/// Makes JSON of canonical bytes. Keeps the last date that it printed, since entries come in order.
#[derive(Debug, Default)]
pub struct Printer {
    /// Days since 1970, and that date; `None` of one past the calendar's end.
    day: Option<(u64, Option<String>)>,
}

impl Printer {
    /// Appends the value of all these bytes.
    ///
    /// # Errors
    /// What the bytes have that a value of this form cannot; `out` is then as it was.
    pub fn print(&mut self, form: &Form, bytes: &[u8], out: &mut String) -> Result<(), CanonError> {
        let begin = out.len();
        let mut reader = Reader::new(bytes);
        let printed = self.value(form, &mut reader, out).and_then(|()| match reader.is_empty() {
            true => Ok(()),
            false => Err(CanonError::Long { what: "entry" }),
        });
        if printed.is_err() {
            out.truncate(begin);
        }
        printed
    }

    fn value(
        &mut self,
        form: &Form,
        reader: &mut Reader<'_>,
        out: &mut String,
    ) -> Result<(), CanonError> {
        match form {
            Form::Number(width) => number(*width, reader, out)?,
            Form::Bool => out.push_str(match reader.atom()? {
                b"yes" => "true",
                b"no" => "false",
                word => return Err(no_such("yes or no", word)),
            }),
            Form::Text => quoted(reader.text()?, out),
            Form::Bytes => {
                out.push('"');
                STANDARD.encode_string(reader.atom()?, out);
                out.push('"');
            }
            Form::Digest => {
                out.push('"');
                hex(&reader.array::<32>("digest")?, out);
                out.push('"');
            }
            Form::Time => {
                let us = reader.list("time", |inside| inside.array("number of 8 bytes"))?;
                self.time(u64::from_be_bytes(us), out);
            }
            Form::Word { what, words } => {
                let word = reader.atom()?;
                quoted(words.get(place(what, words, word)?).copied().unwrap_or_default(), out);
            }
            Form::Maybe(form) => reader.list("value that may be absent", |inside| {
                if inside.is_empty() {
                    out.push_str("null");
                    return Ok(());
                }
                self.value(form, inside, out)
            })?,
            Form::List(form) => reader.list("list", |inside| {
                self.members(inside, out, |printer, inside, out| printer.value(form, inside, out))
            })?,
            Form::Set(form) => reader.list("list", |inside| {
                let mut before = None;
                self.members(inside, out, |printer, inside, out| {
                    let rank = Rank::of(form, *inside)?;
                    if before.as_ref().is_some_and(|before| *before >= rank) {
                        return Err(CanonError::Order);
                    }
                    before = Some(rank);
                    printer.value(form, inside, out)
                })
            })?,
            Form::Pair(pair) => reader.list("pair", |inside| {
                let (first, second) = pair.as_ref();
                out.push('[');
                self.value(first, inside, out)?;
                out.push(',');
                self.value(second, inside, out)?;
                out.push(']');
                Ok(())
            })?,
            Form::Record { name, fields } => {
                reader.list(name, |inside| self.fields(fields, inside, out))?;
            }
            Form::Tagged { what, words } => reader.list(what, |inside| {
                let word = inside.atom()?;
                let known = words.iter().find(|(known, _)| known.as_bytes() == word);
                let (word, fields) = known.ok_or_else(|| no_such(what, word))?;
                out.push('{');
                quoted(word, out);
                out.push(':');
                self.fields(fields, inside, out)?;
                out.push('}');
                Ok(())
            })?,
        }
        Ok(())
    }

    fn members<'b>(
        &mut self,
        inside: &mut Reader<'b>,
        out: &mut String,
        mut member: impl FnMut(&mut Self, &mut Reader<'b>, &mut String) -> Result<(), CanonError>,
    ) -> Result<(), CanonError> {
        out.push('[');
        let mut is_first = true;
        while !inside.is_empty() {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            member(self, inside, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn fields(
        &mut self,
        fields: &Fields,
        inside: &mut Reader<'_>,
        out: &mut String,
    ) -> Result<(), CanonError> {
        if let Some(form) = fields.whole() {
            return self.value(form, inside, out);
        }
        let mut before = '{';
        for (name, form) in &fields.always {
            key(before, name, out);
            self.value(form, inside, out)?;
            before = ',';
        }
        if let Some((name, form)) = fields.last.as_deref() {
            key(before, name, out);
            before = ',';
            if inside.is_empty() {
                out.push_str("null");
            } else {
                self.value(form, inside, out)?;
            }
        }
        if before == '{' {
            out.push('{');
        }
        out.push('}');
        Ok(())
    }

    fn time(&mut self, us: u64, out: &mut String) {
        out.push_str("{\"at\":");
        let begin = out.len();
        out.push('"');
        if self.moment(us, out) {
            out.push('"');
        } else {
            out.truncate(begin);
            out.push_str("null");
        }
        let _ = write!(out, ",\"us\":\"{us}\"}}");
    }

    /// Appends microseconds since 1970 as RFC 3339 in UTC with its offset; whether there is such a date: nothing is
    /// appended past the year 9999.
    pub fn moment(&mut self, us: u64, out: &mut String) -> bool {
        let day = us / US_PER_DAY;
        if self.day.as_ref().is_none_or(|(known, _)| *known != day) {
            let days = i64::try_from(day).ok().and_then(|day| Span::new().try_days(day).ok());
            let date = days.and_then(|days| EPOCH.checked_add(days).ok());
            self.day = Some((day, date.map(|date| date.to_string())));
        }
        let Some((_, Some(date))) = &self.day else { return false };
        let (s, us) = (us % US_PER_DAY / US_PER_S, us % US_PER_S);
        let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
        // Writing to a string cannot fail.
        let _ = write!(out, "{date}T{hour:02}:{minute:02}:{second:02}.{us:06}+00:00");
        true
    }
}

/// What stands where in a set.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank<'b> {
    Word(usize),
    Atom(&'b [u8]),
}

impl<'b> Rank<'b> {
    /// Of the next value.
    fn of(form: &Form, mut reader: Reader<'b>) -> Result<Self, CanonError> {
        let atom = reader.atom()?;
        match form {
            Form::Word { what, words } => place(what, words, atom).map(Self::Word),
            _ => Ok(Self::Atom(atom)),
        }
    }
}

fn place(what: &'static str, words: &[&'static str], word: &[u8]) -> Result<usize, CanonError> {
    let found = words.iter().position(|known| known.as_bytes() == word);
    found.ok_or_else(|| no_such(what, word))
}

fn number(width: Width, reader: &mut Reader<'_>, out: &mut String) -> Result<(), CanonError> {
    let number = match width {
        Width::Four => u32::from_be_bytes(reader.array("number of 4 bytes")?).into(),
        Width::Eight => u64::from_be_bytes(reader.array("number of 8 bytes")?),
        Width::Sixteen => {
            out.push('"');
            hex(&reader.array::<16>("number of 16 bytes")?, out);
            out.push('"');
            return Ok(());
        }
    };
    // Writing to a string cannot fail.
    let _ = write!(out, "{number}");
    Ok(())
}

/// The name of a field, which is an identifier and needs no escaping.
fn key(before: char, name: &str, out: &mut String) {
    out.push(before);
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
}

fn hex(bytes: &[u8], out: &mut String) {
    let digit = |four: u8| char::from_digit(four.into(), 16).unwrap_or('?');
    for byte in bytes {
        out.push(digit(byte >> 4));
        out.push(digit(byte & 15));
    }
}

/// Appends a JSON string, escaped as serde_json 1 and Python's `json` with `ensure_ascii=False` do.
pub fn quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = text;
    while let Some(at) = plain.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\')
    {
        // What is escaped is one byte of its own in UTF-8.
        let (before, rest) = plain.split_at(at);
        out.push_str(before);
        let escaped = rest.bytes().next().unwrap_or_default();
        match escaped {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => {
                out.push_str("\\u00");
                hex(&[other], out);
            }
        }
        plain = rest.get(1..).unwrap_or_default();
    }
    out.push_str(plain);
    out.push('"');
}
