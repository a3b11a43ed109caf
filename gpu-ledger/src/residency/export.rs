//! The points of a window as a Parquet table, with the verdicts in its footer.
//!
//! Purpose: `timeline.csv` for programs that read Parquet, computed from the raw rows and not from that file.
//! May touch: what it writes into. May not: put what may not be used where somebody averages it.

use std::io::Write;

use super::files::{CurvePoint, FilesError, Walked, walk_proven};
use super::moment::Length;
use super::reading::{Read, ReadIteration};
use super::sample::{Fields, Reading};
use crate::tables::{Cell, Kind, Table, TableError};

/// The columns of `timeline.csv`, all numbers in base units: ns, bytes, mW, percent, hundredths of a percent.
const COLUMNS: [(&str, Kind); 19] = [
    ("j", Kind::Integer),
    ("t_ns", Kind::Integer),
    ("t_from_t0_ns", Kind::Integer),
    ("available", Kind::Boolean),
    ("held_sample", Kind::Integer),
    ("sample_age_ns", Kind::Integer),
    ("sample_age_lower_ns", Kind::Integer),
    ("mem_used_bytes", Kind::Integer),
    ("gpu_util_pct", Kind::Integer),
    ("power_mw", Kind::Integer),
    ("temp_c", Kind::Integer),
    ("cpu_valid", Kind::Boolean),
    ("cpu_centipct", Kind::Integer),
    ("invalid_reason", Kind::Text),
    ("raw_mem_used_bytes", Kind::Integer),
    ("raw_gpu_util_pct", Kind::Integer),
    ("raw_power_mw", Kind::Integer),
    ("raw_temp_c", Kind::Integer),
    ("cpu_invalid_reason", Kind::Text),
];

/// Why a window was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Its rows cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The table cannot be written.
    #[error("{0}")]
    Table(String),
}

impl From<TableError> for ExportError {
    fn from(error: TableError) -> Self {
        Self::Table(error.to_string())
    }
}

/// Writes the points of a window of a batch that was proven.
pub fn timeline<W: Write + Send>(
    read: &Read,
    one: &ReadIteration,
    out: W,
) -> Result<W, ExportError> {
    let mut table = Table::new(out, "timeline", &COLUMNS, facts(read, one))?;
    let t0 = one.derived.figures.t0_boottime_ns;
    let mut failure = None;
    walk_proven(&one.folder, &read.facts.settings, |walked| {
        if let (Walked::Point(at), None) = (walked, &failure) {
            let from_t0 = t0.and_then(|t0| at.point.t.since(t0));
            failure = table.row(&row(at, from_t0)).err();
        }
        Ok(())
    })?;
    failure.map_or(Ok(()), Err)?;
    Ok(table.finish()?)
}

/// The three keys and both verdicts, as every file of a batch has them.
fn facts(read: &Read, one: &ReadIteration) -> Vec<(String, Option<String>)> {
    let seed = one.derived.seed;
    let verdict = &read.verdict;
    let reasons = verdict.backend.iter().map(ToString::to_string);
    let reasons = reasons.chain(verdict.data.iter().map(|void| void.reason.to_string()));
    let facts = [
        ("batch_id", Some(read.facts.batch_id.clone())),
        ("iteration", Some(one.number.to_string())),
        ("gpu_uuid", Some(read.facts.gpu_uuid.to_string())),
        ("gpu_telemetry_backend", seed.gpu_telemetry_backend.map(|who| who.as_str().to_owned())),
        ("gpu_cli_subprocess_used", seed.gpu_cli_subprocess_used.map(|used| used.to_string())),
        (
            "gpu_deadline_recovery_count",
            seed.gpu_deadline_recovery_count.map(|count| count.to_string()),
        ),
        ("backend_verdict", Some(verdict.backend_verdict().as_str().to_owned())),
        ("data_verdict", Some(verdict.data_verdict().as_str().to_owned())),
        ("reasons", Some(reasons.collect::<Vec<_>>().join(","))),
    ];
    facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn row<'point>(at: &CurvePoint<'point>, from_t0: Option<u64>) -> [Cell<'point>; 19] {
    let point = at.point;
    let is_available = point.missing.is_none();
    let fields = point.held.map(|held| &held.fields);
    let [memory, utilization, power, temperature] = values(fields.filter(|_| is_available));
    let [raw_memory, raw_utilization, raw_power, raw_temperature] =
        values(fields.filter(|_| !is_available));
    let length = |length: Option<Length>| integer(length.map(|length| length.0));
    [
        integer(Some(point.j)),
        integer(Some(point.t.0)),
        integer(from_t0),
        Cell::Boolean(Some(is_available)),
        integer(point.held.map(|held| held.k)),
        length(point.age),
        length(point.age_lower),
        memory,
        utilization,
        power,
        temperature,
        Cell::Boolean(Some(at.cpu.centipercent.is_some())),
        integer(at.cpu.centipercent),
        Cell::Text(point.missing.map(super::timeline::Missing::as_str)),
        raw_memory,
        raw_utilization,
        raw_power,
        raw_temperature,
        Cell::Text(at.cpu.invalid.map(super::events::CpuInvalid::as_str)),
    ]
}

