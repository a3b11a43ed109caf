//! Axes: which numbers stand beside a curve, how they are printed, and how high a value is drawn.

use super::column::Frame;
use super::px::Px;
use crate::residency::moment::Length;

/// What a curve is of, and so in which steps and with which unit it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quantity {
    /// Bytes.
    Memory,
    /// Percent.
    Percent,
    /// Hundredths of a percent.
    Centipercent,
    /// Milliwatts.
    Power,
    /// Degrees Celsius.
    Temperature,
    /// Nanoseconds, printed as milliseconds.
    Time,
}

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

impl Quantity {
    /// The unit that a value so great is printed in, and how much of the base unit that is.
    pub(super) const fn unit(self, greatest: i64) -> (&'static str, i64) {
        match self {
            Self::Memory if greatest < GIB => ("MiB", MIB),
            Self::Memory => ("GiB", GIB),
            Self::Percent => ("%", 1),
            Self::Centipercent => ("%", 100),
            Self::Power => ("W", 1_000),
            Self::Temperature => ("°C", 1),
            Self::Time if greatest < 10_000_000_000 => ("ms", 1_000_000),
            Self::Time => ("s", 1_000_000_000),
        }
    }

    /// The smallest step between two numbers of an axis, and what each longer one is of the one before.
    const fn steps(self) -> (i64, &'static [i64]) {
        match self {
            // 1, 2, 4, 8, … MiB.
            Self::Memory => (MIB, &[2]),
            // 1, 2, 5, 10, …
            Self::Percent | Self::Temperature => (1, &[2, 0, 2]),
            Self::Centipercent => (100, &[2, 0, 2]),
            Self::Power => (1_000, &[2, 0, 2]),
            Self::Time => (1_000_000, &[2, 0, 2]),
        }
    }

    /// A value with one digit after the point where it has any, and its unit.
    pub(super) fn print(self, value: i64) -> String {
        let (unit, per) = self.unit(value);
        format!("{} {unit}", decimal(value, per))
    }

    /// A value given in tenths.
    pub(super) fn print_tenths(self, tenths: i64) -> String {
        let (unit, per) = self.unit(tenths / 10);
        format!("{} {unit}", decimal(tenths, per.saturating_mul(10)))
    }
}

/// `value / per` with one digit, which is left away where the value is whole.
fn decimal(value: i64, per: i64) -> String {
    let tenths = i128::from(value).saturating_mul(10).checked_div(i128::from(per)).unwrap_or(0);
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, rest) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    let is_whole = i128::from(value).checked_rem(i128::from(per)) == Some(0);
    if is_whole { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest}") }
}

/// How values become heights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    quantity: Quantity,
    bottom: Px,
    height: Px,
    min: i64,
    max: i64,
    step: i64,
}

impl Scale {
    /// From the least to the greatest value, rounded to whole steps, of which there are no more than so many.
    pub(super) fn new(
        quantity: Quantity,
        (min, max): (i64, i64),
        steps_max: i64,
        (top, height): (Px, Px),
    ) -> Self {
        let (mut step, factors) = quantity.steps();
        let mut factors = factors.iter().cycle();
        let range = |step: i64| {
            let low = min.div_euclid(step).saturating_mul(step);
            let above = max.saturating_sub(low).max(1);
            let count = above.saturating_add(step.saturating_sub(1)).div_euclid(step);
            (low, count)
        };
        while range(step).1 > steps_max && step < i64::MAX / 4 {
            // 1, 2, 5: from 2 on it is five halves, which 0 stands for.
            step = match factors.next() {
                Some(0) => step.saturating_mul(5) / 2,
                Some(factor) => step.saturating_mul(*factor),
                None => step.saturating_mul(2),
            };
        }
        let (min, count) = range(step);
        let max = min.saturating_add(step.saturating_mul(count));
        Self { quantity, bottom: top + height, height, min, max, step }
    }

    /// Where a value is drawn.
    pub(super) fn y(&self, value: i64) -> Px {
        let value = value.clamp(self.min, self.max);
        let above = i128::from(value).saturating_sub(i128::from(self.min));
        self.bottom
            - self.height.part(above, i128::from(self.max).saturating_sub(i128::from(self.min)))
    }

    /// The bottom edge.
    pub(super) const fn bottom(&self) -> Px {
        self.bottom
    }

    /// The numbers beside it, with their places.
    pub(super) fn ticks(&self) -> Vec<(Px, String)> {
        let (_, per) = self.tick_unit();
        let mut ticks = Vec::new();
        let mut value = self.min;
        while value <= self.max && ticks.len() < 32 {
            ticks.push((self.y(value), decimal(value, per)));
            value = value.saturating_add(self.step);
        }
        ticks
    }

    /// The unit of those numbers.
    pub(super) fn unit(&self) -> &'static str {
        self.tick_unit().0
    }

    /// One in which every step has at most one digit after its point.
    fn tick_unit(&self) -> (&'static str, i64) {
        let (unit, per) = self.quantity.unit(self.max);
        let tenths = i128::from(self.step).saturating_mul(10);
        if tenths.checked_rem(i128::from(per)) == Some(0) {
            (unit, per)
        } else {
            self.quantity.unit(self.step)
        }
    }

    /// The greatest value that is drawn, with its unit.
    pub(super) fn top_label(&self) -> String {
        self.quantity.print(self.max)
    }
}

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The steps that people count time in.
const TIME_STEPS: [u64; 33] = [
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    SECOND / 10,
    SECOND / 5,
    SECOND / 2,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    10 * DAY,
    20 * DAY,
    50 * DAY,
    100 * DAY,
];

