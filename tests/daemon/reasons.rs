//! Every reason for which a settlement has no name or no price, and every flag of one: provoked, and read on
//! the bill.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use gpu_ledger::journal::Figures;
use rustix::process::{Pid, Signal, kill_process};

use crate::billed::Billed;
use crate::daemon::{Daemon, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::support::{PATIENCE, Sim, poll};

/// A daemon that has seen every GPU.
fn watching(setup: Setup<'_>) -> Daemon<'_> {
    let daemon = setup.start();
    daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    daemon
}

/// Runs a job to its end; its pid.
fn job(sim: &Sim, words: &str) -> u32 {
    let job = sim.work(words);
    let pid = job.pid();
    job.wait();
    pid
}

/// The bill of a daemon that is stopped.
fn billed(sim: &Sim, daemon: Daemon<'_>) -> Billed {
    let state = daemon.state().to_path_buf();
    daemon.stop();
    assert_sound(&state);
    Billed::of(sim)
}

/// Many short-lived programs whose arguments alone fill a small ring, or a table of the dead.
fn crowd(count: usize) {
    let argument = "x".repeat(4_000);
    for _ in 0..count {
        let mut one = Command::new("/bin/true");
        assert!(one.arg(&argument).stdin(Stdio::null()).status().unwrap().success());
    }
}

#[test]
fn a_row_that_ended_while_no_agent_ran_is_agent_down() {
    if !can_trace("a_row_that_ended_while_no_agent_ran_is_agent_down") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    watching(Setup::on(&sim)).stop();
    let pid = job(&sim, "--ms 30");
    let daemon = watching(Setup::on(&sim));
    daemon.until_booked(1);
    let billed = billed(&sim, daemon);
    billed.nameless(pid, "agent-down");
    assert_eq!(billed.gap("agent-down")["gpu"], serde_json::Value::Null);
}

/// A configuration with a ring that a crowd overflows. It holds what the whole machine does: it may overflow
/// at any other time too, before the daemon is ready among them.
fn small_ring(on_loss: &str) -> String {
    format!("ring_size = \"64KiB\"\non_loss = \"{on_loss}\"\n")
}

/// It is stopped while more happens than its ring holds, until the loss is on the disk; the pid of a job whose
/// events are among what was lost.
fn loses_events(sim: &Sim, daemon: &Daemon<'_>) -> u32 {
    daemon.signal(Signal::STOP);
    crowd(400);
    let pid = job(sim, "--ms 30");
    daemon.signal(Signal::CONT);
    daemon.until_entered(
        "the loss is a gap",
        |figures| matches!(figures, Figures::Gap(gap) if gap.cause.as_str() == "event-lost"),
    );
    pid
}

#[test]
fn a_row_whose_events_were_lost_is_event_lost_and_the_gap_has_their_number() {
    if !can_trace("a_row_whose_events_were_lost_is_event_lost_and_the_gap_has_their_number") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim).config(&small_ring("record")));
    let pid = loses_events(&sim, &daemon);
    daemon.until_booked(1);
    let log = daemon.log();
    assert!(!log.contains("ERROR"), "{log}");
    let billed = billed(&sim, daemon);
    billed.nameless(pid, "event-lost");
    assert!(billed.gap("event-lost")["size"].as_u64().unwrap() > 0);
}

#[test]
fn told_to_alert_a_loss_of_events_is_logged_as_an_error_and_it_goes_on() {
    if !can_trace("told_to_alert_a_loss_of_events_is_logged_as_an_error_and_it_goes_on") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim).config(&small_ring("alert")));
    let pid = loses_events(&sim, &daemon);
    let log = daemon.log();
    let error = log.lines().find(|line| line.contains("process events were lost"));
    assert!(error.is_some_and(|line| line.contains("ERROR")), "{log}");
    let mut booked = 1;
    let after = poll("a job is named again", || {
        let pid = job(&sim, "--ms 10");
        booked += 1;
        daemon.until_booked(booked);
        daemon.journal().iter().find_map(|entry| match &entry.figures {
            Figures::Settlement(one) if one.pid.0 == pid && one.basis.is_some() => Some(pid),
            _ => None,
        })
    });
    let billed = billed(&sim, daemon);
    billed.nameless(pid, "event-lost");
    billed.named(after, "nvsim");
}

