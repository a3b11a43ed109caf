//! A recorder that stands still for a while: its batch is void, and nothing is drawn through the hole.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::faults::{begun, reasons};
use crate::recorded::{batches, json, residency, rows, text, verified};
use crate::support::{Sim, skip};

/// Longer than the cap, whatever the machine is busy with.
const HALT: Duration = Duration::from_millis(1_500);

/// What holds of a batch whose recorder stood still in its window.
fn assert_void(sim: &Sim, child: Child) {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
    let batch = batches(sim).pop().unwrap();
    let found = verified(&batch);
    assert_eq!(found["as_recorded"], true);
    for reason in ["age_over_cap", "age_sup_over_cap", "points_missing"] {
        assert!(reasons(&found).contains(&reason), "{found}");
    }
    assert!(!reasons(&found).contains(&"suspend_detected"), "{found}");
    // No burst makes up for what was missed: each catch-up is for all the deadlines before it.
    let summary = json(&batch.join("summary.json"));
    let count = |key: &str| summary[format!("gpu_deadline_{key}_count")].as_u64().unwrap();
    assert!(count("coalesced") >= 5, "{summary}");
    assert_eq!(count("missed"), count("recovery") + count("coalesced") + count("cut"));
    let samples = rows(&batch, "0001", "samples.jsonl");
    let deadlines = samples.last().unwrap()["k"].as_u64().unwrap() + 1;
    assert!(u64::try_from(samples.len()).unwrap() <= deadlines - 5, "{samples:?}");
    assert_not_drawn(&batch, sim.folder());
}

fn assert_not_drawn(batch: &Path, folder: &Path) {
    let (batch, out) = (batch.to_str().unwrap(), folder.join("plots"));
    let plot = |words: &[&str]| {
        let words: Vec<&str> = ["plot", batch, "--format", "svg", "--out", out.to_str().unwrap()]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        residency(&words)
    };
    // Both verdicts fail, here as everywhere.
    let refused = plot(&[]);
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused.stderr));
    assert!(!out.exists());
    let drawn = plot(&["--show-void"]);
    assert_eq!(drawn.status.code(), Some(5), "{}", text(&drawn.stderr));
    let svg = std::fs::read_to_string(out.join("0001.void.svg")).unwrap();
    // Red where nothing was known, and the line of memory in two pieces at least.
    assert!(svg.contains("class=\"stale\" d=\"M"), "{svg}");
    let (_, line) = svg.split_once("<path class=\"top\" d=\"").unwrap();
    let (line, _) = line.split_once('"').unwrap();
    assert!(line.matches('M').count() >= 2, "{line}");
}

#[test]
fn a_recorder_that_is_stopped_by_a_signal_leaves_a_void_batch() {
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "5s"]);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(HALT);
    kill_process(pid, Signal::CONT).unwrap();
    assert_void(&sim, child);
}

/// A control group that can be frozen, and is gone with this value.
struct Freezer {
    folder: PathBuf,
    /// File, and what is written into it to freeze and to thaw.
    switch: (&'static str, &'static str, &'static str),
}

impl Freezer {
    /// In whichever hierarchy there is one.
    fn make() -> Option<Self> {
        let name = format!("gpu-ledger-test-{}", std::process::id());
        let unified = gpu_ledger::kernel::mounts::cgroup2_root(Path::new("/proc")).ok().flatten();
        let roots = unified
            .map(|root| (root, ("cgroup.freeze", "1", "0")))
            .into_iter()
            .chain([("/sys/fs/cgroup/freezer".into(), ("freezer.state", "FROZEN", "THAWED"))]);
        for (root, switch) in roots {
            let freezer = Self { folder: root.join(&name), switch };
            if std::fs::create_dir(&freezer.folder).is_ok()
                && freezer.folder.join(switch.0).exists()
            {
                return Some(freezer);
            }
        }
        None
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let (file, _, thaw) = self.switch;
        // A test that stopped half-way leaves nobody frozen.
        let _ = std::fs::write(self.folder.join(file), thaw);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_recorder_whose_control_group_is_frozen_leaves_a_void_batch() {
    let test = "halted::a_recorder_whose_control_group_is_frozen_leaves_a_void_batch";
    let Some(freezer) = Freezer::make() else {
        skip(test, "no control group can be made and frozen");
        return;
    };
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "5s"]);
    freezer.write("cgroup.procs", &child.id().to_string());
    let (file, freeze, thaw) = freezer.switch;
    freezer.write(file, freeze);
    std::thread::sleep(HALT);
    freezer.write(file, thaw);
    assert_void(&sim, child);
}
