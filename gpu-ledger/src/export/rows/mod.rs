//! Settlements as rows: one each, and one for what is open or gets no row, in the columns that `bill --by process`
//! has where it has them.
//!
//! A row is made of its entry alone, and of what later entries say of that one, so that any number of them pass in
//! the same memory. How much of a span was alone, shared or uncovered is no matter of one entry: the bill has it.

mod columns;
#[cfg(test)]
mod tests;
mod write;

pub use columns::COLUMNS;
pub use write::{RowFormat, RowsError, Writer};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::bill::ledger::counts;
use crate::bill::report::{NoDriverRow, Open};
use crate::bill::{Booked, Ledger, LineKey, Placing, dispute_of};
use crate::identity::Basis;
use crate::journal::entry::{Figures, SettlementFigures};
use crate::journal::{Digest, Entry};
use crate::rendering::rfc3339;
use crate::settlement::{Account, NamedBy, SettlementId};
use crate::unit::{Bytes, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::{DisputeReason, Flag};

/// The word in the `format` field of JSON.
pub const FORMAT: &str = "gpu-ledger-settlement";
/// The number in the `version` field; raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// The name of the account of those whose name nobody knows.
const UNATTRIBUTED: &str = "unattributed";

/// One row. A field that does not apply, or that nobody knows, is null.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// [`FORMAT`].
    pub format: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// `<first 8 of the GPU's UUID>-<pid>-<startTime µs>`; null of what is not settled.
    pub id: Option<String>,
    /// `settled` (booked), `open` (accrued, not booked) or `no-driver-row` (never billed).
    pub state: &'static str,
    /// Its account; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Which rule of the file of rules did, from 1; null where none did. The file's SHA-256 is the label `rules`.
    pub rule: Option<u32>,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// The driver's pid; null where it is another user's.
    pub pid: Option<Pid>,
    /// The driver's `startTime`, RFC 3339 in UTC; null where it gave none.
    pub start: Option<String>,
    /// The same in microseconds since 1970.
    pub start_time_us: Option<WallUs>,
    /// Start and held time together; null where that is no interval, and of what is not over.
    pub end: Option<String>,
    /// The same in microseconds since 1970.
    pub end_time_us: Option<WallUs>,
    /// The driver's `time`: the whole row, whatever the period. Null of what is not settled.
    pub held_ms: Option<Ms>,
    /// Its overlap with the period; null where it has no interval to trust.
    pub in_period_ms: Option<Ms>,
    /// Asleep inside the whole row; null where not observed.
    pub asleep_ms: Option<Ms>,
    /// Busy at least this long, of the whole row.
    pub busy_ms_low: Option<Ms>,
    /// Busy at most this long.
    pub busy_ms_high: Option<Ms>,
    /// From how many samples.
    pub busy_samples: Option<u64>,
    /// `stats_v2`, `process_samples` or `stats_v1`.
    pub busy_source: Option<&'static str>,
    /// Peak device memory.
    pub max_memory_bytes: Option<Bytes>,
    /// Its program.
    pub program: Option<String>,
    /// Its real user id.
    pub uid: Option<u32>,
    /// What the name rests on.
    pub basis: Option<Basis>,
    /// Why there is no name, or why something about it is unknown.
    pub reason: Option<String>,
    /// Why the milliseconds are in doubt.
    pub dispute: Option<DisputeReason>,
    /// What a reader should know.
    pub flags: Vec<Flag>,
    /// By what else it can be billed.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Number of its entry in the journal.
    pub seq: Option<u64>,
    /// That entry's hash; null where the entry itself was not read.
    pub hash: Option<String>,
}

impl Row {
    /// Of nothing yet.
    fn of(state: &'static str, gpu: &GpuUuid) -> Self {
        Self {
            format: FORMAT,
            version: VERSION,
            id: None,
            state,
            account: UNATTRIBUTED.to_owned(),
            named_by: None,
            rule: None,
            gpu_uuid: gpu.clone(),
            pid: None,
            start: None,
            start_time_us: None,
            end: None,
            end_time_us: None,
            held_ms: None,
            in_period_ms: None,
            asleep_ms: None,
            busy_ms_low: None,
            busy_ms_high: None,
            busy_samples: None,
            busy_source: None,
            max_memory_bytes: None,
            program: None,
            uid: None,
            basis: None,
            reason: None,
            dispute: None,
            flags: Vec::new(),
            labels: BTreeMap::new(),
            seq: None,
            hash: None,
        }
    }

