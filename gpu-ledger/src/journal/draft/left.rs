//! What a new run takes over from the journal of the runs before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{Drafter, Earlier, Pending};
use crate::argv::StoredText;
use crate::clock::Stamp;
use crate::coverage::{Coverage, Gap};
use crate::host::Resumed;
use crate::identity::{Image, ImageContent};
use crate::journal::entry::{
    ArgvPlace, BootId, CoverageEdge, Entry, Epoch, EpochEdge, Figures, IdentityEvidence, KeptArgv,
    Mark, Moment,
};
use crate::kernel::{Argv, ArgvState};
use crate::settlement::Named;
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::GapCause;

/// What the entries of earlier runs say of when somebody watched. Entries are taken in their order.
#[derive(Clone, Debug)]
pub struct Edges {
    boot: BootId,
    began: Option<Stamp>,
    last_seen: BTreeMap<GpuUuid, Stamp>,
}

impl Edges {
    /// For a run in this boot.
    #[must_use]
    pub const fn new(boot: BootId) -> Self {
        Self { boot, began: None, last_seen: BTreeMap::new() }
    }

    /// Takes the next entry. Up to the last read that a mark proves every holder of a GPU was seen, and up to
    /// the moment at which its accounting was found lost. A mark of a run that did not read the GPU says
    /// nothing of it.
    pub fn take(&mut self, entry: &Entry) {
        match &entry.figures {
            Figures::Coverage(CoverageEdge::Began { at, .. }) if entry.at.boot == self.boot => {
                self.began = Some(self.began.map_or(*at, |before| before.min(*at)));
            }
            Figures::Epoch(Epoch { gpu, at, edge: EpochEdge::Ended { .. } }) => {
                self.last_seen.insert(gpu.clone(), *at);
            }
            Figures::Mark(mark) => self.last_seen.extend(proven(mark)),
            _ => {}
        }
    }

    /// Takes a mark that stands before all entries that were taken.
    pub fn take_before(&mut self, mark: &Mark) {
        for (gpu, ended) in proven(mark) {
            self.last_seen.entry(gpu).or_insert(ended);
        }
    }
}

fn proven(mark: &Mark) -> impl Iterator<Item = (GpuUuid, Stamp)> {
    mark.gpus.iter().filter_map(|gpu| Some((gpu.gpu.clone(), gpu.last_good?.ended)))
}

/// What earlier runs left in the journal.
#[derive(Clone, Debug)]
pub struct Left {
    /// Open entries that neither settled nor ended.
    pub earlier: Vec<Earlier>,
    /// What a host goes on from.
    pub resumed: Resumed,
    /// The last read of each GPU that is proven.
    pub last_seen: BTreeMap<GpuUuid, Stamp>,
    /// When the last entry of all was learnt.
    pub last: Option<Moment>,
}

impl Left {
    /// Of a run in the boot that `edges` were taken for; `argv_of` finds the arguments that are
    /// kept at a place, if they still are.
    ///
    /// # Errors
    /// Those of `argv_of`.
    pub fn of<E>(
        edges: Edges,
        earlier: Vec<Earlier>,
        last: Option<Moment>,
        mut argv_of: impl FnMut(ArgvPlace) -> Result<Option<KeptArgv>, E>,
    ) -> Result<Self, E> {
        let Edges { boot, began, last_seen } = edges;
        let mut open = BTreeMap::new();
        for one in &earlier {
            let known = one.open.key().zip(one.evidence.identity.as_ref());
            let Some((key, identity)) = known.filter(|(_, identity)| identity.boot == boot) else {
                continue;
            };
            let kept = match identity.argv.place() {
                Some(place) => argv_of(place)?,
                None => None,
            };
            open.insert(key, named(identity, kept));
        }
        let coverage = last.filter(|last| last.boot == boot).map(|last| Coverage {
            start: began.unwrap_or(last.stamp),
            end: last.stamp,
            gaps: Vec::new(),
        });
        Ok(Self { earlier, resumed: Resumed { coverage, open }, last_seen, last })
    }

    /// The time since an earlier boot: nothing of it is on this boot's clocks but when it ended.
    #[must_use]
    pub fn gap_since_another_boot(
        last: Option<Moment>,
        boot: BootId,
        drafter: &Drafter,
        began: Stamp,
    ) -> Option<Pending> {
        let last = last.filter(|last| last.boot != boot)?;
        let wall = last.stamp.wall.min(began.wall);
        let from = Stamp { boot: BootNs(0), mono_ns: 0, wall };
        let gap = Gap { cause: GapCause::AgentDown, gpu: None, from, to: began, size: None };
        Some(drafter.gap(gap, began))
    }
}

/// The identity under which a row was entered open.
fn named(identity: &IdentityEvidence, kept: Option<KeptArgv>) -> Named {
    // A file alone would make a script's interpreter of it.
    let kept = kept.filter(|kept| kept.text != StoredText::Exe).map(|kept| kept.argv);
    let content = ImageContent {
        // Deleted arguments are as if they had never been readable.
        argv: kept.unwrap_or_else(|| Argv {
            bytes: Bytes::new(),
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
        since: identity.image_since,
        basis: identity.basis,
        content: Arc::new(content),
        user: identity.user,
    };
    Named {
        key: identity.key,
        start_is_exact: identity.start_is_exact,
        image,
        parent: identity.ancestors.first().map(|parent| parent.key),
        cgroups: identity.cgroups.iter().map(|(cgroup, _)| *cgroup).collect(),
        ended: identity.ended,
        fit: identity.fit,
    }
}
