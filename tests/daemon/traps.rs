//! The six traps of a ledger that bills the dead, each walked into: the daemon watches, the bill is read.

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::entry::{EpochEdge, OpenKind};

use crate::billed::Billed;
use crate::daemon::Setup;
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// Once every GPU is watched: what is not held from now on is known to be free.
fn until_watched(daemon: &crate::daemon::Daemon<'_>) {
    daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
}

#[test]
fn trap_1_an_empty_list_of_an_idle_gpu_is_free_and_of_a_mode_that_is_off_unknown() {
    if !can_trace("trap_1_an_empty_list_of_an_idle_gpu_is_free_and_of_a_mode_that_is_off_unknown") {
        return;
    }
    let sim = Sim::start(&["--gpus", "3"]);
    // Before anybody looks: never on.
    sim.fault("accounting off --gpu 2");
    let daemon = Setup::on(&sim).start();
    until_watched(&daemon);
    let pegged = sim.work("--gpu 0 --ms 100000");
    sim.reads_pass(2);
    // Another administrator, or a driver that was unloaded: the very same empty list.
    sim.fault("reset --gpu 0");
    daemon.until_entered("the epoch ends", |figures| {
        matches!(figures, Figures::Epoch(epoch) if matches!(epoch.edge, EpochEdge::Ended { .. }))
    });
    sim.reads_pass(3);
    daemon.stop();
    pegged.end();
    let billed = Billed::of(&sim);
    // Idle: free to the last millisecond, and nothing in doubt.
    assert_eq!(billed.causes(1), Vec::<&str>::new(), "{}", billed.bill["coverage"]);
    let held = billed.gpu_ms(1, "alone_ms") + billed.gpu_ms(1, "shared_ms");
    assert_eq!(held, 0);
    assert!(billed.gpu_ms(1, "free_ms") > 0);
    // Reset while it was pegged: not free from then on.
    assert!(billed.causes(0).contains(&"accounting-off"), "{}", billed.bill["coverage"]);
    assert!(billed.gpu_ms(0, "uncovered_ms") > billed.gpu_ms(1, "uncovered_ms"));
    // Off all the time: nothing of it is free.
    assert_eq!(billed.gpu_ms(2, "free_ms"), 0, "{}", billed.bill["gpus"]);
    assert_eq!(billed.gpu_ms(2, "uncovered_ms"), billed.gpu_ms(2, "period_ms"));
    assert_eq!(billed.code, 2);
}

#[test]
fn trap_2_a_row_with_a_utilization_of_nothing_is_billed_by_its_time() {
    if !can_trace("trap_2_a_row_with_a_utilization_of_nothing_is_billed_by_its_time") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let mut pids = Vec::new();
    for busy in [0, 100] {
        let job = sim.work(&format!("--ms 40 --busy {busy}"));
        pids.push(job.pid());
        job.wait();
    }
    daemon.until_booked(2);
    daemon.stop();
    let billed = Billed::of(&sim);
    for (pid, row) in pids.into_iter().zip(sim.truth()) {
        let one = billed.named(pid, "nvsim");
        assert_eq!(one["held_ms"], row.held_ms());
        assert_eq!(one["alone_ms"], row.held_ms());
        // Between two samples of the driver: that there was none is said, and is no 0.
        assert_ne!(one["busy_ms_low"], 1, "{one}");
        let sampled = one["busy_samples"].as_u64().is_some_and(|samples| samples > 0);
        assert_eq!(one["busy_ms_low"].is_null(), !sampled, "{one}");
    }
    let unsampled = billed.list("unknown").iter().any(|one| one["reason"] == "no-samples");
    assert!(unsampled, "{}", billed.bill["unknown"]);
}

