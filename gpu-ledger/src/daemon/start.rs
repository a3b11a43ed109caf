//! Everything opened, and what an earlier run knew taken over.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use super::anchors::{Anchors, SYSLOG, SharedOutlets};
use super::signing::Signing;
use crate::clock::{Clock, Stamp};
use crate::config::Config;
use crate::host::{HostSettings, Resumed};
use crate::journal::draft::{Earlier, Edges, Left};
use crate::journal::entry::{AgentFacts, BootId, Entry, Figures};
use crate::journal::store::{Reader, StateDir, Store, StoreError};
use crate::journal::{Recovered, chain};
use crate::kernel::TracerOptions;
use crate::memory::Pace;
use crate::naming::{Naming, Source};
use crate::observer::{Missing, Observer, Setup};
use crate::session::launch::PROBE_WORD;

/// Where the kernel names its boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The boot that this is.
pub(crate) fn boot_id() -> anyhow::Result<BootId> {
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

/// Opens the journal for writing, and says what whoever runs this should be told.
pub(super) fn open_journal(dir: &StateDir) -> Result<(Store, Recovered), StoreError> {
    let (store, recovered) = Store::open(dir)?;
    store.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok((store, recovered))
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
    let edges = edges(dir, boot, now)?;
    let argv_of = |place| store.argv(place);
    Left::of(edges, earlier.collect(), recovered.last, argv_of)
}

/// What the end of the journal says of when somebody watched.
fn edges(dir: &StateDir, boot: BootId, now: Stamp) -> Result<Edges, StoreError> {
    let (ms, mut edges) = (now.wall.ms(), Edges::new(boot));
    let reader = Reader::open_beside_writer(dir)?;
    let read = reader.period(ms, ms.saturating_add(1), |entry| edges.take(entry))?;
    if let Some(Entry { figures: Figures::Mark(mark), .. }) = read.last_mark {
        edges.take_before(&mark);
    }
    Ok(edges)
}

/// Where the machine's id stands (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// The machine's id; `None` where it has none.
pub(crate) fn machine_id() -> Option<Vec<u8>> {
    let text = std::fs::read_to_string(MACHINE_ID).ok()?;
    let id = text.trim();
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.as_bytes().to_vec())
}

/// Begins to sign checkpoints.
pub(super) fn signing(
    store: &mut Store,
    config: &Config,
    now: (BootId, Stamp),
    outlets: &SharedOutlets,
) -> Signing {
    let file = config.audit.checkpoint_file.clone();
    let anchors = Anchors::start(SYSLOG.into(), file, Arc::clone(outlets));
    Signing::start(store, now, machine_id(), anchors)
}

/// Begins to look for names, where the configuration says.
pub(super) fn naming(config: &Config, clock: &Clock) -> Arc<Naming> {
    let source = config.names_socket.clone().map_or(Source::Nobody, Source::Helper);
    let naming = Naming::start(clock.clone(), source);
    Arc::new(match config.ollama_models.clone() {
        Some(folder) => naming.with_models(folder),
        None => naming,
    })
}

/// Attaches to the kernel. What cannot be had is said, and everything else goes on without it.
pub(super) fn observe(
    clock: &Clock,
    host_name: Arc<str>,
    (tracer, memory): &(TracerOptions, Option<Duration>),
    resumed: Resumed,
    naming: Arc<Naming>,
) -> (Observer, Vec<Missing>) {
    let setup = Setup {
        clock: clock.clone(),
        host_name,
        probe_arguments: vec![OsString::from(PROBE_WORD)],
        // The kernel side says which of the two there are.
        settings: HostSettings {
            memory: memory.map(Pace::of),
            ..HostSettings::of_daemon(true, tracer.device_touch)
        },
        resumed,
        naming: Some(naming),
    };
    Observer::watch_or_blind(setup, tracer)
}
