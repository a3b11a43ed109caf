//! A lane for each GPU: who held it when.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::tz::TimeZone;

use super::columns::{COLUMNS, Column, Part, columns};
use super::look::{Look, Looks, swatch};
use super::markup::{Markup, safe};
use crate::bill::period::{moment_of, show};
use crate::bill::report::{Gpu, Report};
use crate::rendering::{exact, percent};
use crate::unit::{Ms, Span};

/// How high a lane is.
const HEIGHT: u64 = 64;
/// Where it begins, below its rim.
const TOP: u64 = 2;
/// Marks below it, at most.
const TICKS_MAX: u64 = 10;
/// What may lie between two of them, in ms: from a second to a year.
const STEPS: [u64; 21] = [
    1_000,
    5_000,
    15_000,
    60_000,
    300_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    30 * DAY,
    90 * DAY,
    365 * DAY,
    3_650 * DAY,
    36_500 * DAY,
];
const DAY: u64 = 86_400_000;

pub(super) fn section(page: &mut Markup, report: &Report, looks: &Looks) {
    page.raw("<section id=\"lanes\" aria-labelledby=\"lanes-h\">\n<h2 id=\"lanes-h\">Who held each GPU, and when</h2>\n");
    if report.gpus.is_empty() {
        page.raw("<p>UNKNOWN: no GPU is on this bill.</p>\n");
    }
    let drawn: Vec<Vec<Column>> =
        report.lanes.iter().map(|lane| columns(lane, report.period.span, looks)).collect();
    legend(page, looks, &drawn);
    let column = Ms(report.period.length_ms.0.checked_div(COLUMNS).unwrap_or(0));
    page.line(format_args!(
        "<p class=\"note\">Time runs from left to right; a column of a picture is {column}. What is shorter is drawn as its \
         share of the column's height, all spans of an account in it together, so that an area is always time.</p>"
    ));
    for ((gpu, columns), number) in report.gpus.iter().zip(&drawn).zip(0_usize..) {
        lane(page, report, looks, (gpu, columns), number);
    }
    page.raw("</section>\n");
}

/// What a GPU is called, safe as markup.
pub(super) fn title(gpu: &Gpu) -> String {
    let name = safe(gpu.gpu_name.as_deref().unwrap_or("of unknown model"));
    match gpu.gpu_index {
        Some(index) => format!("GPU {index} {name}"),
        None => format!("GPU {name}"),
    }
}

fn legend(page: &mut Markup, looks: &Looks, drawn: &[Vec<Column>]) {
    let shown: std::collections::BTreeSet<Look> = drawn
        .iter()
        .flatten()
        .flat_map(Column::keys)
        .filter_map(|part| match part {
            Part::Alone(look) | Part::Shared(look) | Part::Unseen(look) => Some(*look),
            Part::Free | Part::Uncovered => None,
        })
        .collect();
    page.raw("<ul class=\"legend\" aria-label=\"What the pictures show\">\n");
    for look in shown {
        page.line(format_args!("<li>{}{}</li>", swatch(Some(look), None), looks.name(look)));
    }
    let hatched = "shared: several processes held it at once";
    for (over, words) in [
        (Some("overlap"), hatched),
        (None, "free: seen, and held by nobody"),
        (Some("unseen"), "uncovered: not seen"),
    ] {
        page.line(format_args!("<li>{}{words}</li>", swatch(None, over)));
    }
    page.raw("</ul>\n");
}

fn lane(
    page: &mut Markup,
    report: &Report,
    looks: &Looks,
    (gpu, columns): (&Gpu, &[Column]),
    number: usize,
) {
    let whole = gpu.period_ms;
    page.line(format_args!(
        "<div class=\"lane\">\n<h3 id=\"gpu{number}\">{} <span class=\"uuid\">{}</span></h3>\n<dl class=\"parts\">",
        title(gpu),
        safe(&gpu.gpu_uuid.0)
    ));
    for (word, ms) in [
        ("alone", gpu.alone_ms),
        ("shared", gpu.shared_ms),
        ("free", gpu.free_ms),
        ("uncovered", gpu.uncovered_ms),
    ] {
        page.line(format_args!(
            "<div><dt>{word}</dt><dd>{} <span class=\"pct\">{}</span></dd></div>",
            exact(ms, whole),
            percent(ms, whole)
        ));
    }
    page.line(format_args!(
        "</dl>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"gpu{number}\">\
         <svg class=\"picture\" viewBox=\"-1 0 962 92\" role=\"img\" aria-label=\"{}: alone {}, shared {}, free {}, uncovered \
         {} of {}\">",
        title(gpu),
        gpu.alone_ms,
        gpu.shared_ms,
        gpu.free_ms,
        gpu.uncovered_ms,
        whole
    ));
    page.line(format_args!(
        "<rect class=\"free\" x=\"0\" y=\"{TOP}\" width=\"{COLUMNS}\" height=\"{HEIGHT}\"/>"
    ));
    for (part, path) in paths(columns) {
        draw(page, looks, part, &path);
    }
    page.line(format_args!(
        "<rect class=\"rim\" x=\"0\" y=\"{TOP}\" width=\"{COLUMNS}\" height=\"{HEIGHT}\"/>"
    ));
    axis(page, report.period.span, &report.period.time_zone);
    page.raw("</svg></div>\n</div>\n");
}

