//! `entries.parquet`: the range flat, a row an entry, for SQL. What an entry of another kind has no place for is null.

use std::io::Write;

use crate::accounting::Row;
use crate::audit::error::BundleError;
use crate::journal::entry::{Change, CoverageEdge, Entry, EpochEdge, Evidence, Figures};
use crate::journal::form::Printer;
use crate::settlement::Account;
use crate::tables::{Cell, Kind, Table, TableError};
use crate::unit::{Ms, WallUs};

/// Times are RFC 3339 in UTC; `_us` is the same in microseconds since 1970. `row_` is what the driver said.
const COLUMNS: [(&str, Kind); 50] = [
    ("seq", Kind::Integer),
    ("kind", Kind::Text),
    ("at", Kind::Text),
    ("at_us", Kind::Integer),
    ("gpu", Kind::Text),
    ("pid", Kind::Integer),
    ("start", Kind::Text),
    ("start_us", Kind::Integer),
    ("held_ms", Kind::Integer),
    ("read_at", Kind::Text),
    ("read_at_us", Kind::Integer),
    ("account_kind", Kind::Text),
    ("account", Kind::Text),
    ("named_by", Kind::Text),
    ("program", Kind::Text),
    ("uid", Kind::Integer),
    ("basis", Kind::Text),
    ("flags", Kind::Text),
    ("dispute", Kind::Text),
    ("asleep_ms", Kind::Integer),
    ("busy_low_ms", Kind::Integer),
    ("busy_high_ms", Kind::Integer),
    ("memory_peak_bytes", Kind::Integer),
    ("opened", Kind::Integer),
    ("booked_count", Kind::Integer),
    ("booked_held_ms", Kind::Integer),
    ("row_gpu", Kind::Text),
    ("row_pid", Kind::Integer),
    ("row_start_us", Kind::Integer),
    ("row_held_ms", Kind::Integer),
    ("row_running", Kind::Boolean),
    ("open_kind", Kind::Text),
    ("of", Kind::Integer),
    ("change", Kind::Text),
    ("cause", Kind::Text),
    ("from", Kind::Text),
    ("from_us", Kind::Integer),
    ("to", Kind::Text),
    ("to_us", Kind::Integer),
    ("size", Kind::Integer),
    ("edge", Kind::Text),
    ("seen_until", Kind::Text),
    ("seen_until_us", Kind::Integer),
    ("unresolved", Kind::Integer),
    ("note", Kind::Text),
    ("key", Kind::Text),
    ("voids", Kind::Text),
    ("hash", Kind::Text),
    ("previous", Kind::Text),
    ("evidence_sha256", Kind::Text),
];

/// The table in the making.
pub(super) struct EntryTable<W: Write + Send> {
    table: Table<W>,
    printer: Printer,
}

fn failed(error: TableError) -> BundleError {
    BundleError::Form(error.to_string())
}

impl<W: Write + Send> EntryTable<W> {
    pub(super) fn new(out: W) -> Result<Self, BundleError> {
        let table = Table::new(out, "entries", &COLUMNS, Vec::new()).map_err(failed)?;
        Ok(Self { table, printer: Printer::default() })
    }

