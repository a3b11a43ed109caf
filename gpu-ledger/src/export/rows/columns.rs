//! A row as cells: of CSV and of Parquet.

use serde::Serialize;

use super::Row;
use crate::bill::table;

/// A cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    /// A figure, where it is known.
    Number(Option<u64>),
    /// A word of ours, an id, a moment.
    Word(Option<String>),
    /// A stranger's.
    Name(Option<String>),
}

/// A column: its name, and a row's cell.
type Column = (&'static str, fn(&Row) -> Cell);

fn number(value: Option<u64>) -> Cell {
    Cell::Number(value)
}

fn word(value: Option<impl ToString>) -> Cell {
    Cell::Word(value.map(|value| value.to_string()))
}

fn name(value: Option<&str>) -> Cell {
    Cell::Name(value.map(ToOwned::to_owned))
}

/// As one text of JSON, that a spreadsheet takes for nothing else.
fn labels(row: &Row) -> Cell {
    fn json(value: &impl Serialize) -> Option<String> {
        crate::rendering::json(value).ok().map(|text| text.trim_end().to_owned())
    }
    Cell::Word(json(&row.labels).filter(|_| !row.labels.is_empty()))
}

fn flags(row: &Row) -> Cell {
    let words: Vec<&str> = row.flags.iter().map(|flag| flag.as_str()).collect();
    Cell::Word(Some(words.join(" ")).filter(|words| !words.is_empty()))
}

/// Every column, in its order.
pub(super) const ALL: [Column; 28] = [
    ("id", |row| word(row.id.as_ref())),
    ("state", |row| word(Some(row.state))),
    ("account", |row| name(Some(&row.account))),
    ("named_by", |row| word(row.named_by)),
    ("rule", |row| number(row.rule.map(u64::from))),
    ("gpu_uuid", |row| word(Some(&row.gpu_uuid))),
    ("pid", |row| number(row.pid.map(|pid| pid.0.into()))),
    ("start", |row| word(row.start.as_ref())),
    ("start_time_us", |row| number(row.start_time_us.map(|at| at.0))),
    ("end", |row| word(row.end.as_ref())),
    ("end_time_us", |row| number(row.end_time_us.map(|at| at.0))),
    ("held_ms", |row| number(row.held_ms.map(|ms| ms.0))),
    ("in_period_ms", |row| number(row.in_period_ms.map(|ms| ms.0))),
    ("asleep_ms", |row| number(row.asleep_ms.map(|ms| ms.0))),
    ("busy_ms_low", |row| number(row.busy_ms_low.map(|ms| ms.0))),
    ("busy_ms_high", |row| number(row.busy_ms_high.map(|ms| ms.0))),
    ("busy_samples", |row| number(row.busy_samples)),
    ("busy_source", |row| word(row.busy_source)),
    ("max_memory_bytes", |row| number(row.max_memory_bytes.map(|bytes| bytes.0))),
    ("program", |row| name(row.program.as_deref())),
    ("uid", |row| number(row.uid.map(u64::from))),
    ("basis", |row| word(row.basis.map(crate::identity::Basis::as_str))),
    ("reason", |row| word(row.reason.as_ref())),
    ("dispute", |row| word(row.dispute)),
    ("flags", flags),
    ("labels", labels),
    ("seq", |row| number(row.seq)),
    ("hash", |row| word(row.hash.as_ref())),
];

/// The names of the columns, in their order.
pub const COLUMNS: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut at = 0;
    #[expect(clippy::indexing_slicing, reason = "while compiling")]
    while at < ALL.len() {
        names[at] = ALL[at].0;
        at += 1;
    }
    names
};

impl Cell {
    /// As CSV has it: what is not known is empty.
    pub(super) fn text(self, is_raw: bool) -> String {
        match self {
            Self::Number(value) => value.map(|value| value.to_string()).unwrap_or_default(),
            Self::Word(value) => value.unwrap_or_default(),
            Self::Name(value) => value.map(|name| table::text(&name, is_raw)).unwrap_or_default(),
        }
    }
}
