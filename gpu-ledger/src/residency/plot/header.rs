//! What stands above the curves: verdicts first.

use super::Picture;
use super::sheet::Sheet;
use crate::residency::verdict::{Verdict, Void};

/// The title, in lines: why the picture may not be used, or what it is of.
pub(super) fn titles(picture: &Picture<'_>) -> Vec<String> {
    let mut titles = refusals(&picture.facts.verdict);
    if titles.is_empty() {
        titles.push(format!("Residency of {}", gpu(picture)));
    }
    if !picture.facts.batch.harness_verified {
        titles.push("UNVERIFIED HARNESS".to_owned());
    }
    titles
}

/// `VOID: …` and `BACKEND FAIL: …`, where they hold.
fn refusals(verdict: &Verdict) -> Vec<String> {
    let mut refusals = Vec::new();
    if !verdict.data.is_empty() {
        let reasons: Vec<String> = verdict.data.iter().map(reason).collect();
        refusals.push(format!("VOID: {}", reasons.join(", ")));
    }
    if !verdict.backend.is_empty() {
        let reasons: Vec<String> = verdict.backend.iter().map(ToString::to_string).collect();
        refusals.push(format!("BACKEND FAIL: {}", reasons.join(", ")));
    }
    refusals
}

fn reason(void: &Void) -> String {
    let Void { reason, count, first_point } = void;
    match first_point {
        Some(point) => format!("{reason} {count} (first at point {point})"),
        None => format!("{reason} {count}"),
    }
}

fn gpu(picture: &Picture<'_>) -> String {
    let batch = &picture.facts.batch;
    format!("{} {}", batch.gpu_name.as_deref().unwrap_or("UNKNOWN"), batch.gpu_uuid)
}

/// For readers that show no picture.
pub(super) fn description(picture: &Picture<'_>) -> String {
    let Picture { facts, iteration, .. } = picture;
    format!(
        "Device memory, utilization, power, temperature, processor, sample age and probe intervals of {} \
         over time, batch {}, iteration {} of {}.",
        gpu(picture),
        facts.batch.batch_id,
        iteration.number,
        facts.iterations,
    )
}

/// Draws all of it.
pub(super) fn draw(sheet: &mut Sheet, picture: &Picture<'_>) {
    let Picture { facts, iteration, .. } = picture;
    let refused = !facts.verdict.accepted();
    for title in titles(picture) {
        let loud = refused || !facts.batch.harness_verified && title.starts_with("UNVERIFIED");
        sheet.line(if loud { "h loud" } else { "h" }, &title);
    }
    let mut of = Vec::new();
    if refused {
        of.push(gpu(picture));
    }
    of.push(format!("iteration {} of {}", iteration.number, facts.iterations));
    of.extend(iteration.labels.iter().map(|(name, value)| format!("{name} {value}")));
    of.push(format!("T0 {}", iteration.t0_wall.as_deref().unwrap_or("UNKNOWN")));
    sheet.facts("s", &of);
    for note in &iteration.notes {
        sheet.line("s loud", note);
    }
    if sheet.void && iteration.voids.is_empty() {
        sheet.line(
            "s",
            "This iteration has no reason of its own: one void iteration voids the whole batch.",
        );
    }
}