    /// The next row.
    pub(super) fn row(&mut self, entry: &Entry, evidence: &Evidence) -> Result<(), BundleError> {
        let facts = Facts::of(entry, evidence);
        let [at, start, read_at, from, to, seen_until] = [
            Some(entry.at.stamp.wall),
            facts.start,
            facts.read_at,
            facts.from,
            facts.to,
            facts.seen_until,
        ]
        .map(|wall| (self.text(wall), us(wall)));
        let row = facts.row;
        let hashes = [entry.hash, entry.previous, entry.evidence].map(|hash| hash.to_string());
        let [hash, previous, sha256] = hashes.each_ref();
        let cells = [
            integer(Some(entry.seq)),
            Cell::Text(Some(entry.figures.kind())),
            Cell::Text(at.0.as_deref()),
            at.1,
            Cell::Text(facts.gpu),
            integer(facts.pid),
            Cell::Text(start.0.as_deref()),
            start.1,
            ms(facts.held),
            Cell::Text(read_at.0.as_deref()),
            read_at.1,
            Cell::Text(facts.account_kind),
            Cell::Text(facts.account),
            Cell::Text(facts.named_by.as_deref()),
            Cell::Text(facts.program),
            integer(facts.uid),
            Cell::Text(facts.basis.as_deref()),
            Cell::Text(facts.flags.as_deref()),
            Cell::Text(facts.dispute),
            ms(facts.asleep),
            ms(facts.busy.map(|busy| busy.0)),
            ms(facts.busy.map(|busy| busy.1)),
            integer(facts.memory_peak),
            integer(facts.opened),
            integer(facts.booked.map(|booked| booked.0)),
            integer(facts.booked.and_then(|booked| u64::try_from(booked.1).ok())),
            Cell::Text(row.map(|row| &*row.gpu.0)),
            integer(row.map(|row| row.pid.0.into())),
            us(row.and_then(|row| row.start)),
            ms(row.map(|row| row.held)),
            Cell::Boolean(row.map(|row| row.running)),
            Cell::Text(facts.open_kind.as_deref()),
            integer(facts.of),
            Cell::Text(facts.change),
            Cell::Text(facts.cause),
            Cell::Text(from.0.as_deref()),
            from.1,
            Cell::Text(to.0.as_deref()),
            to.1,
            integer(facts.size),
            Cell::Text(facts.edge),
            Cell::Text(seen_until.0.as_deref()),
            seen_until.1,
            integer(facts.unresolved),
            Cell::Text(facts.note),
            Cell::Text(facts.key),
            Cell::Text(facts.voids.as_deref()),
            Cell::Text(Some(hash)),
            Cell::Text(Some(previous)),
            Cell::Text(Some(sha256)),
        ];
        self.table.row(&cells).map_err(failed)
    }

    pub(super) fn finish(self) -> Result<W, BundleError> {
        self.table.finish().map_err(failed)
    }

    fn text(&mut self, wall: Option<WallUs>) -> Option<String> {
        let mut text = String::new();
        self.printer.moment(wall?.0, &mut text).then_some(text)
    }
}

/// What is larger than a signed number can be is null here; the lines have it.
fn integer(value: Option<u64>) -> Cell<'static> {
    Cell::Integer(value.and_then(|value| i64::try_from(value).ok()))
}

fn ms(value: Option<Ms>) -> Cell<'static> {
    integer(value.map(|value| value.0))
}

fn us(value: Option<WallUs>) -> Cell<'static> {
    integer(value.map(|value| value.0))
}

/// The word that a list of canonical words has for a value.
fn word(value: &impl crate::journal::canon::Canonical) -> Option<String> {
    let bytes = crate::journal::canon::encode(value).ok()?;
    crate::journal::canon::Reader::new(&bytes).text().ok().map(str::to_owned)
}

fn joined(words: impl Iterator<Item = &'static str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// What an entry has a place for.
#[derive(Default)]
struct Facts<'e> {
    gpu: Option<&'e str>,
    pid: Option<u64>,
    start: Option<WallUs>,
    held: Option<Ms>,
    read_at: Option<WallUs>,
    account_kind: Option<&'static str>,
    account: Option<&'e str>,
    named_by: Option<String>,
    program: Option<&'e str>,
    uid: Option<u64>,
    basis: Option<String>,
    flags: Option<String>,
    dispute: Option<&'static str>,
    asleep: Option<Ms>,
    busy: Option<(Ms, Ms)>,
    memory_peak: Option<u64>,
    opened: Option<u64>,
    booked: Option<(u64, u128)>,
    row: Option<&'e Row>,
    open_kind: Option<String>,
    of: Option<u64>,
    change: Option<&'static str>,
    cause: Option<&'static str>,
    from: Option<WallUs>,
    to: Option<WallUs>,
    size: Option<u64>,
    edge: Option<&'static str>,
    seen_until: Option<WallUs>,
    unresolved: Option<u64>,
    note: Option<&'e str>,
    key: Option<&'e str>,
    voids: Option<String>,
}

