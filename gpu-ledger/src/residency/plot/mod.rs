//! Curves as pictures: SVG, PNG, PDF and a page for a browser.
//!
//! ```text
//! samples, points ─► CurveFold ─► Curve ─► render ─► SVG ─► png, pdf, page ─► write (names, bytes)
//! ```
//!
//! Purpose: what was read, when, and how old it was, drawn so that nobody takes it for more. Lines are
//! steps and break where a point is not available; nothing is smoothed. A void batch is drawn only where
//! that is asked for, and no crop of its picture looks like a valid one. May touch: nothing. May not: hide
//! a gap, a peak or an over-age moment, whatever the number of points; read a clock or a file.
//!
//! The same rows give the same bytes: places are integers, and nothing of the machine is asked.

mod axis;
mod column;
mod fold;
mod font;
mod footer;
mod header;
mod markup;
mod output;
pub mod page;
mod panels;
mod paths;
#[cfg(feature = "pictures")]
pub mod print;
mod processes;
mod px;
mod sheet;
mod stack;
mod style;

use std::fmt::Write as _;

use self::markup::{Glyphs, Markup};
use self::px::Px;
use self::sheet::Sheet;
use super::facts::BatchFacts;
use super::tally::Figures;
use super::verdict::{DataVerdict, Verdict, Void};

pub use self::column::COLUMNS;
pub use self::fold::{Curve, CurveFold, PHASES_MAX};
pub use self::output::{Format, write};
pub use self::processes::{NAMES_MAX, PROCESSES_MAX, Process, SHOWN_MAX};
pub(crate) use self::style::OKABE_ITO;
pub use self::style::Theme;

/// What a batch's manifest and its check say.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What it was recorded with.
    pub batch: BatchFacts,
    /// Both verdicts, over all iterations.
    pub verdict: Verdict,
    /// How many iterations there are.
    pub iterations: u32,
    /// The hash over the batch's files; `None`: they have none yet.
    pub sha256: Option<String>,
}

/// One iteration of it.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// Its number, from 1 on.
    pub number: u32,
    /// What the user calls it: names and values, as in `config`, `context`, `round`.
    pub labels: Vec<(String, String)>,
    /// T0 in words, on the wall clock; `None`: unknown.
    pub t0_wall: Option<String>,
    /// Its figures.
    pub figures: Figures,
    /// What it is void for itself.
    pub voids: Vec<Void>,
    /// How it ended, where a reader has to know.
    pub notes: Vec<String>,
}

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'batch> {
    /// Of the whole batch.
    pub facts: &'batch Facts,
    /// Of the iteration.
    pub iteration: &'batch Iteration,
    /// Its curve; `None`: no window ever began.
    pub curve: Option<&'batch Curve>,
    /// On which ground.
    pub theme: Theme,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The data are void, and nobody asked to see them all the same.
    #[error(
        "the data are void: no number of this batch may be used; --show-void draws it, marked as void"
    )]
    Void,
    /// It could not be turned into PNG or PDF.
    #[cfg(feature = "pictures")]
    #[error(transparent)]
    Print(#[from] print::PrintError),
}

/// Whether void data are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShowVoid {
    /// They are refused.
    No,
    /// They are drawn, and marked as void.
    Yes,
}

/// The picture as SVG, for a browser. All that is in it is text of this product's own, numbers, or escaped.
pub fn render(picture: &Picture<'_>, show_void: ShowVoid) -> Result<String, PlotError> {
    drawn(picture, show_void, Glyphs::Any, "")
}

/// The picture as SVG, with no character that the embedded font lacks: what PNG and PDF are made of.
pub fn render_for_print(picture: &Picture<'_>, show_void: ShowVoid) -> Result<String, PlotError> {
    let theme = if picture.theme == Theme::Auto { Theme::Light } else { picture.theme };
    drawn(&Picture { theme, ..*picture }, show_void, Glyphs::Embedded, "")
}

/// A picture's file: `NAME.EXTENSION`, and `NAME.void.EXTENSION` of void data.
#[must_use]
pub fn file_name(name: &str, extension: &str, verdict: &Verdict) -> String {
    match verdict.data_verdict() {
        DataVerdict::Valid => format!("{name}.{extension}"),
        DataVerdict::Void => format!("{name}.void.{extension}"),
    }
}

fn drawn(
    picture: &Picture<'_>,
    show_void: ShowVoid,
    glyphs: Glyphs,
    prefix: &str,
) -> Result<String, PlotError> {
    let verdict = &picture.facts.verdict;
    let void = verdict.data_verdict() == DataVerdict::Void;
    if void && show_void == ShowVoid::No {
        return Err(PlotError::Void);
    }
    let mut sheet = Sheet::new(Markup::new(glyphs, prefix.to_owned()), void);
    header::draw(&mut sheet, picture);
    if let Some(curve) = picture.curve {
        panels::draw(&mut sheet, picture.facts, curve);
    } else {
        sheet.line("p loud", "No sample landed: there is no curve.");
    }
    footer::draw(&mut sheet, picture);
    Ok(assembled(sheet, picture, glyphs, prefix))
}