#[test]
fn told_to_exit_at_a_loss_of_events_it_ends_in_order_with_the_gap_entered() {
    if !can_trace("told_to_exit_at_a_loss_of_events_it_ends_in_order_with_the_gap_entered") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut daemon = watching(Setup::on(&sim).config(&small_ring("record")));
    std::fs::write(daemon.config_path(), small_ring("exit")).unwrap();
    daemon.signal(Signal::HUP);
    daemon.until_logged("in force now");
    let pid = loses_events(&sim, &daemon);
    let status = poll("it ends", || daemon.has_ended());
    assert_eq!(status.code(), Some(1), "{status}");
    let log = daemon.log();
    assert!(log.contains("this daemon ends"), "{log}");
    assert!(log.contains("on_loss = \"exit\" is configured"), "{log}");
    assert_sound(&sim.folder().join("state"));
    // Whether that read was still made or not: the row is never lost, and never named by a guess.
    let daemon = watching(Setup::on(&sim));
    daemon.until_booked(1);
    let billed = billed(&sim, daemon);
    let reason = billed.settlement(pid)["reason"].as_str().unwrap();
    assert!(["event-lost", "agent-down"].contains(&reason), "{reason}");
    assert!(billed.gap("event-lost")["size"].as_u64().unwrap() > 0);
}

#[test]
fn a_row_whose_process_was_forgotten_under_a_bound_is_identity_evicted() {
    if !can_trace("a_row_whose_process_was_forgotten_under_a_bound_is_identity_evicted") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim));
    // As long as no list can be read nobody knows whose rows will come.
    sim.lists_fail();
    let pid = job(&sim, "--ms 30");
    sim.until_ended(1);
    crowd(900);
    sim.fault("heal");
    daemon.until_booked(1);
    billed(&sim, daemon).nameless(pid, "identity-evicted");
}

/// One hour.
const HOUR_US: u64 = 3_600_000_000;

#[test]
fn a_row_whose_start_no_clock_ever_showed_is_pid_ambiguous_and_disputed() {
    if !can_trace("a_row_whose_start_no_clock_ever_showed_is_pid_ambiguous_and_disputed") {
        return;
    }
    let clocks = tempfile::tempdir().unwrap();
    let path = |name: &str| clocks.path().join(name);
    let shift = |name: &str, us: u64| {
        let draft = path("draft");
        std::fs::write(&draft, us.to_string()).unwrap();
        std::fs::rename(&draft, path(name)).unwrap();
    };
    std::os::unix::fs::chown(clocks.path(), Some(crate::daemon::NOBODY), None).unwrap();
    shift("driver", 0);
    shift("agent", 0);
    let driver = path("driver");
    let sim = Sim::start_with(&["--gpus", "1"], &[("GPU_LEDGER_TEST_CLOCK", driver.as_os_str())]);
    let daemon = watching(Setup::on(&sim).env("GPU_LEDGER_TEST_CLOCK", path("agent")));
    // Two hours are jumped over, and the driver puts a start into the middle of them.
    shift("driver", HOUR_US);
    let pid = job(&sim, "--ms 30");
    shift("agent", 2 * HOUR_US);
    shift("driver", 2 * HOUR_US);
    daemon.until_booked(1);
    daemon.stop();
    let agent = path("agent");
    let billed =
        Billed::over(&sim, &["--period", "all"], &[("GPU_LEDGER_TEST_CLOCK", agent.as_os_str())]);
    let one = billed.settlement(pid);
    assert_eq!(one["reason"], "pid-ambiguous", "{}", billed.bill["settlements"]);
    billed.explained(one, "pid-ambiguous");
}

