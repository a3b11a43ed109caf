//! Who opened the device files, and what the driver forgot before anybody read it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::Signal;
use serde_json::Value;

use crate::privilege::can_trace;
use crate::support::{Sim, skip};
use crate::truth::{Gap, gaps, settlements};

/// Opens are counted for the whole host: one test that makes them at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with device nodes of the real numbers, behind which no driver is.
struct Devices {
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Devices {
    /// `None` where device nodes cannot be made, or their opens not be watched.
    fn make(test: &str, sim: &Sim) -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = sim.folder().join("dev");
        std::fs::create_dir(&folder).unwrap();
        for (name, minor) in [("nvidia0", 0), ("nvidiactl", 255)] {
            let (path, device) = (folder.join(name), makedev(195, minor));
            let mode = Mode::from_raw_mode(0o666);
            if let Err(error) = mknodat(CWD, &path, FileType::CharacterDevice, mode, device) {
                skip(test, &format!("mknod: {error}"));
                return None;
            }
        }
        let (report, _) = sim.run(&[], &["true"]);
        if let Some(reason) = report["device_touch"]["off_because"].as_str() {
            skip(test, reason);
            return None;
        }
        Some(Self { folder, _alone: alone })
    }

    fn run(&self, sim: &Sim, name: &str, words: &[&str]) {
        let mut job = Command::new(sim.program_called(name));
        job.args(words).env("NVSIM_SOCKET", sim.socket()).env("NVSIM_DEVICES", &self.folder);
        let status = job.stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{status}");
    }
}

#[test]
fn who_opened_a_device_is_counted_and_who_never_had_a_row_is_found() {
    let name = "who_opened_a_device_is_counted_and_who_never_had_a_row_is_found";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let Some(devices) = Devices::make(name, &sim) else { return };
    let watching = sim.watch(&[]);
    for _ in 0..3 {
        devices.run(&sim, "whisper", &["work", "--ms", "20"]);
        sim.reads_pass(1);
    }
    devices.run(&sim, "monitor", &["work", "--no-alloc", "--ms", "20"]);
    devices.run(&sim, "sneaky", &["work", "--no-touch", "--ms", "20"]);
    sim.until_ended(4);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let touch = &report["device_touch"];
    assert_eq!((&touch["on"], &touch["off_because"]), (&true.into(), &Value::Null));
    assert_eq!(touch["touched"], 4, "{touch}");
    assert_eq!(touch["without_row"], 1, "{touch}");
    assert_eq!(touch["rows_untouched"], 1, "{touch}");
}

#[test]
fn without_device_touch_every_row_is_named_and_the_counts_are_null() {
    let name = "without_device_touch_every_row_is_named_and_the_counts_are_null";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let Some(devices) = Devices::make(name, &sim) else { return };
    let watching = sim.watch(&["--no-device-touch"]);
    devices.run(&sim, "whisper", &["work", "--ms", "20"]);
    sim.until_ended(1);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let touch = &report["device_touch"];
    assert_eq!(touch["on"], false);
    assert!(touch["off_because"].is_string());
    for count in ["touched", "without_row", "rows_untouched"] {
        assert_eq!(touch[count], Value::Null, "{touch}");
    }
}

/// Two hundred die while nobody reads: the driver keeps 128 rows of them.
fn evict(sim: &Sim, devices: &Devices, arguments: &[&str], held_up: HeldUp) -> Value {
    let watching = sim.watch(arguments);
    devices.run(sim, "first", &["work", "--ms", "20"]);
    sim.until_ended(1);
    sim.reads_pass(1);
    match held_up {
        HeldUp::Call => sim.lists_fail(),
        HeldUp::Reader => {
            // So that it does not stop between a list and what it makes of it.
            sim.lists_fail();
            watching.signal(Signal::STOP);
            sim.fault("heal");
        }
    }
    let words = ["storm", "--processes", "200", "--gpu-jobs", "200", "--gpu-ms", "1..5"];
    devices.run(sim, "burst", &words);
    sim.until_ended(201);
    match held_up {
        HeldUp::Call => sim.fault("heal"),
        HeldUp::Reader => watching.signal(Signal::CONT),
    }
    watching.report()
}

