//! Device memory by process: a stack of bands, and beneath it each process's own curve.

use std::collections::BTreeMap;

use super::axis::{Quantity, Scale};
use super::column::Series;
use super::font;
use super::markup::Anchor;
use super::panels::{Missing, figures};
use super::paths::{LEFT, area, below, steps};
use super::processes::{Holding, Processes, SHOWN_MAX};
use super::px::Px;
use super::sheet::{RIGHT, SMALL, Sheet};
use super::style::Look;

/// The processes that are drawn apart, in the order in which they came: those that reached most.
pub(super) fn shown(processes: &Processes) -> Vec<usize> {
    let mut by_peak: Vec<(i64, usize)> = processes
        .kept
        .iter()
        .enumerate()
        .map(|(index, kept)| (kept.series.whole().map_or(-1, |extent| extent.max), index))
        .collect();
    by_peak.sort_unstable_by(|(one, at), (other, than)| other.cmp(one).then(at.cmp(than)));
    let mut shown: Vec<usize> =
        by_peak.into_iter().take(SHOWN_MAX).map(|(_, index)| index).collect();
    shown.sort_unstable();
    shown
}

type Band = Vec<Option<(i64, i64)>>;

/// Draws the bands. What is in use and held by no process is the topmost, and always there.
pub(super) fn draw(sheet: &mut Sheet, processes: &Processes, scale: &Scale) {
    let shown = shown(processes);
    let places: BTreeMap<usize, usize> =
        shown.iter().enumerate().map(|(at, index)| (*index, at)).collect();
    let mut bands: Vec<Band> = vec![Vec::new(); shown.len()];
    let (mut others, mut unattributed, mut unsplit) = (Vec::new(), Vec::new(), Vec::new());
    for holding in &processes.columns {
        let split = holding.as_deref().and_then(|holding| Split::new(holding, &places));
        for (at, band) in bands.iter_mut().enumerate() {
            band.push(split.as_ref().and_then(|split| split.bands.get(at).copied()));
        }
        others.push(split.as_ref().map(|split| split.others));
        unattributed.push(split.as_ref().map(|split| split.unattributed));
        let whole = holding.as_deref().filter(|_| split.is_none());
        unsplit.push(whole.map(|holding| (0, holding.used)));
    }
    for (at, columns) in bands.iter().enumerate() {
        sheet.markup.band(&Look::band(at), &area(columns, scale));
    }
    sheet.markup.band(&Look::others(), &area(&others, scale));
    sheet.markup.band(&Look::unattributed(), &area(&unattributed, scale));
    sheet.markup.band(&Look::unsplit(), &area(&unsplit, scale));
}

/// One column of the stack, each part from where to where.
struct Split {
    bands: Vec<(i64, i64)>,
    others: (i64, i64),
    unattributed: (i64, i64),
}

impl Split {
    /// `None`: nobody said who holds the device.
    fn new(holding: &Holding, places: &BTreeMap<usize, usize>) -> Option<Self> {
        let unattributed = holding.unattributed?;
        let mut heights = vec![0_i64; places.len()];
        let mut others = holding.others;
        for (index, bytes) in &holding.parts {
            let bytes = bytes.unwrap_or(0);
            match places.get(index).and_then(|at| heights.get_mut(*at)) {
                Some(height) => *height = height.saturating_add(bytes),
                None => others = others.saturating_add(bytes),
            }
        }
        let mut level: i64 = 0;
        let mut on_top = |height: i64| {
            let low = level;
            level = level.saturating_add(height);
            (low, level)
        };
        let bands = heights.into_iter().map(&mut on_top).collect();
        let others = on_top(others);
        Some(Self { bands, others, unattributed: on_top(unattributed.max(0)) })
    }
}

/// How high one process's own curve is.
const LANE_HEIGHT: Px = Px::of(20);

/// Draws each process's own curve, which is also what tells whose a band is.
pub(super) fn lanes(sheet: &mut Sheet, processes: &Processes, missing: &Missing<'_>) {
    let shown = shown(processes);
    // Away from the axis above, which the first name would touch.
    sheet.take(Px::of(4));
    for (at, index) in shown.iter().enumerate() {
        if let Some(kept) = processes.kept.get(*index) {
            lane(sheet, &Look::band(at), &kept.who.label(), &kept.series, missing);
        }
    }
    let (beyond, or_more) = processes.beyond();
    let hidden = processes.kept.len().saturating_sub(shown.len()).saturating_add(beyond);
    if hidden > 0 {
        let mut greatest = processes.others.clone();
        for (index, kept) in processes.kept.iter().enumerate() {
            if !shown.contains(&index) {
                greatest.join_greatest(&kept.series);
            }
        }
        let more = if or_more { " or more" } else { "" };
        let label = format!("others: {hidden}{more} processes; here the greatest of them");
        lane(sheet, &Look::others(), &label, &greatest, missing);
    }
    if processes.asked {
        let label = "unattributed: in use, and held by no process";
        lane(sheet, &Look::unattributed(), label, &processes.unattributed, missing);
    }
    let unsplit = |holding: &Holding| holding.unattributed.is_none();
    if processes.asked && processes.columns.iter().flatten().any(|holding| unsplit(holding)) {
        let top = sheet.take(Px::of(20));
        legend(sheet, &Look::unsplit(), "not split: who holds it could not be read", top);
    }
}

fn lane(sheet: &mut Sheet, look: &Look, label: &str, series: &Series, missing: &Missing<'_>) {
    let title = sheet.take(Px::of(23));
    let top = sheet.take(LANE_HEIGHT + Px::of(2));
    let greatest = series.whole().map_or(0, |extent| extent.max);
    let scale = Scale::new(Quantity::Memory, (0, greatest), 4, (top, LANE_HEIGHT));
    let mut remark = format!("0 to {}", scale.top_label());
    if let Some(figures) = figures(sheet, series, Quantity::Memory) {
        remark = format!("{figures} · {remark}");
    }
    let room = RIGHT - LEFT - font::width(&remark, SMALL) - Px::of(40);
    let label = font::fit(label, SMALL, room).unwrap_or_default();
    legend(sheet, look, &label, title);
    sheet.markup.text("t", Anchor::End, RIGHT, title + Px::of(15), &remark);
    sheet.markup.path("edge", &format!("M{LEFT} {}H{RIGHT}", scale.bottom()));
    sheet.markup.band(look, &area(&below(series), &scale));
    sheet.markup.path("rim", &steps(series, &scale));
    missing.draw(sheet, series, top, LANE_HEIGHT);
}

/// A sign and what it stands for.
fn legend(sheet: &mut Sheet, look: &Look, label: &str, top: Px) {
    let (left, right) = (LEFT, LEFT + Px::of(16));
    let (top, bottom) = (top + Px::of(4), top + Px::of(16));
    let swatch = format!("M{left} {top}H{right}V{bottom}H{left}Z");
    sheet.markup.band(look, &swatch);
    sheet.markup.path("swatch", &swatch);
    sheet.markup.text("s mark", Anchor::Start, LEFT + Px::of(24), top + Px::of(11), label);
}
