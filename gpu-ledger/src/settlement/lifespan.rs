//! A lifetime's bounds on the boot clock, as exactly as they are known.

use super::{Eviction, Fit};
use crate::clock::STEP_US_MIN;
use crate::identity::Lifetime;
use crate::unit::BootNs;

/// How far outside a lifetime a row's start may lie and still be joined to it where nothing else fits.
///
/// Births and deaths are stamped on the boot clock, rows on the wall clock. The difference of the two
/// is only known to within [`STEP_US_MIN`], as readings closer than that are taken for the same
/// difference; so a converted start may miss by that much and no more. One microsecond is added
/// for the driver's own rounding.
pub const JOIN_TOLERANCE_NS: u64 = (STEP_US_MIN + 1) * 1_000;

/// One lifetime among the others of its pid.
#[derive(Clone, Copy)]
pub(super) struct Lifespan<'a> {
    pub(super) lifetime: &'a Lifetime,
    /// Earliest possible birth.
    pub(super) start: BootNs,
    /// Latest possible birth: a start from procfs is floored to the tick. What lies in that tick may
    /// belong to this life, and in practice does: the kernel hands pids out in turn
    /// (Linux 6.12 `kernel/pid.c`, `idr_alloc_cyclic`), so a whole round of them lies between the
    /// death of one and the birth of the next, far more than a tick holds.
    start_latest: BootNs,
    /// Earliest birth of the next lifetime of the pid, and the latest moment of that birth.
    next: Option<(BootNs, BootNs)>,
}

impl<'a> Lifespan<'a> {
    /// All lifetimes of one pid, by start.
    pub(super) fn all(lifetimes: &[&'a Lifetime]) -> Vec<Self> {
        let mut sorted: Vec<&Lifetime> = lifetimes.to_vec();
        sorted.sort_by_key(|lifetime| lifetime.key.start);
        let births: Vec<_> = sorted.iter().map(|lifetime| births(lifetime)).collect();
        let spans = sorted.into_iter().zip(&births).map(|(lifetime, (start, start_latest))| {
            let next = births.iter().find(|(later, _)| later > start).copied();
            Self { lifetime, start: *start, start_latest: *start_latest, next }
        });
        spans.collect()
    }

    /// Whether the exit event itself was seen: only then is the end exact.
    fn exit(&self) -> Option<BootNs> {
        self.lifetime.ended.filter(|ended| ended.is_seen).map(|ended| ended.at)
    }

    /// The last moment at which it may have lived, where there is a bound. A pid belongs to one
    /// process at a time, so the next birth bounds a life whose exit was not seen.
    fn end_latest(&self) -> Option<BootNs> {
        if let Some(exit) = self.exit() {
            return Some(exit);
        }
        let found_gone = self.lifetime.ended.map(|ended| ended.at);
        // It was gone when the next one was born.
        let succeeded = self.next.map(|(_, latest)| latest.minus_ns(1));
        match (found_gone, succeeded) {
            (Some(gone), Some(succeeded)) => Some(gone.min(succeeded)),
            (gone, succeeded) => gone.or(succeeded),
        }
    }

    fn contains_for_sure(&self, at: BootNs) -> bool {
        let lived_to = match (self.exit(), self.lifetime.ended) {
            (Some(exit), _) => at <= exit,
            (None, Some(_)) => false,
            (None, None) => self.next.is_none_or(|(earliest, _)| at < earliest),
        };
        self.start_latest <= at && lived_to
    }

    /// How `at` fits this life.
    pub(super) fn fit(&self, at: BootNs) -> Fit {
        if self.contains_for_sure(at) {
            return Fit::Contains;
        }
        match self.distance(at) {
            0 => Fit::MayContain,
            near if near <= JOIN_TOLERANCE_NS => Fit::WithinTolerance,
            _ => Fit::Outside,
        }
    }

    /// The edge of this life that is nearest to `at`.
    pub(super) fn nearest(&self, at: BootNs) -> BootNs {
        let end = self.end_latest().unwrap_or(BootNs(u64::MAX)).max(self.start);
        at.clamp(self.start, end)
    }

    fn distance(&self, at: BootNs) -> u64 {
        self.nearest(at).0.abs_diff(at.0)
    }

    /// Whether `moment` is no later than its birth may have been.
    pub(super) fn is_birth(&self, moment: BootNs) -> bool {
        moment <= self.start_latest
    }

    /// Whether it is known to have lived at `at`, because it was still there or was seen to exit
    /// later.
    pub(super) fn outlived(&self, at: BootNs) -> bool {
        match (self.exit(), self.lifetime.ended) {
            (Some(exit), _) => exit > at,
            (None, Some(_)) => false,
            (None, None) => self.next.is_none_or(|(earliest, _)| earliest > at),
        }
    }

    /// Whether it lived on past `at` as far as anybody saw.
    pub(super) fn alive_after(&self, at: BootNs) -> bool {
        self.lifetime.ended.is_none_or(|ended| ended.is_seen && ended.at > at)
            && self.next.is_none_or(|(_, latest)| latest > at)
    }
}

fn births(lifetime: &Lifetime) -> (BootNs, BootNs) {
    let start = lifetime.key.start;
    let slack = if lifetime.start_is_exact { 0 } else { BootNs::PER_TICK - 1 };
    (start, start.plus_ns(slack))
}

impl Eviction {
    /// How `at` fits the forgotten life. Its bounds may be those of several lives together, so it
    /// never contains anything for sure.
    pub(super) fn fit(self, at: BootNs) -> Fit {
        match self.nearest(at).0.abs_diff(at.0) {
            0 => Fit::MayContain,
            near if near <= JOIN_TOLERANCE_NS => Fit::WithinTolerance,
            _ => Fit::Outside,
        }
    }

    /// The edge of the forgotten life that is nearest to `at`.
    pub(super) fn nearest(self, at: BootNs) -> BootNs {
        at.clamp(self.born, self.ended.max(self.born))
    }
}
