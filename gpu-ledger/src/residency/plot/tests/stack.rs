//! Whose memory it is, and what is nobody's.

use super::made::{MIB, MS, Made, NO_CPU, Read, made_sample, process};
use crate::residency::events::Event;
use crate::residency::moment::Length;
use crate::residency::plot::processes::PROCESSES_MAX;
use crate::residency::plot::{CurveFold, Picture, ShowVoid, Theme, render};
use crate::residency::sample::{ProcessMemory, Reading, Sample, Status};
use crate::residency::settings::Settings;
use crate::residency::timeline::{Point, Window};
use crate::residency::verdict::Backend;
use crate::unit::{BootNs, Pid};

fn svg(made: &Made<'_>) -> String {
    let (curve, iteration) = made.curve();
    let facts = made.facts(&iteration, Backend::DirectNvml);
    let picture =
        Picture { facts: &facts, iteration: &iteration, curve: Some(&curve), theme: Theme::Light };
    render(&picture, ShowVoid::No).unwrap()
}

#[test]
fn what_nobody_holds_is_never_dropped() {
    for (used_mib, mean) in [(1_000, "mean 0 MiB"), (1_500, "mean 500 MiB")] {
        let read =
            |_| Read { used_mib, processes: Some(vec![(42, Some(1_000))]), ..Read::default() };
        let svg = svg(&Made { read: &read, ..Made::default() });
        let (_, band) = svg.split_once("unattributed: in use, and held by no process").unwrap();
        assert!(band.split("</text>").nth(1).unwrap().contains(mean), "{used_mib}");
        assert!(svg.contains("UNKNOWN 42@UNKNOWN"));
    }
}

#[test]
fn more_than_is_in_use_is_flagged() {
    let read = |ms| Read {
        used_mib: if ms < 1_000 { 1_200 } else { 700 },
        processes: Some(vec![(42, Some(1_000))]),
        ..Read::default()
    };
    let (curve, _) = Made { read: &read, ..Made::default() }.curve();
    assert_eq!(curve.processes.residual_max, i64::try_from(300 * MIB).unwrap());
    // Points from 1000 ms on; the sample of then lands 4 ms after its beginning, on the point.
    assert_eq!(curve.processes.residual.count, 21);
    let svg = svg(&Made { read: &read, ..Made::default() });
    assert!(svg.contains("hold more than is in use at 21 points, by up to 300 MiB"));
}

#[test]
fn who_could_not_be_asked_is_no_zero() {
    let read = |ms| Read {
        used_mib: 1_200,
        processes: (!(600..1_000).contains(&ms)).then(|| vec![(42, Some(1_000))]),
        ..Read::default()
    };
    let made = Made { read: &read, ..Made::default() };
    let (curve, _) = made.curve();
    let kept = &curve.processes.kept[0].series;
    assert!(kept.columns().iter().any(|column| column.gap && column.extent.is_none()));
    assert!(kept.columns().iter().filter_map(|column| column.extent).all(|extent| extent.min > 0));
    assert!(svg(&made).contains("not split: who holds it could not be read"));
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let read = |ms: u64| Read {
        used_mib: 2_000,
        processes: Some(if ms == 1_000 { Vec::new() } else { vec![(42, Some(1_000))] }),
        ..Read::default()
    };
    let second = 8_000_000 + 1_100;
    let processes =
        vec![process(42, 7_000_000, Some("first")), process(42, second, Some("second"))];
    let (curve, _) = Made { read: &read, processes, ..Made::default() }.curve();
    let labels: Vec<String> = curve.processes.kept.iter().map(|kept| kept.who.label()).collect();
    assert_eq!(labels, ["first 42@7000.00", "second 42@8001.10"]);
    // The first one ends at nothing, and has no value after it.
    let columns = curve.processes.kept[0].series.columns();
    let last = columns.iter().rev().find_map(|column| column.extent).unwrap();
    assert_eq!(last.last, 0);
}

#[test]
fn rows_of_events_say_who_and_which_phase() {
    let made = Made { read: &|_| Read { used_mib: 9, ..Read::default() }, ..Made::default() };
    let (_, iteration) = made.curve();
    let mut fold = CurveFold::of(&iteration.figures, &made.settings).unwrap();
    let at = |ms: u64| BootNs(super::made::BOOT + ms * MS);
    for (ms, name) in [(0, "before"), (1, "at the start"), (900, "then"), (9_000, "after")] {
        fold.event(&Event::Mark { at_ns: at(ms), name: name.to_owned() });
    }
    let (basis, uid, start_ns) = (None, None, Some(BootNs(MS)));
    let program = Some("server".to_owned());
    fold.event(&Event::Process { at_ns: at(0), pid: Pid(0), start_ns, program, basis, uid });
    let sample = crowd(1);
    let t = at(4);
    let held = Some(&sample);
    fold.point(&Point { j: 0, t, held, age: None, age_lower: None, missing: None }, NO_CPU);
    let curve = fold.finish();
    let phases: Vec<_> = curve.phases.iter().map(|phase| (phase.from, &*phase.name)).collect();
    assert_eq!(phases, [(at(4), "at the start"), (at(900), "then")]);
    assert_eq!(curve.processes.kept[0].who.label(), "server 0@0.00");
    let mut none = iteration.figures.clone();
    none.t0_boottime_ns = None;
    assert!(CurveFold::of(&none, &made.settings).is_none());
}

/// A sample with so many processes, each with one MiB more than the one before.
fn crowd(count: u32) -> Sample {
    let sample = made_sample(0, 1_000 * MS, 80_000);
    let one = |pid: u32| ProcessMemory {
        pid: Pid(pid),
        memory_bytes: Some(u64::from(pid) * MIB),
        compute: true,
        graphics: false,
    };
    let (before_ns, after_ns) = (BootNs(1_000 * MS), BootNs(1_000 * MS));
    let value = Some((0..count).map(one).collect());
    let (status, code, driver_timestamp_us) = (Status::Ok, None, None);
    let list = Reading { before_ns, after_ns, value, status, code, driver_timestamp_us };
    let mut fields = sample.fields;
    fields.processes = Some(list);
    Sample::new(0, false, sample.begin_ns, fields)
}

#[test]
fn a_crowd_adds_up_and_its_greatest_is_drawn() {
    let settings = Settings::default();
    let (t0, duration) = (BootNs(1_000 * MS), Length::of_ms(50));
    let window = Window { t0, timeline_period: settings.timeline_period, duration };
    let mut fold = CurveFold::new(window, &settings);
    let count = u32::try_from(PROCESSES_MAX).unwrap() + 10;
    let sample = crowd(count);
    let held = Some(&sample);
    fold.point(&Point { j: 0, t: t0, held, age: None, age_lower: None, missing: None }, NO_CPU);
    let curve = fold.finish();
    let processes = &curve.processes;
    assert_eq!((processes.kept.len(), processes.beyond()), (PROCESSES_MAX, (10, false)));
    let holding = processes.columns[0].as_ref().unwrap();
    let kept: i64 = holding.parts.iter().filter_map(|(_, bytes)| *bytes).sum();
    let all = u64::from((0..count).sum::<u32>()) * MIB;
    assert_eq!(kept + holding.others, i64::try_from(all).unwrap());
    assert_eq!(holding.unattributed, Some(i64::try_from(80_000 * MIB - all).unwrap()));
    let greatest = i64::try_from(u64::from(count - 1) * MIB).unwrap();
    assert_eq!(processes.others.whole().unwrap().max, greatest);
}
