//! The canvas while it is filled, from top to bottom.

use super::font;
use super::markup::{Anchor, Markup};
use super::paths::LEFT;
use super::px::Px;

/// The width of every picture. It scales; its texts are sized for 800 px and more.
pub(super) const WIDTH: Px = Px::of(1_000);
/// The right edge of the curves.
pub(super) const RIGHT: Px = Px::of(972);
/// Where texts begin that are no part of a panel.
pub(super) const MARGIN: Px = Px::of(16);

/// Sizes of the classes of text (`style.rs`).
pub(super) const TITLE: Px = Px::of(20);
/// Of a panel's title.
pub(super) const PANEL: Px = Px::of(15);
/// Of all other text.
pub(super) const SMALL: Px = Px::of(13);

/// Of what stands across a picture that may not be used.
pub(super) const WATERMARK: Px = Px::of(30);

/// A picture as it is filled.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) markup: Markup,
    /// Above everything, also above watermarks: verdicts and figures, which a picture that may not be used
    /// has to say legibly.
    words: Markup,
    /// Behind everything: what is known only when all panels are placed.
    pub(super) behind: String,
    pub(super) void: bool,
    y: Px,
}

impl Sheet {
    /// An empty one.
    pub(super) fn new(markup: Markup, void: bool) -> Self {
        let words = markup.sibling();
        Self { markup, words, behind: String::new(), void, y: Px::of(10) }
    }

    /// How far it is filled.
    pub(super) const fn y(&self) -> Px {
        self.y
    }

    /// Takes so much of it.
    pub(super) fn take(&mut self, height: Px) -> Px {
        let top = self.y;
        self.y = self.y + height;
        top
    }

    /// The bottom edge, with a margin.
    pub(super) fn bottom(&self) -> Px {
        self.y + Px::of(12)
    }

    /// A text over the whole width, in as many lines as it needs.
    pub(super) fn line(&mut self, class: &str, text: &str) {
        self.joined(class, " ", text.split(' '));
    }

    /// Facts over the whole width, none of them broken between two lines.
    pub(super) fn facts(&mut self, class: &str, facts: &[String]) {
        self.joined(class, " · ", facts.iter().map(String::as_str));
    }

    fn joined<'text>(
        &mut self,
        class: &str,
        between: &str,
        parts: impl Iterator<Item = &'text str>,
    ) {
        let size = size_of(class);
        for line in font::wrap(parts, between, size, WIDTH - MARGIN * 2) {
            let top = self.take(size.part(135, 100));
            self.words.text(class, Anchor::Start, MARGIN, top + size, &line);
        }
    }

    /// A panel's title, and to its right what is to be said of it, cut to the room that is left.
    pub(super) fn panel_title(&mut self, title: &str, remark: &str) {
        let top = self.take(Px::of(30));
        let baseline = top + Px::of(23);
        self.markup.text("p", Anchor::Start, LEFT, baseline, title);
        let room = RIGHT - LEFT - font::width(title, PANEL) - Px::of(20);
        if let Some(remark) = font::fit(remark, SMALL, room) {
            self.markup.text("s", Anchor::End, RIGHT, baseline, &remark);
        }
    }

    /// What lies behind, what lies above it, and the words above everything.
    pub(super) fn into_layers(self) -> [String; 3] {
        [self.behind, self.markup.into_text(), self.words.into_text()]
    }
}

fn size_of(class: &str) -> Px {
    match class.split(' ').next() {
        Some("h") => TITLE,
        Some("p") => PANEL,
        _ => SMALL,
    }
}