/// The numbers along the time axis, with their places from its left edge.
pub(super) fn time_ticks(frame: &Frame) -> Vec<(Px, String)> {
    let length = frame.length().0;
    let step = TIME_STEPS.iter().copied().find(|step| length / step <= 10).unwrap_or(100 * DAY);
    (0..=10_u64)
        .map(|count| count.saturating_mul(step))
        .take_while(|at| *at <= length)
        .map(|at| (frame.x(Length(at)), clock(at, step, length)))
        .collect()
}

/// What those numbers are in.
pub(super) const fn time_unit(frame: &Frame) -> &'static str {
    let length = frame.length().0;
    if length <= MINUTE {
        "s"
    } else if length <= HOUR {
        "m:ss"
    } else if length <= 4 * DAY {
        "h:mm:ss"
    } else {
        "days"
    }
}

fn clock(at: u64, step: u64, length: u64) -> String {
    let (seconds, ms) = (at / SECOND, at % SECOND / 1_000_000);
    if length > 4 * DAY {
        return format!("{}.{}", at / DAY, at % DAY * 10 / DAY);
    }
    if length > HOUR {
        return format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    }
    if length > MINUTE {
        return format!("{}:{:02}", seconds / 60, seconds % 60);
    }
    match step {
        step if step % SECOND == 0 => seconds.to_string(),
        step if step % (SECOND / 10) == 0 => format!("{seconds}.{}", ms / 100),
        step if step % (SECOND / 100) == 0 => format!("{seconds}.{:02}", ms / 10),
        _ => format!("{seconds}.{ms:03}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Length, Px, Quantity, Scale, time_ticks};
    use crate::unit::BootNs;

    fn labels(quantity: Quantity, range: (i64, i64)) -> Vec<String> {
        let scale = Scale::new(quantity, range, 5, (Px::of(0), Px::of(100)));
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn numbers_beside_a_curve_are_those_that_people_count_in() {
        assert_eq!(labels(Quantity::Percent, (0, 100)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(
            labels(Quantity::Memory, (0, 81_559 << 20)),
            ["0", "16", "32", "48", "64", "80"]
        );
        assert_eq!(labels(Quantity::Memory, (0, 700 << 20)), ["0", "256", "512", "768"]);
        assert_eq!(labels(Quantity::Memory, (0, 1 << 30)), ["0", "256", "512", "768", "1024"]);
        assert_eq!(labels(Quantity::Memory, (0, 2 << 30)), ["0", "0.5", "1", "1.5", "2"]);
        assert_eq!(labels(Quantity::Power, (0, 702_314)), ["0", "200", "400", "600", "800"]);
        assert_eq!(labels(Quantity::Temperature, (-3, 40)), ["-10", "0", "10", "20", "30", "40"]);
        assert_eq!(labels(Quantity::Time, (0, 750_000_000)), ["0", "200", "400", "600", "800"]);
        assert_eq!(labels(Quantity::Percent, (0, 0)), ["0", "1"]);
    }

    #[test]
    fn values_are_drawn_between_top_and_bottom() {
        let scale = Scale::new(Quantity::Percent, (0, 100), 5, (Px::of(10), Px::of(80)));
        assert_eq!((scale.y(0), scale.y(50), scale.y(100)), (Px::of(90), Px::of(50), Px::of(10)));
        assert_eq!((scale.y(-5), scale.y(500)), (scale.y(0), scale.y(100)));
        let scale = Scale::new(Quantity::Memory, (0, i64::MAX), 5, (Px::of(10), Px::of(80)));
        assert!(scale.ticks().len() <= 6, "{scale:?}");
    }

    #[test]
    fn time_is_counted_from_the_first_landing() {
        let ticks = |ms| {
            let frame = Frame::new(BootNs(7), Length::of_ms(ms));
            time_ticks(&frame).into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(ticks(1_000)[..3], ["0.0", "0.1", "0.2"]);
        assert_eq!(ticks(2_000).last().unwrap(), "2.0");
        assert_eq!(ticks(60_000)[..3], ["0", "10", "20"]);
        assert_eq!(ticks(600_000)[..3], ["0:00", "1:00", "2:00"]);
        assert_eq!(ticks(3_600_000 * 5)[..3], ["0:00:00", "0:30:00", "1:00:00"]);
        assert_eq!(ticks(86_400_000 * 100).last().unwrap(), "100.0");
        assert_eq!(
            ticks(10),
            [
                "0.000", "0.001", "0.002", "0.003", "0.004", "0.005", "0.006", "0.007", "0.008",
                "0.009", "0.010"
            ]
        );
    }

    #[test]
    fn values_are_printed_with_their_unit() {
        assert_eq!(Quantity::Memory.print(3 << 29), "1.5 GiB");
        assert_eq!(Quantity::Power.print(702_314), "702.3 W");
        assert_eq!(Quantity::Percent.print_tenths(123), "12.3 %");
        assert_eq!(Quantity::Temperature.print(-4), "-4 °C");
        assert_eq!(Quantity::Time.print(422_719_000), "422.7 ms");
    }
}