/// What is greater than a signed number can be is no number that a GPU gives.
fn integer(value: Option<u64>) -> Cell<'static> {
    Cell::Integer(value.and_then(|value| i64::try_from(value).ok()))
}

fn values(fields: Option<&Fields>) -> [Cell<'static>; 4] {
    let of = |reading: fn(&Fields) -> Option<i64>| Cell::Integer(fields.and_then(reading));
    [
        of(|fields| i64::try_from(fields.memory.known()?.used_bytes).ok()),
        of(|fields| fields.utilization.as_ref().and_then(Reading::known).copied().map(i64::from)),
        of(|fields| fields.power.as_ref().and_then(Reading::known).copied().map(i64::from)),
        of(|fields| fields.temperature.as_ref().and_then(Reading::known).copied().map(i64::from)),
    ]
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::{COLUMNS, timeline};
    use crate::residency::files::TIMELINE;
    use crate::residency::files::tests::made::{self, Recipe};
    use crate::residency::reading::Read;

    /// Every cell of a table, as text; null is empty.
    fn cells(bytes: Vec<u8>) -> (Vec<Vec<String>>, Vec<(String, String)>) {
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let facts = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let facts = facts.iter().map(|fact| (fact.key.clone(), fact.value.clone().unwrap()));
        let facts = facts.collect();
        let rows = reader.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let cells = row.get_column_iter().map(|(_, field)| field.to_string());
            cells.map(|cell| if cell == "null" { String::new() } else { cell }).collect()
        });
        (rows.collect(), facts)
    }

    /// A number of the CSV in the base unit of the table.
    fn in_base_unit(column: &str, cell: &str) -> String {
        let digits = match column {
            // Milliseconds with three digits: the table has the nanoseconds.
            name if name.ends_with("_ns") && cell.contains('.') => 6,
            "cpu_centipct" => 2,
            _ => return cell.to_owned(),
        };
        if cell.is_empty() {
            return String::new();
        }
        let (whole, rest) = cell.split_once('.').unwrap();
        format!("{whole}{rest:0<digits$}").parse::<i64>().unwrap().to_string()
    }

    #[test]
    fn it_has_the_cells_of_the_timeline_and_the_verdicts_in_its_footer() {
        let stalled = vec![vec![1, 1, 1, 1]; 3].into_iter().chain([vec![2_000, 1, 1, 1]]);
        let stalled: Vec<[u64; 4]> =
            stalled.chain([vec![1; 4]]).map(|pass| pass.try_into().unwrap()).collect();
        for (latencies, verdict) in [(vec![[1, 1, 1, 1]], "valid"), (stalled, "void")] {
            let folder = tempfile::tempdir().unwrap();
            let recipe =
                Recipe { duration_ms: 4_000, windows: vec![latencies], ..Recipe::default() };
            let report = made::batch(folder.path(), &recipe);
            let read = Read::of(&report.folder).unwrap();
            let bytes = timeline(&read, &read.iterations[0], Vec::new()).unwrap();
            let (table, facts) = cells(bytes);
            let csv = std::fs::read_to_string(report.iterations[0].path(TIMELINE)).unwrap();
            let mut lines = csv.lines();
            assert_eq!(lines.next().unwrap().split(',').count(), COLUMNS.len());
            assert_eq!(lines.clone().count(), table.len());
            for (line, row) in lines.zip(&table) {
                let expected: Vec<String> = line
                    .split(',')
                    .zip(COLUMNS)
                    .map(|(cell, (name, _))| in_base_unit(name, cell))
                    .collect();
                let row: Vec<&str> = row.iter().map(|cell| cell.trim_matches('"')).collect();
                assert_eq!(row, expected);
            }
            let has = |key: &str, value: &str| {
                assert!(facts.contains(&(key.to_owned(), value.to_owned())), "{key}: {facts:?}");
            };
            has("gpu_telemetry_backend", "direct_nvml");
            has("gpu_cli_subprocess_used", "false");
            has("gpu_deadline_recovery_count", if verdict == "valid" { "0" } else { "1" });
            has("backend_verdict", "pass");
            has("data_verdict", verdict);
        }
    }
}
