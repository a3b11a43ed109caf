//! A curve in constant memory: what each column of the picture holds of it.
//!
//! A column is narrower than any line is drawn. It keeps the least, the greatest, the first and the last
//! of the values that fell into it, and whether a point in it had none: however many points there are, a
//! peak is drawn as high as it was, and one missing point breaks the line.

use super::px::Px;
use crate::residency::moment::Length;
use crate::unit::BootNs;

/// How many columns a curve is kept in.
pub const COLUMNS: usize = 1_800;
/// How wide the canvas of curves is.
pub(super) const CURVE_WIDTH: Px = Px::of(900);
/// How wide a column is: a hundredth times 50.
pub(super) const COLUMN_WIDTH: Px = Px::hundredths(50);

/// Which column a moment lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    t0: BootNs,
    length_ns: u64,
}

impl Frame {
    /// From `t0` on, so long.
    pub(super) const fn new(t0: BootNs, length: Length) -> Self {
        Self { t0, length_ns: if length.0 == 0 { 1 } else { length.0 } }
    }

    /// The column of a moment; of one outside the window the nearest.
    pub(super) fn column(&self, at: BootNs) -> usize {
        let since = u128::from(at.0.saturating_sub(self.t0.0));
        let columns = u128::try_from(COLUMNS).unwrap_or(u128::MAX);
        let column = since.saturating_mul(columns).checked_div(u128::from(self.length_ns));
        let column = column.and_then(|column| usize::try_from(column).ok()).unwrap_or(usize::MAX);
        column.min(COLUMNS.saturating_sub(1))
    }

    /// Where a moment lies from the left edge of the curves.
    pub(super) fn x(&self, since_t0: Length) -> Px {
        CURVE_WIDTH.part(i128::from(since_t0.0), i128::from(self.length_ns))
    }

    /// Where the window begins.
    pub(super) const fn t0(&self) -> BootNs {
        self.t0
    }

    /// How long it is.
    pub(super) const fn length(&self) -> Length {
        Length(self.length_ns)
    }
}

/// The left edge of a column, from the left edge of the curves.
pub(super) fn left(column: usize) -> Px {
    let column = i32::try_from(column).unwrap_or(i32::MAX);
    COLUMN_WIDTH * column
}

/// What the values in one column were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// In order of time, the first.
    pub(super) first: i64,
    /// And the last.
    pub(super) last: i64,
    /// The least.
    pub(super) min: i64,
    /// The greatest.
    pub(super) max: i64,
}

/// One column of one curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Column {
    /// The values in it.
    pub(super) extent: Option<Extent>,
    /// Whether a value was missing in it.
    pub(super) gap: bool,
}

/// Where a value holds: from one column to before another, and in its first one in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stretch {
    from: usize,
    to: usize,
    /// What it counts for in a mean.
    ns: u64,
}

impl Stretch {
    /// For so long.
    pub(super) fn new(from: usize, to: usize, ns: u64) -> Self {
        Self { from, to: to.max(from.saturating_add(1)).min(COLUMNS), ns }
    }

    /// A moment, which counts for nothing in a mean.
    pub(super) fn moment(at: usize) -> Self {
        Self::new(at, at, 0)
    }

    /// Where it begins.
    pub(super) const fn from(self) -> usize {
        self.from
    }

    /// Its columns.
    pub(super) const fn columns(self) -> std::ops::Range<usize> {
        self.from..self.to
    }
}

/// A curve.
#[derive(Clone, Debug)]
pub(super) struct Series {
    columns: Vec<Column>,
    whole: Option<Extent>,
    /// Of values times nanoseconds.
    sum: i128,
    ns: i128,
}

impl Default for Series {
    fn default() -> Self {
        Self { columns: vec![Column::default(); COLUMNS], whole: None, sum: 0, ns: 0 }
    }
}

impl Series {
    /// A value, or that one is missing.
    pub(super) fn hold(&mut self, stretch: Stretch, value: Option<i64>) {
        for column in self.columns.get_mut(stretch.columns()).unwrap_or_default() {
            match value {
                Some(value) => column.extent = Some(extended(column.extent, value)),
                None => column.gap = true,
            }
        }
        if let Some(value) = value {
            let ns = i128::from(stretch.ns);
            self.whole = Some(extended(self.whole, value));
            self.sum = self.sum.saturating_add(i128::from(value).saturating_mul(ns));
            self.ns = self.ns.saturating_add(ns);
        }
    }

    /// Every column.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Of all columns together; `None`: there was no value.
    pub(super) const fn whole(&self) -> Option<Extent> {
        self.whole
    }

    /// The mean over the time in which there was a value, in tenths of its unit, rounded down.
    pub(super) fn mean_tenths(&self) -> Option<i64> {
        let mean = self.sum.saturating_mul(10).checked_div_euclid(self.ns)?;
        i64::try_from(mean).ok()
    }

    /// In each column the greater one of both.
    pub(super) fn join_greatest(&mut self, other: &Self) {
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            column.gap |= other.gap;
            for value in other.extent.into_iter().flat_map(|extent| [extent.min, extent.max]) {
                let greater = column.extent.is_none_or(|extent| value > extent.max);
                if greater {
                    column.extent =
                        Some(Extent { first: value, last: value, min: value, max: value });
                }
            }
        }
        if let Some(extent) = other.whole {
            self.whole = Some(extended(Some(extended(self.whole, extent.min)), extent.max));
        }
    }
}

fn extended(extent: Option<Extent>, value: i64) -> Extent {
    let Some(Extent { first, min, max, .. }) = extent else {
        return Extent { first: value, last: value, min: value, max: value };
    };
    Extent { first, last: value, min: min.min(value), max: max.max(value) }
}

/// Where in a picture something was the case.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    columns: Vec<bool>,
    /// How often.
    pub(super) count: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Self { columns: vec![false; COLUMNS], count: 0 }
    }
}

impl Marks {
    /// It was there.
    pub(super) fn set(&mut self, stretch: Stretch) {
        self.columns.get_mut(stretch.columns()).unwrap_or_default().fill(true);
        self.count = self.count.saturating_add(1);
    }

    /// The columns where it was, as runs from the first to after the last.
    pub(super) fn runs(&self) -> Vec<(usize, usize)> {
        runs(self.columns.iter().copied())
    }
}

/// Runs of what is so, from the first column to after the last.
pub(super) fn runs(columns: impl Iterator<Item = bool>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in columns.enumerate().filter(|(_, so)| *so) {
        let after = at.saturating_add(1);
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end = after,
            _ => runs.push((at, after)),
        }
    }
    runs
}
