//! What is open in the journal, and what of it earlier runs left.

use std::collections::BTreeMap;

use crate::accounting::RowKey;
use crate::clock::Stamp;
use crate::host::Host;
use crate::journal::entry::{Moment, OpenEvidence, OpenFigures, OpenKind};
use crate::kernel::ProcessKey;
use crate::unit::{GpuUuid, Pid, WallUs};
use crate::unknown::GapCause;

/// Names an open entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OpenRef {
    /// By its number: an earlier run entered it.
    Entered(u64),
    /// By the order in which this run drafted it, from 1.
    Drafted(u64),
}

/// An open entry that an earlier run left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Earlier {
    /// Its number.
    pub seq: u64,
    /// When it was learnt.
    pub at: Moment,
    /// What it is.
    pub open: OpenFigures,
    /// Whose.
    pub evidence: OpenEvidence,
}

/// Where an open entry stands: what it is known by when it is told again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A row, by its key.
    Row(RowKey),
    /// A row without a start.
    Hidden(GpuUuid, Pid),
    /// A holder without a row.
    Rowless(GpuUuid, Pid, Option<ProcessKey>),
    /// Nowhere: it is over, whatever is told.
    Gone,
}

/// An earlier run's entry that was not seen again yet.
#[derive(Clone, Debug)]
struct Unseen {
    place: Place,
    last_seen: Stamp,
}

/// Every open entry.
#[derive(Debug, Default)]
pub(super) struct OpenTable {
    drafted: u64,
    rows: BTreeMap<RowKey, OpenRef>,
    hidden: BTreeMap<(GpuUuid, Pid), OpenRef>,
    rowless: BTreeMap<(GpuUuid, Pid), (OpenRef, Option<ProcessKey>)>,
    unseen: BTreeMap<OpenRef, Unseen>,
}

impl OpenTable {
    /// What an earlier run of this boot left. `last_seen`: up to when it was proven to be.
    pub(super) fn take_over(&mut self, earlier: Earlier, last_seen: Stamp) {
        let Earlier { seq, open, evidence, .. } = earlier;
        let reference = OpenRef::Entered(seq);
        let place = match (open.key(), open.kind) {
            (_, OpenKind::NoDriverRow) => {
                let key = evidence.identity.map(|identity| identity.key);
                Place::Rowless(open.gpu, open.pid, key)
            }
            (Some(key), _) => Place::Row(key),
            (None, _) => Place::Hidden(open.gpu, open.pid),
        };
        self.restore(reference, place.clone());
        self.unseen.insert(reference, Unseen { place, last_seen });
    }

