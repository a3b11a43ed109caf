//! What stands beneath the curves: how they were measured, and what they do not say.

use super::Picture;
use super::axis::Quantity;
use super::sheet::Sheet;
use crate::residency::settings::AgeGate;
use crate::residency::verdict::or_unknown;

/// Draws all of it.
pub(super) fn draw(sheet: &mut Sheet, picture: &Picture<'_>) {
    sheet.take(super::px::Px::of(8));
    if let Some(curve) = picture.curve {
        let processes = &curve.processes;
        if processes.residual.count > 0 {
            let text = format!(
                "Processes hold more than is in use at {} points, by up to {} (marked in the first panel).",
                processes.residual.count,
                Quantity::Memory.print(processes.residual_max),
            );
            sheet.line("s loud", &text);
        }
        if curve.phases_beyond > 0 {
            let text = format!("{} more phases are not drawn.", curve.phases_beyond);
            sheet.line("s loud", &text);
        }
        let not_read = curve.not_read();
        if !not_read.is_empty() {
            sheet.line("s", &format!("Not read: {}.", not_read.join(", ")));
        }
    }
    sheet.facts("s", &measured(picture));
    sheet.facts("s", &source(picture));
    sheet.line("s", &claim(picture));
}

fn measured(picture: &Picture<'_>) -> [String; 9] {
    let (settings, figures) = (&picture.facts.settings, &picture.iteration.figures);
    let gate = match settings.age_gate {
        AgeGate::Both => "points and supremum",
        AgeGate::Points => "points",
    };
    [
        format!("P {} ms", settings.period),
        format!("Q {} ms", settings.timeline_period),
        format!("cap {} ms on {gate}", settings.cap),
        format!(
            "points {} of {}",
            figures.points_available,
            figures.points_required.map_or_else(|| "UNKNOWN".to_owned(), |all| all.to_string())
        ),
        format!("samples {}", figures.gpu_sample_count),
        format!("max age {} ms", or_unknown(figures.max_sample_age_ms)),
        format!("sup {} ms", or_unknown(figures.max_sample_age_sup_ms)),
        format!("recoveries {}", figures.deadlines.recovery),
        format!("probe p99 {} ms", or_unknown(figures.probe_duration_ms.p99)),
    ]
}

fn source(picture: &Picture<'_>) -> [String; 4] {
    let facts = picture.facts;
    [
        format!("backend {}", facts.backend.map_or("UNKNOWN", |backend| backend.as_str())),
        format!("driver {}", facts.driver_version.as_deref().unwrap_or("UNKNOWN")),
        format!("batch {}", facts.batch_id),
        format!("sha256 {}", facts.sha256.as_deref().unwrap_or("UNKNOWN")),
    ]
}

/// No wider than what was measured.
fn claim(picture: &Picture<'_>) -> String {
    let (settings, figures) = (&picture.facts.settings, &picture.iteration.figures);
    if !picture.facts.verdict.accepted() {
        return "This shows what was recorded and proves nothing: no number of it may be used."
            .to_owned();
    }
    format!(
        "Each value was read within {} ms of the instant it is drawn at. This does not show that a \
         configuration is better, nor anything shorter than {} ms; the cap of {} ms says nothing about \
         the GPU.",
        or_unknown(figures.max_sample_age_sup_ms),
        or_unknown(figures.effective_interval_ms.p99),
        settings.cap,
    )
}
