//! What a new run takes over from the journal of the runs before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{Drafter, Earlier, Pending};
use crate::clock::Stamp;
use crate::coverage::{Coverage, Gap};
use crate::host::Resumed;
use crate::identity::{Image, ImageContent};
use crate::journal::Digest;
use crate::journal::entry::{BootId, IdentityEvidence, Moment};
use crate::kernel::{Argv, ArgvState};
use crate::settlement::Named;
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::GapCause;

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
    /// Of a run in this `boot`. `began` is when the first agent of the boot began; `argv_of` finds the
    /// arguments that a commitment stands for, where they are still kept.
    ///
    /// # Errors
    /// Those of `argv_of`.
    pub fn of<E>(
        boot: BootId,
        earlier: Vec<Earlier>,
        began: Option<Stamp>,
        last_seen: BTreeMap<GpuUuid, Stamp>,
        last: Option<Moment>,
        mut argv_of: impl FnMut(Digest) -> Result<Option<Argv>, E>,
    ) -> Result<Self, E> {
        let mut open = BTreeMap::new();
        for one in &earlier {
            let known = one.open.key().zip(one.evidence.identity.as_ref());
            let Some((key, identity)) = known.filter(|(_, identity)| identity.boot == boot) else {
                continue;
            };
            let kept = match identity.argv.commitment {
                Some(commitment) => argv_of(commitment)?,
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
fn named(identity: &IdentityEvidence, kept: Option<Argv>) -> Named {
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
