//! The only readers of time.
//!
//! Purpose: one [`Clock`] that everything above asks, and a pure [`ClockHistory`] that says what
//! the wall clock showed at any moment of this boot, steps and sleep included. May touch: the three
//! kernel clocks and the file of a shifted test clock. May not: be read by a pure room, which gets
//! [`Stamp`]s as values.
//!
//! Events carry `CLOCK_BOOTTIME`, the driver's rows carry `CLOCK_REALTIME`. NTP slews both alike, so
//! their difference is constant but for steps; each observed difference is an anchor.

use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};

use crate::unit::{BootNs, Ms, Span, WallUs};

/// One moment on the three clocks, read together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    /// `CLOCK_BOOTTIME`: orders everything.
    pub boot: BootNs,
    /// `CLOCK_MONOTONIC` in nanoseconds: stands still while the machine sleeps.
    pub mono_ns: u64,
    /// `CLOCK_REALTIME`: what the driver stamps rows with.
    pub wall: WallUs,
}

impl Stamp {
    /// Nanoseconds this machine has slept since boot.
    #[must_use]
    pub const fn asleep_since_boot_ns(self) -> u64 {
        self.boot.0.saturating_sub(self.mono_ns)
    }
}

/// A reading of the three clocks that took no longer than this is good.
const READING_NS_MAX: u64 = 20_000;
/// How often a reading that took longer is repeated before the shortest one is taken.
const READINGS_MAX: u32 = 8;

/// The door to the kernel's clocks.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// A file holding a signed number of microseconds that is added to the wall clock: the one
    /// test hook of this product, shared with the simulated driver so that both see one step.
    shift: Option<PathBuf>,
}

impl Clock {
    /// The kernel's clocks as they are.
    #[must_use]
    pub const fn system() -> Self {
        Self { shift: None }
    }

    /// The kernel's clocks with the wall clock shifted by the number in `file`, read at every use.
    #[must_use]
    pub const fn shifted(file: PathBuf) -> Self {
        Self { shift: Some(file) }
    }

    /// Whether a test shifts the wall clock: said in every report that it touches.
    #[must_use]
    pub const fn is_shifted(&self) -> bool {
        self.shift.is_some()
    }

    /// Reads the three clocks together: again where the reader was interrupted in between, since what
    /// they lie apart is an error of every row that is joined by them.
    #[must_use]
    pub fn now(&self) -> Stamp {
        let shift_us = self.shift_us();
        let mut best = Self::reading(shift_us);
        for _ in 1..READINGS_MAX {
            if best.1 <= READING_NS_MAX {
                break;
            }
            let again = Self::reading(shift_us);
            if again.1 < best.1 {
                best = again;
            }
        }
        best.0
    }

    /// `CLOCK_BOOTTIME` alone: one reading, for whoever needs no other clock beside it.
    #[must_use]
    pub fn boot(&self) -> BootNs {
        BootNs(nanoseconds(ClockId::Boottime))
    }

    /// One reading, and how many nanoseconds it took.
    fn reading(shift_us: i64) -> (Stamp, u64) {
        let began = nanoseconds(ClockId::Boottime);
        // Before the boot clock: read after it, it could pass it, as if time asleep were negative.
        let mono_ns = nanoseconds(ClockId::Monotonic);
        let wall_us = nanoseconds(ClockId::Realtime) / 1_000;
        let boot = nanoseconds(ClockId::Boottime);
        let wall = WallUs(wall_us.saturating_add_signed(shift_us));
        (Stamp { boot: BootNs(boot), mono_ns, wall }, boot.saturating_sub(began))
    }

    #[expect(
        clippy::expect_used,
        reason = "a test that lost its clock must not go on with another"
    )]
    fn shift_us(&self) -> i64 {
        let Some(file) = &self.shift else { return 0 };
        // The test writes the file before it names it, and replaces it by rename.
        let text = std::fs::read_to_string(file).expect("the test clock's file can be read");
        text.trim().parse().expect("the test clock's file holds a signed number of microseconds")
    }
}