    pub(super) fn has_earlier(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Up to when a row that an earlier run left is proven to have run.
    pub(super) fn last_seen_earlier(&self, key: &RowKey) -> Option<Stamp> {
        Some(self.unseen.get(self.rows.get(key)?)?.last_seen)
    }

    /// A row that runs; `None` where it is open already.
    pub(super) fn begin_row(
        &mut self,
        gpu: &GpuUuid,
        pid: Pid,
        start: Option<WallUs>,
    ) -> Option<OpenRef> {
        let place = match start {
            Some(start) => Place::Row(RowKey { gpu: gpu.clone(), pid, start }),
            None => Place::Hidden(gpu.clone(), pid),
        };
        let known = match &place {
            Place::Row(key) => self.rows.get(key),
            _ => self.hidden.get(&(gpu.clone(), pid)),
        };
        self.begin(known.copied(), place)
    }

    /// A holder without a row; `None` where it is open already.
    pub(super) fn begin_rowless(
        &mut self,
        gpu: &GpuUuid,
        pid: Pid,
        key: Option<ProcessKey>,
    ) -> Option<OpenRef> {
        let known = self.rowless.get(&(gpu.clone(), pid)).filter(|(_, known)| {
            // Of a holder whose process is not known the pid is all there is.
            known.zip(key).is_none_or(|(known, now)| known == now)
        });
        self.begin(known.map(|(reference, _)| *reference), Place::Rowless(gpu.clone(), pid, key))
    }

    fn begin(&mut self, known: Option<OpenRef>, place: Place) -> Option<OpenRef> {
        if let Some(known) = known {
            self.unseen.remove(&known);
            return None;
        }
        self.drafted = self.drafted.saturating_add(1);
        let reference = OpenRef::Drafted(self.drafted);
        self.restore(reference, place);
        Some(reference)
    }

    /// A row that is over, by its key or, without one, by its pid.
    pub(super) fn take_row(
        &mut self,
        gpu: &GpuUuid,
        pid: Pid,
        start: Option<WallUs>,
    ) -> Option<(OpenRef, Place)> {
        let by_key = start.and_then(|start| {
            let key = RowKey { gpu: gpu.clone(), pid, start };
            Some((self.rows.remove(&key)?, Place::Row(key)))
        });
        let taken = by_key.or_else(|| self.hidden_of(gpu, pid))?;
        self.unseen.remove(&taken.0);
        Some(taken)
    }

    /// A row that is lost. One that is hidden behind a dead one of its pid still, and may be this one, stays.
    pub(super) fn take_lost(
        &mut self,
        gpu: &GpuUuid,
        pid: Pid,
        start: Option<WallUs>,
        one_is_hidden: bool,
    ) -> Option<(OpenRef, Place)> {
        let key = start.map(|start| RowKey { gpu: gpu.clone(), pid, start });
        let is_open = key.as_ref().is_some_and(|key| self.rows.contains_key(key));
        if is_open || !one_is_hidden { self.take_row(gpu, pid, start) } else { None }
    }

    /// A row that was hidden behind a dead one of its pid.
    pub(super) fn take_hidden(&mut self, gpu: &GpuUuid, pid: Pid) -> Option<(OpenRef, Place)> {
        let taken = self.hidden_of(gpu, pid)?;
        self.unseen.remove(&taken.0);
        Some(taken)
    }

    fn hidden_of(&mut self, gpu: &GpuUuid, pid: Pid) -> Option<(OpenRef, Place)> {
        let reference = self.hidden.remove(&(gpu.clone(), pid))?;
        Some((reference, Place::Hidden(gpu.clone(), pid)))
    }

    pub(super) fn take_rowless(&mut self, gpu: &GpuUuid, pid: Pid) -> Option<(OpenRef, Place)> {
        let (reference, key) = self.rowless.remove(&(gpu.clone(), pid))?;
        self.unseen.remove(&reference);
        Some((reference, Place::Rowless(gpu.clone(), pid, key)))
    }

    /// Whatever of the earlier runs is not there any more, as far as its GPU has shown what is.
    pub(super) fn take_gone(
        &mut self,
        host: &Host,
    ) -> Vec<((OpenRef, Place), Stamp, Option<GapCause>)> {
        let mut gone = Vec::new();
        for (reference, unseen) in &self.unseen {
            let (gpu, pid) = match &unseen.place {
                Place::Row(key) => (&key.gpu, key.pid),
                Place::Hidden(gpu, pid) | Place::Rowless(gpu, pid, _) => (gpu, *pid),
                Place::Gone => continue,
            };
            // A GPU that is not there tells nothing of what it held.
            let Some(rows) = host.gpus().get(gpu) else { continue };
            let mut open = rows.open.iter().filter(|open| open.pid == pid);
            let runs = match &unseen.place {
                Place::Row(key) => open.any(|open| host.may_have_begun_at(open, key.start)),
                _ => open.next().is_some(),
            };
            let cause = match &unseen.place {
                Place::Rowless(_, _, known) => {
                    // Until who holds the device was said, and, of one that does, until it is clear
                    // that it has no row.
                    let Some(holders) = rows.holders_known() else { continue };
                    let holds = holders.iter().any(|holder| holder.pid == pid);
                    let other =
                        known.zip(host.key_of_bearer(pid)).is_some_and(|(one, now)| one != now);
                    if holds && !other && !runs {
                        continue;
                    }
                    None
                }
                // Rows that runs say themselves, when they are told open.
                _ if runs || !rows.journal_compared() => continue,
                _ => Some(GapCause::AgentDown),
            };
            gone.push((*reference, unseen.last_seen, cause));
        }
        gone.into_iter()
            .filter_map(|(reference, last_seen, cause)| {
                let place = self.unseen.remove(&reference)?.place;
                self.forget(reference);
                Some(((reference, place), last_seen, cause))
            })
            .collect()
    }

    /// Nothing of that name is open.
    pub(super) fn forget(&mut self, reference: OpenRef) {
        self.rows.retain(|_, one| *one != reference);
        self.hidden.retain(|_, one| *one != reference);
        self.rowless.retain(|_, (one, _)| *one != reference);
        self.unseen.remove(&reference);
    }

    /// It is open (again).
    pub(super) fn restore(&mut self, reference: OpenRef, place: Place) {
        match place {
            Place::Row(key) => {
                self.rows.insert(key, reference);
            }
            Place::Hidden(gpu, pid) => {
                self.hidden.insert((gpu, pid), reference);
            }
            Place::Rowless(gpu, pid, key) => {
                self.rowless.insert((gpu, pid), (reference, key));
            }
            Place::Gone => {}
        }
    }
}