/// Why nobody reads.
#[derive(Clone, Copy)]
enum HeldUp {
    /// The driver's call fails.
    Call,
    /// The tracer is not run.
    Reader,
}

/// How many were evicted is not known then, and not guessed.
fn assert_evictions_without_number(sim: &Sim, report: &Value) {
    assert_eq!(sim.faults_of(report), []);
    assert_eq!(settlements(report).len(), 1 + 128);
    let evicted = evictions(report);
    assert!(!evicted.is_empty() && evicted.iter().all(|gap| gap.size.is_none()), "{evicted:?}");
    assert_eq!(report["gpus"][0]["possibly_lost"], Value::Null);
}

fn assert_seventy_two_evicted(sim: &Sim, report: &Value) {
    assert_eq!(sim.faults_of(report), [], "{}", report["coverage"]);
    assert_eq!(settlements(report).len(), 1 + 128);
    let evicted = evictions(report);
    assert_eq!(evicted.iter().map(|gap| gap.size.unwrap()).sum::<u64>(), 72, "{evicted:?}");
    let gpu = &report["gpus"][0];
    assert_eq!((&gpu["possibly_lost"], &gpu["dead_rows_seen_max"]), (&72.into(), &128.into()));
    // Nobody can say that the GPU was free, or anybody alone, while rows of it went unread.
    let from_us = evicted.iter().map(|gap| gap.from_us).min().unwrap();
    let to_us = evicted.iter().map(|gap| gap.to_us).max().unwrap();
    let blind_ms = (to_us - from_us) / 1_000;
    let ms = |part: &str| gpu[part].as_u64().unwrap();
    assert!(ms("free_ms") + ms("alone_ms") + blind_ms <= ms("period_ms") + 1, "{gpu} {evicted:?}");
}

#[test]
fn rows_evicted_while_the_list_could_not_be_had_are_a_gap_of_just_that_size() {
    let name = "rows_evicted_while_the_list_could_not_be_had_are_a_gap_of_just_that_size";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let Some(devices) = Devices::make(name, &sim) else { return };
    assert_seventy_two_evicted(&sim, &evict(&sim, &devices, &[], HeldUp::Call));
}

#[test]
fn rows_evicted_while_the_tracer_was_not_run_are_a_gap_of_just_that_size() {
    let name = "rows_evicted_while_the_tracer_was_not_run_are_a_gap_of_just_that_size";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let Some(devices) = Devices::make(name, &sim) else { return };
    assert_seventy_two_evicted(&sim, &evict(&sim, &devices, &[], HeldUp::Reader));
}

fn evictions(report: &Value) -> Vec<Gap> {
    gaps(report).into_iter().filter(|gap| gap.cause == "rows-possibly-evicted").collect()
}

#[test]
fn without_device_touch_how_many_rows_were_evicted_is_not_known() {
    let name = "without_device_touch_how_many_rows_were_evicted_is_not_known";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let Some(devices) = Devices::make(name, &sim) else { return };
    let report = evict(&sim, &devices, &["--no-device-touch"], HeldUp::Call);
    assert_evictions_without_number(&sim, &report);
}

#[test]
fn where_rows_come_of_processes_unseen_to_touch_how_many_were_evicted_is_not_known() {
    let name = "where_rows_come_of_processes_unseen_to_touch_how_many_were_evicted_is_not_known";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let Some(mut devices) = Devices::make(name, &sim) else { return };
    devices.folder = "/nonexistent".into();
    assert_evictions_without_number(&sim, &evict(&sim, &devices, &[], HeldUp::Call));
}
