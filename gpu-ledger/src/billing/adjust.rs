//! What came to closed periods since their bills were fixed, read for the bill that tells it.

use jiff::tz::TimeZone;

use super::closed::{prices_of, zone_of};
use super::{Read, Source};
use crate::bill::adjusted::{adjusted, may_change};
use crate::bill::ledger::Ledger;
use crate::bill::period::Period;
use crate::bill::report::{
    AdjustedPeriod, AdjustedTotal, Adjustments, Ask, ClosedLine, Head, Outside,
};
use crate::bill::{By, Closing, SharePolicy};
use crate::journal::Entry;
use crate::journal::store::Extent;
use crate::prices::PriceList;

use crate::rendering::rfc3339;
use crate::unit::{Span, WallUs};

/// The adjustments that the bill of a period tells; `None` where it is another period's that does.
pub(super) fn adjustments(
    read: &Read,
    span: Span,
    zone: &TimeZone,
    source: &mut dyn Source,
) -> anyhow::Result<Option<Adjustments>> {
    let closings = read.ledger.closings();
    let Some(end_ms) = closings.end_ms().filter(|_| closings.are_told_in(span)) else {
        return Ok(None);
    };
    let mut periods = Vec::new();
    for closing in closings.all() {
        periods.extend(of_period(read, closing, zone, source)?);
    }
    Ok(Some(Adjustments {
        after: rfc3339(WallUs(end_ms.saturating_mul(1_000))),
        is_in_lines: closings.meeting(span).next().is_some(),
        periods,
    }))
}

/// What came to one closed period; `None` where nothing did.
fn of_period(
    read: &Read,
    closing: &Closing,
    zone: &TimeZone,
    source: &mut dyn Source,
) -> anyhow::Result<Option<AdjustedPeriod>> {
    let (after_entry, to_entry) = (read.ledger.closings().told_through(closing), read.head.seq);
    let Some(span) = closing.span().filter(|_| after_entry < to_entry) else { return Ok(None) };
    let late = late(span, (after_entry, to_entry), source)?;
    // Of one that no later bill told of yet also what no entry of its own says: up to when was seen.
    if late.is_empty() && after_entry != closing.period.through {
        return Ok(None);
    }
    let (prices, prices_unknown) = match prices_of(closing, zone, source) {
        Ok(prices) => (prices, None),
        Err(why) => (None, Some(format!("{why:#}"))),
    };
    let by: By = closing.period.by.parse()?;
    let share: SharePolicy = closing.period.share.parse()?;
    let ask = ask(span, (by, share), prices, zone_of(closing, zone));
    let between = Between { after: after_entry, to: to_entry, late: &late };
    let entries = between.adjusted(&ask, &read.outside, source)?;
    if entries.is_empty() {
        return Ok(None);
    }
    let changes = entries.iter().flat_map(|entry| &entry.changes);
    let total = AdjustedTotal::of(changes, ask.prices.is_some());
    Ok(Some(AdjustedPeriod {
        period: ClosedLine::of(closing, false),
        by: by.as_str().to_owned(),
        share: share.as_str().to_owned(),
        after_entry,
        to_entry,
        currency: ask.prices.as_ref().map(|prices| prices.currency().to_owned()),
        prices_sha256: closing.period.prices.map(|digest| digest.to_string()),
        prices_unknown,
        entries,
        total,
    }))
}

/// Everything of a whole period.
pub(super) fn ask(
    span: Span,
    (by, share): (By, SharePolicy),
    prices: Option<PriceList>,
    zone: TimeZone,
) -> Ask {
    let period =
        Period { span, begins_with_journal: false, is_open_ended: false, beyond_now: None, zone };
    Ask { period, by, share, gpus: Vec::new(), accounts: Vec::new(), prices }
}

/// Entries after one number up to another that can change the bill of a period.
pub(super) fn late(
    span: Span,
    (after, to): (u64, u64),
    source: &mut dyn Source,
) -> anyhow::Result<Vec<Entry>> {
    let mut late = Vec::new();
    let extent = Extent { after, head: Some(to) };
    source.visit_entries(span, extent, &mut |entry| {
        if may_change(entry, span) {
            late.push(entry.clone());
        }
    })?;
    Ok(late)
}

/// Two heads of a journal, and what was entered between them.
pub(super) struct Between<'a> {
    pub(super) after: u64,
    pub(super) to: u64,
    pub(super) late: &'a [Entry],
}

impl Between<'_> {
    /// What each entry changes on the bill of a period.
    pub(super) fn adjusted(
        &self,
        ask: &Ask,
        outside: &Outside,
        source: &mut dyn Source,
    ) -> anyhow::Result<Vec<crate::bill::report::Adjustment>> {
        let mut read = |head: u64| -> anyhow::Result<(Ledger, Head)> {
            let mut ledger = Ledger::for_bill_by(ask.by);
            let head = source.read(ask.period.span, Extent::at(head), &mut ledger)?;
            Ok((ledger, head))
        };
        let (base, _) = read(self.after)?;
        let (fresh, head) = read(self.to)?;
        Ok(adjusted(&base, self.late, &fresh, (ask, head, outside))?)
    }
}
