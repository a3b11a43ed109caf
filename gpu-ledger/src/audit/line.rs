//! One line of `entries.jsonl` or `context.jsonl`.
//!
//! ```text
//! {"seq":1,"hash":HEX,"previous":HEX,"body":BASE64,"evidence":BASE64,"entry":{...},"because":{...}}
//! ```
//! `body` and `evidence` are the entry; `entry` and `because` are the same for people, made of them by
//! [`crate::journal::form`], so whoever has the first makes the rest. In `context.jsonl` the last key is
//! `"proof":[HEX,...]`, the way from the leaf to the root.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::journal::Digest;
use crate::journal::canon::CanonError;
use crate::journal::chain::Kept;
use crate::journal::form::{ENTRY, EVIDENCE, Printer};

/// What a line is made of.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'b> {
    /// The entry.
    pub kept: Kept<'b>,
    /// Canonical bytes of its evidence.
    pub evidence: &'b [u8],
}

/// Makes lines.
#[derive(Debug, Default)]
pub struct LinePrinter {
    printer: Printer,
}

impl LinePrinter {
    /// Appends a line with its end.
    ///
    /// # Errors
    /// Where the bytes are no entry's; `out` is then as it was.
    pub fn print(
        &mut self,
        raw: Raw<'_>,
        proof: Option<&[Digest]>,
        out: &mut String,
    ) -> Result<(), CanonError> {
        let begin = out.len();
        let printed = self.append(raw, proof, out);
        if printed.is_err() {
            out.truncate(begin);
        }
        printed
    }

    fn append(
        &mut self,
        raw: Raw<'_>,
        proof: Option<&[Digest]>,
        out: &mut String,
    ) -> Result<(), CanonError> {
        let Raw { kept: Kept { seq, body, previous, hash, .. }, evidence } = raw;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{{\"seq\":{seq},\"hash\":\"{hash}\",\"previous\":\"{previous}\",\"body\":\""
        );
        STANDARD.encode_string(body, out);
        out.push_str("\",\"evidence\":\"");
        STANDARD.encode_string(evidence, out);
        out.push_str("\",\"entry\":");
        self.printer.print(&ENTRY, body, out)?;
        out.push_str(",\"because\":");
        self.printer.print(&EVIDENCE, evidence, out)?;
        if let Some(proof) = proof {
            out.push_str(",\"proof\":[");
            for (place, hash) in proof.iter().enumerate() {
                let before = if place == 0 { "" } else { "," };
                let _ = write!(out, "{before}\"{hash}\"");
            }
            out.push(']');
        }
        out.push_str("}\n");
        Ok(())
    }
}

/// What stands in a line, nothing of it proven. The readable part was passed over: it says nothing that the bytes do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// Its number.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
    /// That of the entry before it.
    pub previous: Digest,
    /// Canonical bytes of moment and figures.
    pub body: Vec<u8>,
    /// Canonical bytes of its evidence.
    pub evidence: Vec<u8>,
}

impl Parsed {
    /// Reads a line, without its end; `None` where it does not begin as a line of this format.
    #[must_use]
    pub fn of(line: &[u8]) -> Option<Self> {
        let line = line.strip_prefix(b"{\"seq\":")?;
        let (digits, line) = line.split_at_checked(line.iter().position(|byte| *byte == b',')?)?;
        let (hash, line) = quoted(line.strip_prefix(b",\"hash\":\"")?)?;
        let (previous, line) = quoted(line.strip_prefix(b",\"previous\":\"")?)?;
        let (body, line) = quoted(line.strip_prefix(b",\"body\":\"")?)?;
        let (evidence, line) = quoted(line.strip_prefix(b",\"evidence\":\"")?)?;
        let is_entry = line.starts_with(b",\"entry\":") && line.ends_with(b"}");
        Some(Self {
            seq: number(digits).filter(|_| is_entry)?,
            hash: digest(hash)?,
            previous: digest(previous)?,
            body: STANDARD.decode(body).ok()?,
            evidence: STANDARD.decode(evidence).ok()?,
        })
    }

    /// As a line is made of it.
    #[must_use]
    pub fn raw(&self, evidence: Digest) -> Raw<'_> {
        let Self { seq, hash, previous, body, evidence: bytes } = self;
        let (seq, hash, previous) = (*seq, *hash, *previous);
        Raw { kept: Kept { seq, body, evidence, previous, hash }, evidence: bytes }
    }
}

/// A number as it is printed.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let is_plain =
        digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
    std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

fn digest(digits: &[u8]) -> Option<Digest> {
    Digest::of_hex(std::str::from_utf8(digits).ok()?)
}

/// What stands before the next quotation mark, and what after it.
fn quoted(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (inside, rest) = line.split_at_checked(line.iter().position(|byte| *byte == b'"')?)?;
    Some((inside, rest.get(1..)?))
}
