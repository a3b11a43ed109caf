//! Interrupted: what is final is settled and printed.

use rustix::process::Signal;

use crate::support::{Sim, poll};
use crate::traced::{Running, Trace, asked};

/// Two settled jobs, then a long one; says `ready` through the file once the long one holds.
const AFTERNOON: &str = "nvsim work --gpu 0 --ms 20; nvsim work --gpu 0 --ms 20; touch \"$READY\"; \
                         exec sleep 1000";

fn afternoon(sim: &Sim, script: &str) -> Running {
    let trace = Trace::on(sim);
    let ready = trace.folder().join("ready");
    let running = trace.env("READY", &ready).script(script).start();
    poll("the command is under way", || ready.exists().then_some(()));
    running
}

#[test]
fn an_interrupt_from_the_terminal_settles_and_prints() {
    if !crate::privilege::can_trace("an_interrupt_from_the_terminal_settles_and_prints") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let running = afternoon(&sim, AFTERNOON);
    running.signal_group(Signal::INT);
    let ended = running.ended();
    ended.exited(130);
    assert_eq!(ended.programs(), ["nvsim", "nvsim"]);
    assert_eq!(ended.report()["command"]["exit_status"], 130);
}

#[test]
fn a_signal_to_gpu_ledger_alone_reaches_the_command() {
    if !crate::privilege::can_trace("a_signal_to_gpu_ledger_alone_reaches_the_command") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let running = afternoon(&sim, AFTERNOON);
        running.signal(signal);
        let ended = running.ended();
        ended.exited(status);
        assert_eq!(ended.programs(), ["nvsim", "nvsim"]);
    }
}

#[test]
fn a_second_interrupt_ends_the_waiting_for_a_command_that_does_not_heed_the_first() {
    if !crate::privilege::can_trace(
        "a_second_interrupt_ends_the_waiting_for_a_command_that_does_not_heed_the_first",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let deaf = "trap '' INT TERM; nvsim work --gpu 0 --ms 20; touch \"$READY\"; \
                while :; do sleep 0.05; [ -e \"$READY.over\" ] && exit 0; done";
    let trace = Trace::on(&sim);
    let (ready, over) = (trace.folder().join("ready"), trace.folder().join("ready.over"));
    let keep = tempfile::tempdir().unwrap();
    let report = keep.path().join("report.json");
    let running = trace.env("READY", &ready).output(Some(report)).script(deaf).start();
    poll("the command is under way", || ready.exists().then_some(()));
    // A signal that is pending already is not counted twice: a few of them, as an impatient user.
    let pid = running.pid();
    let ended = std::thread::scope(|threads| {
        threads.spawn(|| {
            poll("the waiting ends", || {
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                let gone = rustix::process::kill_process(pid, Signal::INT).is_err();
                (gone || keep.path().join("report.json").exists()).then_some(())
            });
            // Only now may the command end: the report was there before.
            std::fs::write(&over, "").unwrap();
        });
        running.ended()
    });
    assert_eq!(ended.programs(), ["nvsim"]);
    assert!(ended.report()["command"]["exit_status"].is_null(), "{}", ended.report()["command"]);
}

#[test]
fn an_interrupt_ends_a_watch_early_with_its_report() {
    if !crate::privilege::can_trace("an_interrupt_ends_a_watch_early_with_its_report") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let trace = Trace::on(&sim).words("--for 1h");
    let running = trace.start();
    poll("the watch reads the driver", || {
        let clients = asked(&sim, "clients");
        clients.trim().chars().any(|c| ('1'..='9').contains(&c)).then_some(())
    });
    running.signal(Signal::INT);
    let ended = running.ended();
    assert!(ended.code == 0 || ended.code == 2, "{}: {}", ended.code, ended.err);
    assert!(ended.report()["command"].is_null());
    assert!(ended.gpu_ms("period_ms") < 3_600_000);
}
