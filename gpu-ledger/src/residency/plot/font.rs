//! How wide a text is, and what the embedded font can show.
//!
//! A picture is laid out for Noto Sans, which PNG and PDF are drawn with (`assets/`). A browser that has
//! not got it takes another, up to an eighth wider; whatever must not overlap is given that much more.

use super::px::Px;
use crate::escape::{escape, escape_bounded, unescape};

/// The advance of the characters from U+0020 to U+007E in thousandths of the font's size (the table
/// `hmtx` of Noto Sans Regular 2.004; a test compares).
const ADVANCES: [i32; 95] = [
    260, 269, 408, 646, 572, 831, 732, 225, 300, 300, 551, 572, 268, 322, 268, 372, 572, 572, 572,
    572, 572, 572, 572, 572, 572, 572, 268, 268, 572, 572, 572, 434, 899, 639, 650, 632, 730, 556,
    519, 728, 741, 339, 273, 619, 524, 907, 760, 781, 605, 781, 622, 549, 556, 731, 600, 930, 586,
    566, 572, 329, 372, 329, 572, 444, 281, 561, 615, 480, 615, 564, 344, 615, 618, 258, 258, 534,
    258, 935, 618, 605, 615, 615, 413, 479, 361, 618, 508, 786, 529, 510, 470, 380, 551, 380, 572,
];
/// The widest one that the embedded font has beside those.
const ADVANCE_MAX: i32 = 1_177;
/// How much wider another font may be, in percent.
const SLACK_PERCENT: i32 = 112;

/// What the embedded font shows (its table `cmap`; a test compares).
const COVERED: [(char, char); 21] = [
    ('\u{20}', '\u{7e}'),
    ('\u{a0}', '\u{17f}'),
    ('\u{370}', '\u{377}'),
    ('\u{37a}', '\u{37f}'),
    ('\u{384}', '\u{38a}'),
    ('\u{38c}', '\u{38c}'),
    ('\u{38e}', '\u{3a1}'),
    ('\u{3a3}', '\u{3e1}'),
    ('\u{3f0}', '\u{45f}'),
    ('\u{2010}', '\u{2015}'),
    ('\u{2018}', '\u{201e}'),
    ('\u{2020}', '\u{2022}'),
    ('\u{2026}', '\u{2026}'),
    ('\u{2030}', '\u{2030}'),
    ('\u{2032}', '\u{2033}'),
    ('\u{2039}', '\u{203a}'),
    ('\u{2044}', '\u{2044}'),
    ('\u{20ac}', '\u{20ac}'),
    ('\u{2116}', '\u{2116}'),
    ('\u{2122}', '\u{2122}'),
    ('\u{fffd}', '\u{fffd}'),
];

/// Whether the embedded font has the character.
pub(super) fn covers(character: char) -> bool {
    COVERED.iter().any(|(from, to)| (*from..=*to).contains(&character))
}

/// How wide a text is at most, as it is printed: escaped, and in whichever font.
pub(super) fn width(text: &str, size: Px) -> Px {
    let thousandths = escape(text.as_bytes()).to_string().chars().fold(0_i32, |sum, character| {
        let index = u32::from(character).checked_sub(0x20).and_then(|at| usize::try_from(at).ok());
        let advance = index.and_then(|at| ADVANCES.get(at).copied()).unwrap_or(ADVANCE_MAX);
        sum.saturating_add(advance)
    });
    let slack = i128::from(thousandths).saturating_mul(i128::from(SLACK_PERCENT));
    size.part(slack, 100_000)
}

/// The text in no more than `room`; what is cut ends in `…`. `None`: not even three characters fit.
pub(super) fn fit(text: &str, size: Px, room: Px) -> Option<String> {
    if width(text, size) <= room {
        return Some(text.to_owned());
    }
    // A sign is no narrower than a fifth of the size: no more of them can fit.
    let bound = room.as_hundredths().checked_mul(5)?.checked_div(size.as_hundredths())?;
    let mut chars = usize::try_from(bound).ok()?.min(text.chars().count().saturating_mul(4));
    while chars >= 3 {
        let cut = bounded(text, chars);
        if width(&cut, size) <= room {
            return Some(cut);
        }
        chars = chars.saturating_sub(1);
    }
    None
}

/// The text, of which no more than `chars_max` characters are printed.
pub(super) fn bounded(text: &str, chars_max: usize) -> String {
    let shown = escape_bounded(text.as_bytes(), chars_max);
    String::from_utf8_lossy(&unescape(&shown)).into_owned()
}

/// Parts in lines of no more than `room`, joined by what stands between them. A part that is wider is cut.
pub(super) fn wrap<'text>(
    parts: impl Iterator<Item = &'text str>,
    between: &str,
    size: Px,
    room: Px,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let part = fit(part, size, room).unwrap_or_default();
        if let Some(line) = lines.last_mut()
            && width(line, size) + width(between, size) + width(&part, size) <= room
        {
            line.push_str(between);
            line.push_str(&part);
        } else {
            lines.push(part);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Px, bounded, covers, fit, width, wrap};

    #[test]
    fn a_text_is_cut_to_its_room_and_says_so() {
        let size = Px::of(10);
        // 930 thousandths each, and an eighth for another font.
        assert_eq!(width("WW", size), Px::hundredths(2_083));
        assert_eq!(fit("WW", size, Px::of(21)).as_deref(), Some("WW"));
        assert_eq!(fit("WWWWWWWW", size, Px::of(45)).as_deref(), Some("WWW…"));
        assert_eq!(fit("WWWWWWWW", size, Px::of(20)), None);
        assert_eq!(bounded("a\u{1b}bc", 6), "a\u{1b}…");
    }

    #[test]
    fn lines_are_broken_at_spaces_and_hold_their_room() {
        let (size, room) = (Px::of(10), Px::of(60));
        let lines = wrap("one two three aaaaaaaaaaaaaaaaaaaaaaaaaaa".split(' '), " ", size, room);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| width(line, size) <= room), "{lines:?}");
        assert!(lines[2].ends_with('…'));
    }

    #[test]
    fn what_no_machine_need_have_a_font_for_is_known() {
        assert!("aß€…Ωж".chars().all(covers));
        assert!(!"模🦙א".chars().any(covers));
    }
}