#[test]
fn trap_3_who_is_dead_when_the_row_is_read_has_a_name_and_who_died_before_has_none() {
    if !can_trace("trap_3_who_is_dead_when_the_row_is_read_has_a_name_and_who_died_before_has_none")
    {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let before = sim.work("--ms 30");
    let pid_before = before.pid();
    before.wait();
    sim.until_ended(1);
    let daemon = Setup::on(&sim).start();
    let since = sim.work("--ms 30");
    let pid_since = since.pid();
    since.wait();
    daemon.until_booked(2);
    daemon.stop();
    let billed = Billed::of(&sim);
    billed.nameless(pid_before, "predates-coverage");
    billed.named(pid_since, "nvsim");
}

#[test]
fn trap_4_who_still_runs_is_open_with_what_has_accrued_and_no_settlement_of_nothing() {
    if !can_trace(
        "trap_4_who_still_runs_is_open_with_what_has_accrued_and_no_settlement_of_nothing",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let mut server = sim.actor("llama-server.py");
    server.told("open 0");
    let pid = server.pid();
    daemon.until_entered(
        "the server is entered as open",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    let accrued = |billed: &Billed| {
        let [open] = billed.list("open") else { panic!("{}", billed.bill["open"]) };
        assert_eq!((&open["pid"], &open["account"]), (&pid.into(), &"llama-server.py".into()));
        open["accrued_ms"].as_u64().unwrap()
    };
    let first = accrued(&Billed::of(&sim));
    let second = poll("it accrues", || {
        let now = accrued(&Billed::of(&sim));
        (now > first).then_some(now)
    });
    assert!(second > 0);
    assert_eq!(Billed::of(&sim).bill["settlements"], serde_json::json!([]));
    server.end();
    daemon.until_booked(1);
    daemon.stop();
    // Settled, it is replaced and not added to.
    let billed = Billed::of(&sim);
    assert!(billed.list("open").is_empty());
    let held = billed.named(pid, "llama-server.py")["held_ms"].as_u64().unwrap();
    assert_eq!(held, sim.truth()[0].held_ms());
    assert_eq!(billed.gpu_ms(0, "alone_ms"), held);
}

#[test]
fn trap_5_a_resident_daemon_that_never_exits_is_on_the_bill_with_age_and_memory() {
    if !can_trace("trap_5_a_resident_daemon_that_never_exits_is_on_the_bill_with_age_and_memory") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    // Older than accounting: it will never have a row.
    let mut older = sim.actor("voice-clone-daemon.py");
    older.told("open 0");
    sim.fault("accounting on");
    let mut younger = sim.actor("ollama-serve.py");
    younger.told("open 0");
    let daemon = Setup::on(&sim).start();
    for (pid, wanted) in [(older.pid(), OpenKind::NoDriverRow), (younger.pid(), OpenKind::Row)] {
        daemon.until_entered("both are entered", |figures| {
            matches!(figures, Figures::Open(open) if open.pid.0 == pid && open.kind == wanted)
        });
    }
    until_watched(&daemon);
    sim.reads_pass(2);
    daemon.stop();
    let billed = Billed::of(&sim);
    let [rowless] = billed.list("no_driver_row") else { panic!("{}", billed.bill) };
    assert_eq!(rowless["pid"], older.pid());
    assert_eq!(rowless["account"], "voice-clone-daemon.py", "{rowless}");
    assert!(rowless["age_ms"].as_u64().unwrap() > 0, "{rowless}");
    let [open] = billed.list("open") else { panic!("{}", billed.bill["open"]) };
    assert_eq!(
        (&open["pid"], &open["account"]),
        (&younger.pid().into(), &"ollama-serve.py".into())
    );
    // Both held it, so nobody had it alone, and nothing of it was free.
    assert!(billed.gpu_ms(0, "shared_ms") > 0, "{}", billed.bill["gpus"]);
    assert_eq!(billed.gpu_ms(0, "free_ms"), 0, "{}", billed.bill["gpus"]);
    assert_eq!(billed.code, 2);
}

/// A sampler once a minute names one in nine of them.
const JOBS: usize = 60;

#[test]
fn trap_6_jobs_shorter_than_any_interval_between_reads_are_all_named() {
    if !can_trace("trap_6_jobs_shorter_than_any_interval_between_reads_are_all_named") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    until_watched(&daemon);
    for _ in 0..JOBS {
        sim.work("--ms 2").wait();
    }
    daemon.until_booked(JOBS);
    daemon.stop();
    let billed = Billed::of(&sim);
    assert_eq!(billed.bill["unattributed"], serde_json::json!([]));
    let settled = billed.list("settlements");
    assert_eq!(settled.len(), JOBS);
    assert!(settled.iter().all(|one| one["basis"] == "exec" && one["account"] == "nvsim"));
    let held: u64 = sim.truth().iter().map(crate::truth::Row::held_ms).sum();
    assert_eq!(billed.bill["span_ms_total"], held);
}
