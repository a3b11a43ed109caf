//! Everything opened, and what an earlier run knew taken over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes as RawBytes;

use crate::accounting::RowKey;
use crate::clock::{Clock, Stamp};
use crate::coverage::{Coverage, Gap};
use crate::host::{HostSettings, Resumed};
use crate::identity::{Image, ImageContent};
use crate::journal::draft::{Drafter, Earlier, Pending};
use crate::journal::entry::{
    AgentFacts, BootId, CoverageEdge, Entry, Figures, IdentityEvidence, Mark, Moment,
};
use crate::journal::store::{OpenIdentity, Reader, StateDir, Store, StoreError};
use crate::journal::{Recovered, chain};
use crate::kernel::preflight::{self, Need, Outcome};
use crate::kernel::{Argv, ArgvState, TracerOptions};
use crate::observer::{Observer, Setup};
use crate::session::launch::PROBE_WORD;
use crate::settlement::Named;
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::{GapCause, Unknown, UnknownReason};

/// Where the kernel names its boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What earlier runs left in the journal.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) earlier: Vec<Earlier>,
    pub(super) resumed: Resumed,
    /// The last read of each GPU that is proven.
    pub(super) last_seen: BTreeMap<GpuUuid, Stamp>,
    /// When the last entry of all was learnt.
    pub(super) last: Option<Moment>,
}

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
    let identities = store.open_identities()?;
    let mut open = BTreeMap::new();
    for identity in &identities {
        if let Some((key, named)) = named_of(store, identity, boot)? {
            open.insert(key, named);
        }
    }
    let (began, last_seen) = edges(dir, boot, now)?;
    let of_this_boot = recovered.last.filter(|last| last.boot == boot);
    let coverage = of_this_boot.map(|last| Coverage {
        start: began.unwrap_or(last.stamp),
        end: last.stamp,
        gaps: Vec::new(),
    });
    let earlier = identities.into_iter().map(|one| Earlier {
        seq: one.entry.seq,
        at: one.entry.at,
        open: one.figures,
        evidence: one.evidence,
    });
    let resumed = Resumed { coverage, open };
    Ok(Left { earlier: earlier.collect(), resumed, last_seen, last: recovered.last })
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

/// The identity under which a row of this boot was entered open.
fn named_of(
    store: &Store,
    open: &OpenIdentity,
    boot: BootId,
) -> Result<Option<(RowKey, Named)>, StoreError> {
    let known = open.figures.key().zip(open.evidence.identity.as_ref());
    let Some((key, identity)) = known.filter(|(_, identity)| identity.boot == boot) else {
        return Ok(None);
    };
    let kept = match identity.argv.commitment {
        Some(commitment) => store.argv(commitment)?,
        None => None,
    };
    let IdentityEvidence { key: process, start_is_exact, fit, basis, image_since, .. } = identity;
    let content = ImageContent {
        // Deleted arguments are as if they had never been readable.
        argv: kept.unwrap_or_else(|| Argv {
            bytes: RawBytes::new(),
            true_length: identity.argv.true_length,
            state: match identity.argv.state {
                ArgvState::Shed => ArgvState::Shed,
                _ => ArgvState::Unreadable,
            },
        }),
        filename: identity.filename.clone(),
        exe: identity.exe,
    };
    let image = Image {
        since: *image_since,
        basis: *basis,
        content: Arc::new(content),
        user: identity.user,
    };
    let named = Named {
        key: *process,
        start_is_exact: *start_is_exact,
        image,
        parent: identity.ancestors.first().map(|parent| parent.key),
        cgroups: identity.cgroups.iter().map(|(cgroup, _)| *cgroup).collect(),
        ended: identity.ended,
        fit: *fit,
    };
    Ok(Some((key, named)))
}

/// The time since an earlier boot: nothing of it is on this boot's clocks but when it ended.
pub(super) fn gap_since_another_boot(
    drafter: &Drafter,
    last: Option<Moment>,
    boot: BootId,
    began: Stamp,
) -> Option<Pending> {
    let last = last.filter(|last| last.boot != boot)?;
    let wall = last.stamp.wall.min(began.wall);
    let from = Stamp { boot: BootNs(0), mono_ns: 0, wall };
    let gap = Gap { cause: GapCause::AgentDown, gpu: None, from, to: began, size: None };
    Some(drafter.gap(gap, began))
}

/// Attaches to the kernel. What cannot be had is said, and everything else goes on without it.
pub(super) fn observe(
    clock: &Clock,
    host_name: Arc<str>,
    tracer: &TracerOptions,
    resumed: Resumed,
) -> (Observer, Vec<(Unknown, String)>) {
    let mut missing = Vec::new();
    for finding in preflight::findings(Path::new("/proc"), Path::new("/sys")) {
        if let (Need::Tracing, Outcome::Missing { cause, remedy }) = (finding.need, finding.outcome)
        {
            let detail = Some(finding.prerequisite.to_string().replace(' ', "-").to_lowercase());
            let reason = UnknownReason::ProcessEventsUnavailable;
            let unknown = Unknown { detail, ..Unknown::of(reason) };
            missing.push((unknown, format!("no names: {cause}; {remedy}")));
        }
    }
    let setup = Setup {
        clock: clock.clone(),
        host_name,
        probe_arguments: vec![OsString::from(PROBE_WORD)],
        // The kernel side says which of the two there are.
        settings: HostSettings::of_daemon(true, tracer.device_touch),
        resumed,
    };
    if !missing.is_empty() {
        return (Observer::blind(setup), missing);
    }
    preflight::raise_locked_memory();
    let observer = Observer::watch(setup.clone(), tracer).unwrap_or_else(|error| {
        let unknown = Unknown::of(UnknownReason::ProcessEventsUnavailable);
        missing.push((unknown, format!("no names: {error}")));
        Observer::blind(setup)
    });
    (observer, missing)
}
