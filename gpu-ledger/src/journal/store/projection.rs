//! An entry as columns, for people with `sqlite3`. Pure. Nothing here is read for a bill.

use rusqlite::types::Value;
use serde_json::json;

use crate::journal::entry::{
    Change, ClosedPeriod, Correction, CoverageEdge, Entry, EpochEdge, Evidence, Figures,
    OpenFigures, OpenKind, SettlementFigures,
};
use crate::memory::Stretch;
use crate::settlement::{Account, Ground, SettlementId};
use crate::unknown::{DisputeReason, GapCause};

/// A row of one of the tables beside the chain.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Projection {
    pub(super) table: &'static Table,
    /// In the order of the table's columns; the first is the entry's number.
    pub(super) columns: Vec<Value>,
}

/// One of the tables.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) insert: &'static str,
    pub(super) select: &'static str,
    pub(super) count: &'static str,
}

macro_rules! tables {
    ($($constant:ident = $name:literal, $places:literal;)*) => {
        $(const $constant: Table = Table {
            name: $name,
            insert: concat!("INSERT INTO ", $name, " VALUES (", $places, ")"),
            select: concat!("SELECT * FROM ", $name, " WHERE seq = ?"),
            count: concat!("SELECT count(*) FROM ", $name),
        };)*
        /// All of them.
        pub(super) const TABLES: &[&Table] = &[$(&$constant,)*];
    };
}

tables! {
    SETTLEMENT = "settlement", "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?";
    OPENED = "opened", "?,?,?,?,?,?,?,?,?,?,?,?,?";
    CORRECTION = "correction", "?,?,?,?,?,?,?,?";
    CONFLICT = "conflict", "?,?,?,?";
    GAP = "gap", "?,?,?,?,?,?";
    EPOCH = "epoch", "?,?,?,?,?,?,?";
    COVERED = "covered", "?,?,?,?,?,?";
    MARK = "mark", "?,?,?,?";
    MEMORY = "memory", "?,?,?,?,?,?,?,?,?,?,?,?,?";
    SIGNING_KEY = "signing_key", "?,?,?";
    CLOSED = "closed", "?,?,?,?,?,?,?,?,?,?,?,?";
}

/// The columns of an entry.
pub(super) fn projection(entry: &Entry, evidence: &Evidence) -> Projection {
    let seq = big(entry.seq);
    let (table, columns) = match &entry.figures {
        Figures::Settlement(figures) => (&SETTLEMENT, settlement(seq, figures)),
        Figures::Open(figures) => (&OPENED, opened(seq, figures)),
        Figures::Correction(figures) => (&CORRECTION, correction(seq, figures)),
        Figures::Conflict(figures) => {
            let held = match evidence {
                Evidence::Conflict { row, .. } => big(row.held.0),
                _ => Value::Null,
            };
            (&CONFLICT, vec![seq, big(figures.of), big(figures.read_at.wall.0), held])
        }
        Figures::Gap(gap) => {
            let gpu = gap.gpu.as_ref().map(|gpu| text(&gpu.0));
            let (from, to) = (big(gap.from.wall.0), big(gap.to.wall.0));
            let cause = text(gap.cause.as_str());
            (&GAP, vec![seq, cause, absent(gpu), from, to, absent(gap.size.map(big))])
        }
        Figures::Epoch(epoch) => {
            let (edge, index, name, cause) = match &epoch.edge {
                EpochEdge::Began { index, name } => {
                    ("began", Value::from(*index), optional(name.as_deref()), Value::Null)
                }
                EpochEdge::Ended { cause } => {
                    ("ended", Value::Null, Value::Null, text(cause.as_str()))
                }
            };
            let gpu = text(&epoch.gpu.0);
            (&EPOCH, vec![seq, gpu, big(epoch.at.wall.0), text(edge), index, name, cause])
        }
        Figures::Coverage(edge) => (&COVERED, covered(seq, edge)),
        Figures::Mark(mark) => {
            let until = big(mark.processes_until.wall.0);
            let unresolved = text(&json!(mark.unresolved).to_string());
            (&MARK, vec![seq, until, unresolved, optional(mark.note.as_deref())])
        }
        Figures::Memory(stretch) => (&MEMORY, memory(seq, stretch)),
        Figures::Key(change) => {
            (&SIGNING_KEY, vec![seq, text(&change.key), optional(change.previous.as_deref())])
        }
        Figures::Closed(period) => (&CLOSED, closed(seq, period)),
    };
    Projection { table, columns }
}

fn settlement(seq: Value, figures: &SettlementFigures) -> Vec<Value> {
    let SettlementFigures { gpu, pid, start, held, read_at, account, .. } = figures;
    let [account_kind, account, rule] = account_columns(account);
    let flags: Vec<&str> = figures.flags.iter().map(|flag| flag.as_str()).collect();
    let busy = figures.busy.as_ref();
    vec![
        seq,
        text(SettlementId::of_parts(gpu, *pid, *start).as_str()),
        text(&gpu.0),
        Value::from(pid.0),
        absent(start.map(|start| big(start.0))),
        big(held.0),
        big(read_at.wall.0),
        account_kind,
        account,
        rule,
        optional(figures.program.as_deref()),
        absent(figures.uid.map(Value::from)),
        optional(figures.basis.map(crate::identity::Basis::as_str)),
        text(&json!(flags).to_string()),
        optional(figures.dispute.map(DisputeReason::as_str)),
        absent(figures.asleep.map(|asleep| big(asleep.0))),
        absent(busy.map(|busy| big(busy.low.0))),
        absent(busy.map(|busy| big(busy.high.0))),
        absent(busy.and_then(|busy| busy.samples).map(big)),
        optional(busy.map(|busy| busy.source.as_str())),
        absent(figures.memory_peak.map(|peak| big(peak.0))),
        absent(figures.opened.map(big)),
        labels(&figures.labels),
        big(figures.booked.count),
        wide(figures.booked.held_ms),
    ]
}