/// Nanoseconds of CPU that the calling thread has used (`CLOCK_THREAD_CPUTIME_ID`): a cost, not a
/// moment.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Nanoseconds of CPU that this process has used, in all of its threads (`CLOCK_PROCESS_CPUTIME_ID`).
#[must_use]
pub fn process_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(u64::MAX);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(u64::MAX);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Two readings of the wall-minus-boot difference closer than this are the same difference:
/// three clocks read one after another on a busy machine lie apart by scheduling, not by a step.
pub const STEP_US_MIN: u64 = 5_000;

/// Where a wall-clock instant lies on the boot clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BootPlace {
    /// Exactly one moment showed this wall time.
    Once(BootNs),
    /// A step forward jumped over it: no moment of this boot showed it.
    Skipped,
    /// A step back made it come twice.
    Twice(BootNs, BootNs),
}

/// One boot's milliseconds in a row: the grid that bills of this boot are drawn on.
///
/// A moment's number is its place on the boot clock, counted so that it is what the wall clock showed
/// when it was first read. While nobody steps the wall clock the two are the same; after a step the grid
/// goes on as time does, so whatever happened in between has exactly one place on it, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeline {
    offset_us: i64,
}

impl Timeline {
    /// The millisecond a moment of this boot lies in (floored).
    #[must_use]
    pub const fn ms_of(self, at: BootNs) -> u64 {
        WallUs((at.0 / 1_000).saturating_add_signed(self.offset_us)).ms()
    }

    /// The interval between two moments; empty where it would run backwards.
    #[must_use]
    pub fn span(self, from: BootNs, to: BootNs) -> Span {
        let from_ms = self.ms_of(from);
        Span::new(from_ms, self.ms_of(to)).unwrap_or_else(|| Span::at(from_ms))
    }
}

/// What the wall clock showed when, learned from [`Stamp`]s given in the order they were read.
#[derive(Clone, Debug, Default)]
pub struct ClockHistory {
    anchors: Vec<Anchor>,
    /// Anchors that were dropped under [`ANCHORS_MAX`]: what the clock showed before the first one that
    /// is left is not known any more.
    forgotten: u64,
}

/// Differences of the clocks kept: each is a step of the wall clock, or a time asleep.
pub const ANCHORS_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// From this moment on (or, for the first, since ever) …
    since: BootNs,
    /// … wall − boot is this many microseconds …
    offset_us: i64,
    /// … and the machine had slept this long.
    asleep_ns: u64,
}

impl Anchor {
    /// Whether nothing happened to the clocks between the two.
    const fn is_like(&self, other: &Self) -> bool {
        self.offset_us.abs_diff(other.offset_us) < STEP_US_MIN
            && self.asleep_ns.abs_diff(other.asleep_ns) < 1_000_000
    }
}

impl ClockHistory {
    /// Learns from one reading. Readings that say nothing new are not kept.
    pub fn observe(&mut self, stamp: Stamp) {
        let anchor = Anchor {
            since: stamp.boot,
            offset_us: offset_us(stamp),
            asleep_ns: stamp.asleep_since_boot_ns(),
        };
        let news = self.anchors.last().is_none_or(|last| !last.is_like(&anchor));
        if news {
            self.push(anchor);
        }
    }

    /// Adds what was observed later by another.
    pub fn append(&mut self, later: &Self) {
        for anchor in &later.anchors {
            let same = self.anchors.last().is_some_and(|last| last.is_like(anchor));
            if !same {
                self.push(*anchor);
            }
        }
        self.forgotten = self.forgotten.saturating_add(later.forgotten);
    }

