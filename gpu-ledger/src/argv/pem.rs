//! Private keys (RFC 7468), in one word or cut up into many.

use std::ops::Range;

use super::marks::{Marks, Piece};

/// Words that the label of a private key is spread over at most: `-----BEGIN`, `EC`, `PRIVATE`, `KEY-----`.
const LABEL_WORDS_MAX: usize = 6;

/// Private keys that stand in one word, with or without line ends.
pub(super) fn mark(piece: &Piece<'_>, marks: &mut Marks) {
    let mut place = 0;
    while let Some(body) = body_of(piece.text, place) {
        place = body.end.max(place.saturating_add(1));
        marks.put(piece, body);
    }
}

/// The body of the first private key from `from` on.
fn body_of(text: &[u8], from: usize) -> Option<Range<usize>> {
    /// `-----BEGIN ENCRYPTED PRIVATE KEY-----` and its like.
    const HEAD_MAX: usize = 64;
    let mut from = from;
    loop {
        let begin = from.saturating_add(find(text.get(from..)?, b"-----BEGIN ")?);
        let label = begin.saturating_add(11);
        let head = text.get(label..text.len().min(label.saturating_add(HEAD_MAX)))?;
        from = label;
        let Some(length) = find(head, b"-----") else { continue };
        let is_private = head.get(..length).is_some_and(|label| find(label, b"PRIVATE").is_some());
        if is_private {
            let body = label.saturating_add(length).saturating_add(5);
            let rest = text.get(body..)?;
            let end = find(rest, b"-----END").unwrap_or(rest.len());
            return Some(body..body.saturating_add(end));
        }
    }
}

/// Where a short text begins in another.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len().max(1)).position(|window| window == wanted)
}

/// A private key that is spread over words: all of them up to its end.
pub(super) fn mark_spread(pieces: &[Piece<'_>], marks: &mut Marks) {
    let mut place = 0;
    while let Some(piece) = pieces.get(place) {
        place += 1;
        if find(piece.text, b"-----BEGIN").is_none() {
            continue;
        }
        let label = pieces.get(place - 1..).unwrap_or_default().iter().take(LABEL_WORDS_MAX);
        let texts: Vec<&[u8]> = label.map(|piece| piece.text).collect();
        let joined = texts.join(&b' ');
        let Some(body) = body_of(&joined, 0) else { continue };
        // It ends in the same word, or its label ends in one of these.
        let mut words = 0;
        let mut length: usize = 0;
        for text in &texts {
            length = length.saturating_add(text.len()).saturating_add(1);
            words += 1;
            if length > body.start {
                break;
            }
        }
        let is_over = |text: &[u8]| find(text, b"-----END").is_some();
        let labelled = pieces.get(place - 1..place - 1 + words).unwrap_or_default();
        if labelled.iter().any(|piece| is_over(piece.text)) {
            continue;
        }
        place = place - 1 + words;
        while let Some(piece) = pieces.get(place).filter(|piece| !is_over(piece.text)) {
            marks.whole(piece);
            place += 1;
        }
        // What stands before the end in its word.
        if let Some(last) = pieces.get(place) {
            let end = find(last.text, b"-----END").unwrap_or(0);
            marks.put(last, 0..end);
        }
    }
}
