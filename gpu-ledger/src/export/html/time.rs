//! Held time by hour, day or month: settled, and open beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::look::{Look, Looks, swatch};
use super::markup::Markup;
use crate::bill::period::{moment_of, show};
use crate::bill::report::{Lane, Report};
use crate::bill::{Kind, LineKey};
use crate::unit::{Ms, Span};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
/// Up to so many days a bar is an hour's, and up to so many more a day's.
const DAYS_OF_HOURS_MAX: u64 = 3;
const DAYS_MAX: u64 = 100;
/// Bars at most: of more months several are one.
const BARS_MAX: usize = 240;
const WIDTH: u64 = 960;
const HEIGHT: u64 = 180;
const TOP: u64 = 20;

/// What a bar is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Hour,
    Day,
    Month,
}

/// Of one bar, settled and open, the milliseconds of each look.
type Bar = BTreeMap<(bool, Look), u64>;

pub(super) fn section(page: &mut Markup, report: &Report, looks: &Looks) {
    let period = report.period.span;
    let days = period.length().0 / DAY;
    let unit = match days {
        0..DAYS_OF_HOURS_MAX => Unit::Hour,
        DAYS_OF_HOURS_MAX..DAYS_MAX => Unit::Day,
        _ => Unit::Month,
    };
    let edges = edges(period, unit, &report.period.time_zone);
    let bars = bars(&report.lanes, &edges, looks);
    let word = match unit {
        Unit::Hour => "hour",
        Unit::Day => "day",
        Unit::Month => "month",
    };
    page.line(format_args!(
        "<section id=\"time\" aria-labelledby=\"time-h\">\n<h2 id=\"time-h\">Held time by {word}</h2>\n\
         <p class=\"note\">For each account the union of its spans on each GPU, all GPUs together: what is shared counts for \
         each who shared it. {} open: runs still, not booked.</p>",
        swatch(None, Some("open"))
    ));
    let most = bars.iter().map(sum).max().unwrap_or(0);
    if most == 0 {
        page.raw("<p>Nobody is known to have held a GPU.</p>\n</section>\n");
        return;
    }
    chart(page, report, looks, (&edges, &bars, most), unit);
    table(page, report, (&edges, &bars), unit);
    page.raw("</section>\n");
}

fn sum(bar: &Bar) -> u64 {
    bar.values().fold(0_u64, |sum, ms| sum.saturating_add(*ms))
}

/// Where each bar begins, and where the last one ends.
fn edges(period: Span, unit: Unit, zone: &TimeZone) -> Vec<u64> {
    let mut edges = vec![period.from_ms()];
    let civil = |ms: u64| moment_of(ms).to_zoned_datetime(zone.clone()).datetime();
    let mut at = match unit {
        Unit::Hour => (period.from_ms() / HOUR).saturating_mul(HOUR),
        Unit::Day | Unit::Month => period.from_ms(),
    };
    let mut date = civil(period.from_ms()).date();
    loop {
        at = match unit {
            Unit::Hour => at.saturating_add(HOUR),
            Unit::Day | Unit::Month => {
                let next = match unit {
                    Unit::Month => date.first_of_month().checked_add(jiff::Span::new().months(1)),
                    Unit::Hour | Unit::Day => date.tomorrow(),
                };
                let Ok(next) = next else { break };
                date = next;
                let begins = zone.to_zoned_datetime(date.to_datetime(Time::midnight()));
                let Ok(begins) = begins else { break };
                u64::try_from(begins.timestamp().as_millisecond()).unwrap_or(0)
            }
        };
        if at >= period.to_ms() {
            break;
        }
        if at > period.from_ms() {
            edges.push(at);
        }
    }
    let together = edges.len().div_ceil(BARS_MAX).max(1);
    let mut edges: Vec<u64> = edges.into_iter().step_by(together).collect();
    edges.push(period.to_ms());
    edges
}

/// Each bar's time, by look and by whether it is booked.
fn bars(lanes: &[Lane], edges: &[u64], looks: &Looks) -> Vec<Bar> {
    let mut bars = vec![Bar::new(); edges.len().saturating_sub(1)];
    for lane in lanes {
        let mut of_line: BTreeMap<LineKey, [Vec<Span>; 2]> = BTreeMap::new();
        for holding in &lane.holdings {
            let [settled, both] = of_line.entry(holding.account).or_default();
            match holding.kind {
                Kind::Settled => {
                    settled.push(holding.span);
                    both.push(holding.span);
                }
                Kind::Open => both.push(holding.span),
                // Neither is billed.
                Kind::Disputed | Kind::NoDriverRow => {}
            }
        }
        for (line, [settled, both]) in of_line {
            let look = looks.look(line);
            // Open is what settling would add.
            let mut open = vec![0_u64; bars.len()];
            spread(both, edges, &mut |bar, ms| {
                if let Some(sum) = open.get_mut(bar) {
                    *sum = sum.saturating_add(ms);
                }
            });
            spread(settled, edges, &mut |bar, ms| {
                add(&mut bars, bar, (false, look), ms);
                if let Some(sum) = open.get_mut(bar) {
                    *sum = sum.saturating_sub(ms);
                }
            });
            for (bar, ms) in open.into_iter().enumerate().filter(|(_, ms)| *ms > 0) {
                add(&mut bars, bar, (true, look), ms);
            }
        }
    }
    bars
}

fn add(bars: &mut [Bar], bar: usize, key: (bool, Look), ms: u64) {
    if let Some(bar) = bars.get_mut(bar) {
        let sum = bar.entry(key).or_default();
        *sum = sum.saturating_add(ms);
    }
}

