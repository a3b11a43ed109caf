//! Why a value is not known: each cause that a running daemon can meet, provoked at the driver's own functions,
//! and its word read from `status`, from the bill, or from what a settlement rests on.

use std::process::Command;

use gpu_ledger::journal::store::{Reader, StateDir};
use gpu_ledger::journal::{Evidence, Figures};
use gpu_ledger::unknown::{Observed, UnknownReason};
use serde_json::Value;

use crate::billed::Billed;
use crate::daemon::Setup;
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

fn status(sim: &Sim) -> Value {
    let mut ask = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    ask.args(["status", "--json", "--socket"]).arg(sim.folder().join("run/daemon.sock"));
    ask.arg("--state-dir").arg(sim.folder().join("state"));
    serde_json::from_slice(&ask.output().unwrap().stdout).unwrap()
}

/// The words of `unknown` in the daemon's status.
fn words(sim: &Sim) -> Vec<String> {
    let status = status(sim);
    let unknown = status["unknown"].as_array().unwrap().iter();
    unknown.map(|one| one["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_trouble_of_the_driver_has_its_word_in_status_and_goes_when_it_is_over() {
    if !can_trace("every_trouble_of_the_driver_has_its_word_in_status_and_goes_when_it_is_over") {
        return;
    }
    let list = |code: u32| format!("code nvmlDeviceGetAccountingPids --code {code}");
    let mode = |code: u32| format!("code nvmlDeviceGetAccountingMode --code {code}");
    let holders = |code: u32| format!("code nvmlDeviceGetComputeRunningProcesses* --code {code}");
    let heals = "heal";
    let troubles = [
        (list(1), heals, "nvml-uninitialized"),
        (list(2), heals, "nvml-invalid-argument"),
        (list(3), heals, "accounting-not-supported-or-disabled"),
        (list(4), heals, "no-permission"),
        (list(7), heals, "pid-list-raced"),
        (list(13), heals, "nvml-function-missing"),
        (list(16), heals, "gpu-reset-required"),
        (list(17), heals, "os-error-or-cgroup-denied"),
        (list(20), heals, "driver-out-of-resources"),
        (list(25), heals, "nvml-struct-version-mismatch"),
        (list(26), heals, "nvml-deprecated"),
        (list(27), heals, "driver-not-ready"),
        (list(29), heals, "invalid-state"),
        (list(999), heals, "nvml-unknown-error"),
        (list(777), heals, "nvml-unmapped-code"),
        (mode(3), heals, "accounting-not-supported"),
        (holders(3), heals, "process-list-not-supported"),
        ("accounting off".to_owned(), "accounting on", "accounting-mode-disabled"),
        ("vgpu-host on".to_owned(), "vgpu-host off", "accounting-unavailable-vgpu-host"),
    ];
    let sim = Sim::start(&["--gpus", "1"]);
    let _daemon = Setup::on(&sim).config("call_deadline = \"2s\"\n").start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    for (fault, remedy, word) in troubles {
        // A word may say more behind a colon: which code, which value.
        let says = || words(&sim).iter().any(|one| one.split(':').next() == Some(word));
        sim.fault(&fault);
        poll(&format!("{word}, of {fault}"), || says().then_some(()));
        sim.fault(remedy);
        poll(&format!("{word} is over"), || (!says()).then_some(()));
    }
}

#[test]
fn without_the_capability_to_watch_device_opens_that_is_said_and_all_is_named() {
    if !can_trace("without_the_capability_to_watch_device_opens_that_is_said_and_all_is_named") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).capabilities("-all,+bpf,+perfmon").start();
    let coverage = &status(&sim)["coverage"];
    assert_eq!(
        (&coverage["device_touch"], &coverage["process_events"]),
        (&false.into(), &true.into())
    );
    assert!(coverage["device_touch_off_because"].is_string(), "{coverage}");
    let log = daemon.log();
    assert!(log.contains("device-touch off"), "{log}");
    let job = sim.work("--ms 10");
    let pid = job.pid();
    job.wait();
    daemon.until_booked(1);
    daemon.stop();
    Billed::of(&sim).named(pid, "nvsim");
}

#[test]
fn without_process_events_rows_are_booked_and_nobody_is_named_by_a_guess() {
    if !can_trace("without_process_events_rows_are_booked_and_nobody_is_named_by_a_guess") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).capabilities("-all").start();
    let said = words(&sim);
    assert!(said.iter().any(|word| word.starts_with("process-events-unavailable")), "{said:?}");
    let job = sim.work("--ms 10");
    let pid = job.pid();
    job.wait();
    daemon.until_booked(1);
    daemon.stop();
    Billed::of(&sim).nameless(pid, "agent-down");
}

