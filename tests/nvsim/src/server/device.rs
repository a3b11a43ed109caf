//! What a GPU is apart from its accounting: names, memory, power.

use serde::Serialize;

use super::{Options, Server};
use crate::model::{Gpu, Moment, View};

/// Device memory of every simulated GPU.
pub(super) const MEMORY_BYTES: u64 = 80 << 30;
/// Of it, what the driver keeps.
pub(super) const MEMORY_RESERVED_BYTES: u64 = 512 << 20;
/// Power of an idle GPU, and what each percent of use adds, in milliwatts.
const POWER_IDLE_MW: u64 = 70_000;
const POWER_PERCENT_MW: u64 = 4_300;

/// One GPU's board.
#[derive(Clone, Debug)]
pub(super) struct Board {
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) serial: String,
    pub(super) persistence: bool,
    /// Energy since the driver was loaded, in millijoules, up to `energy_at_us`.
    energy_mj: u64,
    /// What is left below a millijoule, in nanojoules.
    energy_rest_nj: u64,
    energy_at_us: Option<u64>,
}

impl Board {
    pub(super) fn new(index: u32, options: &Options) -> Self {
        Self {
            name: options.gpu_name.clone(),
            // The first block differs from GPU to GPU: settlements are named after it.
            uuid: format!("GPU-{:08x}-5151-4d5d-8000-{:012x}", 0x51d0_0000 | index, index),
            serial: format!("15151{index:08}"),
            persistence: options.persistence,
            energy_mj: 0,
            energy_rest_nj: 0,
            energy_at_us: None,
        }
    }

    /// Board power in milliwatts: follows the use of the last sample.
    pub(super) fn power_mw(gpu: &mut Gpu, now: Moment) -> u64 {
        POWER_IDLE_MW + POWER_PERCENT_MW * u64::from(gpu.utilization(now).gpu_percent)
    }

    /// Energy in millijoules since the driver was loaded. Never falls.
    pub(super) fn energy_mj(&mut self, gpu: &mut Gpu, now: Moment) -> u64 {
        let since_us = now.mono_us.saturating_sub(self.energy_at_us.unwrap_or(now.mono_us));
        self.energy_at_us = Some(now.mono_us);
        // Milliwatts times microseconds are nanojoules.
        let nanojoules = self.energy_rest_nj + Self::power_mw(gpu, now) * since_us;
        self.energy_mj += nanojoules / 1_000_000;
        self.energy_rest_nj = nanojoules % 1_000_000;
        self.energy_mj
    }

    /// Bus and device number on the PCI bus, domain 0.
    pub(super) const fn bus(index: u32) -> u32 {
        index + 1
    }

    /// The bus id as NVML writes it.
    pub(super) fn bus_id(index: u32) -> String {
        format!("{:08X}:{:02X}:00.0", 0, Self::bus(index))
    }
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are the fields of a JSON object")]
struct GpuState<'a> {
    index: usize,
    uuid: &'a str,
    name: &'a str,
    accounting: bool,
    mig: bool,
    vgpu_host: bool,
    persistence: bool,
    accounting_pids: Vec<u32>,
    stats: Vec<EntryState>,
    holders: Vec<HolderState>,
    memory_used_bytes: u64,
}

#[derive(Serialize)]
struct EntryState {
    pid: u32,
    running: bool,
    gpu_percent: u32,
    memory_percent: u32,
    memory_peak_bytes: u64,
    samples: u64,
    gpu_util_sum: u64,
    fb_util_sum: u64,
    time_ms: u64,
    start_us: u64,
}

#[derive(Serialize)]
struct HolderState {
    pid: u32,
    memory_bytes: u64,
}

impl Server {
    /// The model as JSON, for tests that compare a client's reading with it.
    pub(super) fn state(&mut self) -> Result<String, String> {
        let now = self.now();
        let mut all = Vec::new();
        for (index, (gpu, board)) in self.gpus.iter_mut().zip(&self.boards).enumerate() {
            gpu.advance(now);
            all.push(gpu_state(index, gpu, board));
        }
        serde_json::to_string(&all).map_err(|error| error.to_string())
    }
}

fn gpu_state<'a>(index: usize, gpu: &Gpu, board: &'a Board) -> GpuState<'a> {
    let accounting_pids = gpu.accounting_pids(View::Host);
    let stats = accounting_pids.iter().filter_map(|&pid| gpu.accounting_stats(pid, View::Host));
    let stats = stats.map(|stats| EntryState {
        pid: stats.pid,
        running: stats.running,
        gpu_percent: stats.gpu_percent,
        memory_percent: stats.memory_percent,
        memory_peak_bytes: stats.memory_peak_bytes,
        samples: stats.samples,
        gpu_util_sum: stats.gpu_util_sum,
        fb_util_sum: stats.fb_util_sum,
        time_ms: stats.time_ms,
        start_us: stats.start_us,
    });
    let holders = gpu.holders().into_iter();
    let holders =
        holders.map(|holder| HolderState { pid: holder.pid, memory_bytes: holder.memory_bytes });
    GpuState {
        index,
        uuid: &board.uuid,
        name: &board.name,
        accounting: gpu.accounting_mode(),
        mig: gpu.mig(),
        vgpu_host: gpu.vgpu_host(),
        persistence: board.persistence,
        stats: stats.collect(),
        accounting_pids,
        holders: holders.collect(),
        memory_used_bytes: gpu.memory_used_bytes(),
    }
}
