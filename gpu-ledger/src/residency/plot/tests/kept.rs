//! What no number of points may hide, and bytes that are the same every time.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::made::{MIB, MS, Made, NO_CPU, Read, made_sample};
use crate::residency::moment::Length;
use crate::residency::plot::axis::{Quantity, Scale};
use crate::residency::plot::column::{Frame, runs};
use crate::residency::plot::fold::{Curve, CurveFold};
use crate::residency::plot::paths::{LEFT, spans, steps};
use crate::residency::plot::px::Px;
use crate::residency::plot::{COLUMNS, Picture, ShowVoid, Theme, render};
use crate::residency::settings::Settings;
use crate::residency::timeline::{Missing, Point, Window};
use crate::residency::verdict::Backend;
use crate::unit::BootNs;

const T0: u64 = 5_000_000_000;
const PEAK: u64 = 64_000;

/// A window of so many points, some without a sample, some over-age, some a peak.
fn curve(points: u64, gaps: &BTreeSet<u64>, stale: &BTreeSet<u64>, peaks: &BTreeSet<u64>) -> Curve {
    let settings = Settings::default();
    let duration = Length(settings.timeline_period.0 * (points - 1));
    let window = Window { t0: BootNs(T0), timeline_period: settings.timeline_period, duration };
    let mut fold = CurveFold::new(window, &settings);
    let (low, high) = (made_sample(0, T0, 100), made_sample(1, T0, PEAK));
    for j in 0..points {
        let held = if peaks.contains(&j) { &high } else { &low };
        let missing = if gaps.contains(&j) {
            Some(Missing::NoSample)
        } else {
            stale.contains(&j).then_some(Missing::AgeOverCap)
        };
        let held = (missing != Some(Missing::NoSample)).then_some(held);
        let t = window.at(j);
        fold.point(&Point { j, t, held, age: None, age_lower: None, missing }, NO_CPU);
    }
    fold.finish()
}

/// The strokes of a path of M, H and V: from where to where, in hundredths.
fn strokes(path: &str) -> Vec<((i32, i32), (i32, i32))> {
    let number = |text: &str| {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        format!("{whole}{rest:0<2}").parse::<i32>().unwrap()
    };
    let (mut strokes, mut at) = (Vec::new(), (0, 0));
    let kinds = path.chars().filter(char::is_ascii_uppercase);
    for (text, kind) in path.split(['M', 'H', 'V']).skip(1).zip(kinds) {
        let to = match kind {
            'M' => text.split_once(' ').map(|(x, y)| (number(x), number(y))).unwrap(),
            'H' => (number(text), at.1),
            _ => (at.0, number(text)),
        };
        if kind != 'M' {
            strokes.push((at, to));
        }
        at = to;
    }
    strokes
}

fn x(column: usize) -> i32 {
    LEFT.as_hundredths() + i32::try_from(column).unwrap() * 50
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_gap_peak_and_over_age_moment_is_seen_in_its_column(
        points in 2_u64..30_000,
        gaps in prop::collection::btree_set(0_u64..30_000, 0..6),
        stale in prop::collection::btree_set(0_u64..30_000, 0..6),
        peaks in prop::collection::btree_set(0_u64..30_000, 0..6),
    ) {
        let within = |set: BTreeSet<u64>| -> BTreeSet<u64> {
            set.into_iter().filter(|j| *j < points).collect()
        };
        let (gaps, peaks) = (within(gaps), within(peaks));
        let stale: BTreeSet<u64> = within(stale).difference(&gaps).copied().collect();
        let curve = curve(points, &gaps, &stale, &peaks);
        let frame = Frame::new(BootNs(T0), Length(50 * MS * (points - 1)));
        let column = |j: u64| frame.column(BootNs(T0 + j * 50 * MS));
        let greatest = i64::try_from(PEAK * MIB).unwrap();
        let scale = Scale::new(Quantity::Memory, (0, greatest), 5, (Px::of(0), Px::of(100)));
        let strokes = strokes(&steps(&curve.memory, &scale));
        let high = scale.y(greatest).as_hundredths();
        for j in peaks.difference(&gaps).filter(|j| !stale.contains(j)) {
            let at = x(column(*j));
            let reaches = |((x0, y0), (x1, y1)): &((i32, i32), (i32, i32))| {
                (*y0 == high && *x0 == at) || (*y1 == high && *x1 == at)
                    || (*y0 == high && *y1 == high && *x0 <= at && *x1 > at)
            };
            prop_assert!(strokes.iter().any(reaches), "peak {j} of {points}");
        }
        let missing = curve.missing.runs();
        let over = curve.stale.runs();
        for (set, marked) in [(&gaps, &missing), (&stale, &over)] {
            for j in set {
                let at = column(*j);
                prop_assert!(marked.iter().any(|(from, to)| (*from..*to).contains(&at)), "{j}");
                // No stroke runs over the whole column.
                let crosses = |((x0, y0), (x1, y1)): &((i32, i32), (i32, i32))| {
                    y0 == y1 && *x0 <= x(at) && *x1 >= x(at) + 50
                };
                prop_assert!(!strokes.iter().any(crosses), "{j} of {points}");
            }
        }
    }
}

