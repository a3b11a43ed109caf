//! Time asleep, which is not priced. A settlement says how long its span slept, and not when: what of it fell into a
//! stretch, or beside others, is known only where it could be nowhere else.

use crate::bill::Parts;
use crate::bill::ledger::CutRow;
use crate::unit::{Ms, Span};

/// What the settlements of one line slept on one GPU in one stretch.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Asleep {
    /// Of all of it, and of what nobody shared, so far as those are known.
    all: u64,
    alone: u64,
    /// One slept who knows how long, or outside of the stretch as well.
    is_unknown: bool,
    /// One slept and was alone for a part of its time.
    is_alone_unknown: bool,
    /// One slept and was not alone throughout.
    any_shared: bool,
    /// The plain sum of their spans: more than their union where they overlap.
    spans: u64,
}

impl Asleep {
    /// One settlement more, with what it held of the stretch, and where any slept what it got of it.
    pub(super) fn add(&mut self, row: &CutRow<'_>, held: Ms, parts: Option<Parts>, stretch: Span) {
        self.spans = self.spans.saturating_add(held.0);
        let is_within = row.placing().span().is_some_and(|span| {
            stretch.from_ms() <= span.from_ms() && span.to_ms() <= stretch.to_ms()
        });
        match row.asleep() {
            Some(Ms::ZERO) => {}
            Some(asleep) if is_within => {
                self.all = self.all.saturating_add(asleep.0);
                let alone = parts.map(|parts| parts.alone);
                if alone == Some(held) {
                    self.alone = self.alone.saturating_add(asleep.0);
                } else {
                    self.any_shared = true;
                    self.is_alone_unknown |= alone != Some(Ms::ZERO);
                }
            }
            Some(_) | None => self.is_unknown = true,
        }
    }

    /// What of the union of their spans they were awake; `None` where nobody can say. Divided time is only
    /// known where nothing that slept was divided.
    pub(super) fn held(&self, union: Ms, priced: Ms, is_divided: bool) -> Option<Ms> {
        match (self.is_unknown, self.all) {
            (true, _) => None,
            (false, 0) => Some(priced),
            // Two processes asleep at once slept once.
            _ if self.spans != union.0 || (is_divided && self.any_shared) => None,
            (false, asleep) => priced.0.checked_sub(asleep).map(Ms),
        }
    }

    /// The same of the time that nobody shared.
    pub(super) fn alone(&self, union: Ms, alone: Ms) -> Option<Ms> {
        match (self.is_unknown || self.is_alone_unknown, self.all) {
            (true, _) => None,
            (false, 0) => Some(alone),
            _ if self.spans != union.0 => None,
            _ => alone.0.checked_sub(self.alone).map(Ms),
        }
    }
}
