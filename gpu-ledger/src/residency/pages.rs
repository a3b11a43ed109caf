//! Pages of text for people, 80 columns wide.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How wide a page is.
pub const WIDTH: usize = 80;

/// A page that is written line by line; no line of it is wider than [`WIDTH`].
#[derive(Clone, Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// A line as it is; what is too long goes on in the next, as far in as it began.
    pub fn line(&mut self, line: &str) {
        let bare = line.trim_start_matches(' ');
        let indent = line.len().saturating_sub(bare.len());
        self.wrapped(indent, indent, bare);
    }

    /// A blank line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// `  label      text`, the text wrapped beside its label.
    pub fn fact(&mut self, label: &str, text: &str) {
        const INDENT: usize = 2;
        const LABEL: usize = 12;
        let label = crate::rendering::cell(label, LABEL);
        self.wrapped(INDENT, INDENT.saturating_add(LABEL), &format!("{label}{text}"));
    }

    /// Words, the first line so far in, all others `rest`.
    pub fn wrapped(&mut self, first: usize, rest: usize, words: &str) {
        let mut line = " ".repeat(first);
        let mut is_empty = true;
        for word in words.split_inclusive(' ') {
            let fits = line.width().saturating_add(word.trim_end().width()) <= WIDTH;
            if !fits && !is_empty {
                self.end(&line);
                line = " ".repeat(rest);
                is_empty = true;
            }
            for c in word.chars() {
                // A word that is wider than the page is cut.
                let room = WIDTH.saturating_sub(line.width());
                if c != ' ' && c.width().unwrap_or(0) > room {
                    self.end(&line);
                    line = " ".repeat(rest);
                }
                line.push(c);
            }
            is_empty &= word.trim().is_empty();
        }
        self.end(&line);
    }

    fn end(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// All of it.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, WIDTH};
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn no_line_is_wider_than_the_page_and_nothing_is_lost() {
        let mut page = Page::default();
        let word = "語".repeat(100);
        page.fact("command", &format!("python3 {word} {}", "serve ".repeat(40)));
        page.line(&format!("    {}", "x".repeat(200)));
        let text = page.finish();
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        assert_eq!(text.matches('語').count(), 100);
        assert_eq!(text.matches('x').count(), 200);
        assert_eq!(text.matches("serve").count(), 40);
        assert!(text.starts_with("  command     python3\n              語語"), "{text}");
    }

    #[test]
    fn columns_stay_where_they_are() {
        let mut page = Page::default();
        page.line("  a    b     c");
        assert_eq!(page.finish(), "  a    b     c\n");
    }
}