    /// Of what runs still.
    #[must_use]
    pub fn of_open(open: &Open, hash: Option<Digest>) -> Self {
        let nameless = open.nameless.map(|why| why.to_string());
        Self {
            account: open.account.clone(),
            named_by: open.named_by,
            pid: open.pid,
            start: open.start_time_us.map(rfc3339),
            start_time_us: open.start_time_us,
            in_period_ms: open.accrued_ms,
            program: open.program.clone(),
            uid: open.uid,
            basis: open.basis,
            reason: nameless.or_else(|| open.reason.clone()),
            seq: Some(open.seq),
            hash: hash.map(|hash| hash.to_string()),
            ..Self::of("open", &open.gpu_uuid)
        }
    }

    /// Of what gets no row.
    #[must_use]
    pub fn of_rowless(one: &NoDriverRow, hash: Option<Digest>) -> Self {
        Self {
            account: one.account.clone(),
            named_by: one.named_by,
            pid: one.pid,
            in_period_ms: one.seen_ms,
            program: one.program.clone(),
            uid: one.uid,
            reason: one.lost.map(|lost| lost.to_string()),
            seq: Some(one.seq),
            hash: hash.map(|hash| hash.to_string()),
            ..Self::of("no-driver-row", &one.gpu_uuid)
        }
    }
}

/// What becomes of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// It is a row.
    Row(Box<Row>),
    /// Another user's, of which no more is told than when the GPU was held.
    Folded,
    /// It is none: no settlement, or none that the period has.
    Nothing,
}

/// The row of an entry on the bill of a period. `later`: what was said of settlements after them.
#[must_use]
pub fn settled(entry: &Entry, period: Span, later: &Ledger) -> Found {
    let Figures::Settlement(figures) = &entry.figures else { return Found::Nothing };
    let conflict = later.is_in_conflict(entry.seq).then_some(DisputeReason::Conflict);
    let found = conflict.or(figures.dispute);
    let placing = Placing { dispute: found, ..Placing::of_figures(figures) };
    let key = LineKey { rank: 0, reason: None };
    let booked: Booked<LineKey> = placing.booked(key);
    if !counts(&booked, period) {
        return Found::Nothing;
    }
    if figures.pid.is_alias() {
        return Found::Folded;
    }
    let account = later.account_of(entry.seq).unwrap_or(&figures.account);
    let in_period_ms = match &booked {
        Booked::Placed(holding) => {
            Some(holding.span.overlap(period).map_or(Ms::ZERO, Span::length))
        }
        Booked::Disputed { .. } | Booked::NoStartTime { .. } => None,
    };
    let row = Row {
        in_period_ms,
        seq: Some(entry.seq),
        hash: Some(entry.hash.to_string()),
        ..row(figures, account, found)
    };
    Found::Row(Box::new(row))
}

fn row(figures: &SettlementFigures, account: &Account, found: Option<DisputeReason>) -> Row {
    let dispute = dispute_of(figures.start, figures.held, found);
    // A percentage of a span that contradicts the clock is none.
    let busy = figures.busy.as_ref().filter(|_| dispute.is_none());
    let spanned = figures.start.filter(|start| Span::of_row(*start, figures.held).is_some());
    let end_us = spanned.and_then(|start| start.0.checked_add(figures.held.0.checked_mul(1_000)?));
    let reason = account.unattributed();
    Row {
        id: Some(SettlementId::of_parts(&figures.gpu, figures.pid, figures.start).to_string()),
        account: reason.map_or_else(|| account.title(), |_| UNATTRIBUTED.to_owned()),
        named_by: account.named_by(),
        rule: match account {
            Account::Ruled { rule, .. } => Some(rule.0),
            Account::Unclassified { .. } | Account::Unattributed(_) => None,
        },
        pid: Some(figures.pid),
        start: figures.start.map(rfc3339),
        start_time_us: figures.start,
        end: end_us.map(WallUs).map(rfc3339),
        end_time_us: end_us.map(WallUs),
        held_ms: Some(figures.held),
        asleep_ms: figures.asleep,
        busy_ms_low: busy.map(|busy| busy.low),
        busy_ms_high: busy.map(|busy| busy.high),
        busy_samples: busy.and_then(|busy| busy.samples),
        busy_source: busy.map(|busy| busy.source.as_str()),
        max_memory_bytes: figures.memory_peak,
        program: figures.program.as_ref().map(ToString::to_string),
        uid: figures.uid,
        basis: figures.basis,
        reason: reason.map(|reason| reason.to_string()),
        dispute,
        flags: figures.flags.iter().copied().collect(),
        labels: figures.labels.iter().cloned().collect(),
        ..Row::of("settled", &figures.gpu)
    }
}
