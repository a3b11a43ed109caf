//! Everything opened, and what an earlier run knew taken over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use crate::clock::{Clock, Stamp};
use crate::host::{HostSettings, Resumed};
use crate::journal::draft::{Earlier, Left};
use crate::journal::entry::{AgentFacts, BootId, CoverageEdge, Entry, Figures, Mark};
use crate::journal::store::{Reader, StateDir, Store, StoreError};
use crate::journal::{Recovered, chain};
use crate::kernel::TracerOptions;
use crate::observer::{Missing, Observer, Setup};
use crate::session::launch::PROBE_WORD;
use crate::unit::GpuUuid;

/// Where the kernel names its boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The boot that this is.
pub(super) fn boot_id() -> anyhow::Result<BootId> {
    let text = std::fs::read_to_string(BOOT_ID)
        .map_err(|error| anyhow::anyhow!("cannot read {BOOT_ID}: {error}"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16);
    number.map(BootId).map_err(|error| anyhow::anyhow!("{BOOT_ID} holds no boot id: {error}"))
}

/// The agent as it is.
pub(super) fn agent_facts() -> AgentFacts {
    let kernel = rustix::system::uname();
    AgentFacts {
        version: Arc::from(env!("CARGO_PKG_VERSION")),
        object: chain::sha256(crate::kernel::object()),
        kernel: Arc::from(kernel.release().to_string_lossy().as_ref()),
    }
}

/// Reads what earlier runs left.
pub(super) fn left(
    store: &Store,
    dir: &StateDir,
    recovered: &Recovered,
    boot: BootId,
    now: Stamp,
) -> Result<Left, StoreError> {
    let earlier = store.open_identities()?.into_iter().map(|one| Earlier {
        seq: one.entry.seq,
        at: one.entry.at,
        open: one.figures,
        evidence: one.evidence,
    });
    let (began, last_seen) = edges(dir, boot, now)?;
    let argv_of = |commitment| store.argv(commitment);
    Left::of(boot, earlier.collect(), began, last_seen, recovered.last, argv_of)
}

/// When the first agent of this boot began, and the last proven read of each GPU.
fn edges(
    dir: &StateDir,
    boot: BootId,
    now: Stamp,
) -> Result<(Option<Stamp>, BTreeMap<GpuUuid, Stamp>), StoreError> {
    let mut began: Option<Stamp> = None;
    let ms = now.wall.ms();
    let read = Reader::open_beside_writer(dir)?.period(ms, ms.saturating_add(1), |entry| {
        if let Figures::Coverage(CoverageEdge::Began { at, .. }) = entry.figures
            && entry.at.boot == boot
        {
            began = Some(began.map_or(at, |before| before.min(at)));
        }
    })?;
    let mark = read.last_mark.and_then(|Entry { figures, .. }| match figures {
        Figures::Mark(mark) => Some(mark),
        _ => None,
    });
    let gpus = mark.map(|Mark { gpus, .. }| gpus).into_iter().flatten();
    let last_seen = gpus.filter_map(|gpu| Some((gpu.gpu, gpu.last_good?.ended))).collect();
    Ok((began, last_seen))
}

/// Attaches to the kernel. What cannot be had is said, and everything else goes on without it.
pub(super) fn observe(
    clock: &Clock,
    host_name: Arc<str>,
    tracer: &TracerOptions,
    resumed: Resumed,
) -> (Observer, Vec<Missing>) {
    let setup = Setup {
        clock: clock.clone(),
        host_name,
        probe_arguments: vec![OsString::from(PROBE_WORD)],
        // The kernel side says which of the two there are.
        settings: HostSettings::of_daemon(true, tracer.device_touch),
        resumed,
    };
    Observer::watch_or_blind(setup, tracer)
}
