//! A pid that comes to mean another process while the driver still keeps the first one's row.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::privilege::can_trace;
use crate::support::{PATIENCE, Sim};
use crate::truth::{Fault, Row, gaps, settlements};

/// Runs a GPU job under exactly this pid, as a program of this name.
fn again(sim: &Sim, pid: u32, name: &str, words: &[&str]) {
    let mut reuse = sim.program("reuse");
    reuse.args(["--pid", &pid.to_string()]);
    reuse.args(["--patience-ms", &PATIENCE.as_millis().to_string()]).arg("--");
    let status = reuse.arg(sim.program_called(name)).arg("work").args(words).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Runs a GPU job under any pid.
fn first(sim: &Sim, name: &str, words: &[&str]) -> u32 {
    let mut job = Command::new(sim.program_called(name));
    job.arg("work").args(words).env("NVSIM_SOCKET", sim.socket()).stdout(Stdio::null());
    let mut job = job.spawn().unwrap();
    assert!(job.wait().unwrap().success());
    job.id()
}

/// A job that ran under a pid, and was read when it was dead.
fn first_read(sim: &Sim) -> u32 {
    let pid = first(sim, "ollama", &["--ms", "30"]);
    sim.until_ended(1);
    sim.reads_pass(1);
    pid
}

/// Runs the second job under the pid of the first; what really happened.
fn second(sim: &Sim, pid: u32) -> Vec<Row> {
    again(sim, pid, "xtts", &["--ms", "30"]);
    sim.until_ended(2)
}

fn names(report: &Value) -> Vec<Option<String>> {
    settlements(report).into_iter().map(|one| one.program).collect()
}

#[test]
fn a_reused_pid_that_was_read_in_between_is_two_settlements_each_to_its_own_name() {
    if !can_trace("a_reused_pid_that_was_read_in_between_is_two_settlements_each_to_its_own_name") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let pid = first_read(&sim);
    let truth = second(&sim, pid);
    assert!(truth.iter().all(|row| row.pid == pid));
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), [Some("ollama".to_owned()), Some("xtts".to_owned())]);
}

#[test]
fn a_dead_row_that_hides_the_pids_next_holder_does_not_lend_it_its_name() {
    if !can_trace("a_dead_row_that_hides_the_pids_next_holder_does_not_lend_it_its_name") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let pid = first_read(&sim);
    let mut actor = sim.program("reuse");
    actor.args(["--pid", &pid.to_string(), "--"]).arg(sim.program_called("xtts"));
    let mut actor = actor.args(["work", "--ms", "100000"]).spawn().unwrap();
    crate::support::poll("the second holds the GPU", || {
        (sim.state()["holders"][0]["pid"] == pid).then_some(())
    });
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), [Some("ollama".to_owned())]);
    let open = &report["open"];
    assert_eq!(open.as_array().unwrap().len(), 1, "{open}");
    assert_eq!((&open[0]["pid"], &open[0]["account"]), (&pid.into(), &"xtts".into()));
    assert_eq!(open[0]["reason"], "masked-by-dead-row");
    assert_eq!(open[0]["start_time_us"], Value::Null);
    kill(i32::try_from(pid).unwrap());
    actor.wait().unwrap();
}

#[test]
fn a_reused_pid_that_was_not_read_in_between_loses_one_row_and_misnames_none() {
    if !can_trace("a_reused_pid_that_was_not_read_in_between_loses_one_row_and_misnames_none") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    sim.lists_fail();
    let pid = first(&sim, "ollama", &["--ms", "30"]);
    sim.until_ended(1);
    let truth = second(&sim, pid);
    sim.fault("heal");
    let report = watching.report();
    // Opened and replaced within one read interval: what the driver's rules hide from any reader.
    let [overwritten, kept]: &[Row; 2] = truth.as_slice().try_into().unwrap();
    assert_eq!(sim.faults_of(&report), [Fault::Lost(overwritten.clone())]);
    let settled = settlements(&report);
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].start_time_us, Some(kept.start_time_us));
    assert_eq!(names(&report), [Some("xtts".to_owned())]);
}

#[test]
fn a_row_seen_open_and_overwritten_before_it_was_read_final_is_a_gap_of_one() {
    if !can_trace("a_row_seen_open_and_overwritten_before_it_was_read_final_is_a_gap_of_one") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let mut actor = sim.actor("serve.py");
    actor.told("open 0");
    sim.reads_pass(1);
    sim.lists_fail();
    let pid = actor.pid();
    actor.told("close");
    actor.end();
    second(&sim, pid);
    sim.fault("heal");
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), [Some("xtts".to_owned())]);
    let gaps = gaps(&report);
    let overwritten: Vec<_> = gaps.iter().filter(|gap| gap.cause == "row-overwritten").collect();
    assert_eq!(overwritten.iter().map(|gap| gap.size).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn an_inherited_descriptor_that_the_next_holder_joins_is_a_row_of_two_lifetimes() {
    if !can_trace("an_inherited_descriptor_that_the_next_holder_joins_is_a_row_of_two_lifetimes") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let mut actor = sim.actor("ollama.py");
    actor.told("open 0");
    let (pid, keeper) = (actor.pid(), actor.told("keep"));
    actor.end();
    again(&sim, pid, "xtts", &["--ms", "30"]);
    assert_eq!(sim.truth().len(), 0, "the duplicate holds the span open");
    kill(keeper.parse().unwrap());
    let truth = sim.until_ended(1);
    assert_eq!((truth.len(), truth[0].joined.len()), (1, 1), "{truth:?}");
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let settled = settlements(&report);
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].reason.as_deref(), Some("row-spans-two-lifetimes"));
    assert_eq!(report["unattributed"][0]["reason"], "row-spans-two-lifetimes");
}

#[test]
fn a_reused_pid_whose_first_holder_left_a_duplicate_that_is_closed_again_is_two_settlements() {
    let name =
        "a_reused_pid_whose_first_holder_left_a_duplicate_that_is_closed_again_is_two_settlements";
    if !can_trace(name) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let pid = first(&sim, "ollama", &["--ms", "30", "--hold-fd-ms", "300"]);
    sim.until_ended(1);
    sim.reads_pass(1);
    second(&sim, pid);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), [Some("ollama".to_owned()), Some("xtts".to_owned())]);
    assert!(settlements(&report)[0].held_ms >= 300, "its span outlived it");
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
