//! Texts that say the same with other bytes, `access%5Ftoken=V` and `--"token" V`: what is found in the plain text
//! is marked where it came from.

use std::ops::Range;

use super::marks::{Marks, Piece};

/// Decodings of decodings that are looked into: addresses inside of addresses are encoded twice.
const LAYERS_MAX: usize = 2;

/// A plain text, and of each of its bytes where it stood.
#[derive(Default)]
pub(super) struct Decoded {
    text: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Decoded {
    pub(super) fn push(&mut self, byte: u8, place: Range<usize>) {
        self.text.push(byte);
        self.places.push(place);
    }

    /// A text that says what it says.
    pub(super) fn same(text: &[u8]) -> Self {
        let mut decoded = Self::default();
        for (place, byte) in text.iter().enumerate() {
            decoded.push(*byte, place..place.saturating_add(1));
        }
        decoded
    }

    /// Whether this is the plain text.
    pub(super) fn says(&self, text: &[u8]) -> bool {
        self.text == text
    }

    /// Where a range of the plain text stood.
    fn place_of(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.places.get(range.start)?.start;
        let last = self.places.get(range.end.checked_sub(1)?)?.end;
        Some(first..last)
    }

    /// Marks in `piece`, which this was decoded from, what goes of the plain text.
    fn mark_back(&self, piece: &Piece<'_>, ranges: &[Range<usize>], marks: &mut Marks) {
        for range in ranges.iter().filter_map(|range| self.place_of(range)) {
            marks.put(piece, range);
        }
    }

    /// `%5F` of addresses (RFC 3986, 2.1) and `\u005f` of JSON (RFC 8259, 7) in plain; `None` where there are none
    /// that stand for a byte that can be seen.
    fn of_escapes(text: &[u8]) -> Option<Self> {
        if !text.contains(&b'%') && !text.contains(&b'\\') {
            return None;
        }
        let mut decoded = Self::default();
        let mut place = 0;
        while let Some(byte) = text.get(place).copied() {
            let (byte, length) = escape_at(text, place).unwrap_or((byte, 1));
            let end = place.saturating_add(length);
            decoded.push(byte, place..end);
            place = end;
        }
        (decoded.text.len() < text.len()).then_some(decoded)
    }

    /// A word of a script as a shell would have it: without its quotes and the backslashes between its letters.
    pub(super) fn of_shell(word: &[u8]) -> Self {
        let mut decoded = Self::default();
        let mut place: usize = 0;
        let mut quote: Option<u8> = None;
        while let Some(byte) = word.get(place).copied() {
            let next = place.saturating_add(1);
            let rest = word.get(next..).unwrap_or_default();
            let opens = |from: &[u8]| {
                // What nothing closes is an apostrophe.
                let quote = from.first().filter(|byte| matches!(byte, b'"' | b'\''));
                quote.filter(|quote| from.iter().skip(1).any(|byte| byte == *quote)).copied()
            };
            match (quote, byte) {
                (Some(open), _) if open == byte => quote = None,
                (Some(b'\''), _) => decoded.push(byte, place..next),
                (_, b'\\') if !rest.is_empty() => {
                    let escaped = rest.first().copied().unwrap_or(byte);
                    let end = next.saturating_add(1);
                    decoded.push(escaped, place..end);
                    place = end;
                    continue;
                }
                // `$'V'` and `$"V"`.
                (None, b'$') if opens(rest).is_some() => {}
                (None, _) if opens(word.get(place..).unwrap_or_default()).is_some() => {
                    quote = Some(byte);
                }
                _ => decoded.push(byte, place..next),
            }
            place = next;
        }
        decoded
    }
}

/// Looks with `look` at plain words, and marks what they were decoded from.
pub(super) fn all(
    plain: &[Decoded],
    pieces: &[Piece<'_>],
    marks: &mut Marks,
    look: impl FnOnce(&[Piece<'_>], &mut Marks),
) {
    let texts: Vec<&[u8]> = plain.iter().map(|word| word.text.as_slice()).collect();
    let is_cut = pieces.last().is_some_and(|piece| piece.is_cut);
    let mut found = Marks::of(&texts);
    look(&Piece::all(&texts, is_cut), &mut found);
    for (place, (word, piece)) in plain.iter().zip(pieces).enumerate() {
        word.mark_back(piece, found.of_word(place), marks);
    }
}

/// Looks with `look` at what a piece says without its escapes.
pub(super) fn each(piece: &Piece<'_>, marks: &mut Marks, look: impl Fn(&Piece<'_>, &mut Marks)) {
    let mut layers: Vec<Decoded> = Vec::new();
    for _ in 0..LAYERS_MAX {
        let text = layers.last().map_or(piece.text, |layer| layer.text.as_slice());
        let Some(decoded) = Decoded::of_escapes(text) else { return };
        layers.push(decoded);
        let Some(text) = layers.last().map(|layer| layer.text.as_slice()) else { return };
        let mut found = Marks::of(&[text]);
        look(&Piece { word: 0, start: 0, text, is_cut: piece.is_cut }, &mut found);
        for range in found.of_word(0) {
            let out = |range: Range<usize>, layer: &Decoded| layer.place_of(&range);
            if let Some(range) = layers.iter().rev().try_fold(range.clone(), out) {
                marks.put(piece, range);
            }
        }
    }
}

/// The byte that an escape at `place` stands for, and its length.
fn escape_at(text: &[u8], place: usize) -> Option<(u8, usize)> {
    let rest = text.get(place..)?;
    let (digits, length) = match rest {
        [b'%', one, two, ..] => ([*one, *two], 3),
        [b'\\', b'u', b'0', b'0', one, two, ..] => ([*one, *two], 6),
        [b'\\', b'\\', b'u', b'0', b'0', one, two, ..] => ([*one, *two], 7),
        _ => return None,
    };
    let digits = std::str::from_utf8(&digits).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    // A quote or a line's end that comes out of one would end another thing than it did.
    (byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\') || byte == b' ')
        .then_some((byte, length))
}
