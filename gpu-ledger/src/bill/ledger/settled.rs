//! Settlements as they are kept: 48 bytes each, as a bill of a year is made of millions. What many have in common
//! is kept once, and what does not fit is aside.

use std::collections::BTreeMap;

use super::Whose;
use super::names::Names;
use crate::accounting::{Busy, BusySource};
use crate::bill::{Placing, StartPlace};
use crate::identity::Basis;
use crate::unit::{Bytes, Ms, Pid, Span, WallUs};
use crate::unknown::{DisputeReason, Flag};

/// A settlement, with its names as numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Settled {
    pub(super) seq: u64,
    pub(super) whose: Whose,
    pub(super) pid: Pid,
    pub(super) start: Option<WallUs>,
    pub(super) held: Ms,
    pub(super) read_at_ms: u64,
    pub(super) basis: Option<Basis>,
    pub(super) flags: Vec<Flag>,
    pub(super) dispute: Option<DisputeReason>,
    pub(super) asleep: Option<Ms>,
    pub(super) busy: Option<Busy>,
    pub(super) memory_peak: Option<Bytes>,
}

/// What many have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Common {
    basis: Option<Basis>,
    flags: Vec<Flag>,
    dispute: Option<DisputeReason>,
    asleep: Option<Ms>,
    /// What the busy range is of; `None` where there is none.
    busy: Option<(Option<u64>, BusySource)>,
    has_start: bool,
    has_peak: bool,
}

/// What does not fit into [`Packed`].
#[derive(Clone, Copy, Debug)]
struct Wide {
    seq: u64,
    held: u64,
    read_at_ms: u64,
    low: u64,
    high: u64,
}

/// One, packed.
#[derive(Clone, Copy, Debug)]
struct Packed {
    /// In µs; where the driver gave none, the moment of the read in ms.
    start: u64,
    /// 0 where nobody knows.
    peak: u64,
    seq: u32,
    held: u32,
    /// From its end to its read in ms; [`ASIDE`]: what does not fit is aside.
    read_after: i32,
    low: u32,
    high: u32,
    pid: Pid,
    whose: u32,
    common: u32,
}

const ASIDE: i32 = i32::MIN;

// A million of them have 46 MiB.
const _: () = assert!(size_of::<Packed>() == 48, "what is kept of each settlement");

/// Every settlement taken, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct AllSettled {
    packed: Vec<Packed>,
    whose: Names<Whose>,
    common: Names<Common>,
    aside: BTreeMap<u32, Wide>,
}

/// One of them, as it is looked at.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) seq: u64,
    pub(super) whose: Whose,
    /// The number of `whose`.
    pub(super) whose_number: u32,
    pub(super) pid: Pid,
    pub(super) start: Option<WallUs>,
    pub(super) held: Ms,
    pub(super) read_at_ms: u64,
    pub(super) busy: Option<Busy>,
    pub(super) memory_peak: Option<Bytes>,
    common: &'a Common,
}

impl Seen<'_> {
    pub(super) const fn basis(&self) -> Option<Basis> {
        self.common.basis
    }

    pub(super) fn flags(&self) -> &[Flag] {
        &self.common.flags
    }

    pub(super) const fn dispute(&self) -> Option<DisputeReason> {
        self.common.dispute
    }

    pub(super) const fn asleep(&self) -> Option<Ms> {
        self.common.asleep
    }

    pub(super) fn placing(&self) -> Placing {
        Placing {
            pid: self.pid,
            start: self.start.map(|start| StartPlace::At(start.ms())),
            held: self.held,
            is_span: self.start.is_some_and(|start| Span::of_row(start, self.held).is_some()),
            read_at_ms: self.read_at_ms,
            dispute: self.dispute(),
        }
    }

    pub(super) fn earliest_ms(&self) -> u64 {
        self.start.map_or(self.read_at_ms, |start| start.ms().min(self.read_at_ms))
    }
}

impl AllSettled {
    /// Takes one more, of a number past the last one's.
    pub(super) fn push(&mut self, settled: Settled) {
        let Settled { seq, start, held, read_at_ms, memory_peak, pid, .. } = settled;
        let (low, high) = settled.busy.as_ref().map_or((0, 0), |busy| (busy.low.0, busy.high.0));
        let common = Common {
            basis: settled.basis,
            flags: settled.flags,
            dispute: settled.dispute,
            asleep: settled.asleep,
            busy: settled.busy.map(|busy| (busy.samples, busy.source)),
            has_start: start.is_some(),
            has_peak: memory_peak.is_some(),
        };
        let start = start.map_or(read_at_ms, |start| start.0);
        let peak = memory_peak.map_or(0, |peak| peak.0);
        let (has_start, wide) =
            (common.has_start, Wide { seq, held: held.0, read_at_ms, low, high });
        let (whose, common) = (self.whose.number(&settled.whose), self.common.number(&common));
        let none = Packed {
            start,
            peak,
            seq: 0,
            held: 0,
            read_after: ASIDE,
            low: 0,
            high: 0,
            pid,
            whose,
            common,
        };
        let packed = wide.into_packed(none, has_start).unwrap_or_else(|| {
            self.aside.insert(self.len(), wide);
            none
        });
        self.packed.push(packed);
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        // 2³² of them have 200 GB.
        u32::try_from(self.packed.len()).unwrap_or(u32::MAX)
    }