#[test]
fn one_missing_column_is_wide_enough_to_be_seen() {
    let mut columns = vec![false; COLUMNS];
    columns[100] = true;
    let runs = runs(columns.into_iter());
    assert_eq!(runs, [(100, 101)]);
    assert_eq!(spans(&runs, Px::of(10), Px::of(80)), "M120.75 10h3v80h-3Z");
}

#[test]
fn a_lone_value_between_two_gaps_has_ink() {
    let curve = curve(3, &BTreeSet::from([0, 2]), &BTreeSet::new(), &BTreeSet::from([1]));
    let scale = Scale::new(Quantity::Memory, (0, 1 << 36), 5, (Px::of(0), Px::of(100)));
    assert!(!strokes(&steps(&curve.memory, &scale)).is_empty());
}

#[test]
fn a_sample_that_is_over_age_between_two_points_alone_is_red() {
    // Points at 0, 700 and 1400 ms hold samples of at most 700 ms; the second lands at 760.
    let settings = Settings { timeline_period: Length::of_ms(700), ..Settings::default() };
    let duration = Length::of_ms(1_400);
    let window = Window { t0: BootNs(T0), timeline_period: settings.timeline_period, duration };
    let mut fold = CurveFold::new(window, &settings);
    for (k, at) in [(0, 0), (1, 760)] {
        fold.sample(&made_sample(k, T0 + at * MS, 100));
    }
    let curve = fold.finish();
    let frame = Frame::new(BootNs(T0), duration);
    let column = |ms: u64| frame.column(BootNs(T0 + ms * MS));
    assert_eq!(curve.stale.runs(), [(column(750), column(760) + 1)]);
    assert_eq!(curve.age_sup.whole().unwrap().max, 760_000_000);
}

#[test]
fn means_weigh_time_and_the_last_point_has_none() {
    let read =
        |ms: u64| Read { used_mib: if ms < 1_000 { 1_000 } else { 3_000 }, ..Read::default() };
    let made = Made { read: &read, latency_ms: &|_| 0, ..Made::default() };
    let (curve, _) = made.curve();
    let mib = i64::try_from(MIB).unwrap();
    assert_eq!(curve.memory.mean_tenths(), Some(2_000 * 10 * mib));
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let read = |ms: u64| Read {
        used_mib: 2_048 + ms,
        utilization: Some(u32::try_from(ms / 100).unwrap()),
        power_mw: (ms < 1_500).then_some(300_000),
        celsius: 40,
        processes: Some(vec![(42, Some(1_024 + ms)), (43, None)]),
    };
    let made = Made {
        read: &read,
        latency_ms: &|ms| if ms == 800 { 512 } else { 4 },
        processes: vec![super::made::process(42, 7_999_120, Some("llama-server"))],
        phases: vec![(0, "load".to_owned()), (1_000, "run & <rest>".to_owned())],
        ..Made::default()
    };
    let svg = |theme| {
        let (curve, iteration) = made.curve();
        let facts = made.facts(&iteration, Backend::DirectNvml);
        let picture = Picture { facts: &facts, iteration: &iteration, curve: Some(&curve), theme };
        render(&picture, ShowVoid::No).unwrap()
    };
    assert_eq!(svg(Theme::Light), svg(Theme::Light));
    insta::assert_snapshot!("two_seconds", svg(Theme::Auto));
}
