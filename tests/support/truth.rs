//! What really happened, against what the report says, row by row: the one checker of every test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One line of the simulated driver's truth log.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) gpu_uuid: String,
    pub(crate) pid: u32,
    pub(crate) start_time_us: u64,
    pub(crate) end_time_us: u64,
    /// Null where the process was gone before it could be looked at.
    pub(crate) exe: Option<String>,
    pub(crate) argv: Option<Vec<String>>,
    /// Others that joined the span under the same pid.
    #[serde(default)]
    pub(crate) joined: Vec<Value>,
    /// Why the driver never had a final row of it.
    #[serde(default)]
    pub(crate) lost: Option<String>,
}

type Key = (String, u32, u64);

impl Row {
    fn key(&self) -> Key {
        (self.gpu_uuid.clone(), self.pid, self.start_time_us)
    }

    /// The driver's `time`: floored to the millisecond.
    pub(crate) fn held_ms(&self) -> u64 {
        (self.end_time_us - self.start_time_us) / 1_000
    }

    /// What a person would call it: the executable's file name, of an interpreter its script's.
    pub(crate) fn program(&self) -> Option<String> {
        let name = |path: &str| Path::new(path).file_name().unwrap().to_string_lossy().into_owned();
        let own = name(self.exe.as_ref()?);
        if !own.starts_with("python") {
            return Some(own);
        }
        let words = self.argv.as_ref()?;
        words.iter().skip(1).find(|word| !word.starts_with('-')).map(|script| name(script))
    }
}

/// A settlement, as far as the truth has something to say about it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Settled {
    pub(crate) id: String,
    pub(crate) gpu_uuid: String,
    pub(crate) pid: u32,
    pub(crate) start_time_us: Option<u64>,
    pub(crate) held_ms: u64,
    pub(crate) alone_ms: u64,
    pub(crate) shared_ms: u64,
    pub(crate) uncovered_ms: u64,
    pub(crate) account: String,
    pub(crate) program: Option<String>,
    pub(crate) argv: Option<Vec<String>>,
    pub(crate) argv_truncated: Option<bool>,
    pub(crate) basis: Option<String>,
    pub(crate) reason: Option<String>,
}

/// A gap of the report.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) from_us: u64,
    pub(crate) to_us: u64,
    pub(crate) cause: String,
    pub(crate) gpu: Option<String>,
    pub(crate) size: Option<u64>,
}

/// In what a report is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Neither settled, nor open, nor hidden in a gap that its cause explains.
    Lost(Row),
    /// Booked more than once, or booked and open.
    Doubled(Row),
    /// Named otherwise than it was.
    Misnamed { row: Row, said: Option<String>, argv: Option<Vec<String>> },
    /// With other milliseconds than it had.
    WrongAmount { row: Row, held_ms: u64 },
    /// Without a name, for a reason that the report itself does not bear out.
    Unjustified { row: Row, reason: Option<String> },
    /// Settled, and yet never there.
    Invented(String),
    /// A gap that says more rows were lost than were.
    WideGap { cause: String, size: u64, hidden: u64 },
    /// Anything about the report as a whole.
    Whole(String),
}

/// Compares a report with what really happened. Rows that ended before coverage began belong to no
/// period of the report, and must not be in it.
pub(crate) fn compare(report: &Value, truth: &[Row]) -> Vec<Fault> {
    let mut faults = whole(report);
    let gaps = gaps(report);
    let covered_from_us = moment(&report["coverage"]["start"]);
    let settled = settlements(report);
    let mut by_key: BTreeMap<Key, Vec<&Settled>> = BTreeMap::new();
    for one in &settled {
        let key = one.start_time_us.map(|start| (one.gpu_uuid.clone(), one.pid, start));
        by_key.entry(key.unwrap_or_default()).or_default().push(one);
    }
    let open = open_keys(report);
    let mut missing = Vec::new();
    for row in truth.iter().filter(|row| row.end_time_us >= covered_from_us) {
        let booked = by_key.remove(&row.key()).unwrap_or_default();
        let places = booked.len() + usize::from(open.contains(&row.key()));
        if let (Some(_), Some(one)) = (&row.lost, booked.first()) {
            faults.push(Fault::Invented(one.id.clone()));
        }
        match (places, booked.first()) {
            (0, _) if row.lost.is_none() => missing.push(row.clone()),
            (0, _) | (1, None) => {}
            (1, Some(one)) => faults.extend(judge(row, one, &gaps, covered_from_us)),
            _ => faults.push(Fault::Doubled(row.clone())),
        }
    }
    faults.extend(by_key.values().flatten().map(|one| Fault::Invented(one.id.clone())));
    faults.extend(hide(missing, &gaps));
    faults
}

