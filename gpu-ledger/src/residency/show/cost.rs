//! What the probe itself took: its observer effect.

use super::Iteration;
use crate::residency::facts::{Extremes, percent_of_ppm};
use crate::residency::pages::Page;
use crate::residency::reasons::named;
use crate::residency::verdict::or_unknown;

pub(super) fn cost(page: &mut Page, iterations: &[Iteration<'_>]) {
    page.blank();
    page.line("The probe's own cost (ms)");
    page.line("   #   of the time  pass p50       p99       max  interval p99   late p99");
    for iteration in iterations {
        let figures = iteration.figures;
        let pass = figures.probe_duration_ms;
        page.line(&format!(
            "{:>4} {:>13} {:>9} {:>9} {:>9} {:>13} {:>10}",
            iteration.number,
            percent_of_ppm(figures.probe_duty_cycle_ppm),
            or_unknown(pass.p50),
            or_unknown(pass.p99),
            or_unknown(pass.max),
            or_unknown(figures.effective_interval_ms.p99),
            or_unknown(figures.wake_late_ms.p99),
        ));
        let cpu = percent_of_ppm(figures.recorder_cpu_ppm);
        page.line(&format!("        recorder CPU {cpu} of a core"));
        let errors = &figures.gpu_query_error_count;
        if !errors.is_empty() {
            let errors: Vec<String> =
                errors.iter().map(|(error, count)| format!("{} {count}", named(error))).collect();
            page.wrapped(8, 10, &format!("without a value: {}", errors.join(", ")));
        }
    }
    fields(page, iterations);
}

/// Per field, the worst of all iterations.
fn fields(page: &mut Page, iterations: &[Iteration<'_>]) {
    let worst = Extremes::of(iterations.iter().map(|iteration| iteration.figures));
    page.line("  field, the worst of any iteration      calls       p50       p99");
    for (name, cost) in worst.cost.fields {
        let calls = iterations.iter().filter_map(|one| one.figures.field_duration_ms.get(&name));
        let calls = calls.fold(0_u64, |sum, cost| sum.saturating_add(cost.count));
        let (p50, p99) = (or_unknown(cost.p50_ms), or_unknown(cost.p99_ms));
        page.line(&format!("  {name:<34} {calls:>9} {p50:>9} {p99:>9}"));
    }
}