fn draw(page: &mut Markup, looks: &Looks, part: Part, path: &str) {
    let (look, over, words) = match part {
        Part::Alone(look) => (Some(look), None, "alone"),
        Part::Shared(look) => (Some(look), Some("overlap"), "shared"),
        Part::Unseen(look) => (Some(look), Some("unseen"), "nobody saw who else held it"),
        Part::Free => return,
        Part::Uncovered => (None, Some("unseen"), "uncovered: not seen"),
    };
    let name = look.map(|look| format!("{}: ", looks.name(look))).unwrap_or_default();
    let class = look.map_or_else(|| "blind".to_owned(), Look::class);
    page.line(format_args!(
        "<g><title>{name}{words}</title><path class=\"{class}\" d=\"{path}\"/>"
    ));
    for id in look.and_then(Look::sign).as_deref().into_iter().chain(over) {
        page.line(format_args!("<path class=\"over\" fill=\"url(#{id})\" d=\"{path}\"/>"));
    }
    page.raw("</g>\n");
}

/// The parts of a column, each with where it begins and how high it is.
type Stack = Vec<(Part, u64, u64)>;

/// Of each part its areas: from below, in the order of the parts; equal neighbours are one.
fn paths(columns: &[Column]) -> BTreeMap<Part, String> {
    let stacks = columns.iter().map(stack);
    let mut runs: Vec<(u64, u64, Stack)> = Vec::new();
    for (x, stack) in (0_u64..).zip(stacks) {
        match runs.last_mut() {
            Some((_, width, last)) if *last == stack => *width = width.saturating_add(1),
            _ => runs.push((x, 1, stack)),
        }
    }
    let mut paths: BTreeMap<Part, String> = BTreeMap::new();
    for (x, width, stack) in runs {
        for (part, y, height) in stack {
            let path = paths.entry(part).or_default();
            // Writing to a String cannot fail.
            let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
        }
    }
    paths
}

/// From top to bottom, what is free first and what is not seen before it: the part, where it begins, and how high it is.
/// Whatever there is of a part is seen: it is at least one high.
fn stack(column: &Column) -> Stack {
    let whole = column.values().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let height = |part: u64| {
        let scaled = u128::from(part).saturating_mul(HEIGHT.into()).checked_div(whole.into());
        u64::try_from(scaled.unwrap_or(0)).unwrap_or(0).max(u64::from(part > 0))
    };
    let mut bottom = TOP.saturating_add(HEIGHT);
    let mut stack = Vec::new();
    let last = column.keys().rfind(|part| **part != Part::Free);
    let is_full = !column.contains_key(&Part::Free);
    for (part, share) in column.iter().filter(|(part, _)| **part != Part::Free) {
        let room = bottom.saturating_sub(TOP);
        // What rounding left over is the last one's, where nothing is free.
        let high = if is_full && last == Some(part) { room } else { height(*share).min(room) };
        bottom = bottom.saturating_sub(high);
        stack.push((*part, bottom, high));
    }
    stack
}

/// Marks of time below the lane, in the zone of the bill.
fn axis(page: &mut Markup, period: Span, zone: &TimeZone) {
    let length = period.length().0;
    let fits = |step: &&u64| length.checked_div(**step).unwrap_or(0) <= TICKS_MAX;
    let step = STEPS.iter().find(fits).copied().unwrap_or(36_500 * DAY);
    let offset = moment_of(period.from_ms()).to_zoned_datetime(zone.clone()).offset().seconds();
    let local = period.from_ms().saturating_add_signed(i64::from(offset).saturating_mul(1_000));
    let first = local.checked_next_multiple_of(step).unwrap_or(local).saturating_sub(local);
    let mut since = first;
    while since <= length {
        let x = u128::from(since).saturating_mul(COLUMNS.into()).checked_div(length.into());
        let x = x.unwrap_or(0);
        let (anchor, at) = match x {
            0..24 => ("start", x),
            937.. => ("end", x),
            _ => ("middle", x),
        };
        page.line(format_args!(
            "<path class=\"tick\" d=\"M{x} 66v5\"/><text class=\"t\" x=\"{at}\" y=\"85\" text-anchor=\"{anchor}\">{}</text>",
            label(period.from_ms().saturating_add(since), step, zone)
        ));
        since = since.saturating_add(step);
    }
}

/// `14:00`, or the day where a day begins, or is all that is told.
fn label(ms: u64, step: u64, zone: &TimeZone) -> String {
    let text = show(moment_of(ms), zone);
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default().to_owned();
    let time = part(11, 16);
    match step {
        step if step >= 30 * DAY => part(0, 10),
        DAY.. => part(5, 10),
        _ if time == "00:00" => part(5, 10),
        60_000.. => time,
        _ => part(11, 19),
    }
}