impl<'e> Facts<'e> {
    fn of(entry: &'e Entry, evidence: &'e Evidence) -> Self {
        let row = match evidence {
            Evidence::Settlement(evidence) => Some(&evidence.row),
            Evidence::Open(evidence) => evidence.row.as_ref(),
            Evidence::Conflict { row, .. } => Some(&**row),
            Evidence::None | Evidence::Epoch(_) | Evidence::Coverage(_) => None,
        };
        let none = Self { row, ..Self::default() };
        match &entry.figures {
            Figures::Settlement(one) => Self {
                gpu: Some(&one.gpu.0),
                pid: Some(one.pid.0.into()),
                start: one.start,
                held: Some(one.held),
                read_at: Some(one.read_at.wall),
                program: one.program.as_deref(),
                uid: one.uid.map(u64::from),
                basis: one.basis.as_ref().and_then(word),
                flags: Some(joined(one.flags.iter().map(|flag| flag.as_str()))),
                dispute: one.dispute.map(|dispute| dispute.as_str()),
                asleep: one.asleep,
                busy: one.busy.as_ref().map(|busy| (busy.low, busy.high)),
                memory_peak: one.memory_peak.map(|bytes| bytes.0),
                opened: one.opened,
                booked: Some((one.booked.count, one.booked.held_ms)),
                ..none.on(&one.account)
            },
            Figures::Open(one) => Self {
                gpu: Some(&one.gpu.0),
                pid: Some(one.pid.0.into()),
                start: one.start,
                open_kind: word(&one.kind),
                program: one.program.as_deref(),
                uid: one.uid.map(u64::from),
                basis: one.basis.as_ref().and_then(word),
                from: Some(one.first_seen.began.wall),
                to: Some(one.first_seen.ended.wall),
                ..none.on(&one.account)
            },
            Figures::Correction(one) => {
                let none = Self { of: Some(one.of), ..none };
                match &one.change {
                    Change::Ended { last_seen, cause } => Self {
                        change: Some("ended"),
                        cause: cause.map(|cause| cause.as_str()),
                        seen_until: Some(last_seen.wall),
                        ..none
                    },
                    Change::Account(account) => {
                        Self { change: Some("account"), ..none.on(account) }
                    }
                }
            }
            Figures::Conflict(one) => {
                Self { of: Some(one.of), read_at: Some(one.read_at.wall), ..none }
            }
            Figures::Gap(one) => Self {
                gpu: one.gpu.as_ref().map(|gpu| &*gpu.0),
                cause: Some(one.cause.as_str()),
                from: Some(one.from.wall),
                to: Some(one.to.wall),
                size: one.size,
                ..none
            },
            Figures::Epoch(one) => {
                let none = Self { gpu: Some(&one.gpu.0), from: Some(one.at.wall), ..none };
                match one.edge {
                    EpochEdge::Began { .. } => Self { edge: Some("began"), ..none },
                    EpochEdge::Ended { cause } => {
                        Self { edge: Some("ended"), cause: Some(cause.as_str()), ..none }
                    }
                }
            }
            Figures::Coverage(one) => {
                let (edge, at) = match one {
                    CoverageEdge::Began { at, .. } => ("began", at),
                    CoverageEdge::Ended { at } => ("ended", at),
                };
                Self { edge: Some(edge), from: Some(at.wall), ..none }
            }
            Figures::Mark(one) => Self {
                seen_until: Some(one.processes_until.wall),
                unresolved: u64::try_from(one.unresolved.len()).ok(),
                note: one.note.as_deref(),
                ..none
            },
            Figures::Memory(one) => Self {
                gpu: Some(&one.gpu.0),
                from: Some(one.from),
                to: Some(one.to),
                voids: Some(joined(one.voids.iter().map(|(void, _)| void.as_str()))),
                ..none
            },
            Figures::Key(one) => Self { key: Some(&one.key), ..none },
            Figures::Closed(one) => Self {
                from: Some(one.from),
                to: Some(one.to),
                of: Some(one.through),
                note: Some(&one.name),
                ..none
            },
        }
    }

    /// Of an account.
    fn on(self, account: &'e Account) -> Self {
        let (kind, name, named_by) = match account {
            Account::Ruled { name, rule } => ("ruled", &**name, Some(rule.0.to_string())),
            Account::Unclassified { name, ground } => {
                ("unclassified", &**name, ground.map(|ground| ground.as_str().to_owned()))
            }
            Account::Unattributed(reason) => ("unattributed", reason.as_str(), None),
        };
        Self { account_kind: Some(kind), account: Some(name), named_by, ..self }
    }
}