/// What a settlement says of the row that it is about.
fn judge(row: &Row, one: &Settled, gaps: &[Gap], covered_from_us: u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    if one.held_ms != row.held_ms() {
        faults.push(Fault::WrongAmount { row: row.clone(), held_ms: one.held_ms });
    }
    let spans_two = !row.joined.is_empty();
    match (&one.program, one.reason.as_deref()) {
        (Some(said), None) if !spans_two => {
            let argv_differs = one.argv_truncated == Some(false) && !same_words(row, one);
            // A process that was gone when the simulator looked has no true name to compare with.
            let named_otherwise = row.program().is_some_and(|name| name != *said);
            if named_otherwise || argv_differs {
                let (said, argv) = (one.program.clone(), one.argv.clone());
                faults.push(Fault::Misnamed { row: row.clone(), said, argv });
            }
        }
        (None, Some("row-spans-two-lifetimes")) if spans_two => {}
        (None, Some("event-lost")) if event_lost_before(row, gaps) => {}
        (None, Some("predates-coverage")) if row.start_time_us < covered_from_us => {}
        (_, reason) => {
            let reason = reason.map(str::to_owned);
            faults.push(Fault::Unjustified { row: row.clone(), reason });
        }
    }
    faults
}

/// Bytes that are no UTF-8 stand in both, each in its own way.
fn same_words(row: &Row, one: &Settled) -> bool {
    let is_whole = |word: &String| !word.contains(char::REPLACEMENT_CHARACTER);
    match (&row.argv, &one.argv) {
        (Some(truth), Some(said)) if truth.iter().all(is_whole) => truth == said,
        _ => true,
    }
}

fn event_lost_before(row: &Row, gaps: &[Gap]) -> bool {
    gaps.iter().any(|gap| gap.cause == "event-lost" && gap.from_us <= row.start_time_us)
}

/// Rows that nobody booked, put into the gaps that say so.
fn hide(missing: Vec<Row>, gaps: &[Gap]) -> Vec<Fault> {
    let mut room: Vec<(Gap, u64)> = joined(gaps).into_iter().map(|gap| (gap, 0)).collect();
    let mut faults = Vec::new();
    for row in missing {
        let place = room.iter_mut().find(|(gap, hidden)| {
            gap.gpu.as_ref() == Some(&row.gpu_uuid)
                && gap.from_us <= row.end_time_us
                && row.end_time_us <= gap.to_us
                && gap.size.is_none_or(|size| *hidden < size)
        });
        match place {
            Some((_, hidden)) => *hidden += 1,
            None => faults.push(Fault::Lost(row)),
        }
    }
    for (gap, hidden) in room {
        let size = gap.size.unwrap_or(hidden);
        // Where a GPU was reset or switched off, what had not ended by then is in the gap as well.
        if size > hidden && ["row-overwritten", "rows-possibly-evicted"].contains(&&*gap.cause) {
            faults.push(Fault::WideGap { cause: gap.cause, size, hidden });
        }
    }
    faults
}