    /// The one at this place.
    pub(super) fn at(&self, place: u32) -> Option<Seen<'_>> {
        let packed = self.packed.get(usize::try_from(place).ok()?)?;
        let common = self.common.name(packed.common)?;
        let wide = self.wide(place, packed)?;
        Some(Seen {
            seq: wide.seq,
            whose: *self.whose.name(packed.whose)?,
            whose_number: packed.whose,
            pid: packed.pid,
            start: common.has_start.then_some(WallUs(packed.start)),
            held: Ms(wide.held),
            read_at_ms: wide.read_at_ms,
            busy: common.busy.map(|(samples, source)| Busy {
                low: Ms(wide.low),
                high: Ms(wide.high),
                samples,
                source,
            }),
            memory_peak: common.has_peak.then_some(Bytes(packed.peak)),
            common,
        })
    }

    fn wide(&self, place: u32, packed: &Packed) -> Option<Wide> {
        if packed.read_after == ASIDE {
            return self.aside.get(&place).copied();
        }
        let held = u64::from(packed.held);
        let near_ms = near_ms(self.common.name(packed.common)?.has_start, packed.start, held);
        Some(Wide {
            seq: packed.seq.into(),
            held,
            read_at_ms: near_ms.saturating_add_signed(packed.read_after.into()),
            low: packed.low.into(),
            high: packed.high.into(),
        })
    }

    /// All of them, in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = Seen<'_>> {
        (0..self.len()).filter_map(|place| self.at(place))
    }

    /// Whose any of them is, or was before it was corrected.
    pub(super) fn whose(&self) -> impl Iterator<Item = &Whose> {
        self.whose.all()
    }

    /// Whether the host slept while any of them held a GPU.
    pub(super) fn has_slept(&self) -> bool {
        self.common.all().any(|common| common.asleep.is_some_and(|asleep| asleep > Ms::ZERO))
    }

    /// Moves one to another account. Whether it is here.
    pub(super) fn move_to(&mut self, seq: u64, account: u32) -> bool {
        let Some(place) = self.place(seq) else { return false };
        let Some(whose) = self.at(place).map(|seen| Whose { account, ..seen.whose }) else {
            return false;
        };
        let number = self.whose.number(&whose);
        self.packed_mut(place).into_iter().for_each(|packed| packed.whose = number);
        true
    }

    /// Whose the one of this number is, where it is here.
    pub(super) fn whose_of(&self, seq: u64) -> Option<Whose> {
        self.at(self.place(seq)?).map(|seen| seen.whose)
    }

    /// Puts one in dispute, where it is here.
    pub(super) fn dispute(&mut self, seq: u64, reason: DisputeReason) {
        let Some(place) = self.place(seq) else { return };
        let Some(common) = self.at(place).map(|seen| seen.common.clone()) else { return };
        let number = self.common.number(&Common { dispute: Some(reason), ..common });
        self.packed_mut(place).into_iter().for_each(|packed| packed.common = number);
    }

    fn packed_mut(&mut self, place: u32) -> Option<&mut Packed> {
        self.packed.get_mut(usize::try_from(place).ok()?)
    }

    fn place(&self, seq: u64) -> Option<u32> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            let packed = self.packed.get(usize::try_from(middle).ok()?)?;
            match self.wide(middle, packed)?.seq.cmp(&seq) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => from = middle.saturating_add(1),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }
}

impl Wide {
    /// Packed, where everything fits.
    fn into_packed(self, none: Packed, has_start: bool) -> Option<Packed> {
        let narrow = |wide: u64| u32::try_from(wide).ok();
        let near_ms = near_ms(has_start, none.start, self.held);
        let read_after = i128::from(self.read_at_ms).checked_sub(near_ms.into())?;
        let read_after = i32::try_from(read_after).ok().filter(|after| *after != ASIDE)?;
        Some(Packed {
            seq: narrow(self.seq)?,
            held: narrow(self.held)?,
            read_after,
            low: narrow(self.low)?,
            high: narrow(self.high)?,
            ..none
        })
    }
}