/// What the driver did not say of a row's peak memory, as the settlement keeps it.
fn peak_of(fault: Option<&str>, work: &str) -> Observed<u64> {
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    if let Some(fault) = fault {
        sim.fault(fault);
    }
    sim.work(work).wait();
    daemon.until_booked(1);
    let settled =
        daemon.until_entered("it is booked", |figures| matches!(figures, Figures::Settlement(_)));
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let reader = Reader::open(&StateDir::at(state)).unwrap();
    let Some(Evidence::Settlement(evidence)) = reader.evidence(settled.seq).unwrap() else {
        panic!("a settlement rests on its row")
    };
    let billed = Billed::of(&sim);
    let on_the_bill = billed.list("settlements")[0]["max_memory_bytes"].as_u64();
    match evidence.row.memory_peak {
        Observed::Known(bytes) => {
            assert_eq!(on_the_bill, Some(bytes.0));
            Observed::Known(bytes.0)
        }
        Observed::Unknown(reason) => {
            assert_eq!(on_the_bill, None, "what is not known is no number");
            let told = |one: &Value| one["subject"] == "peak memory of 1 settlements";
            assert!(billed.list("unknown").iter().any(told), "{}", billed.bill["unknown"]);
            Observed::Unknown(reason)
        }
    }
}

#[test]
fn a_peak_of_memory_that_the_driver_does_not_give_is_unknown_with_its_reason() {
    if !can_trace("a_peak_of_memory_that_the_driver_does_not_give_is_unknown_with_its_reason") {
        return;
    }
    assert_eq!(peak_of(None, "--ms 10 --mem-mib 8"), Observed::Known(8 << 20));
    let sentinel = peak_of(Some("sentinels on"), "--ms 10 --mem-mib 8");
    assert_eq!(sentinel, Observed::Unknown(UnknownReason::ValueNotAvailable));
    let zero = peak_of(None, "--ms 10 --mem-mib 0");
    assert_eq!(zero, Observed::Unknown(UnknownReason::MaxMemoryZero));
}

/// A daemon whose procfs is mounted so, with one process older than it and one younger; what it logged.
fn under_procfs(options: &str) -> (Billed, [u32; 2], String, Sim) {
    let sim = Sim::start(&["--gpus", "1"]);
    let mut older = sim.actor("older.py");
    older.told("open 0");
    let script = format!("mount -t proc -o {options} proc /proc && exec \"$0\" \"$@\"");
    let daemon = Setup::on(&sim).behind(&["unshare", "-m", "sh", "-c", &script]).start();
    let job = sim.work("--ms 10");
    let pid = job.pid();
    job.wait();
    daemon.until_booked(1);
    let older_pid = older.pid();
    older.end();
    daemon.until_booked(2);
    let (billed, log) = (Billed::of(&sim), daemon.stop());
    // With it goes the journal, which is asked again.
    (billed, [older_pid, pid], log, sim)
}

#[test]
fn where_procfs_hides_other_users_processes_that_is_said_with_its_remedy_and_nobody_guessed() {
    const TEST: &str =
        "where_procfs_hides_other_users_processes_that_is_said_with_its_remedy_and_nobody_guessed";
    if !can_trace(TEST) {
        return;
    }
    let (billed, [older, younger], log, _sim) = under_procfs("hidepid=invisible");
    let told = log.lines().find(|line| line.contains("process-events-unavailable")).unwrap();
    assert!(told.contains("ERROR") && told.contains("without hidepid"), "{told}");
    billed.nameless(older, "predates-coverage");
    billed.nameless(younger, "agent-down");
    // The daemon's group is let in, as the remedy of `doctor` has it: all is seen.
    let group = crate::daemon::NOBODY;
    let (billed, [older, younger], log, _sim) =
        under_procfs(&format!("hidepid=invisible,gid={group}"));
    assert!(!log.contains("process-events-unavailable"), "{log}");
    billed.named(older, "older.py");
    billed.named(younger, "nvsim");
}
