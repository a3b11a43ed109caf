//! The statistics of an iteration: its window, its phases, its processes.

use super::Iteration;
use crate::rendering::cell;
use crate::residency::compare::{phase_title, shown};
use crate::residency::facts::said;
use crate::residency::moment::Length;
use crate::residency::pages::Page;
use crate::residency::statistics::fixed::Fixed;
use crate::residency::statistics::series::Series;
use crate::residency::statistics::window::{IterationStatistics, ProcessHeld, Stretch, gib_s};

/// So many processes have a line of their own.
pub(super) const PROCESSES_SHOWN: usize = 20;

/// How a series is shown: its base unit divided by `per`, with so many digits.
#[derive(Clone, Copy)]
struct Shape {
    title: &'static str,
    per: u128,
    digits: u32,
    unit: &'static str,
}

const GIB: u128 = 1 << 30;
const MEMORY: Shape = Shape { title: "memory GiB", per: GIB, digits: 3, unit: "GiB" };
const UTILIZATION: Shape = Shape { title: "utilization %", per: 1, digits: 1, unit: "%" };
const POWER: Shape = Shape { title: "power W", per: 1_000, digits: 1, unit: "W" };
const TEMPERATURE: Shape = Shape { title: "temperature °C", per: 1, digits: 1, unit: "°C" };
const CPU: Shape = Shape { title: "CPU %", per: 100, digits: 2, unit: "%" };
const UNATTRIBUTED: Shape = Shape { title: "unattributed GiB", ..MEMORY };

impl Shape {
    fn whole(self, value: Option<i64>) -> String {
        let shown = value.and_then(|value| Fixed::quotient(value.into(), self.per, self.digits));
        said(shown.map(|shown| shown.to_string()).as_deref())
    }

    fn mean(self, mean: Option<Fixed>) -> String {
        // A mean has three digits of its own.
        let per = self.per.saturating_mul(1_000);
        let shown = mean.and_then(|mean| Fixed::quotient(mean.value, per, self.digits));
        said(shown.map(|shown| shown.to_string()).as_deref())
    }
}

pub(super) fn iteration(page: &mut Page, of: &Iteration<'_>, statistics: &IterationStatistics) {
    page.blank();
    page.line(&format!("Iteration {}: {}", of.number, shown(of.labels)));
    page.line(&format!(
        "  by time; CPU from {} of {} points, the first is a difference to nothing",
        statistics.cpu_samples_aggregated, statistics.cpu_samples_total
    ));
    if let Some((least, most)) = statistics.window.utilization.source_window_ms {
        let note = format!(
            "each utilization is the driver's own mean over the {least} to {most} ms before it"
        );
        page.wrapped(2, 2, &note);
    }
    by_samples(page, statistics);
    stretch(page, "Whole window", &statistics.window, PROCESSES_SHOWN);
    for phase in &statistics.phases {
        let title = phase_title(phase.name.as_deref(), phase.occurrence);
        let title = format!("{title}, from {} ms", phase.from_ms);
        stretch(page, &title, &phase.stretch, PROCESSES_SHOWN);
    }
    if statistics.marks_beyond_bound > 0 {
        let beyond = statistics.marks_beyond_bound;
        page.line(&format!("  {beyond} further marks: their time is in the last phase above"));
    }
}

/// All of a stretch, with so many processes.
pub(super) fn stretch(page: &mut Page, title: &str, stretch: &Stretch, processes_shown: usize) {
    page.blank();
    page.line(&format!("  {title} ({} ms)", stretch.length_ms));
    page.line("                          mean       p5      p50      p95      p99     peak");
    let series = [
        (MEMORY, &stretch.memory),
        (UTILIZATION, &stretch.utilization),
        (POWER, &stretch.power),
        (TEMPERATURE, &stretch.temperature),
        (CPU, &stretch.cpu),
        (UNATTRIBUTED, &stretch.unattributed.bytes),
    ];
    for (shape, series) in series {
        row(page, shape, series);
    }
    page.wrapped(4, 6, &missing(&series));
    let residency = stretch.residency_gib_s.map(|gib_s| gib_s.to_string());
    let residency = said(residency.as_deref());
    let range = range(stretch.residency_lower_gib_s, stretch.residency_upper_gib_s);
    let moves_of_memory = moves(MEMORY, &stretch.memory);
    page.wrapped(4, 6, &format!("residency {residency} GiB·s, {range}; {moves_of_memory}"));
    if stretch.utilization.mean.is_some() {
        page.wrapped(4, 6, &moves(UTILIZATION, &stretch.utilization));
    }
    if stretch.unattributed.negative_ms > Length::default() {
        let negative = stretch.unattributed.negative_ms;
        let note = format!(
            "NEGATIVE unattributed for {negative} ms: processes and device are not read at once"
        );
        page.wrapped(4, 6, &note);
    }
    processes(page, &stretch.processes, processes_shown);
}

