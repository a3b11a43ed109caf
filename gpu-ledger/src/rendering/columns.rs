//! Columns of text for people.

use std::fmt;

use unicode_width::UnicodeWidthStr as _;

use crate::unit::Ms;

/// The value, or that nobody knows it.
#[must_use]
pub fn or_unknown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |known| known.to_string())
}

/// `part` of `whole` in percent, one decimal, rounded, in integers. Something is never 0.0 %, and less than
/// all never 100.0 %.
#[must_use]
pub fn percent(part: Ms, whole: Ms) -> String {
    let (parts, wholes) = (u128::from(part.0), u128::from(whole.0));
    match parts.saturating_mul(1_000).saturating_add(wholes / 2).checked_div(wholes) {
        Some(0) if part > Ms::ZERO => "<0.1 %".to_owned(),
        Some(1_000) if part < whole => ">99.9 %".to_owned(),
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
        None => "- %".to_owned(),
    }
}

/// To the millisecond however long, `h:mm:ss.mmm`, where `whole` is shown so: what adds up to a whole can
/// be added up on the page. [`Ms`] alone cuts the seconds from a minute on.
#[must_use]
pub fn exact(ms: Ms, whole: Ms) -> String {
    let (seconds, milli) = (ms.0 / 1_000, ms.0 % 1_000);
    if whole.0 < 60_000 {
        return ms.to_string();
    }
    format!("{}:{:02}:{:02}.{milli:03}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// `text`, cut or filled to exactly `width` columns.
#[must_use]
pub fn cell(text: &str, width: usize) -> String {
    let mut cell = clip(text, width);
    let fill = width.saturating_sub(cell.width());
    cell.extend(std::iter::repeat_n(' ', fill));
    cell
}

/// What marks a text that was cut for a column.
pub const CUT: char = '…';

/// `text`, cut to at most `width` columns; [`CUT`] marks the cut.
#[must_use]
pub fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut clipped = String::new();
    for c in text.chars() {
        if clipped.width().saturating_add(c.to_string().width()) >= width {
            break;
        }
        clipped.push(c);
    }
    clipped.push(CUT);
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_as_wide_as_it_says() {
        for text in ["", "ollama", "語語語語語語語語語", "a-very-long-program-name-indeed"]
        {
            assert_eq!(cell(text, 8).width(), 8, "{text}");
        }
        assert_eq!(clip("llama-server", 8), "llama-s…");
    }

    #[test]
    fn a_percentage_of_nothing_is_not_zero() {
        assert_eq!(percent(Ms(0), Ms(0)), "- %");
        assert_eq!(percent(Ms(1), Ms(3)), "33.3 %");
    }

    #[test]
    fn something_is_never_nothing_percent_and_less_than_all_never_all() {
        let day = Ms(86_400_000);
        assert_eq!(percent(Ms(0), day), "0.0 %");
        assert_eq!(percent(Ms(4_000), day), "<0.1 %");
        assert_eq!(percent(Ms(43_200), day), "0.1 %");
        assert_eq!(percent(Ms(86_399_999), day), ">99.9 %");
        assert_eq!(percent(Ms(86_350_000), day), "99.9 %");
        assert_eq!(percent(day, day), "100.0 %");
        assert_eq!(percent(Ms(u64::MAX - 1), Ms(u64::MAX)), ">99.9 %");
    }

    #[test]
    fn what_adds_up_is_shown_so_that_it_does() {
        let whole = Ms(43_592_283);
        assert_eq!(exact(Ms(2_500), whole), "0:00:02.500");
        assert_eq!(exact(whole, whole), "12:06:32.283");
        assert_eq!(exact(Ms(2_500), Ms(59_999)), "2.500 s");
    }
}
