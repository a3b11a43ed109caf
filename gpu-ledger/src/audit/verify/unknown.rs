//! What a verdict can fail to know of a period.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::verdict::UnknownTold;
use crate::unknown::closed_list;

closed_list! {
    /// What is not known.
    What {
        /// Settlements without an identity, by reason.
        Unattributed = "unattributed",
        /// Settlements whose milliseconds are disputed, by reason.
        Disputed = "disputed",
        /// A booked row was read again with other contents.
        Conflict = "conflict",
        /// A row that was seen to run was lost before it could be booked, by cause.
        Lost = "lost",
        /// A holder without a row of the driver: no time of it is booked.
        EndedUnbooked = "ended-unbooked",
        /// A row that began before the period's end is not booked yet.
        Open = "open",
        /// An entry that was open when the range begins is not in the bundle.
        NoContext = "no-context",
        /// A key was lost: the one that signs now is not signed for by it.
        KeyLost = "key-lost",
        /// Memory of an hour is void.
        MemoryVoid = "memory-void",
        /// Nobody is shown to have watched from the period's beginning on; of a GPU: its accounting.
        NotSeenFromBeginning = "not-seen-from-beginning",
        /// Nobody is shown to have watched up to the period's end; of a GPU: its rows.
        NotSeenToEnd = "not-seen-to-end",
    }
}

/// How often, and how many milliseconds are booked with it.
#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    count: u64,
    held_ms: Option<u128>,
}

/// What is not known, by word and what it is about.
#[derive(Clone, Default, Debug)]
pub(super) struct Unknowns(BTreeMap<(&'static str, String), Sum>);

impl Unknowns {
    pub(super) fn add(&mut self, what: What, about: Option<&str>) {
        self.sum(what, about);
    }

    pub(super) fn add_held(&mut self, what: What, about: &str, held_ms: u64) {
        let sum = self.sum(what, Some(about));
        sum.held_ms = Some(sum.held_ms.unwrap_or_default().saturating_add(u128::from(held_ms)));
    }

    fn sum(&mut self, what: What, about: Option<&str>) -> &mut Sum {
        let key = (what.as_str(), about.unwrap_or_default().to_owned());
        let sum = self.0.entry(key).or_default();
        sum.count = sum.count.saturating_add(1);
        sum
    }

    pub(super) fn told(&self) -> Vec<UnknownTold> {
        let told = self.0.iter().map(|((what, about), sum)| UnknownTold {
            what,
            about: Some(about.clone()).filter(|about| !about.is_empty()),
            count: sum.count,
            held_ms: sum.held_ms.map(|held_ms| held_ms.to_string()),
        });
        told.collect()
    }
}