/// The union of spans, cut at the edges.
fn spread(mut spans: Vec<Span>, edges: &[u64], put: &mut dyn FnMut(usize, u64)) {
    spans.sort_unstable_by_key(|span| (span.from_ms(), span.to_ms()));
    let mut reached = 0;
    for span in spans {
        let mut at = span.from_ms().max(reached);
        reached = reached.max(span.to_ms());
        let mut bar = edges.partition_point(|edge| *edge <= at).saturating_sub(1);
        while at < span.to_ms() {
            let Some(end) = edges.get(bar.saturating_add(1)) else { break };
            put(bar, span.to_ms().min(*end).saturating_sub(at));
            at = *end;
            bar = bar.saturating_add(1);
        }
    }
}

fn chart(
    page: &mut Markup,
    report: &Report,
    looks: &Looks,
    (edges, bars, most): (&[u64], &[Bar], u64),
    unit: Unit,
) {
    page.line(format_args!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"time-h\"><svg class=\"picture\" viewBox=\"-1 0 \
         962 232\" role=\"img\" aria-label=\"Held time, at most {} in a bar; the table below has every bar\">",
        Ms(most)
    ));
    for (part, y) in [(2, TOP), (1, TOP.saturating_add(HEIGHT / 2))] {
        page.line(format_args!(
            "<path class=\"grid\" d=\"M0 {y}h{WIDTH}\"/><text class=\"t\" x=\"0\" y=\"{}\">{}</text>",
            y.saturating_sub(4),
            Ms(most.saturating_mul(part) / 2)
        ));
    }
    let place = |bar: usize, of: usize| {
        let scaled = u128::from(WIDTH).saturating_mul(u128::try_from(bar).unwrap_or(0));
        u64::try_from(scaled.checked_div(u128::try_from(of).unwrap_or(1)).unwrap_or(0)).unwrap_or(0)
    };
    let mut paths: BTreeMap<(bool, Look), String> = BTreeMap::new();
    for (number, bar) in bars.iter().enumerate() {
        let (x, end) = (place(number, bars.len()), place(number.saturating_add(1), bars.len()));
        // A gap between bars, where there is room for one.
        let width =
            end.saturating_sub(x).saturating_sub(u64::from(end.saturating_sub(x) > 4)).max(1);
        let (mut below, mut bottom) = (0_u64, TOP.saturating_add(HEIGHT));
        for (key, ms) in bar {
            below = below.saturating_add(*ms);
            let scaled = u128::from(below).saturating_mul(HEIGHT.into()).checked_div(most.into());
            let top = TOP.saturating_add(HEIGHT);
            let top = top.saturating_sub(u64::try_from(scaled.unwrap_or(0)).unwrap_or(0));
            let height = bottom.saturating_sub(top);
            if height > 0 {
                // Writing to a String cannot fail.
                let _ =
                    write!(paths.entry(*key).or_default(), "M{x} {top}h{width}v{height}h-{width}z");
            }
            bottom = top;
        }
    }
    for ((is_open, look), path) in paths {
        let state = if is_open { "open" } else { "settled" };
        let class = look.class();
        page.line(format_args!(
            "<g><title>{}: {state}</title><path class=\"{class} bar\" d=\"{path}\"/>",
            looks.name(look)
        ));
        let over = is_open.then_some("open");
        for id in look.sign().as_deref().into_iter().chain(over) {
            page.line(format_args!("<path class=\"over\" fill=\"url(#{id})\" d=\"{path}\"/>"));
        }
        page.raw("</g>\n");
    }
    page.line(format_args!(
        "<path class=\"tick\" d=\"M0 {}h{WIDTH}\"/>",
        TOP.saturating_add(HEIGHT)
    ));
    let every = bars.len().div_ceil(12).max(1);
    for (number, edge) in edges.iter().enumerate().take(bars.len()).step_by(every) {
        page.line(format_args!(
            "<text class=\"t\" x=\"{}\" y=\"220\">{}</text>",
            place(number, bars.len()),
            label(*edge, unit, &report.period.time_zone)
        ));
    }
    page.raw("</svg></div>\n");
}

/// When a bar begins, as it is told below it.
fn label(ms: u64, unit: Unit, zone: &TimeZone) -> String {
    let text = show(moment_of(ms), zone);
    let (from, to) = match unit {
        Unit::Hour if text.get(11..16) != Some("00:00") => (11, 16),
        Unit::Hour | Unit::Day => (5, 10),
        Unit::Month => (0, 7),
    };
    text.get(from..to).unwrap_or_default().to_owned()
}

/// The same as figures.
fn table(page: &mut Markup, report: &Report, (edges, bars): (&[u64], &[Bar]), unit: Unit) {
    page.raw(
        "<details><summary>The same as a table</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Held time as a table\"><table><thead><tr><th scope=\"col\">from</th><th scope=\"col\" \
         class=\"n\">settled</th><th scope=\"col\" class=\"n\">open</th><th scope=\"col\" class=\"n\">unattributed</th>\
         </tr></thead><tbody>\n",
    );
    for (edge, bar) in edges.iter().zip(bars) {
        let of = |is_meant: &dyn Fn(bool, Look) -> bool| {
            let meant = bar.iter().filter(|((is_open, look), _)| is_meant(*is_open, *look));
            Ms(meant.fold(0_u64, |sum, (_, ms)| sum.saturating_add(*ms)))
        };
        let from = show(moment_of(*edge), &report.period.time_zone);
        let end = if unit == Unit::Hour { from.len() } else { 10 };
        page.line(format_args!(
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            from.get(..end).unwrap_or(&from),
            of(&|is_open, look| !is_open && look != Look::Nobody),
            of(&|is_open, look| is_open && look != Look::Nobody),
            of(&|_, look| look == Look::Nobody),
        ));
    }
    page.raw("</tbody></table></div></details>\n");
}
