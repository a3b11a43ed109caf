//! Every cause of a gap: provoked, and read on the bill. Those of the journal's own troubles (`disk-full`,
//! `queue-overflow`) are provoked in `disk.rs`, `released` in `asked.rs` too.

use gpu_ledger::journal::Figures;
use gpu_ledger::unknown::GapCause;

use crate::billed::Billed;
use crate::daemon::{Daemon, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// A daemon that has seen every GPU, and a job that it booked.
fn watching(sim: &Sim) -> Daemon<'_> {
    watching_with(sim, "")
}

fn watching_with<'sim>(sim: &'sim Sim, config: &str) -> Daemon<'sim> {
    let daemon = Setup::on(sim).config(config).start();
    daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    daemon
}

/// The bill once there is a gap of this cause.
fn billed(sim: &Sim, daemon: Daemon<'_>, cause: GapCause) -> Billed {
    daemon.until_entered(
        cause.as_str(),
        |figures| matches!(figures, Figures::Gap(gap) if gap.cause == cause),
    );
    let state = daemon.state().to_path_buf();
    daemon.stop();
    assert_sound(&state);
    let billed = Billed::of(sim);
    billed.gap(cause.as_str());
    billed
}

#[test]
fn rows_pushed_out_between_two_reads_are_rows_possibly_evicted() {
    if !can_trace("rows_pushed_out_between_two_reads_are_rows_possibly_evicted") {
        return;
    }
    for strangers in [128, 200] {
        let sim = Sim::start(&["--gpus", "1"]);
        let daemon = watching(&sim);
        sim.lists_fail();
        sim.work("--ms 10").wait();
        sim.until_ended(2);
        sim.fault(&format!("evict {strangers}"));
        sim.fault("heal");
        let billed = billed(&sim, daemon, GapCause::RowsPossiblyEvicted);
        let gap = billed.gap("rows-possibly-evicted");
        // How many went unread nobody can know where strangers come unseen.
        let size = gap["size"].as_u64();
        assert!(size.is_none_or(|size| size >= 1), "{gap}");
        // Those that were still there are on the bill.
        assert!(billed.bill["settlements_total"].as_u64().unwrap() >= 128);
    }
}

#[test]
fn rows_that_somebody_cleared_are_cleared_or_reset() {
    if !can_trace("rows_that_somebody_cleared_are_cleared_or_reset") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    sim.fault("clear");
    let billed = billed(&sim, daemon, GapCause::ClearedOrReset);
    assert!(billed.causes(0).contains(&"cleared-or-reset"));
    // What was booked before stays.
    assert_eq!(billed.bill["settlements_total"], 1);
}

