//! Columns of text for people.

use std::fmt;

use unicode_width::UnicodeWidthStr as _;

use crate::unit::Ms;

/// The value, or that nobody knows it.
#[must_use]
pub fn or_unknown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |known| known.to_string())
}

/// `part` of `whole` in percent, one decimal, rounded, in integers.
#[must_use]
pub fn percent(part: Ms, whole: Ms) -> String {
    match part.0.saturating_mul(1_000).saturating_add(whole.0 / 2).checked_div(whole.0) {
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
        None => "- %".to_owned(),
    }
}

/// `text`, cut or filled to exactly `width` columns.
#[must_use]
pub fn cell(text: &str, width: usize) -> String {
    let mut cell = clip(text, width);
    let fill = width.saturating_sub(cell.width());
    cell.extend(std::iter::repeat_n(' ', fill));
    cell
}

/// `text`, cut to at most `width` columns; `…` marks the cut.
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
    clipped.push('…');
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
}