/// A moment near its read, in ms since 1970: when the row was over, or the read itself.
const fn near_ms(has_start: bool, start: u64, held: u64) -> u64 {
    if has_start { WallUs(start).ms().saturating_add(held) } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(seq: u64) -> Settled {
        Settled {
            seq,
            whose: Whose {
                gpu: 1,
                account: 2,
                program: Some(3),
                uid: None,
                labels: 0,
                is_folded: false,
            },
            pid: Pid(7),
            start: Some(WallUs(1_785_180_331_123_456)),
            held: Ms(5_000),
            read_at_ms: 1_785_180_336_200,
            basis: Some(Basis::Exec),
            flags: vec![Flag::Below1Ms],
            dispute: None,
            asleep: Some(Ms::ZERO),
            busy: Some(Busy {
                low: Ms(1),
                high: Ms(2),
                samples: Some(36),
                source: BusySource::StatsV2,
            }),
            memory_peak: Some(Bytes(u64::MAX)),
        }
    }

    /// Every field at its ends, alone and together.
    fn extremes() -> Vec<Settled> {
        let mut all = vec![settled(0)];
        for wide in [0, 1, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
            let busy = |low, high| {
                let (samples, source) = (Some(wide), BusySource::ProcessSamples);
                Some(Busy { low: Ms(low), high: Ms(high), samples, source })
            };
            let of = settled(0);
            all.extend([
                Settled { start: Some(WallUs(wide)), ..of.clone() },
                Settled { start: None, read_at_ms: wide, ..of.clone() },
                Settled { held: Ms(wide), ..of.clone() },
                Settled { start: None, held: Ms(wide), ..of.clone() },
                Settled { read_at_ms: wide, ..of.clone() },
                Settled { asleep: Some(Ms(wide)), ..of.clone() },
                Settled { busy: busy(wide, 0), ..of.clone() },
                Settled { busy: busy(0, wide), ..of.clone() },
                Settled { memory_peak: Some(Bytes(wide)), ..of.clone() },
                Settled { start: Some(WallUs(wide)), held: Ms(wide), read_at_ms: wide, ..of },
            ]);
        }
        let far = i64::from(i32::MIN).saturating_sub(1);
        for after in [far, i32::MIN.into(), -1, i32::MAX.into(), 1 << 31] {
            let end_ms = 1_785_180_336_123_u64;
            let read_at_ms = end_ms.checked_add_signed(after).unwrap();
            all.push(Settled { read_at_ms, ..settled(0) });
        }
        let of = settled(0);
        all.push(Settled {
            asleep: None,
            busy: None,
            memory_peak: None,
            basis: None,
            ..of.clone()
        });
        all.push(Settled { flags: Vec::new(), dispute: Some(DisputeReason::Conflict), ..of });
        (1..).zip(&mut all).for_each(|(seq, one)| one.seq = seq);
        // The numbers of a journal that is longer than any.
        all.push(settled(u64::from(u32::MAX)));
        all.push(settled(1 << 32));
        all.push(settled(u64::MAX));
        all
    }

    fn unpacked(seen: &Seen<'_>) -> Settled {
        Settled {
            seq: seen.seq,
            whose: seen.whose,
            pid: seen.pid,
            start: seen.start,
            held: seen.held,
            read_at_ms: seen.read_at_ms,
            basis: seen.basis(),
            flags: seen.flags().to_vec(),
            dispute: seen.dispute(),
            asleep: seen.asleep(),
            busy: seen.busy.clone(),
            memory_peak: seen.memory_peak,
        }
    }

    #[test]
    fn what_is_kept_of_a_settlement_is_all_of_it() {
        let given = extremes();
        let mut kept = AllSettled::default();
        given.iter().cloned().for_each(|one| kept.push(one));
        let found: Vec<Settled> = kept.all().map(|seen| unpacked(&seen)).collect();
        assert_eq!(found, given);
        // A few of them, and not all, are aside.
        assert!((1..given.len()).contains(&kept.aside.len()), "{:?}", kept.aside);
    }

    #[test]
    fn a_correction_is_of_the_one_settlement_that_it_names() {
        let mut given = extremes();
        let mut kept = AllSettled::default();
        given.iter().cloned().for_each(|one| kept.push(one));
        assert!(kept.move_to(3, 99) && kept.move_to(u64::MAX, 98) && !kept.move_to(1 << 40, 97));
        kept.dispute(3, DisputeReason::ClockStep);
        kept.dispute(1 << 32, DisputeReason::Conflict);
        for one in &mut given {
            match one.seq {
                3 => (one.whose.account, one.dispute) = (99, Some(DisputeReason::ClockStep)),
                u64::MAX => one.whose.account = 98,
                seq if seq == 1 << 32 => one.dispute = Some(DisputeReason::Conflict),
                _ => {}
            }
        }
        let found: Vec<Settled> = kept.all().map(|seen| unpacked(&seen)).collect();
        assert_eq!(found, given);
    }

    #[test]
    fn an_ordinary_settlement_keeps_nothing_beside_what_is_packed() {
        let mut kept = AllSettled::default();
        for seq in 1..=1_000_u32 {
            let start = (seq % 7 != 0).then(|| WallUs(1_785_180_331_123_456 + u64::from(seq)));
            let busy = Busy { low: Ms(seq.into()), ..settled(0).busy.unwrap() };
            let memory_peak = Some(Bytes(u64::from(seq) << 33));
            kept.push(Settled { start, busy: Some(busy), memory_peak, ..settled(seq.into()) });
        }
        assert_eq!((kept.aside.len(), kept.whose().count()), (0, 1));
        assert_eq!(kept.common.all().count(), 2, "with a start and without");
    }
}
