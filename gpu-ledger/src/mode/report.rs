//! The accounting mode for programs: what `accounting status --json` writes.
//!
//! The schema is `gpu-ledger/schema/accounting.v1.schema.json`.

use std::path::Path;

use serde::Serialize;

use super::{holders, rowless};
use crate::accounting::driver::DriverFacts;
use crate::survey::SurveyedGpu;
use crate::unit::{GpuUuid, Pid};
use crate::unknown::Unknown;

/// The word in the `format` field.
const FORMAT: &str = "gpu-ledger-accounting";
/// The number in the `version` field; raised when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// The mode of every GPU that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ModeLines {
    format: &'static str,
    version: u32,
    /// `real` or `simulated`.
    driver: &'static str,
    /// Null where the driver did not say.
    driver_version: Option<String>,
    /// In the order in which they enumerate.
    gpus: Vec<ModeLine>,
    /// GPUs that could not be opened, and what could not be said of the others.
    unknown: Vec<UnknownLine>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct ModeLine {
    gpu_uuid: GpuUuid,
    gpu_index: u32,
    gpu_name: Option<String>,
    /// Null where it is not known.
    accounting_on: Option<bool>,
    /// Off, the mode is lost when the last client goes; null where it is not known.
    persistence_on: Option<bool>,
    /// Who holds it and has no row, and so is on no bill until they restart; null where that is not
    /// known as a whole (`unknown` says why), or accounting is not known to be on.
    no_driver_row: Option<Vec<RowlessLine>>,
}

/// A process that must restart to be billed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RowlessLine {
    pid: Pid,
    program: String,
    /// Its systemd unit; null where it runs in none, or that cannot be read.
    unit: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct UnknownLine {
    reason: String,
    gpu: Option<GpuUuid>,
    call: Option<&'static str>,
    code: Option<u32>,
}

impl UnknownLine {
    fn of(unknown: &Unknown) -> Self {
        let (gpu, call, code) = (unknown.gpu.clone(), unknown.call, unknown.code);
        Self { reason: unknown.word(), gpu, call, code }
    }
}

impl ModeLines {
    pub(super) fn of(facts: &DriverFacts) -> Self {
        Self {
            format: FORMAT,
            version: VERSION,
            driver: facts.kind.as_str(),
            driver_version: facts.version.as_ref().ok().cloned(),
            gpus: Vec::new(),
            unknown: facts.unknowns.iter().map(UnknownLine::of).collect(),
        }
    }

    /// A GPU, and what came of setting its mode, where that was tried.
    pub(super) fn add(&mut self, gpu: &SurveyedGpu, set: Option<&Result<bool, Unknown>>) {
        let facts = &gpu.facts;
        let mode = set.unwrap_or(&facts.accounting);
        self.unknown.extend(mode.as_ref().err().map(UnknownLine::of));
        let accounting_on = mode.as_ref().ok().copied();
        let rowless = (accounting_on == Some(true)).then(|| rowless(gpu));
        let unknowns = rowless.iter().flat_map(|rowless| &rowless.unknowns);
        self.unknown.extend(unknowns.map(UnknownLine::of));
        // An incomplete list would read as a complete one.
        let rowless = rowless.filter(|rowless| rowless.unknowns.is_empty());
        let line = |pid| {
            let name = holders::name_of(Path::new("/proc"), pid);
            RowlessLine { pid, program: name.program, unit: name.unit }
        };
        self.gpus.push(ModeLine {
            gpu_uuid: facts.uuid.clone(),
            gpu_index: facts.index,
            gpu_name: facts.name.known().cloned(),
            accounting_on,
            persistence_on: facts.persistence.known().copied(),
            no_driver_row: rowless.map(|found| found.pids.into_iter().map(line).collect()),
        });
    }
}