fn opened(seq: Value, figures: &OpenFigures) -> Vec<Value> {
    let [account_kind, account, rule] = account_columns(&figures.account);
    let kind = match figures.kind {
        OpenKind::Row => "row",
        OpenKind::Masked => "masked",
        OpenKind::NoDriverRow => "no-driver-row",
    };
    vec![
        seq,
        text(kind),
        text(&figures.gpu.0),
        Value::from(figures.pid.0),
        absent(figures.start.map(|start| big(start.0))),
        big(figures.first_seen.ended.wall.0),
        account_kind,
        account,
        rule,
        optional(figures.program.as_deref()),
        absent(figures.uid.map(Value::from)),
        optional(figures.basis.map(crate::identity::Basis::as_str)),
        labels(&figures.labels),
    ]
}

fn correction(seq: Value, figures: &Correction) -> Vec<Value> {
    let of = big(figures.of);
    match &figures.change {
        Change::Ended { last_seen, cause } => {
            let cause = optional(cause.map(GapCause::as_str));
            let seen = big(last_seen.wall.0);
            let [a, b, c] = [Value::Null, Value::Null, Value::Null];
            vec![seq, of, text("ended"), seen, cause, a, b, c]
        }
        Change::Account(account) => {
            let [kind, account, rule] = account_columns(account);
            vec![seq, of, text("account"), Value::Null, Value::Null, kind, account, rule]
        }
    }
}

fn covered(seq: Value, edge: &CoverageEdge) -> Vec<Value> {
    let yes = |flag| text(if flag { "yes" } else { "no" });
    match edge {
        CoverageEdge::Began { at, host, device_touch, process_events } => {
            let (touch, events) = (yes(*device_touch), yes(*process_events));
            vec![seq, big(at.wall.0), text("began"), text(host), touch, events]
        }
        CoverageEdge::Ended { at } => {
            let [a, b, c] = [Value::Null, Value::Null, Value::Null];
            vec![seq, big(at.wall.0), text("ended"), a, b, c]
        }
    }
}

fn memory(seq: Value, stretch: &Stretch) -> Vec<Value> {
    let Stretch { gpu, from, to, pace, sampling, device, holders, beyond, voids, .. } = stretch;
    let holders: Vec<serde_json::Value> = holders
        .iter()
        .map(|holding| {
            let (holder, held) = (&holding.holder, holding.held);
            json!({
                "pid": holder.pid.0,
                "start_ns": holder.start.map(|start| start.0),
                "account": holder.account.title(),
                "named_by": holder.account.named_by().map(|by| by.to_string()),
                "program": holder.program.as_deref(),
                "uid": holder.uid,
                "byte_ms": held.memory.0.to_string(),
                "known_ms": held.known_ms,
                "unsaid_ms": held.unsaid_ms,
            })
        })
        .collect();
    let voids: Vec<(&str, u64)> =
        voids.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    let beyond = beyond.as_ref();
    vec![
        seq,
        text(&gpu.0),
        big(from.0),
        big(to.0),
        big(pace.period.us_up()),
        big(pace.cap.us_up()),
        big(sampling.samples),
        big(sampling.age_max.us_up()),
        wide(device.used.0),
        wide(device.unattributed.0),
        absent(beyond.map(|beyond| wide(beyond.held.memory.0))),
        text(&json!(voids).to_string()),
        text(&json!(holders).to_string()),
    ]
}

fn closed(seq: Value, closed: &ClosedPeriod) -> Vec<Value> {
    let ClosedPeriod { name, from, to, zone, through, tree, .. } = closed;
    let documents: Vec<[String; 2]> =
        closed.documents.iter().map(|(form, sha)| [form.to_string(), sha.to_string()]).collect();
    vec![
        seq,
        text(name),
        big(from.0),
        big(to.0),
        text(zone),
        big(*through),
        text(&tree.to_string()),
        text(&closed.by),
        text(&closed.share),
        absent(closed.prices.map(|prices| text(&prices.to_string()))),
        text(&json!(documents).to_string()),
        text(&closed.version),
    ]
}

fn account_columns(account: &Account) -> [Value; 3] {
    match account {
        Account::Ruled { name, rule } => [text("ruled"), text(name), Value::from(rule.0)],
        Account::Unclassified { name, ground } => {
            [text(ground.map_or("unclassified", Ground::as_str)), text(name), Value::Null]
        }
        Account::Unattributed(reason) => [text("unattributed"), text(reason.as_str()), Value::Null],
    }
}

fn labels(labels: &[(std::sync::Arc<str>, std::sync::Arc<str>)]) -> Value {
    let pairs: Vec<[&str; 2]> = labels.iter().map(|(name, value)| [&**name, &**value]).collect();
    text(&json!(pairs).to_string())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn absent(value: Option<Value>) -> Value {
    value.unwrap_or(Value::Null)
}

fn optional(value: Option<&str>) -> Value {
    absent(value.map(text))
}

/// A number as SQLite can have it: past 2⁶³ − 1 as text, never rounded.
pub(super) fn big(number: u64) -> Value {
    wide(u128::from(number))
}

fn wide(number: u128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::Text(number.to_string()), Value::Integer)
}

/// The number of such a value.
pub(super) fn small(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}