    /// Differences that were dropped because there were more than [`ANCHORS_MAX`].
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn push(&mut self, anchor: Anchor) {
        self.anchors.push(anchor);
        if self.anchors.len() > ANCHORS_MAX {
            self.anchors.remove(0);
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }

    /// Whether a moment lies before all that is remembered.
    fn is_forgotten(&self, boot: BootNs) -> bool {
        self.forgotten > 0 && self.anchors.first().is_some_and(|first| boot < first.since)
    }

    /// The moment of this boot at which the wall clock showed `wall`. `None` before any reading.
    #[must_use]
    pub fn boot_of(&self, wall: WallUs) -> Option<BootPlace> {
        let mut places = self.anchors.iter().enumerate().filter_map(|(i, anchor)| {
            let us = i64::try_from(wall.0).ok()?.checked_sub(anchor.offset_us)?;
            let boot = BootNs(u64::try_from(us).ok()?.checked_mul(1_000)?);
            let begun = i == 0 && self.forgotten == 0 || boot >= anchor.since;
            let over = self.anchors.get(i.saturating_add(1)).is_some_and(|next| boot >= next.since);
            (begun && !over).then_some(boot)
        });
        if self.anchors.is_empty() {
            return None;
        }
        Some(match (places.next(), places.next()) {
            (Some(one), Some(other)) => BootPlace::Twice(one, other),
            (Some(one), None) => BootPlace::Once(one),
            (None, _) => BootPlace::Skipped,
        })
    }

    /// What the wall clock showed at `boot`. `None` before any reading.
    #[must_use]
    pub fn wall_of(&self, boot: BootNs) -> Option<WallUs> {
        let anchor = self.in_force(boot)?;
        Some(WallUs((boot.0 / 1_000).saturating_add_signed(anchor.offset_us)))
    }

    /// The grid of this boot's bills. `None` before any reading.
    #[must_use]
    pub fn timeline(&self) -> Option<Timeline> {
        self.anchors.first().map(|anchor| Timeline { offset_us: anchor.offset_us })
    }

    /// All three clocks at `boot`. `None` before any reading.
    #[must_use]
    pub fn stamp_of(&self, boot: BootNs) -> Option<Stamp> {
        let asleep_ns = self.in_force(boot)?.asleep_ns;
        let mono_ns = boot.0.saturating_sub(asleep_ns);
        Some(Stamp { boot, mono_ns, wall: self.wall_of(boot)? })
    }

    /// Whether the wall clock was stepped between two moments, as far as it was observed.
    #[must_use]
    pub fn stepped_between(&self, from: BootNs, to: BootNs) -> bool {
        // What is remembered no more may have been a step.
        self.is_forgotten(from) && from < to
            || self.anchors.windows(2).any(|pair| match pair {
                [before, after] => {
                    from < after.since
                        && after.since <= to
                        && before.offset_us.abs_diff(after.offset_us) >= STEP_US_MIN
                }
                _ => false,
            })
    }

    /// How long the machine slept between two moments; `None` where that was not observed: the span
    /// began before the first reading, and by then the machine had already slept.
    #[must_use]
    pub fn asleep_between(&self, from: BootNs, to: BootNs) -> Option<Ms> {
        let first = self.anchors.first()?;
        let known = |at: BootNs| {
            if at >= first.since || first.asleep_ns < 1_000_000 && !self.is_forgotten(at) {
                self.in_force(at).map(|anchor| anchor.asleep_ns)
            } else {
                None
            }
        };
        Some(Ms(known(to)?.saturating_sub(known(from)?) / 1_000_000))
    }

    fn in_force(&self, boot: BootNs) -> Option<&Anchor> {
        let later = self.anchors.iter().rev().find(|anchor| anchor.since <= boot);
        later.or_else(|| self.anchors.first())
    }
}

fn offset_us(stamp: Stamp) -> i64 {
    let wall = i64::try_from(stamp.wall.0).unwrap_or(i64::MAX);
    let boot = i64::try_from(stamp.boot.0 / 1_000).unwrap_or(i64::MAX);
    wall.saturating_sub(boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(boot_ms: u64, wall_ms: u64, asleep_ms: u64) -> Stamp {
        Stamp {
            boot: BootNs(boot_ms * 1_000_000),
            mono_ns: (boot_ms - asleep_ms) * 1_000_000,
            wall: WallUs(wall_ms * 1_000),
        }
    }

    #[test]
    fn a_steady_clock_is_one_anchor() {
        let mut history = ClockHistory::default();
        for ms in (100..1_000).step_by(20) {
            history.observe(stamp(ms, 1_000_000 + ms, 0));
        }
        assert_eq!(history.anchors.len(), 1);
        let boot = history.boot_of(WallUs(1_000_500_000));
        assert_eq!(boot, Some(BootPlace::Once(BootNs(500_000_000))));
        assert_eq!(history.wall_of(BootNs(500_000_000)), Some(WallUs(1_000_500_000)));
        assert!(!history.stepped_between(BootNs(0), BootNs(1_000_000_000)));
    }

    #[test]
    fn a_step_forward_skips_and_a_step_back_repeats() {
        let mut forward = ClockHistory::default();
        forward.observe(stamp(100, 1_000_100, 0));
        forward.observe(stamp(200, 1_060_200, 0));
        assert_eq!(forward.boot_of(WallUs(1_030_000_000)), Some(BootPlace::Skipped));
        assert!(forward.stepped_between(BootNs(150_000_000), BootNs(200_000_000)));
        assert!(!forward.stepped_between(BootNs(200_000_000), BootNs(300_000_000)));

        let mut back = ClockHistory::default();
        back.observe(stamp(100, 1_000_100, 0));
        back.observe(stamp(200, 1_000_150, 0));
        assert_eq!(
            back.boot_of(WallUs(1_000_160_000)),
            Some(BootPlace::Twice(BootNs(160_000_000), BootNs(210_000_000)))
        );
    }

    #[test]
    fn a_timeline_is_the_wall_clock_until_that_is_stepped_and_goes_on_as_before() {
        let mut history = ClockHistory::default();
        history.observe(stamp(100, 1_000_100, 0));
        history.observe(stamp(200, 1_060_200, 0));
        history.observe(stamp(300, 1_000_000, 0));
        let timeline = history.timeline().unwrap();
        let at = |boot_ms: u64| timeline.ms_of(BootNs(boot_ms * 1_000_000));
        assert_eq!(
            [at(50), at(150), at(250), at(400)],
            [1_000_050, 1_000_150, 1_000_250, 1_000_400]
        );
        let (early, late) = (BootNs(150_000_000), BootNs(400_000_000));
        assert_eq!(timeline.span(early, late).length(), Ms(250));
        assert_eq!(timeline.span(late, early), Span::at(1_000_400));
        assert_eq!(ClockHistory::default().timeline(), None);
    }

    #[test]
    fn sleep_is_counted_and_unobserved_sleep_is_not_zero() {
        let mut history = ClockHistory::default();
        history.observe(stamp(100, 1_000_100, 50));
        history.observe(stamp(400, 1_000_400, 250));
        let ms = |n: u64| BootNs(n * 1_000_000);
        assert_eq!(history.asleep_between(ms(150), ms(450)), Some(Ms(200)));
        assert_eq!(history.asleep_between(ms(20), ms(450)), None);

        let mut awake = ClockHistory::default();
        awake.observe(stamp(100, 1_000_100, 0));
        assert_eq!(awake.asleep_between(ms(20), ms(450)), Some(Ms::ZERO));
    }

    #[test]
    fn what_the_clock_showed_before_the_oldest_remembered_step_is_not_known_and_not_guessed() {
        let mut history = ClockHistory::default();
        let steps = u64::try_from(ANCHORS_MAX).unwrap() + 5;
        for step in 0..steps {
            history.observe(stamp(1_000 + step * 10, 1_000_000 + step * 20, 0));
        }
        assert_eq!(history.forgotten(), 5);
        let first = BootNs(1_050_000_000);
        assert_eq!(history.boot_of(WallUs(1_000_010_000)), Some(BootPlace::Skipped));
        assert!(history.stepped_between(first.minus_ns(30_000_000), first.minus_ns(20_000_000)));
        assert!(!history.stepped_between(first, first.plus_ns(1_000_000)));
        assert_eq!(history.asleep_between(first.minus_ns(1), first), None);
    }

    #[test]
    fn what_another_observed_later_is_added_where_it_is_news() {
        let mut earlier = ClockHistory::default();
        earlier.observe(stamp(100, 1_000_100, 0));
        let mut later = ClockHistory::default();
        later.observe(stamp(200, 1_000_200, 0));
        earlier.append(&later);
        assert_eq!(earlier.anchors.len(), 1);
        let mut stepped = ClockHistory::default();
        stepped.observe(stamp(300, 1_060_300, 0));
        earlier.append(&stepped);
        assert!(earlier.stepped_between(BootNs(200_000_000), BootNs(300_000_000)));
    }

    #[test]
    fn the_kernel_clocks_move_forward() {
        let clock = Clock::system();
        let (first, second) = (clock.now(), clock.now());
        assert!(first.boot <= second.boot && first.mono_ns <= first.boot.0);
    }
}
