//! Twenty thousand short processes, five hundred of them GPU jobs.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Signal;
use serde_json::Value;

use crate::privilege::can_trace;
use crate::support::{Sim, poll};
use crate::truth::{gaps, settlements};

/// The programs that storm side by side: each job must be named by its own.
const PROGRAMS: [&str; 4] = ["whisper", "xtts", "embedder", "reranker"];
const JOBS_EACH: u64 = 125;
const PROCESSES_EACH: u64 = 5_000;

/// A program that does nothing, as small as a program can be: most of a storm.
fn tiny(sim: &Sim) -> std::path::PathBuf {
    let (source, program) = (sim.folder().join("tiny.c"), sim.folder().join("tiny"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler.args(["-O1", "-static", "-o"]).args([&program, &source]).status();
    assert!(status.unwrap().success(), "a C compiler is one of this project's requirements");
    program
}

/// One storm at a time: every tracer sees all of them.
static ALONE: Mutex<()> = Mutex::new(());

fn start(sim: &Sim) -> Vec<Child> {
    let tiny = tiny(sim);
    let storms = PROGRAMS.iter().zip(1..).map(|(name, seed): (_, u32)| {
        let mut storm = Command::new(sim.program_called(name));
        storm.env("NVSIM_SOCKET", sim.socket());
        storm.args(["storm", "--gpu-ms", "1..20", "--fork-share", "30", "--at-once", "8"]);
        storm.args(["--processes", &PROCESSES_EACH.to_string()]);
        storm.args(["--gpu-jobs", &JOBS_EACH.to_string(), "--seed", &seed.to_string()]);
        storm.arg("--").arg(&tiny).stdout(Stdio::piped()).spawn().unwrap()
    });
    storms.collect()
}

/// How many jobs were executed, and how many forked without exec.
fn end(storms: Vec<Child>) -> (usize, usize) {
    let mut counts = (0, 0);
    for storm in storms {
        let output = storm.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["failed"], &said["processes"]), (&0.into(), &PROCESSES_EACH.into()));
        let count = |what: &str| usize::try_from(said[what].as_u64().unwrap()).unwrap();
        counts.0 += count("gpu_jobs_executed");
        counts.1 += count("gpu_jobs_forked");
    }
    counts
}

#[test]
fn all_five_hundred_jobs_in_a_storm_of_twenty_thousand_processes_are_named_right() {
    if !can_trace("all_five_hundred_jobs_in_a_storm_of_twenty_thousand_processes_are_named_right") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let (executed, forked) = end(start(&sim));
    assert_eq!(sim.until_ended(500).len(), 500);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), [], "{} {}", report["gpus"], report["coverage"]);
    assert_eq!(report["events"]["lost"], 0);
    // A fork, an exec and an exit each, but for those that never exec.
    let made = 4 * PROCESSES_EACH * 3 - u64::try_from(forked).unwrap();
    assert!(report["events"]["received"].as_u64().unwrap() >= made);
    assert_eq!(gaps(&report).len(), 0, "{}", report["coverage"]);
    let settled = settlements(&report);
    let on = |basis: &str| settled.iter().filter(|one| one.basis.as_deref() == Some(basis)).count();
    assert_eq!((on("exec"), on("fork")), (executed, forked));
    assert!(forked > 50, "{forked}");
    for name in PROGRAMS {
        let named = settled.iter().filter(|one| one.program.as_deref() == Some(name)).count();
        assert_eq!(named, 125, "{name}");
    }
}

#[test]
fn a_small_ring_whose_reader_is_paused_counts_every_loss_and_misnames_nobody() {
    if !can_trace("a_small_ring_whose_reader_is_paused_counts_every_loss_and_misnames_nobody") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&["--ring-size", "64KiB"]);
    let storms = start(&sim);
    poll("the storm's first jobs end", || (sim.truth().len() >= 20).then_some(()));
    watching.signal(Signal::STOP);
    std::thread::sleep(std::time::Duration::from_secs(2));
    watching.signal(Signal::CONT);
    end(storms);
    assert_eq!(sim.until_ended(500).len(), 500);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let lost = report["events"]["lost"].as_u64().unwrap();
    assert!(lost > 0, "{}", report["events"]);
    let of_events = gaps(&report).into_iter().filter(|gap| gap.cause == "event-lost");
    assert_eq!(of_events.map(|gap| gap.size.unwrap()).sum::<u64>(), lost);
    let settled = settlements(&report);
    let nameless: Vec<_> = settled.iter().filter(|one| one.basis.is_none()).collect();
    assert!(!nameless.is_empty(), "{}", report["coverage"]);
    assert!(nameless.iter().all(|one| one.reason.as_deref() == Some("event-lost")));
    let said = &report["unattributed"][0];
    assert_eq!((&said["reason"], &said["count"]), (&"event-lost".into(), &nameless.len().into()));
}
