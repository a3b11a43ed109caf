//! What a run takes over from the journal, as the daemon reads it from its store when it starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_ledger::accounting::RowKey;
use gpu_ledger::clock::Stamp;
use gpu_ledger::coverage::{Coverage, Gap};
use gpu_ledger::host::Resumed;
use gpu_ledger::identity::{Image, ImageContent};
use gpu_ledger::journal::draft::{Drafter, Earlier, Pending};
use gpu_ledger::journal::entry::{
    CoverageEdge, Evidence, Figures, IdentityEvidence, Moment, OpenEvidence, OpenFigures,
};
use gpu_ledger::journal::{BootId, ChainError};
use gpu_ledger::kernel::{Argv, ArgvState};
use gpu_ledger::settlement::Named;
use gpu_ledger::unit::{BootNs, GpuUuid};
use gpu_ledger::unknown::GapCause;

use super::disk::Disk;

/// What earlier runs left.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) earlier: Vec<Earlier>,
    pub(crate) resumed: Resumed,
    pub(crate) last_seen: BTreeMap<GpuUuid, Stamp>,
    pub(crate) last: Option<Moment>,
}

pub(crate) fn left(disk: &Disk, boot: BootId) -> Result<Left, ChainError> {
    let mut earlier = Vec::new();
    let mut open = BTreeMap::new();
    for (seq, figures) in &disk.end.unresolved {
        let (entry, evidence) = disk.read(*seq)?;
        let Evidence::Open(evidence) = evidence else { panic!("entry {seq} is no open one") };
        open.extend(named_of(disk, figures, &evidence, boot));
        let (at, evidence) = (entry.at, *evidence);
        earlier.push(Earlier { seq: *seq, at, open: figures.clone(), evidence });
    }
    let (mut began, mut last_seen): (Option<Stamp>, BTreeMap<_, _>) = (None, BTreeMap::new());
    for seq in 1..=disk.entries.len() as u64 {
        let (entry, _) = disk.read(seq)?;
        match entry.figures {
            Figures::Coverage(CoverageEdge::Began { at, .. }) if entry.at.boot == boot => {
                began = Some(began.map_or(at, |before| before.min(at)));
            }
            Figures::Mark(mark) => {
                let gpus = mark.gpus.into_iter();
                let read = gpus.filter_map(|gpu| Some((gpu.gpu, gpu.last_good?.ended)));
                last_seen = read.collect();
            }
            _ => {}
        }
    }
    let last = disk.end.last;
    let coverage = last.filter(|last| last.boot == boot).map(|last| Coverage {
        start: began.unwrap_or(last.stamp),
        end: last.stamp,
        gaps: Vec::new(),
    });
    Ok(Left { earlier, resumed: Resumed { coverage, open }, last_seen, last })
}

fn named_of(
    disk: &Disk,
    figures: &OpenFigures,
    evidence: &OpenEvidence,
    boot: BootId,
) -> Option<(RowKey, Named)> {
    let (key, identity) = figures.key().zip(evidence.identity.as_ref())?;
    if identity.boot != boot {
        return None;
    }
    let kept = identity.argv.commitment.and_then(|commitment| disk.argv(commitment));
    let IdentityEvidence { key: process, start_is_exact, fit, basis, image_since, .. } = identity;
    let content = ImageContent {
        argv: kept.unwrap_or_else(|| Argv {
            bytes: bytes::Bytes::new(),
            true_length: identity.argv.true_length,
            state: match identity.argv.state {
                ArgvState::Shed => ArgvState::Shed,
                _ => ArgvState::Unreadable,
            },
        }),
        filename: identity.filename.clone(),
        exe: identity.exe,
    };
    let (content, user) = (Arc::new(content), identity.user);
    let named = Named {
        key: *process,
        start_is_exact: *start_is_exact,
        image: Image { since: *image_since, basis: *basis, content, user },
        parent: identity.ancestors.first().map(|parent| parent.key),
        cgroups: identity.cgroups.iter().map(|(cgroup, _)| *cgroup).collect(),
        ended: identity.ended,
        fit: *fit,
    };
    Some((key, named))
}

/// The time since an earlier boot, of which this boot's clocks show the end alone.
pub(crate) fn gap_since_another_boot(
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
