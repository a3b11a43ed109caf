//! The part of `gpu-ledger trace --json` that the demo reads, as its schema has it
//! (`gpu-ledger/schema/trace.v1.schema.json`), and the sums that must hold in it.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

#[derive(Deserialize, Clone, Debug)]
pub(super) struct Report {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) driver: Option<String>,
    pub(super) command: Option<Block>,
    pub(super) host: Block,
    pub(super) gpus: Vec<Gpu>,
    pub(super) open: Vec<Open>,
    pub(super) no_driver_row: Vec<NoDriverRow>,
    pub(super) unknown: Vec<UnknownLine>,
    pub(super) events: Option<Events>,
    pub(super) device_touch: DeviceTouch,
    pub(super) missed_in_coverage: Option<u64>,
    pub(super) coverage: Option<Coverage>,
}

/// Settlements of the traced command, or of the rest of the host.
#[derive(Deserialize, Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) accounts: Vec<Account>,
    pub(super) settlements: Vec<Settled>,
}

#[derive(Deserialize, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "the fields are the schema's")]
pub(super) struct Account {
    pub(super) account: String,
    pub(super) settlements: u64,
    pub(super) held_ms: u64,
    pub(super) alone_ms: u64,
    pub(super) shared_ms: u64,
    pub(super) uncovered_ms: u64,
    pub(super) span_ms_total: u64,
}

#[derive(Deserialize, Clone, Debug)]
pub(super) struct Settled {
    pub(super) id: String,
    pub(super) gpu_uuid: String,
    pub(super) pid: u32,
    pub(super) start_time_us: Option<u64>,
    pub(super) held_ms: u64,
    pub(super) alone_ms: u64,
    pub(super) shared_ms: u64,
    pub(super) uncovered_ms: u64,
    pub(super) account: String,
    pub(super) program: Option<String>,
    pub(super) basis: Option<String>,
    pub(super) reason: Option<String>,
}

#[derive(Deserialize, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "the fields are the schema's")]
pub(super) struct Gpu {
    pub(super) gpu_index: u32,
    pub(super) period_ms: u64,
    pub(super) alone_ms: u64,
    pub(super) shared_ms: u64,
    pub(super) free_ms: u64,
    pub(super) uncovered_ms: u64,
    pub(super) gpu_uuid: String,
}

#[derive(Deserialize, Clone, Debug)]
pub(super) struct Open {
    pub(super) gpu_uuid: String,
    pub(super) pid: u32,
    pub(super) start_time_us: Option<u64>,
    pub(super) account: String,
    pub(super) accrued_ms: Option<u64>,
}

#[derive(Deserialize, Clone, Debug)]
pub(super) struct NoDriverRow {
    pub(super) gpu_uuid: String,
    pub(super) account: String,
}

#[derive(Deserialize, Clone, Debug)]
pub(super) struct UnknownLine {
    pub(super) reason: String,
}

#[derive(Deserialize, Clone, Copy, Debug)]
pub(super) struct Events {
    pub(super) produced: u64,
    pub(super) received: u64,
    pub(super) lost: u64,
}

#[derive(Deserialize, Clone, Debug)]
pub(super) struct DeviceTouch {
    pub(super) on: bool,
    pub(super) off_because: Option<String>,
    pub(super) touched: Option<u64>,
    pub(super) without_row: Option<u64>,
}

#[derive(Deserialize, Clone, Debug)]
pub(super) struct Coverage {
    pub(super) gaps: Vec<Gap>,
}

#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) cause: String,
    pub(super) gpu: Option<String>,
    pub(super) size: Option<u64>,
}

impl Report {
    /// Reads the file that the tracer wrote.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("gpu-ledger trace left no report at {shown}"))?;
        let report: Self = serde_json::from_str(&text)
            .with_context(|| format!("{shown} does not follow the schema"))?;
        let known = (report.format.as_str(), report.version) == ("gpu-ledger-trace", 1);
        ensure!(known, "{shown} is {} version {}", report.format, report.version);
        Ok(report)
    }

    /// Every settlement, of the command and of the rest of the host.
    pub(super) fn settlements(&self) -> impl Iterator<Item = &Settled> {
        let blocks = self.command.iter().chain([&self.host]);
        blocks.flat_map(|block| &block.settlements)
    }

    /// A GPU's index; its whole UUID where the report has no statement of it.
    pub(super) fn index_of(&self, gpu_uuid: &str) -> String {
        let gpu = self.gpus.iter().find(|gpu| gpu.gpu_uuid == gpu_uuid);
        gpu.map_or_else(|| gpu_uuid.to_owned(), |gpu| gpu.gpu_index.to_string())
    }

    /// Every sum that does not come out, to the millisecond.
    pub(super) fn open_sums(&self) -> Vec<String> {
        let mut open = Vec::new();
        let mut check = |what: String, parts: &[u64], whole: u64| {
            let sum: u64 = parts.iter().sum();
            if sum != whole {
                open.push(format!("{what}: the parts are {sum} ms, the whole is {whole} ms"));
            }
        };
        for gpu in &self.gpus {
            let parts = [gpu.alone_ms, gpu.shared_ms, gpu.free_ms, gpu.uncovered_ms];
            check(format!("GPU {}", gpu.gpu_index), &parts, gpu.period_ms);
        }
        for block in self.command.iter().chain([&self.host]) {
            for line in &block.accounts {
                let parts = [line.alone_ms, line.shared_ms, line.uncovered_ms];
                check(format!("account {}", line.account), &parts, line.held_ms);
                let own = block.settlements.iter().filter(|one| one.account == line.account);
                let spans: Vec<u64> = own.map(|one| one.held_ms).collect();
                let what = format!("account {}: rows", line.account);
                check(what, &spans, line.span_ms_total);
            }
            for one in &block.settlements {
                let parts = [one.alone_ms, one.shared_ms, one.uncovered_ms];
                check(format!("settlement {}", one.id), &parts, one.held_ms);
            }
        }
        open
    }
}