/// Gaps of one cause and GPU that overlap are one interval in which so many rows were lost together:
/// which of two reads in a row an exit counts with is not a matter of its own time.
fn joined(gaps: &[Gap]) -> Vec<Gap> {
    let mut joined: Vec<Gap> = Vec::new();
    for gap in gaps.iter().filter(|gap| hides_rows(&gap.cause)) {
        let before = joined.iter_mut().rev().find(|before| {
            before.cause == gap.cause && before.gpu == gap.gpu && gap.from_us <= before.to_us
        });
        match before {
            Some(before) => {
                before.to_us = before.to_us.max(gap.to_us);
                before.size = before.size.zip(gap.size).map(|(one, other)| one + other);
            }
            None => joined.push(gap.clone()),
        }
    }
    joined
}

fn hides_rows(cause: &str) -> bool {
    let causes = ["rows-possibly-evicted", "cleared-or-reset", "row-overwritten", "row-vanished"];
    causes.contains(&cause) || ["accounting-off", "epoch-broken"].contains(&cause)
}

/// What must hold of every report, whatever happened.
fn whole(report: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut claim = |holds: bool, what: String| {
        if !holds {
            faults.push(Fault::Whole(what));
        }
    };
    for error in schema().iter_errors(report) {
        claim(false, format!("schema: {error} at {}", error.instance_path()));
    }
    for gpu in report["gpus"].as_array().unwrap() {
        let ms = |part: &str| gpu[part].as_u64().unwrap();
        let parts = ms("alone_ms") + ms("shared_ms") + ms("free_ms") + ms("uncovered_ms");
        claim(parts == ms("period_ms"), format!("does not close: {gpu}"));
    }
    for what in crate::explained::contradictions(report) {
        claim(false, what);
    }
    let events = &report["events"];
    let count = |part: &str| events[part].as_u64().unwrap();
    let balances = count("produced") == count("received") + count("lost");
    claim(balances, format!("events do not balance: {events}"));
    let missed = &report["missed_in_coverage"];
    claim(*missed == 0, format!("missed_in_coverage is {missed}"));
    let mut ids = BTreeSet::new();
    for one in settlements(report) {
        let parts = one.alone_ms + one.shared_ms + one.uncovered_ms;
        claim(parts == one.held_ms, format!("parts are not what was held: {one:?}"));
        claim(one.basis.is_some() != one.reason.is_some(), format!("basis or reason: {one:?}"));
        claim(ids.insert(one.id.clone()), format!("twice: {}", one.id));
        let named = one.account != "unattributed";
        claim(named == one.basis.is_some(), format!("account and basis: {one:?}"));
    }
    faults
}

fn schema() -> jsonschema::Validator {
    let text = include_str!("../../gpu-ledger/schema/trace.v1.schema.json");
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
}

/// Every settlement, the command's and the host's.
pub(crate) fn settlements(report: &Value) -> Vec<Settled> {
    let command = report["command"].get("settlements").and_then(Value::as_array);
    let host = report["host"]["settlements"].as_array().unwrap();
    let all = command.into_iter().flatten().chain(host);
    all.map(|one| serde_json::from_value(one.clone()).unwrap()).collect()
}

/// Every gap.
pub(crate) fn gaps(report: &Value) -> Vec<Gap> {
    let gaps = report["coverage"]["gaps"].as_array().unwrap().iter().map(|gap| Gap {
        from_us: moment(&gap["from"]),
        to_us: moment(&gap["to"]),
        cause: gap["cause"].as_str().unwrap().to_owned(),
        gpu: gap["gpu"].as_str().map(str::to_owned),
        size: gap["size"].as_u64(),
    });
    gaps.collect()
}

fn open_keys(report: &Value) -> BTreeSet<Key> {
    let rows = report["open"].as_array().unwrap().iter().filter_map(|open| {
        let gpu = open["gpu_uuid"].as_str().unwrap().to_owned();
        let pid = u32::try_from(open["pid"].as_u64().unwrap()).unwrap();
        Some((gpu, pid, open["start_time_us"].as_u64()?))
    });
    rows.collect()
}

fn moment(text: &Value) -> u64 {
    let moment: jiff::Timestamp = text.as_str().unwrap().parse().unwrap();
    u64::try_from(moment.as_microsecond()).unwrap()
}
