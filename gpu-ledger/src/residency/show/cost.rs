//! What the probe itself took: its observer effect.

use std::collections::BTreeMap;

use super::Iteration;
use crate::residency::facts::percent_of_ppm;
use crate::residency::moment::Length;
use crate::residency::pages::Page;
use crate::residency::sample::FieldName;
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
        let errors = &figures.gpu_query_error_count;
        if !errors.is_empty() {
            let errors: Vec<String> =
                errors.iter().map(|(error, count)| format!("{error} {count}")).collect();
            page.wrapped(8, 10, &format!("without a value: {}", errors.join(", ")));
        }
    }
    fields(page, iterations);
}

/// Per field, the worst of all iterations.
fn fields(page: &mut Page, iterations: &[Iteration<'_>]) {
    let mut worst: BTreeMap<FieldName, (u64, Option<Length>, Option<Length>)> = BTreeMap::new();
    for iteration in iterations {
        for (name, cost) in &iteration.figures.field_duration_ms {
            let (count, p50, p99) = worst.entry(*name).or_default();
            *count = count.saturating_add(cost.count);
            *p50 = (*p50).max(cost.duration_ms.p50);
            *p99 = (*p99).max(cost.duration_ms.p99);
        }
    }
    page.line("  field, the worst of any iteration      calls       p50       p99");
    for (name, (count, p50, p99)) in worst {
        let (p50, p99) = (or_unknown(p50), or_unknown(p99));
        page.line(&format!("  {name:<34} {count:>9} {p50:>9} {p99:>9}"));
    }
}
