//! Paths over columns: steps, bands, and where something is missing.

use std::fmt::Write as _;

use super::axis::Scale;
use super::column::{COLUMN_WIDTH, Column, Series, left, runs};
use super::px::Px;

/// The left edge of the curves on the canvas.
pub(super) const LEFT: Px = Px::of(72);
/// What is missing is drawn no narrower than this, so that one column of 1,800 is seen.
const SPAN_MIN: Px = Px::of(3);

fn x(column: usize) -> Px {
    LEFT + left(column)
}

fn push(path: &mut String, command: char, number: Px) {
    let outcome = write!(path, "{command}{number}");
    // Writing to a `String` cannot fail.
    debug_assert!(outcome.is_ok());
}

fn start(path: &mut String, x: Px, y: Px) {
    let outcome = write!(path, "M{x} {y}");
    debug_assert!(outcome.is_ok());
}

/// Steps from each value to the next one; where a value is missing the line is broken.
///
/// In a column with several values it runs over all of their range: from the first to the least, to the
/// greatest, to the last.
pub(super) fn steps(series: &Series, scale: &Scale) -> String {
    let mut path = String::new();
    let mut pen: Option<Px> = None;
    // Where a horizontal stroke is owed to: strokes at one height are one.
    let mut owed: Option<Px> = None;
    let pay = |path: &mut String, owed: &mut Option<Px>| {
        if let Some(to) = owed.take() {
            push(path, 'H', to);
        }
    };
    for (at, column) in series.columns().iter().enumerate() {
        let Some(extent) = column.extent else {
            pay(&mut path, &mut owed);
            pen = None;
            continue;
        };
        let heights =
            [extent.first, extent.min, extent.max, extent.last].map(|value| scale.y(value));
        let [first, ..] = heights;
        if pen.is_none() {
            start(&mut path, x(at), first);
            pen = Some(first);
        }
        for height in heights {
            if pen != Some(height) {
                pay(&mut path, &mut owed);
                push(&mut path, 'V', height);
                pen = Some(height);
            }
        }
        owed = Some(x(at) + COLUMN_WIDTH);
        if column.gap {
            // Half a column of ink, so that a lone value is seen too, and then a break.
            owed = Some(x(at) + COLUMN_WIDTH / 2);
            pay(&mut path, &mut owed);
            pen = None;
        }
    }
    pay(&mut path, &mut owed);
    path
}

/// The area between two heights in each column; nothing where there is none.
pub(super) fn area(columns: &[Option<(i64, i64)>], scale: &Scale) -> String {
    let mut path = String::new();
    let drawn = |column: &Option<(i64, i64)>| column.is_some_and(|(low, high)| high > low);
    for (from, to) in runs(columns.iter().map(drawn)) {
        let run = columns.get(from..to).unwrap_or_default();
        let heights: Vec<(Px, Px)> =
            run.iter().flatten().map(|(low, high)| (scale.y(*low), scale.y(*high))).collect();
        let mut pen: Option<Px> = None;
        for (at, (_, high)) in heights.iter().enumerate() {
            let x = x(from.saturating_add(at));
            match pen {
                None => start(&mut path, x, *high),
                Some(pen) if pen == *high => {}
                Some(_) => {
                    push(&mut path, 'H', x);
                    push(&mut path, 'V', *high);
                }
            }
            pen = Some(*high);
        }
        push(&mut path, 'H', x(to));
        let mut pen: Option<Px> = None;
        for (at, (low, _)) in heights.iter().enumerate().rev() {
            if pen != Some(*low) {
                if pen.is_some() {
                    push(&mut path, 'H', x(from.saturating_add(at).saturating_add(1)));
                }
                push(&mut path, 'V', *low);
            }
            pen = Some(*low);
        }
        push(&mut path, 'H', x(from));
        path.push('Z');
    }
    path
}

/// From nothing to the greatest value of each column.
pub(super) fn below(series: &Series) -> Vec<Option<(i64, i64)>> {
    let greatest = |column: &Column| column.extent.map(|extent| (0, extent.max));
    series.columns().iter().map(greatest).collect()
}

/// Rectangles over runs of columns, each wide enough to be seen.
pub(super) fn spans(runs: &[(usize, usize)], top: Px, height: Px) -> String {
    let mut path = String::new();
    for (from, to) in runs {
        let width = left(*to) - left(*from);
        let wide = width.max(SPAN_MIN);
        let x = x(*from) - (wide - width) / 2;
        start(&mut path, x, top);
        let outcome = write!(path, "h{wide}v{height}h-{wide}Z");
        debug_assert!(outcome.is_ok());
    }
    path
}

/// A short stroke over each column's greatest value.
pub(super) fn ticks(series: &Series, scale: &Scale) -> String {
    let mut path = String::new();
    for (at, column) in series.columns().iter().enumerate() {
        if let Some(extent) = column.extent {
            let middle = x(at) + COLUMN_WIDTH / 2;
            start(&mut path, middle - Px::of(2), scale.y(extent.max));
            path.push_str("h4");
        }
    }
    path
}

/// A triangle that stands in each column of some runs.
pub(super) fn triangles(runs: &[(usize, usize)], bottom: Px) -> String {
    let mut path = String::new();
    for column in runs.iter().flat_map(|(from, to)| *from..*to) {
        start(&mut path, x(column) + COLUMN_WIDTH / 2, bottom - Px::of(9));
        path.push_str("l4.5 9h-9Z");
    }
    path
}
