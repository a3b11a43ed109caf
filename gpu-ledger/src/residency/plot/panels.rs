//! The panels, one beneath another over one axis of time.

use super::Facts;
use super::axis::{Quantity, Scale, time_ticks, time_unit};
use super::column::{Series, runs};
use super::fold::{Curve, Field};
use super::font;
use super::markup::{Anchor, Place};
use super::paths::{LEFT, spans, steps, ticks, triangles};
use super::processes::signed;
use super::px::Px;
use super::sheet::{RIGHT, SMALL, Sheet};
use super::stack;
use crate::residency::moment::Length;

/// How high the panel of device memory is.
const MEMORY_HEIGHT: Px = Px::of(190);
/// How high all others are.
const HEIGHT: Px = Px::of(84);
/// How high the mark above a gap is.
const MARK_HEIGHT: Px = Px::of(4);

/// What lies over a curve where it has no value.
pub(super) struct Missing<'curve> {
    stale: &'curve [(usize, usize)],
    stale_columns: Vec<bool>,
}

impl<'curve> Missing<'curve> {
    fn new(stale: &'curve [(usize, usize)]) -> Self {
        let mut stale_columns = vec![false; super::COLUMNS];
        for (from, to) in stale {
            stale_columns.get_mut(*from..*to).unwrap_or_default().fill(true);
        }
        Self { stale, stale_columns }
    }

    /// Red where the sample was over-age, grey where there was no value for another reason. Over the curve,
    /// which may fill its panel, and with a mark above it, where no curve is.
    pub(super) fn draw(&self, sheet: &mut Sheet, series: &Series, top: Px, height: Px) {
        let columns = series.columns().iter().zip(&self.stale_columns);
        let own = runs(columns.map(|(column, stale)| column.gap && !stale));
        sheet.markup.path("gap", &spans(&own, top, height));
        sheet.markup.path("gap-mark", &spans(&own, top - MARK_HEIGHT, MARK_HEIGHT));
        self.draw_stale(sheet, top, height);
    }

    fn draw_stale(&self, sheet: &mut Sheet, top: Px, height: Px) {
        sheet.markup.path("stale", &spans(self.stale, top, height));
        sheet.markup.path("loud", &spans(self.stale, top - MARK_HEIGHT, MARK_HEIGHT));
    }
}

/// Draws all of them.
pub(super) fn draw(sheet: &mut Sheet, facts: &Facts, curve: &Curve) {
    let stale = curve.stale.runs();
    let missing = Missing::new(&stale);
    phases(sheet, curve);
    let top = time_axis(sheet, curve, Edge::Above);
    memory(sheet, curve, &missing);
    stack::lanes(sheet, &curve.processes, &missing);
    fields(sheet, curve, &missing);
    age(sheet, facts, curve, &missing);
    interval(sheet, facts, curve, &missing);
    let bottom = sheet.y();
    time_axis(sheet, curve, Edge::Below);
    behind(sheet, curve, top, bottom);
}

