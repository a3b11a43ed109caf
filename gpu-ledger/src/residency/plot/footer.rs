//! What stands beneath the curves: how they were measured, and what they do not say.

use super::Picture;
use super::axis::Quantity;
use super::sheet::Sheet;
use crate::residency::claims::Claims;
use crate::residency::facts::{Extremes, in_flight_said, iterations_said};
use crate::residency::reasons::unverified_said;
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
    let worst = Extremes::of([&picture.iteration.figures]);
    sheet.facts("s", &worst.cost.parts());
    sheet.facts("s", &source(picture));
    let facts = &picture.facts.batch;
    if u64::from(picture.facts.iterations) < facts.iterations_planned {
        let recorded = u64::from(picture.facts.iterations);
        sheet.line("s loud", &format!("{}.", iterations_said(recorded, facts.iterations_planned)));
    }
    if let Some(flight) = worst.in_flight_at_end {
        sheet.line("s loud", &format!("At the end {}.", in_flight_said(flight)));
    }
    if !facts.harness_verified {
        sheet.line("s", &format!("{}.", unverified_said()));
    }
    sheet.line("s", &claims(picture, &worst));
}

fn measured(picture: &Picture<'_>) -> [String; 8] {
    let (settings, figures) = (&picture.facts.batch.settings, &picture.iteration.figures);
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
    ]
}

fn source(picture: &Picture<'_>) -> [String; 4] {
    let (facts, batch) = (picture.facts, &picture.facts.batch);
    [
        format!("backend {}", batch.backend.as_str()),
        format!("driver {}", batch.driver.as_deref().unwrap_or("UNKNOWN")),
        format!("batch {}", batch.batch_id),
        format!("sha256 {}", facts.sha256.as_deref().unwrap_or("UNKNOWN")),
    ]
}

/// No wider than what was measured in this iteration.
fn claims(picture: &Picture<'_>, worst: &Extremes) -> String {
    let cap = picture.facts.batch.settings.cap;
    Claims::of(&picture.facts.verdict, worst, cap).paragraph()
}
