//! What a reader did not ask for.

use super::assemble::UNATTRIBUTED;
use super::{Ask, LeftOut, Report};
use crate::bill::BillError;
use crate::bill::chosen::refuse_unknown_lines;

/// Leaves the lines of other names out, and says what they were.
pub(super) fn filter(
    report: &mut Report,
    ask: &Ask,
    gpus_left_out: usize,
) -> Result<(), BillError> {
    if ask.accounts.is_empty() && ask.gpus.is_empty() {
        return Ok(());
    }
    refuse_unknown_lines(&ask.accounts, names(report), |name| {
        names(report).any(|known| known == name)
            || report.accounts.iter().any(|line| line.is_called(name))
    })?;
    let wanted = |name: &str| ask.accounts.is_empty() || ask.accounts.iter().any(|one| one == name);
    let lines = report.accounts.len();
    report.accounts.retain(|line| {
        ask.accounts.is_empty() || ask.accounts.iter().any(|name| line.is_called(name))
    });
    if !wanted(UNATTRIBUTED) {
        report.unattributed.clear();
    }
    report.disputed.retain(|line| wanted(&line.account));
    report.open.retain(|line| wanted(&line.account));
    report.no_driver_row.retain(|line| wanted(&line.account));
    if let Some(settlements) = &mut report.settlements {
        settlements.retain(|line| wanted(&line.account));
    }
    let shown = shown(report);
    let lines = lines.saturating_sub(report.accounts.len());
    report.left_out = Some(LeftOut {
        gpus: u64::try_from(gpus_left_out).unwrap_or(u64::MAX),
        accounts: u64::try_from(lines).unwrap_or(u64::MAX),
        settlements: report.settlements_total.saturating_sub(shown.0),
        span_ms_total: report.span_ms_total.saturating_sub(shown.1),
    });
    Ok(())
}

/// Every name that a line of it has.
fn names(report: &Report) -> impl Iterator<Item = &str> {
    let accounts = report.accounts.iter().map(|line| &*line.account);
    let disputed = report.disputed.iter().map(|line| &*line.account);
    let open = report.open.iter().map(|line| &*line.account);
    let rowless = report.no_driver_row.iter().map(|line| &*line.account);
    let nameless = report.unattributed.iter().map(|_| UNATTRIBUTED);
    accounts.chain(disputed).chain(open).chain(rowless).chain(nameless)
}

/// Settlements on the lines, and their milliseconds.
fn shown(report: &Report) -> (u64, u128) {
    let accounts =
        report.accounts.iter().map(|line| (line.settlements, line.span_ms_total.0.into()));
    let nameless = report.unattributed.iter().map(|line| (line.count, line.span_ms_total.0.into()));
    let disputed = report.disputed.iter().map(|line| (line.count, line.raw_ms));
    accounts.chain(nameless).chain(disputed).fold(
        (0, 0),
        |(count, ms): (u64, u128), (more, held)| {
            (count.saturating_add(more), ms.saturating_add(held))
        },
    )
}