/// Mean and peak of device memory in GiB.
pub(super) fn memory(stretch: &Stretch) -> (String, String) {
    (MEMORY.mean(stretch.memory.mean), MEMORY.whole(stretch.memory.peak))
}

fn row(page: &mut Page, shape: Shape, series: &Series) {
    let title = cell(shape.title, 17);
    if series.peak.is_none() {
        page.line(&format!("    {title} UNKNOWN"));
        return;
    }
    let percentile = |value| shape.whole(value);
    page.line(&format!(
        "    {title}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        shape.mean(series.mean),
        percentile(series.p5),
        percentile(series.p50),
        percentile(series.p95),
        percentile(series.p99),
        percentile(series.peak),
    ));
    if series.percentile_resolution > 1 {
        let resolution = i64::try_from(series.percentile_resolution).ok();
        let (width, unit) = (shape.whole(resolution), shape.unit);
        page.line(&format!("      percentiles of {} are up to {width} {unit} low", shape.title));
    }
}

/// How long which of them had no value: that time is in no figure.
fn missing(all: &[(Shape, &Series)]) -> String {
    let some = all.iter().filter(|(_, series)| series.missing_ms > Length::default());
    let some = some.map(|(shape, series)| format!("{} {} ms", name(*shape), series.missing_ms));
    let some: Vec<String> = some.collect();
    let some = if some.is_empty() { "none".to_owned() } else { some.join(", ") };
    format!("missing, and in no figure: {some}")
}

fn name(shape: Shape) -> &'static str {
    shape.title.split(' ').next().unwrap_or(shape.title)
}

/// `3.600000 to 4.400000 by its samples`.
fn range(low: Option<Fixed>, high: Option<Fixed>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{low} to {high} by its samples"),
        _ => "range UNKNOWN".to_owned(),
    }
}

/// What ranges and edges rest on, once in a report.
pub(super) fn by_samples(page: &mut Page, statistics: &IterationStatistics) {
    let (gap, open) = (statistics.sample_gap_max_ms, statistics.held_at_end_ms);
    let held = if open > Length::default() {
        format!(". The last sample is held for {open} ms, after which none came")
    } else {
        String::new()
    };
    let words = format!(
        "by its samples: where what changed between two samples went from the one to the other; what came and \
         went between them is in no figure. Each beginning and end, of a phase, of a plateau, of time above a \
         threshold, of a process, may be off by up to {gap} ms, the longest time between two samples; transitions are those that \
         samples show, at the least{held}"
    );
    page.wrapped(2, 2, &words);
}

/// Plateaus, transitions and time above the threshold.
fn moves(shape: Shape, series: &Series) -> String {
    let plateau = series.longest_plateau.map_or_else(
        || "no plateau known".to_owned(),
        |plateau| {
            let value = shape.whole(Some(plateau.value));
            format!("longest plateau {} ms at {value} {}", plateau.length_ms, shape.unit)
        },
    );
    let above = series.above_ms.map(|above| {
        let threshold = shape.whole(series.threshold);
        format!("; {above} ms above {threshold} {}", shape.unit)
    });
    let (transitions, above) = (series.transitions, above.unwrap_or_default());
    format!("{}: {plateau}; {transitions} transitions{above}", name(shape))
}

fn processes(page: &mut Page, processes: &[ProcessHeld], shown: usize) {
    if processes.is_empty() {
        return;
    }
    page.line("    process                             GiB·s  mean GiB  peak GiB     listed ms");
    for held in processes.iter().take(shown) {
        let residency = held.residency_gib_s.and_then(|gib_s| {
            Fixed::quotient(gib_s.value, 1_000_000, 3).map(|gib_s| gib_s.to_string())
        });
        let peak = held.peak_bytes.and_then(|bytes| i64::try_from(bytes).ok());
        page.line(&format!(
            "    {}{:>11}{:>10}{:>10}{:>14}",
            cell(&held.person.to_string(), 30),
            said(residency.as_deref()),
            MEMORY.mean(held.mean_bytes),
            MEMORY.whole(peak),
            held.listed_ms.to_string(),
        ));
        if held.residency_gib_s.is_some() {
            let range = range(held.residency_lower_gib_s, held.residency_upper_gib_s);
            page.line(&format!("      {range}"));
        }
        if held.memory_unknown_ms > Length::default() {
            let unknown = held.memory_unknown_ms;
            page.line(&format!("      of that {unknown} ms with its memory UNKNOWN, in no figure"));
        }
    }
    let rest = processes.get(shown..).unwrap_or_default();
    if !rest.is_empty() {
        let byte_ns = rest.iter().fold(0_u128, |sum, held| sum.saturating_add(held.byte_ns));
        let together = said(gib_s(byte_ns).map(|gib_s| gib_s.to_string()).as_deref());
        page.line(&format!("    and {} more with together {together} GiB·s", rest.len()));
    }
}