/// The canvas, and on it what was drawn.
fn assembled(sheet: Sheet, picture: &Picture<'_>, glyphs: Glyphs, prefix: &str) -> String {
    let (void, height) = (sheet.void, sheet.bottom());
    let mut markup = Markup::new(glyphs, prefix.to_owned());
    let (title, desc) = (markup.id("title"), markup.id("desc"));
    let width = sheet::WIDTH;
    markup.raw(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{title} {desc}\">\n"
    ));
    let safe = markup.escaped(&header::titles(picture).join(" "));
    markup.raw(format_args!("<title id=\"{title}\">{safe}</title>\n"));
    let safe = markup.escaped(&header::description(picture));
    markup.raw(format_args!("<desc id=\"{desc}\">{safe}</desc>\n"));
    metadata(&mut markup, picture);
    markup.raw(format_args!("<style>{}</style>\n<defs>\n", style::sheet(picture.theme, void)));
    style::patterns(&mut markup, void);
    let mark = watermark(picture);
    if let Some(mark) = mark {
        let id = markup.id("wm");
        markup.raw(format_args!(
            "<text id=\"{id}\" class=\"wm\" transform=\"rotate(-14)\">{mark}</text>\n"
        ));
    }
    markup.raw(format_args!("</defs>\n"));
    let canvas = markup::Place { x: Px::of(0), y: Px::of(0), width, height };
    markup.rect("ground", canvas);
    if void {
        let id = markup.id(style::HATCH);
        markup.raw(format_args!(
            "<rect fill=\"url(#{id})\" width=\"{width}\" height=\"{height}\"/>\n"
        ));
    }
    let [behind, above, words] = sheet.into_layers();
    markup.raw(format_args!("{behind}{above}"));
    if let Some(mark) = mark {
        watermarks(&mut markup, mark, height);
    }
    markup.raw(format_args!("{words}</svg>\n"));
    markup.into_text()
}

/// What stands across a picture that may not be used.
fn watermark(picture: &Picture<'_>) -> Option<&'static str> {
    let verdict = &picture.facts.verdict;
    match (verdict.data.is_empty(), verdict.backend.is_empty()) {
        (true, true) => None,
        (false, true) => Some("VOID"),
        (true, false) => Some("BACKEND FAIL"),
        (false, false) => Some("VOID · BACKEND FAIL"),
    }
}

/// From one row of watermarks to the next: no crop that shows a panel is without one.
const WATERMARK_ROWS: Px = Px::of(84);

fn watermarks(markup: &mut Markup, mark: &str, height: Px) {
    let across = font::width(mark, sheet::WATERMARK) + Px::of(70);
    let id = markup.id("wm");
    let mut uses = String::new();
    let (mut y, mut is_shifted) = (Px::of(44), false);
    while y < height + WATERMARK_ROWS {
        // Every second row stands between those of the first.
        let mut x = if is_shifted { Px::of(20) - across / 2 } else { Px::of(20) };
        while x < sheet::WIDTH {
            let outcome = write!(uses, "<use href=\"#{id}\" x=\"{x}\" y=\"{y}\"/>");
            debug_assert!(outcome.is_ok());
            x = x + across;
        }
        y = y + WATERMARK_ROWS;
        is_shifted = !is_shifted;
    }
    markup.raw(format_args!("<g class=\"marks\" aria-hidden=\"true\">{uses}</g>\n"));
}

/// Both verdicts, for programs.
fn metadata(markup: &mut Markup, picture: &Picture<'_>) {
    let facts = picture.facts;
    let backend = facts.verdict.backend.iter().map(ToString::to_string);
    let data = facts.verdict.data.iter().map(|void| format!("{}:{}", void.reason, void.count));
    let reasons = backend.chain(data).collect::<Vec<_>>().join(" ");
    let (batch, sha256) = (
        markup.escaped(&facts.batch.batch_id),
        markup.escaped(facts.sha256.as_deref().unwrap_or("")),
    );
    markup.raw(format_args!(
        "<metadata><batch xmlns=\"urn:gpu-ledger:residency\" batch_id=\"{batch}\" iteration=\"{}\" \
         data_verdict=\"{}\" backend_verdict=\"{}\" reasons=\"{reasons}\" harness_verified=\"{}\" \
         sha256=\"{sha256}\"/></metadata>\n",
        picture.iteration.number,
        facts.verdict.data_verdict().as_str(),
        facts.verdict.backend_verdict().as_str(),
        facts.batch.harness_verified,
    ));
}

#[cfg(test)]
mod tests;