/// Lines through all panels: times, and where phases begin.
fn behind(sheet: &mut Sheet, curve: &Curve, top: Px, bottom: Px) {
    let vertical = |x: Px| format!("M{} {top}V{bottom}", LEFT + x);
    let times: String = time_ticks(&curve.frame).iter().map(|(x, _)| vertical(*x)).collect();
    let begun = |from: crate::unit::BootNs| {
        curve.frame.x(Length(from.0.saturating_sub(curve.frame.t0().0)))
    };
    let phases: String = curve.phases.iter().map(|phase| vertical(begun(phase.from))).collect();
    let grid = format!("<path class=\"grid\" d=\"{times}\"/>\n");
    sheet.behind.push_str(&grid);
    if !phases.is_empty() {
        let begun = format!("<path class=\"edge\" stroke-dasharray=\"2 4\" d=\"{phases}\"/>\n");
        sheet.behind.push_str(&begun);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Above,
    Below,
}

/// Numbers along an edge; gives where the curves begin or end.
fn time_axis(sheet: &mut Sheet, curve: &Curve, edge: Edge) -> Px {
    let top = sheet.take(Px::of(if edge == Edge::Above { 18 } else { 38 }));
    let baseline = top + Px::of(if edge == Edge::Above { 14 } else { 18 });
    for (x, label) in time_ticks(&curve.frame) {
        sheet.markup.text("t", Anchor::Middle, LEFT + x, baseline, &label);
    }
    if edge == Edge::Below {
        let text = format!("time since T0, {}", time_unit(&curve.frame));
        let middle = (LEFT + RIGHT) / 2;
        sheet.markup.text("s", Anchor::Middle, middle, top + Px::of(34), &text);
    }
    top + Px::of(18)
}

/// A row of bands with their names; one that has no room for its name has its number, and the name beneath.
fn phases(sheet: &mut Sheet, curve: &Curve) {
    if curve.phases.is_empty() {
        return;
    }
    let height = Px::of(20);
    let top = sheet.take(height + Px::of(2)) + Px::of(2);
    let since = |from: crate::unit::BootNs| Length(from.0.saturating_sub(curve.frame.t0().0));
    let mut beneath = Vec::new();
    for (at, phase) in curve.phases.iter().enumerate() {
        let next = curve.phases.get(at.saturating_add(1));
        let from = curve.frame.x(since(phase.from));
        let to = next.map_or(RIGHT - LEFT, |next| curve.frame.x(since(next.from)));
        let place = Place { x: LEFT + from, y: top, width: to - from, height };
        sheet.markup.rect(if at % 2 == 0 { "ph0" } else { "ph1" }, place);
        let (room, number) = (to - from - Px::of(8), at.saturating_add(1).to_string());
        let name = font::bounded(&phase.name, NAME_CHARS_MAX);
        let (x, baseline) = (LEFT + from + Px::of(4), top + Px::of(15));
        if font::width(&name, SMALL) <= room {
            sheet.markup.text("ph", Anchor::Start, x, baseline, &name);
            continue;
        }
        if font::width(&number, SMALL) <= room {
            sheet.markup.text("ph", Anchor::Start, x, baseline, &number);
        }
        beneath.push(format!("{number} {name} (from {} ms)", since(phase.from)));
    }
    if !beneath.is_empty() {
        sheet.line("s", &format!("Phases: {}", beneath.join(", ")));
    }
}

/// How much of a phase's name is printed.
const NAME_CHARS_MAX: usize = 60;

/// Numbers and lines beside a curve.
fn axis(sheet: &mut Sheet, scale: &Scale, top: Px) {
    let mut lines = String::new();
    for (y, label) in scale.ticks() {
        let line = format!("M{LEFT} {y}H{RIGHT}");
        lines.push_str(&line);
        sheet.markup.text("t", Anchor::End, LEFT - Px::of(6), y + Px::of(4), &label);
    }
    sheet.markup.path("grid", &lines);
    sheet.markup.path("edge", &format!("M{LEFT} {top}V{}H{RIGHT}", scale.bottom()));
}

/// Mean and peak, which a void picture has not.
pub(super) fn figures(sheet: &Sheet, series: &Series, quantity: Quantity) -> Option<String> {
    let (mean, peak) = (series.mean_tenths()?, series.whole()?.max);
    let text = format!("mean {} · peak {}", quantity.print_tenths(mean), quantity.print(peak));
    (!sheet.void).then_some(text)
}

fn memory(sheet: &mut Sheet, curve: &Curve, missing: &Missing<'_>) {
    let greatest = curve.memory.whole().map_or(0, |extent| extent.max);
    let top = sheet.y() + Px::of(30);
    let scale = Scale::new(Quantity::Memory, (0, greatest), 6, (top, MEMORY_HEIGHT));
    let of = curve.memory_total.map(|total| format!("of {}", Quantity::Memory.print(total)));
    let split = (!curve.processes.asked).then(|| "not split: who holds it was not read".to_owned());
    let remark = [of, figures(sheet, &curve.memory, Quantity::Memory), split];
    let remark = remark.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    sheet.panel_title(&format!("Device memory in use, {}", scale.unit()), &remark);
    sheet.take(MEMORY_HEIGHT);
    axis(sheet, &scale, top);
    stack::draw(sheet, &curve.processes, &scale);
    sheet.markup.path("top", &steps(&curve.memory, &scale));
    missing.draw(sheet, &curve.memory, top, MEMORY_HEIGHT);
    let over = curve.processes.residual.runs();
    sheet.markup.path("loud", &spans(&over, top, Px::of(6)));
}

fn fields(sheet: &mut Sheet, curve: &Curve, missing: &Missing<'_>) {
    // Longest window first, as nvml.h of 595.45.04 has it for `nvmlUtilization_t`.
    let window = "each read tells of the driver's last 1/6 to 1 s";
    let utilization = Shown { title: "Utilization", quantity: Quantity::Percent, remark: window };
    field(sheet, &utilization, &curve.utilization, Some((0, 100)), missing);
    let power = Shown { title: "Power", quantity: Quantity::Power, remark: "" };
    field(sheet, &power, &curve.power, None, missing);
    let temperature = Shown { title: "Temperature", quantity: Quantity::Temperature, remark: "" };
    let range = curve.temperature.series.whole().map(|extent| (extent.min, extent.max));
    let range = range.map(|(min, max)| (min.min(max.saturating_sub(5)), max));
    field(sheet, &temperature, &curve.temperature, range, missing);
    if curve.cpu.whole().is_some() {
        let cpu = Shown {
            title: "CPU, all processors",
            quantity: Quantity::Centipercent,
            remark: "over the time since the point before",
        };
        panel(sheet, &cpu, &curve.cpu, None, missing);
    }
}

/// What a panel says of its curve.
struct Shown {
    title: &'static str,
    quantity: Quantity,
    remark: &'static str,
}

fn field(
    sheet: &mut Sheet,
    shown: &Shown,
    field: &Field,
    range: Option<(i64, i64)>,
    missing: &Missing<'_>,
) {
    if !field.asked {
        return;
    }
    if field.series.whole().is_none() {
        let status = field.refused.map_or("no point is available", |status| status.as_str());
        sheet.panel_title(shown.title, &format!("UNKNOWN: {status}"));
        return;
    }
    panel(sheet, shown, &field.series, range, missing);
}

fn panel(
    sheet: &mut Sheet,
    shown: &Shown,
    series: &Series,
    range: Option<(i64, i64)>,
    missing: &Missing<'_>,
) {
    let whole = series.whole().map_or((0, 0), |extent| (extent.min.min(0), extent.max));
    let top = sheet.y() + Px::of(30);
    let scale = Scale::new(shown.quantity, range.unwrap_or(whole), 4, (top, HEIGHT));
    let remark = Some(shown.remark.to_owned()).filter(|remark| !remark.is_empty());
    let remark = [figures(sheet, series, shown.quantity), remark];
    let remark = remark.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    sheet.panel_title(&format!("{}, {}", shown.title, scale.unit()), &remark);
    sheet.take(HEIGHT);
    axis(sheet, &scale, top);
    sheet.markup.path("curve", &steps(series, &scale));
    missing.draw(sheet, series, top, HEIGHT);
}

/// A line across a panel, named at its right end.
fn limit(sheet: &mut Sheet, scale: &Scale, value: i64, name: &str, classes: (&str, &str)) {
    let y = scale.y(value);
    sheet.markup.path(classes.0, &format!("M{LEFT} {y}H{RIGHT}"));
    sheet.markup.text(classes.1, Anchor::End, RIGHT - Px::of(4), y - Px::of(4), name);
}

fn age(sheet: &mut Sheet, facts: &Facts, curve: &Curve, missing: &Missing<'_>) {
    let cap = signed(facts.batch.settings.cap.0);
    let oldest = [&curve.age, &curve.age_sup].map(|series| series.whole().map_or(0, |one| one.max));
    let greatest = oldest.into_iter().fold(cap, i64::max);
    let top = sheet.y() + Px::of(30);
    // Room for the cap's name above its line.
    let range = (0, greatest.saturating_add(greatest / 4));
    let scale = Scale::new(Quantity::Time, range, 4, (top, HEIGHT));
    sheet.panel_title(
        &format!("Sample age, {}", scale.unit()),
        "line: at points · strokes: an instant before the next sample landed",
    );
    sheet.take(HEIGHT);
    axis(sheet, &scale, top);
    sheet.markup.path("curve", &steps(&curve.age, &scale));
    sheet.markup.path("sup", &ticks(&curve.age_sup, &scale));
    missing.draw_stale(sheet, top, HEIGHT);
    let name = format!("cap {} ms", facts.batch.settings.cap);
    limit(sheet, &scale, cap, &name, ("limit", "t loud"));
}

fn interval(sheet: &mut Sheet, facts: &Facts, curve: &Curve, missing: &Missing<'_>) {
    let period = signed(facts.batch.settings.period.0);
    let longest = curve.interval.whole().map_or(period, |one| one.max.max(period));
    let top = sheet.y() + Px::of(30);
    let range = (0, longest.saturating_add(longest / 3));
    let scale = Scale::new(Quantity::Time, range, 4, (top, HEIGHT));
    let recoveries = curve.recoveries.count;
    sheet.panel_title(
        &format!("Interval between probes, {}", scale.unit()),
        &format!("triangles: probes at once after an overrun (recoveries: {recoveries})"),
    );
    sheet.take(HEIGHT);
    axis(sheet, &scale, top);
    sheet.markup.path("curve", &steps(&curve.interval, &scale));
    missing.draw_stale(sheet, top, HEIGHT);
    let name = format!("P {} ms", facts.batch.settings.period);
    limit(sheet, &scale, period, &name, ("pace", "t"));
    sheet.markup.path("loud", &triangles(&curve.recoveries.runs(), scale.bottom()));
}
