//! The acceptance run on a real clock, idle and on a machine that is busy: what it says is what its raw rows
//! say, counted again here. How old samples were is the machine's; `cargo xtask bench residency` prints it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::recorded::{batches, json, recorder, rows, text, verified};
use crate::support::Sim;

const MS: u64 = 1_000_000;
const CAP_NS: u64 = 750 * MS;
const POINTS: u64 = 41;

/// Busy loops, on however many processors.
struct Load(Arc<AtomicBool>);

impl Load {
    fn of(loops: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..loops {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the raw rows say: points that are available, the greatest age at one, and the supremum, in ns.
fn counted(batch: &Path) -> (u64, u64, u64) {
    let samples = rows(batch, "0001", "samples.jsonl");
    let landed: Vec<(u64, u64)> = samples
        .iter()
        .filter_map(|sample| {
            let before = sample["fields"]["memory"]["before_ns"].as_u64().unwrap();
            Some((sample["landed_at_ns"].as_u64()?, before))
        })
        .collect();
    let t0 = landed[0].0;
    let end = t0 + (POINTS - 1) * 50 * MS;
    let age = |at: u64, is_held: &dyn Fn(u64) -> bool| {
        let held = landed.iter().rfind(|(landed, _)| is_held(*landed)).unwrap();
        at - held.1
    };
    let at_points = (0..POINTS).map(|j| t0 + j * 50 * MS);
    let ages: Vec<u64> = at_points.map(|t| age(t, &|landed| landed <= t)).collect();
    let available = ages.iter().filter(|age| **age <= CAP_NS).count();
    let landings = landed.iter().skip(1).map(|(landed, _)| *landed).filter(|landed| *landed <= end);
    let before_landings = landings.map(|at| age(at, &|landed| landed < at));
    let at_the_end = age(end, &|landed| landed <= end);
    (
        u64::try_from(available).unwrap(),
        ages.into_iter().max().unwrap(),
        before_landings.chain([at_the_end]).max().unwrap(),
    )
}

/// Milliseconds with three digits, rounded up.
fn shown(ns: u64) -> String {
    let us = ns.div_ceil(1_000);
    format!("{}.{:03}", us / 1_000, us % 1_000)
}

#[test]
fn t19_the_acceptance_run_says_what_its_raw_rows_say_idle_and_under_load() {
    for loops in [0, 6] {
        let sim = Sim::start(&["--gpus", "1"]);
        let load = Load::of(loops);
        let output = recorder(&sim, &["--acceptance"]).output().unwrap();
        drop(load);
        let batch = batches(&sim).pop().unwrap();
        let (available, age_ns, supremum_ns) = counted(&batch);
        let page = text(&output.stdout);
        let last = page.lines().last().unwrap();
        let figures = format!(
            "points={available}/{POINTS} samples={} max_sample_age_ms={} sup_ms={} cap_ms=750 ",
            rows(&batch, "0001", "samples.jsonl")
                .iter()
                .filter(|sample| sample["ok"] == true)
                .count(),
            shown(age_ns),
            shown(supremum_ns),
        );
        assert!(last.contains(&figures), "{loops} loops: {figures}\n{last}");
        let is_over = available < POINTS || supremum_ns > CAP_NS;
        let found = verified(&batch);
        assert_eq!(found["as_recorded"], true);
        assert_eq!(found["data_verdict"], if is_over { "void" } else { "valid" }, "{last}");
        assert_eq!(output.status.code(), Some(if is_over { 5 } else { 3 }), "{last}");
        // What recording took is in the batch, and no more than was there to be had.
        let iteration = json(&batch.join("iterations/0001/iteration.json"));
        let ppm = iteration["recorder_cpu_ppm"].as_u64().unwrap();
        assert!(ppm > 0 && ppm < 64_000_000, "{ppm}");
    }
}
