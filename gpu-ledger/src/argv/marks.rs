//! Which bytes of which words go.

use std::ops::Range;

use super::REDACTED;

/// A word, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// In which word.
    pub(super) word: usize,
    /// Where in it.
    pub(super) start: usize,
    /// Its bytes.
    pub(super) text: &'a [u8],
    /// Whether the capture ended inside it.
    pub(super) is_cut: bool,
}

impl<'a> Piece<'a> {
    /// All words, whole.
    pub(super) fn all(words: &[&'a [u8]], is_cut: bool) -> Vec<Self> {
        let last = words.len().saturating_sub(1);
        let piece = |(word, text): (usize, &&'a [u8])| Piece {
            word,
            start: 0,
            text,
            is_cut: is_cut && word == last,
        };
        words.iter().enumerate().map(piece).collect()
    }

    /// A part of it.
    pub(super) fn part(&self, range: &Range<usize>) -> Self {
        let text = self.text.get(range.clone()).unwrap_or_default();
        let is_cut = self.is_cut && range.end >= self.text.len();
        Piece { word: self.word, start: self.start.saturating_add(range.start), text, is_cut }
    }
}

/// Byte ranges to be replaced, by word.
#[derive(Debug)]
pub(super) struct Marks(Vec<Vec<Range<usize>>>);

impl Marks {
    pub(super) fn of(words: &[&[u8]]) -> Self {
        Self(vec![Vec::new(); words.len()])
    }

    /// A range of a piece goes.
    pub(super) fn put(&mut self, piece: &Piece<'_>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if let Some(ranges) = self.0.get_mut(piece.word) {
            let at = |place: usize| piece.start.saturating_add(place);
            ranges.push(at(range.start)..at(range.end));
        }
    }

    /// What goes of a word.
    pub(super) fn of_word(&self, word: usize) -> &[Range<usize>] {
        self.0.get(word).map(Vec::as_slice).unwrap_or_default()
    }

    /// All of a piece goes.
    pub(super) fn whole(&mut self, piece: &Piece<'_>) {
        self.put(piece, 0..piece.text.len());
    }

    /// The words that change.
    pub(super) fn apply(self, words: &[&[u8]]) -> Vec<(usize, Vec<u8>)> {
        let mut changed = Vec::new();
        for (place, (ranges, word)) in self.0.into_iter().zip(words).enumerate() {
            if ranges.is_empty() {
                continue;
            }
            let new = replaced(word, ranges);
            if new != **word {
                changed.push((place, new));
            }
        }
        changed
    }
}

fn replaced(word: &[u8], mut ranges: Vec<Range<usize>>) -> Vec<u8> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut new = Vec::with_capacity(word.len());
    let mut done = 0;
    let mut ranges = ranges.into_iter().peekable();
    while let Some(mut range) = ranges.next() {
        // What touches is one secret: found in two ways, or in two parts.
        while let Some(next) = ranges.next_if(|next| next.start <= range.end) {
            range.end = range.end.max(next.end);
        }
        new.extend_from_slice(word.get(done..range.start).unwrap_or_default());
        new.extend_from_slice(REDACTED);
        done = range.end;
    }
    new.extend_from_slice(word.get(done..).unwrap_or_default());
    new
}