#[test]
fn a_row_that_two_lifetimes_of_a_pid_shared_is_row_spans_two_lifetimes() {
    if !can_trace("a_row_that_two_lifetimes_of_a_pid_shared_is_row_spans_two_lifetimes") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim));
    let mut actor = sim.actor("ollama.py");
    actor.told("open 0");
    let (pid, keeper) = (actor.pid(), actor.told("keep"));
    actor.end();
    let mut reuse = sim.program("reuse");
    reuse.args(["--pid", &pid.to_string()]);
    reuse.args(["--patience-ms", &PATIENCE.as_millis().to_string()]).arg("--");
    let status = reuse.arg(sim.program_called("xtts")).args(["work", "--ms", "30"]).status();
    assert!(status.unwrap().success());
    kill_process(Pid::from_raw(keeper.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    sim.until_ended(1);
    daemon.until_booked(1);
    billed(&sim, daemon).nameless(pid, "row-spans-two-lifetimes");
}

#[test]
fn a_row_without_a_start_is_no_start_time() {
    if !can_trace("a_row_without_a_start_is_no_start_time") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim));
    sim.fault("no-start-time on");
    let pid = job(&sim, "--ms 30");
    daemon.until_booked(1);
    billed(&sim, daemon).nameless(pid, "no-start-time");
}

#[test]
fn a_row_that_says_other_figures_than_were_booked_is_a_conflict_and_no_second_settlement() {
    let test =
        "a_row_that_says_other_figures_than_were_booked_is_a_conflict_and_no_second_settlement";
    if !can_trace(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim));
    let pid = job(&sim, "--ms 30");
    daemon.until_booked(1);
    sim.fault("longer-rows on");
    daemon.until_entered("the conflict", |figures| matches!(figures, Figures::Conflict(_)));
    let billed = billed(&sim, daemon);
    let one = billed.settlement(pid);
    assert_eq!(
        (&one["dispute"], &one["held_ms"]),
        (&"conflict".into(), &sim.truth()[0].held_ms().into())
    );
    let [line] = billed.list("disputed") else { panic!("{}", billed.bill["disputed"]) };
    assert_eq!((&line["reason"], &line["count"]), (&"conflict".into(), &1.into()));
    assert_eq!(line["raw_ms"], one["held_ms"]);
    assert_eq!(billed.code, 2);
}

/// The wall clock is stepped while a job holds the GPU.
fn stepped(us: i64) {
    let clocks = tempfile::tempdir().unwrap();
    let clock = clocks.path().join("clock");
    let shift = |us: i64| {
        let draft = clocks.path().join("draft");
        std::fs::write(&draft, us.to_string()).unwrap();
        std::fs::rename(&draft, &clock).unwrap();
    };
    std::os::unix::fs::chown(clocks.path(), Some(crate::daemon::NOBODY), None).unwrap();
    shift(0);
    let sim = Sim::start_with(&["--gpus", "1"], &[("GPU_LEDGER_TEST_CLOCK", clock.as_os_str())]);
    let daemon = watching(Setup::on(&sim).env("GPU_LEDGER_TEST_CLOCK", &clock));
    let before = job(&sim, "--ms 30");
    daemon.until_booked(1);
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let pid = server.pid();
    daemon.until_entered(
        "it is open",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    shift(us);
    sim.reads_pass(1);
    server.end();
    daemon.until_booked(2);
    let now = [("GPU_LEDGER_TEST_CLOCK", clock.as_os_str())];
    let through_daemon = Billed::through_daemon(&sim, &["--period", "all"], &now);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    assert_sound(&state);
    let billed = Billed::over(&sim, &["--period", "all"], &now);
    for billed in [&billed, &through_daemon] {
        // What a clock that was set back calls the future was booked all the same.
        billed.named(before, "nvsim");
        let behind = &billed.bill["clock_behind"];
        assert_eq!(behind.is_null(), us > 0, "{behind}");
        if us < 0 {
            reaches_beyond_now(&sim, billed, before, &now);
        }
    }
    let one = billed.named(pid, "server.py");
    assert_eq!(one["dispute"], "clock-step", "{one}");
    let [line] = billed.list("disputed") else { panic!("{}", billed.bill["disputed"]) };
    assert_eq!((&line["reason"], &line["account"]), (&"clock-step".into(), &one["account"]));
    assert_eq!(line["raw_ms"], one["held_ms"]);
    // Never negative, and none of it in what is priced.
    assert!(billed.bill["span_ms_total"].as_u64().is_some(), "{}", billed.bill);
}

/// A bill up to the journal's latest moment, which a clock that was set back calls the future.
fn reaches_beyond_now(sim: &Sim, all: &Billed, before: u32, now: &[(&str, &OsStr)]) {
    let moment =
        |value: &serde_json::Value| -> jiff::Timestamp { value.as_str().unwrap().parse().unwrap() };
    let behind = &all.bill["clock_behind"];
    let (shown, latest) = (moment(&behind["now"]), moment(&behind["latest"]));
    assert!(shown < latest, "{behind}");
    assert!(moment(&all.bill["period"]["until"]) > latest, "{}", all.bill["period"]);
    // As far as the journal reaches it is a period like any other, and no further.
    let (since, until) = (shown.to_string(), latest.to_string());
    let words = ["--since", &since, "--until", &until];
    let asked = Billed::over(sim, &words, now);
    asked.named(before, "nvsim");
    assert!(asked.bill["clock_behind"].is_object());
    let mut beyond = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    let hour = jiff::SignedDuration::from_hours(1);
    beyond.args(["bill", "--until"]).arg(latest.saturating_add(hour).unwrap().to_string());
    beyond.arg("--state-dir").arg(sim.folder().join("state")).envs(now.iter().copied());
    let output = beyond.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(
        said.contains("lies in the future") && said.contains("the journal reaches to"),
        "{said}"
    );
    // And people are told.
    let mut table = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    table.args(["bill", "--period", "all"]).arg("--state-dir").arg(sim.folder().join("state"));
    let page = table.envs(now.iter().copied()).output().unwrap().stdout;
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("WARNING the clock was set back"), "{page}");
    assert!(page.contains("nvsim"), "{page}");
}

