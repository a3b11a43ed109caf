//! What of a page fits on a screen: the worst of all iterations, and one line of a phase.

use super::{Detail, Iteration, Shown, stretch};
use crate::rendering::cell;
use crate::residency::compare::phase_title;
use crate::residency::pages::Page;
use crate::residency::statistics::window::IterationStatistics;

/// So many phases have a line of their own.
const PHASES_SHOWN: usize = 10;
/// And so many processes.
const PROCESSES_SHOWN: usize = 5;

pub(super) fn cost(page: &mut Page, shown: &Shown<'_>) {
    page.blank();
    page.line("The probe's own cost, the worst iteration");
    page.wrapped(2, 4, &shown.extremes().cost.parts().join("; "));
}

/// Of a batch of one iteration.
pub(super) fn iteration(page: &mut Page, of: &Iteration<'_>, statistics: &IterationStatistics) {
    page.blank();
    page.line("Statistics by time");
    stretch::by_samples(page, statistics);
    stretch::stretch(page, "Whole window", &statistics.window, PROCESSES_SHOWN);
    if statistics.phases.is_empty() {
        return;
    }
    page.blank();
    page.line("  phase                         from ms     length ms  memory GiB mean      peak");
    for phase in statistics.phases.iter().take(PHASES_SHOWN) {
        let title = phase_title(phase.name.as_deref(), phase.occurrence);
        let (mean, peak) = stretch::memory(&phase.stretch);
        page.line(&format!(
            "  {}{:>13}{:>14}{mean:>17}{peak:>10}",
            cell(&title, 24),
            phase.from_ms.to_string(),
            phase.stretch.length_ms.to_string(),
        ));
    }
    let rest = statistics.phases.len().saturating_sub(PHASES_SHOWN);
    if rest > 0 {
        page.line(&format!("  and {rest} more phases: --iteration {}", of.number));
    }
}

/// What more there is, and how to have it.
pub(super) fn more(page: &mut Page, shown: &Shown<'_>) {
    if shown.detail == Detail::Brief {
        page.blank();
        page.line("--all prints everything, --iteration N one iteration, --json for programs.");
    }
}
