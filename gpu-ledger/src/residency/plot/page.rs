//! All pictures of a batch as one page for a browser: nothing outside it is asked for.
//!
//! A content security policy allows the two style sheets and the one script by their hashes, and nothing
//! else: no network, and no script that got in with a name. Without a script the pictures are the same.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::axis::Quantity;
use super::column::{COLUMNS, CURVE_WIDTH, Column, Series};
use super::fold::Curve;
use super::markup::Glyphs;
use super::paths::LEFT;
use super::{Picture, PlotError, ShowVoid, drawn, header, stack, style};
use crate::escape::escape_markup;
use crate::residency::verdict::DataVerdict;

const SCRIPT: &str = include_str!("assets/page.js");
const SHEET: &str = include_str!("assets/page.css");

/// What is under the pointer, for the page's script.
#[derive(Serialize)]
struct Values {
    columns: usize,
    left: i32,
    width: i32,
    length_ms: u64,
    warning: Option<&'static str>,
    series: Vec<SeriesValues>,
}

#[derive(Serialize)]
struct SeriesValues {
    name: String,
    unit: &'static str,
    per: i64,
    /// From which column on: the least and the greatest value, and whether one was missing.
    runs: Vec<(usize, Option<i64>, Option<i64>, bool)>,
}

/// The page. Its pictures are those of one batch.
pub fn render(pictures: &[Picture<'_>], show_void: ShowVoid) -> Result<String, PlotError> {
    let Some(first) = pictures.first() else { return Ok(frame("no iteration", "", "", "")) };
    let void = first.facts.verdict.data_verdict() == DataVerdict::Void;
    let mut figures = String::new();
    for picture in pictures {
        let prefix = format!("i{}-", picture.iteration.number);
        let svg = drawn(picture, show_void, Glyphs::Any, &prefix)?;
        // What has no element of its own but a number is reached by keyboard too.
        let svg = svg.replacen("<svg ", "<svg tabindex=\"0\" ", 1);
        let values = picture.curve.map(|curve| json(curve, void)).unwrap_or_default();
        let outcome = writeln!(
            figures,
            "<figure>\n{svg}<output aria-live=\"polite\">Point at the picture, or focus it and press the \
             arrow keys, to read values.</output>\n<script type=\"application/json\">{values}</script>\n\
             </figure>"
        );
        // Writing to a `String` cannot fail.
        debug_assert!(outcome.is_ok());
    }
    let title = header::titles(first).join(" ");
    let page = format!("{SHEET}{}", style::page_sheet(first.theme));
    Ok(frame(&title, &page, &style::sheet(first.theme, void), &figures))
}

fn frame(title: &str, page: &str, picture: &str, figures: &str) -> String {
    let title = escape_markup(title.as_bytes());
    let [page_hash, picture_hash, script_hash] = [page, picture, SCRIPT].map(hash);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         '{page_hash}' '{picture_hash}'; script-src '{script_hash}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{page}</style>\n</head>\n<body>\n<main>\n{figures}</main>\n<script>{SCRIPT}</script>\n\
         </body>\n</html>\n"
    )
}

/// A text as a content security policy names it.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

fn json(curve: &Curve, void: bool) -> String {
    let mut series = vec![
        values("device memory", Quantity::Memory, &curve.memory),
        values("utilization", Quantity::Percent, &curve.utilization.series),
        values("power", Quantity::Power, &curve.power.series),
        values("temperature", Quantity::Temperature, &curve.temperature.series),
        values("CPU", Quantity::Centipercent, &curve.cpu),
        values("age", Quantity::Time, &curve.age),
        values("age before a landing", Quantity::Time, &curve.age_sup),
        values("interval", Quantity::Time, &curve.interval),
    ];
    for index in stack::shown(&curve.processes) {
        if let Some(kept) = curve.processes.kept.get(index) {
            let label = crate::escape::escape(kept.who.label().as_bytes()).to_string();
            series.push(values(&label, Quantity::Memory, &kept.series));
        }
    }
    series.push(values("unattributed", Quantity::Memory, &curve.processes.unattributed));
    let values = Values {
        columns: COLUMNS,
        left: LEFT.as_hundredths() / 100,
        width: CURVE_WIDTH.as_hundredths() / 100,
        length_ms: curve.frame.length().0 / 1_000_000,
        warning: void.then_some("VOID: no number of this batch may be used"),
        series,
    };
    // A map of strings and numbers is always written. What could end its element is written as a reference.
    serde_json::to_string(&values).unwrap_or_default().replace('<', "\\u003c")
}

fn values(name: &str, quantity: Quantity, series: &Series) -> SeriesValues {
    let (unit, per) = quantity.unit(series.whole().map_or(0, |extent| extent.max));
    let told = |column: &Column| {
        (column.extent.map(|one| one.min), column.extent.map(|one| one.max), column.gap)
    };
    let mut runs: Vec<(usize, Option<i64>, Option<i64>, bool)> = Vec::new();
    for (at, column) in series.columns().iter().enumerate() {
        let (min, max, gap) = told(column);
        let is_same = |last: &(usize, Option<i64>, Option<i64>, bool)| {
            (last.1, last.2, last.3) == (min, max, gap)
        };
        if !runs.last().is_some_and(is_same) {
            runs.push((at, min, max, gap));
        }
    }
    SeriesValues { name: name.to_owned(), unit, per, runs }
}
