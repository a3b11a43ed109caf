//! A recorder that stood still, and a machine that slept: void for the right reason, and drawn through by nothing.

use super::made::{self, Halted, Recipe};
use crate::residency::files::{BatchReport, EVENTS, Rows, SAMPLES, derive, verify};
use crate::residency::moment::Length;
use crate::residency::plot::{CurveFold, Facts, Picture, PlotError, ShowVoid, Theme, render};
use crate::residency::reading::Read;
use crate::residency::sample::Sample;
use crate::residency::verdict::VoidReason;

/// The fourth wake-up is so late.
fn batch(folder: &std::path::Path, halted: Halted, late_ms: u64) -> BatchReport {
    let recipe = Recipe {
        duration_ms: late_ms + 4_000,
        wake_ms: vec![0, 0, 0, 0, late_ms, 0],
        halted,
        ..Recipe::default()
    };
    made::batch(folder, &recipe)
}

fn reasons(report: &BatchReport) -> Vec<VoidReason> {
    report.verdict.data.iter().map(|void| void.reason).collect()
}

#[test]
fn two_seconds_stopped_are_over_age_and_no_burst_follows() {
    let folder = tempfile::tempdir().unwrap();
    let report = batch(folder.path(), Halted::Stopped, 2_000);
    assert_eq!(
        reasons(&report),
        [VoidReason::AgeOverCap, VoidReason::AgeSupOverCap, VoidReason::PointsMissing]
    );
    let derived = report.iterations[0].derived.as_ref().unwrap();
    // The fourth deadline is at 800 ms, and its probe began 2 s later: eleven periods after the one before.
    assert_eq!(derived.figures.effective_interval_ms.max, Some(Length::of_ms(2_200)));
    // From 3 ms into the pass before to 4 ms into the one after.
    assert_eq!(derived.figures.max_sample_age_sup_ms, Some(Length::of_ms(2_201)));
    assert_eq!(derived.figures.suspend_ms, Some(Length(0)));
    let rows = Rows::<Sample>::open(&report.iterations[0].path(SAMPLES)).unwrap();
    let samples: Vec<Sample> = rows.collect::<Result<_, _>>().unwrap();
    let begins: Vec<u64> = samples.iter().map(|sample| sample.begin_ns.0).collect();
    let gaps: Vec<u64> = begins.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    // Ten deadlines passed: one catch-up for all of them, and the grid again.
    assert_eq!(gaps[3..7], [2_200, 4, 196, 200]);
    assert_eq!(derived.figures.deadlines.recovery, 1);
}

#[test]
fn ten_minutes_asleep_are_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let report = batch(folder.path(), Halted::Asleep, 600_000);
    assert_eq!(
        reasons(&report),
        [
            VoidReason::AgeOverCap,
            VoidReason::AgeSupOverCap,
            VoidReason::PointsMissing,
            VoidReason::SuspendDetected
        ]
    );
    let derived = report.iterations[0].derived.as_ref().unwrap();
    assert_eq!(derived.figures.suspend_ms, Some(Length::of_ms(600_000)));
    // The wall clock went on as the boot clock did: nobody stepped it.
    assert_eq!(derived.figures.wall_clock_step_ms, Some(Length(0)));
    assert_eq!(derived.figures.deadlines.recovery, 1);
    // After it the processor's share is a first one again.
    let (read, known) = (derived.cpu.cpu_samples_total, derived.cpu.cpu_samples_aggregated);
    assert_eq!(read - known, 2);
}

#[test]
fn a_sleep_is_void_although_no_sample_is_over_age() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        duration_ms: 8_000,
        wake_ms: vec![0, 0, 0, 0, 1_500, 0],
        halted: Halted::Asleep,
        settings: crate::residency::settings::Settings {
            cap: Length::of_ms(5_000),
            ..Recipe::default().settings
        },
        ..Recipe::default()
    };
    let report = made::batch(folder.path(), &recipe);
    assert_eq!(reasons(&report), [VoidReason::SuspendDetected]);
}

#[test]
fn no_line_is_drawn_through_what_nobody_saw() {
    for (halted, late_ms) in [(Halted::Stopped, 2_000), (Halted::Asleep, 600_000)] {
        let folder = tempfile::tempdir().unwrap();
        let report = batch(folder.path(), halted, late_ms);
        assert_eq!(verify(&report.folder).findings, []);
        let read = Read::of(&report.folder).unwrap();
        let one = &read.iterations[0];
        let settings = &read.facts.settings;
        let mut fold = CurveFold::of(&one.derived.figures, settings).unwrap();
        for event in Rows::open(&one.folder.join(EVENTS)).unwrap() {
            fold.event(&event.unwrap());
        }
        let mut over_age = 0;
        derive(&one.folder, settings, |at| {
            fold.point(at.point, at.cpu);
            over_age += u64::from(at.point.missing.is_some());
            Ok(())
        })
        .unwrap();
        let late_points = (late_ms + 200 - 750) / 50;
        assert!(over_age.abs_diff(late_points) <= 1, "{over_age} of {late_points}");
        let curve = fold.finish();
        // The memory's line breaks: its path begins a second time.
        assert_eq!(curve.gaps_of_memory(), 1);
        let facts = Facts {
            batch: read.facts.clone(),
            verdict: read.verdict.clone(),
            iterations: 1,
            sha256: None,
        };
        let iteration = crate::residency::plot::Iteration {
            notes: Vec::new(),
            number: 1,
            labels: Vec::new(),
            t0_wall: None,
            figures: one.derived.figures.clone(),
            voids: one.derived.voids.clone(),
        };
        let picture = Picture {
            facts: &facts,
            iteration: &iteration,
            curve: Some(&curve),
            theme: Theme::Light,
        };
        assert!(matches!(render(&picture, ShowVoid::No), Err(PlotError::Void)));
        let svg = render(&picture, ShowVoid::Yes).unwrap();
        assert!(svg.contains("data_verdict=\"void\"") && svg.contains("class=\"stale\" d=\"M"));
    }
}