#[test]
fn a_wall_clock_set_forward_by_a_day_within_a_span_is_disputed() {
    if !can_trace("a_wall_clock_set_forward_by_a_day_within_a_span_is_disputed") {
        return;
    }
    stepped(86_400_000_000);
}

#[test]
fn a_wall_clock_set_back_by_a_day_within_a_span_is_disputed() {
    if !can_trace("a_wall_clock_set_back_by_a_day_within_a_span_is_disputed") {
        return;
    }
    stepped(-86_400_000_000);
}

#[test]
fn a_span_of_less_than_a_millisecond_is_flagged_and_no_unknown() {
    if !can_trace("a_span_of_less_than_a_millisecond_is_flagged_and_no_unknown") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim));
    // How short it was is the machine's: until one is short enough.
    let mut jobs = 0;
    let pid = poll("a span below a millisecond", || {
        let pid = job(&sim, "--ms 0");
        jobs += 1;
        let truth = sim.until_ended(jobs);
        (truth.last().unwrap().held_ms() == 0).then_some(pid)
    });
    daemon.until_booked(jobs);
    let billed = billed(&sim, daemon);
    let one = billed.named(pid, "nvsim");
    assert_eq!((&one["held_ms"], &one["flags"]), (&0.into(), &serde_json::json!(["below-1ms"])));
}

#[test]
fn a_process_that_lives_on_after_its_last_context_is_flagged() {
    if !can_trace("a_process_that_lives_on_after_its_last_context_is_flagged") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(Setup::on(&sim));
    let mut actor = sim.actor("server.py");
    actor.told("open 0");
    actor.told("close");
    daemon.until_booked(1);
    let billed = billed(&sim, daemon);
    let one = billed.named(actor.pid(), "server.py");
    assert!(one["flags"].as_array().unwrap().contains(&"settled-while-alive".into()), "{one}");
}

#[test]
fn a_process_that_held_the_gpu_before_accounting_began_is_flagged() {
    if !can_trace("a_process_that_held_the_gpu_before_accounting_began_is_flagged") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    let daemon = watching(Setup::on(&sim));
    let mut actor = sim.actor("server.py");
    actor.told("open 0");
    sim.fault("accounting on");
    let pid = actor.pid();
    daemon.until_entered(
        "it holds the GPU without a row",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    // Another context, now with a row.
    actor.told("open 0");
    sim.reads_pass(2);
    actor.end();
    sim.until_ended(1);
    daemon.until_booked(1);
    let billed = billed(&sim, daemon);
    let one = billed.named(pid, "server.py");
    let flags = one["flags"].as_array().unwrap();
    assert!(flags.contains(&"started-before-accounting".into()), "{one}");
}
