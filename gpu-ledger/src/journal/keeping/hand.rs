//! What the writer holds: drafts that it took and that are not on the disk, and what it told of a full one.

use std::collections::VecDeque;

use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::journal::chain::Recovered;
use crate::journal::draft::{Binder, Bound, Pending, Settlements};
use crate::journal::entry::{BootId, Draft, Evidence, Figures, Moment};
use crate::unknown::GapCause;

/// The disk is full.
#[derive(Clone, Copy, Debug)]
struct Full {
    since: Stamp,
    /// Up to here it was told.
    told: Option<Stamp>,
}

/// Drafts in the writer's hand.
#[derive(Debug)]
pub struct Hand {
    boot: BootId,
    binder: Binder,
    drafts: VecDeque<Pending>,
    full: Option<Full>,
}

/// What is on the disk now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// How many drafts were taken from the hand.
    pub count: usize,
    /// About how much memory they took.
    pub bytes: usize,
    /// The last note among them: every note up to it is on the disk, or needs not be.
    pub acknowledged: Option<u64>,
}

impl Hand {
    /// An empty one.
    #[must_use]
    pub fn new(boot: BootId) -> Self {
        Self { boot, binder: Binder::default(), drafts: VecDeque::new(), full: None }
    }

    /// Drafts in it.
    #[must_use]
    pub fn length(&self) -> usize {
        self.drafts.len()
    }

    /// Takes more, behind what is in it.
    pub fn take(&mut self, drafts: VecDeque<Pending>) {
        self.drafts.extend(drafts);
    }

    /// Binds as much of what is in hand as goes into one transaction.
    ///
    /// # Errors
    /// Those of `settlements`.
    pub fn bind<S: Settlements>(
        &self,
        limit: usize,
        end: &Recovered,
        settlements: &S,
    ) -> Result<Bound, S::Error> {
        self.binder.bind(&self.drafts, limit, end, settlements)
    }

    /// What was bound is on the disk; `numbers`: of each draft its own, `None` where it became no entry.
    pub fn entered(&mut self, bound: &Bound, numbers: &[Option<u64>], end: &Recovered) -> Done {
        self.binder.entered(bound, numbers, end);
        let done = self.drafts.drain(..bound.taken.min(self.drafts.len()));
        done.fold(Done::default(), |sum, one| Done {
            count: sum.count.saturating_add(1),
            bytes: sum.bytes.saturating_add(one.bytes()),
            acknowledged: sum.acknowledged.max(one.note),
        })
    }

    /// Since when the disk is full.
    #[must_use]
    pub fn full_since(&self) -> Option<Stamp> {
        self.full.map(|full| full.since)
    }

    /// The disk is full: what is to be entered of that from the reserve, once.
    pub fn is_full(&mut self, now: Stamp) -> Option<Draft> {
        let full = *self.full.get_or_insert(Full { since: now, told: None });
        full.told.is_none().then(|| self.disk_full(full.since, now))
    }

    /// That it is full was entered.
    pub const fn full_told(&mut self, now: Stamp) {
        if let Some(full) = &mut self.full {
            full.told = Some(now);
        }
    }

    /// There is room again: what of the time without is to be entered.
    #[must_use]
    pub fn has_room(&self, now: Stamp) -> Option<Draft> {
        self.full.map(|full| self.disk_full(full.told.unwrap_or(full.since), now))
    }

    /// All of it was entered.
    pub const fn room_told(&mut self) {
        self.full = None;
    }

    fn disk_full(&self, from: Stamp, to: Stamp) -> Draft {
        let gap = Gap { cause: GapCause::DiskFull, gpu: None, from, to, size: None };
        let at = Moment { boot: self.boot, stamp: to };
        Draft { at, figures: Figures::Gap(gap), evidence: Evidence::None, argv: None }
    }
}