#[test]
fn a_row_replaced_by_the_next_of_its_pid_before_it_was_read_final_is_row_overwritten() {
    let test = "a_row_replaced_by_the_next_of_its_pid_before_it_was_read_final_is_row_overwritten";
    if !can_trace(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    let mut actor = sim.actor("sweep.py");
    actor.told("open 0");
    let pid = actor.pid();
    daemon.until_entered(
        "it is open",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    sim.lists_fail();
    for order in ["close", "open 0", "close"] {
        actor.told(order);
    }
    sim.until_ended(3);
    sim.fault("heal");
    let billed = billed(&sim, daemon, GapCause::RowOverwritten);
    assert_eq!(billed.gap("row-overwritten")["size"], 1);
    billed.named(pid, "sweep.py");
}

#[test]
fn a_row_that_is_listed_and_cannot_be_read_any_more_is_row_vanished() {
    if !can_trace("a_row_that_is_listed_and_cannot_be_read_any_more_is_row_vanished") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    // Rows of processes that nobody else can see.
    sim.fault("change-now grow 2");
    let open = || {
        let entries = daemon.journal();
        entries.iter().filter(|entry| matches!(entry.figures, Figures::Open(_))).count()
    };
    poll("all three are open", || (open() == 3).then_some(()));
    // Nothing is dead, so one of these goes: after the list that names it, before its row is read.
    sim.fault("after nvmlDeviceGetAccountingStats* change-now shrink 1");
    let billed = billed(&sim, daemon, GapCause::RowVanished);
    assert_eq!(billed.causes(0), ["row-vanished"], "{}", billed.bill["coverage"]);
    assert_eq!(billed.gap("row-vanished")["size"], 1);
}

#[test]
fn accounting_that_is_switched_off_is_accounting_off_and_not_free() {
    if !can_trace("accounting_that_is_switched_off_is_accounting_off_and_not_free") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let daemon = watching(&sim);
    sim.fault("accounting off --gpu 0");
    sim.reads_pass(3);
    sim.fault("accounting on --gpu 0");
    let billed = billed(&sim, daemon, GapCause::AccountingOff);
    assert!(billed.causes(0).contains(&"accounting-off"));
    assert_eq!(billed.causes(1), Vec::<&str>::new());
    assert!(billed.gpu_ms(0, "uncovered_ms") > billed.gpu_ms(1, "uncovered_ms"));
}

#[test]
fn a_driver_torn_down_under_an_open_row_is_epoch_broken() {
    if !can_trace("a_driver_torn_down_under_an_open_row_is_epoch_broken") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let pid = server.pid();
    daemon.until_entered(
        "it is open",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    // Within a millisecond, so that nobody sees that the mode was off in between.
    for words in [&["reset"][..], &["accounting", "on"]] {
        nvsim::fault::ask(&sim.socket(), words).unwrap();
    }
    let billed = billed(&sim, daemon, GapCause::EpochBroken);
    assert!(billed.causes(0).contains(&"epoch-broken"));
    assert!(billed.gpu_ms(0, "uncovered_ms") > 0, "{}", billed.bill["gpus"]);
}

#[test]
fn a_driver_call_that_hangs_is_nvml_call_timeout() {
    if !can_trace("a_driver_call_that_hangs_is_nvml_call_timeout") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching_with(&sim, "call_deadline = \"300ms\"\n");
    sim.fault("hang nvmlDeviceGetAccountingPids");
    daemon.until_logged("nvml-call-timeout");
    // As long as it hangs, what it would tell is not known: the answer says so, and so does its exit status.
    let mut ask = std::process::Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    ask.args(["status", "--json", "--socket"]).arg(sim.folder().join("run/daemon.sock"));
    let said = poll("the call is unknown in status", || {
        let said = ask.output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let hangs = status["gpus"][0]["hangs"] == true;
        hangs.then_some((said.status.code(), status["unknown"].clone()))
    });
    assert_eq!(said.0, Some(2), "{said:?}");
    assert_eq!(said.1[0]["reason"], "nvml-call-timeout", "{said:?}");
    assert_eq!(said.1[0]["call"], "nvmlDeviceGetAccountingPids", "{said:?}");
    sim.fault("heal");
    poll("it is known again", || {
        let known = ask.output().unwrap();
        (known.status.code() == Some(0)).then_some(())
    });
    let billed = billed(&sim, daemon, GapCause::NvmlCallTimeout);
    assert!(billed.causes(0).contains(&"nvml-call-timeout"));
}

#[test]
fn handles_given_back_on_request_are_released() {
    if !can_trace("handles_given_back_on_request_are_released") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    let mut release = std::process::Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    release.args(["release", "--for", "300ms", "--socket"]);
    release.arg(sim.folder().join("run/daemon.sock"));
    assert!(release.output().unwrap().status.success());
    let pid = {
        let job = sim.work("--ms 10");
        let pid = job.pid();
        job.wait();
        pid
    };
    daemon.until_booked(2);
    let billed = billed(&sim, daemon, GapCause::Released);
    // Process events went on: whoever worked meanwhile has a name.
    billed.named(pid, "nvsim");
}
