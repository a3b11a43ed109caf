//! Real processes on the simulated driver: forks, kills, inherited descriptors, reused pids.

use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use crate::support::{Driver, skip, until};
use nvsim::client::Held;
use nvsim::protocol::Use;
use serde_json::Value;

fn lines_of(driver: &Driver, pid: u32) -> Vec<Value> {
    driver.truth().into_iter().filter(|line| line["pid"] == pid).collect()
}

fn wait_for_lines(driver: &Driver, pid: u32, count: usize) -> Vec<Value> {
    until("the truth log has it", || lines_of(driver, pid).len() >= count);
    lines_of(driver, pid)
}

fn wait_running(driver: &Driver, gpu: usize, pid: u32) {
    until("it holds the GPU", || driver.stats(gpu, pid)["running"] == true);
}

#[test]
fn a_job_is_billed_from_open_to_close_and_named_in_the_truth() {
    let driver = Driver::start(&[]);
    let mut child = driver.work(&["--ms", "30", "--mem-mib", "100", "--gpu", "1"]).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let pid = child.id();
    let truth = wait_for_lines(&driver, pid, 1);
    let stats = driver.stats(1, pid);
    assert_eq!(stats["running"], false);
    assert_eq!(stats["memory_peak_bytes"], 100 << 20);
    assert!(stats["time_ms"].as_u64().unwrap() >= 30);
    assert_eq!(stats["start_us"], truth[0]["start_time_us"]);
    let (start, end) = (&truth[0]["start_time_us"], &truth[0]["end_time_us"]);
    let span_ms = (end.as_u64().unwrap() - start.as_u64().unwrap()) / 1_000;
    assert_eq!(stats["time_ms"], span_ms);
    assert_eq!(truth[0]["exe"], env!("CARGO_BIN_EXE_nvsim"));
    assert_eq!(truth[0]["argv"][1], "work");
    assert_eq!(truth[0]["gpu_uuid"], driver.state(1)["uuid"]);
    assert!(truth[0].get("lost").is_none() && truth[0].get("joined").is_none());
    assert!(driver.pids(0).is_empty());
}

#[test]
fn a_child_made_by_fork_alone_is_billed_under_its_own_pid() {
    let driver = Driver::start(&[]);
    let mut child = driver.work(&["--ms", "5", "--fork"]).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    until("the truth log has it", || driver.truth().len() == 1);
    let truth = driver.truth();
    assert_ne!(truth[0]["pid"], child.id());
    assert_eq!(truth[0]["exe"], env!("CARGO_BIN_EXE_nvsim"));
    assert_eq!(driver.pids(0), [truth[0]["pid"].as_u64().unwrap()]);
}

#[test]
fn a_killed_process_is_final_only_after_the_teardown() {
    let driver = Driver::start(&["--teardown-ms", "700..700"]);
    let mut child = driver.work(&["--ms", "600000"]).spawn().unwrap();
    let pid = child.id();
    wait_running(&driver, 0, pid);
    child.kill().unwrap();
    child.wait().unwrap();
    // Reaped, and its entry is live with time 0 all the same: unless this thread was held up for
    // the whole teardown, which the truth log then tells.
    let stats = driver.stats(0, pid);
    if lines_of(&driver, pid).is_empty() {
        assert_eq!((&stats["running"], &stats["time_ms"]), (&Value::from(true), &Value::from(0)));
    }
    let truth = wait_for_lines(&driver, pid, 1);
    let span_us =
        truth[0]["end_time_us"].as_u64().unwrap() - truth[0]["start_time_us"].as_u64().unwrap();
    assert!(span_us >= 700_000, "the end is stamped when it is final: {span_us}");
    assert_eq!(driver.stats(0, pid)["running"], false);
}

#[test]
fn a_duplicate_of_the_descriptor_keeps_the_entry_of_a_dead_process_live() {
    let driver = Driver::start(&[]);
    let mut child = driver.work(&["--ms", "1", "--hold-fd-ms", "400"]).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());
    let truth = wait_for_lines(&driver, pid, 1);
    let span_us =
        truth[0]["end_time_us"].as_u64().unwrap() - truth[0]["start_time_us"].as_u64().unwrap();
    assert!(span_us >= 400_000, "the child outlived it by as much: {span_us}");
}

#[test]
fn a_context_reopened_without_reads_leaves_one_entry_and_ten_spans_in_the_truth() {
    // The teardown is longer than the pause between contexts: an open by the same pid must end
    // the old span first, or the two would be one.
    let driver = Driver::start(&["--teardown-ms", "50..300"]);
    let mut child = driver.work(&["--ms", "2", "--reopen", "10"]).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let truth = wait_for_lines(&driver, child.id(), 10);
    assert_eq!(truth.len(), 10);
    for pair in truth.windows(2) {
        assert!(pair[0]["end_time_us"].as_u64() <= pair[1]["start_time_us"].as_u64());
    }
    assert_eq!(driver.pids(0), [u64::from(child.id())]);
    assert_eq!(driver.stats(0, child.id())["start_us"], truth[9]["start_time_us"]);
}

#[test]
fn many_objects_of_one_process_are_one_span_that_the_last_one_ends() {
    let driver = Driver::start(&[]);
    let own = std::process::id();
    let first = Held::open(&driver.socket(), 0, 10).unwrap();
    let second = Held::open(&driver.socket(), 0, 20).unwrap();
    assert_eq!(driver.state(0)["holders"][0]["memory_bytes"], 30);
    assert_eq!(driver.state(0)["memory_used_bytes"], 30);
    drop(first);
    until("the first is closed", || driver.state(0)["memory_used_bytes"] == 20);
    assert_eq!(driver.stats(0, own)["running"], true);
    drop(second);
    let truth = wait_for_lines(&driver, own, 1);
    assert_eq!(truth.len(), 1);
    assert_eq!(driver.stats(0, own)["memory_peak_bytes"], 30);
}

#[test]
fn a_duplicate_in_the_same_process_holds_as_well() {
    let driver = Driver::start(&[]);
    let held = Held::open(&driver.socket(), 0, 1).unwrap();
    let duplicate = held.as_fd().try_clone_to_owned().unwrap();
    drop(held);
    assert_eq!(driver.stats(0, std::process::id())["running"], true);
    drop(duplicate);
    wait_for_lines(&driver, std::process::id(), 1);
}

#[test]
fn a_monitor_is_in_no_list_and_in_no_truth() {
    let driver = Driver::start(&[]);
    let monitor = Held::open_with(&driver.socket(), 0, Use::default()).unwrap();
    assert!(driver.pids(0).is_empty());
    assert_eq!(driver.state(0)["holders"], Value::Array(Vec::new()));
    monitor.set_use(Use { channel: true, ..Use::default() }).unwrap();
    assert_eq!(driver.pids(0), [u64::from(std::process::id())]);
    drop(monitor);
    wait_for_lines(&driver, std::process::id(), 1);
}

#[test]
fn what_is_lost_says_so_in_the_truth() {
    let mut driver = Driver::start(&[]);
    let spawn = || -> Child { driver.work(&["--ms", "600000"]).spawn().unwrap() };
    let mut children = vec![spawn()];
    wait_running(&driver, 0, children[0].id());
    driver.fault(&["accounting", "off"]);
    children.push(spawn());
    until("it holds the GPU", || driver.state(0)["holders"].as_array().unwrap().len() == 2);
    driver.fault(&["accounting", "on"]);
    children.push(spawn());
    wait_running(&driver, 0, children[2].id());
    driver.fault(&["reset"]);
    let (first, second) = (children[0].id(), children[1].id());
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let third = wait_for_lines(&driver, children[2].id(), 1);
    assert_eq!(lines_of(&driver, first)[0]["lost"], "mode-off");
    assert_eq!(wait_for_lines(&driver, second, 1)[0]["lost"], "no-entry");
    assert_eq!(third[0]["lost"], "teardown");
    driver.fault(&["accounting", "on"]);
    let mut last = driver.work(&["--ms", "600000"]).spawn().unwrap();
    wait_running(&driver, 0, last.id());
    assert!(driver.stop().success());
    assert_eq!(lines_of(&driver, last.id())[0]["lost"], "server-stopped");
    assert!(!driver.socket().exists());
    last.kill().unwrap();
    last.wait().unwrap();
}

#[test]
fn with_persistence_off_the_last_client_takes_the_mode_with_it_and_dead_rows_come_back() {
    let driver = Driver::start(&["--persistence", "off"]);
    let mut child = driver.work(&["--ms", "1"]).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    until("the mode is gone", || driver.state(0)["accounting"] == false);
    driver.fault(&["accounting", "on"]);
    assert_eq!(driver.pids(0), [u64::from(child.id())]);
}

#[test]
fn a_script_of_faults_plays_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    let lines = "{\"at_ms\": 1, \"fault\": [\"evict\", \"3\"]}\n\n{\"at_ms\": 2, \"fault\": [\"mig\", \"on\", \"--gpu\", \"1\"]}\n";
    std::fs::write(&script, lines).unwrap();
    let driver = Driver::start(&["--script", script.to_str().unwrap()]);
    until("MIG is on", || driver.state(1)["mig"] == true);
    assert_eq!(driver.pids(0).len(), 3);
    assert_eq!(driver.state(0)["mig"], false);
}

#[test]
fn a_script_with_a_fault_that_does_not_exist_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "\n{\"at_ms\": 1, \"fault\": [\"explode\"]}\n").unwrap();
    let mut command = crate::support::nvsim();
    command.arg("serve").arg("--socket").arg(folder.path().join("socket"));
    let output = command.args(["--gpus", "1", "--script"]).arg(&script).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("line 2") && text.contains("explode"), "{text}");
}

#[test]
fn a_clock_step_shifts_the_stamps() {
    let folder = tempfile::tempdir().unwrap();
    let shift = folder.path().join("shift");
    std::fs::write(&shift, "0\n").unwrap();
    let driver = Driver::start_with(&[], |command| {
        command.env("GPU_LEDGER_TEST_CLOCK", &shift);
    });
    let held = Held::open(&driver.socket(), 0, 1).unwrap();
    let next = folder.path().join("next");
    std::fs::write(&next, "3600000000\n").unwrap();
    std::fs::rename(&next, &shift).unwrap();
    drop(held);
    wait_for_lines(&driver, std::process::id(), 1);
    let time_ms = driver.stats(0, std::process::id())["time_ms"].as_u64().unwrap();
    assert!(time_ms >= 3_600_000, "{time_ms}");
}

#[test]
fn the_workload_opens_the_device_nodes_before_it_connects() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["nvidiactl", "nvidia0"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let driver = Driver::start(&[]);
    let mut child =
        driver.work(&["--ms", "600000"]).env("NVSIM_DEVICES", folder.path()).spawn().unwrap();
    wait_running(&driver, 0, child.id());
    let open: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .collect();
    for name in ["nvidiactl", "nvidia0"] {
        assert!(open.contains(&folder.path().canonicalize().unwrap().join(name)), "{open:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs something under exactly the pid of a process that is gone.
fn under_pid(pid: u32, driver: &Driver, arguments: &[&str]) -> Command {
    let mut command = crate::support::nvsim();
    command.args(["reuse", "--pid", &pid.to_string(), "--"]);
    command.arg(env!("CARGO_BIN_EXE_nvsim")).arg("work").args(arguments);
    command.env("NVSIM_SOCKET", driver.socket()).stderr(Stdio::piped());
    command
}

/// Whether this test may choose pids; says so if not.
fn may_choose_pids(test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    skip(test, "choosing a pid with clone3 needs root");
    false
}

#[test]
fn a_reused_pid_while_the_dead_entry_is_unread_masks_and_then_replaces_it() {
    if !may_choose_pids("a_reused_pid_while_the_dead_entry_is_unread_masks_and_then_replaces_it") {
        return;
    }
    // A teardown of a minute: only the rule for opens by the same pid can end the first span.
    let driver = Driver::start(&["--teardown-ms", "60000..60000"]);
    let mut first = driver.work(&["--ms", "1"]).spawn().unwrap();
    let pid = first.id();
    assert!(first.wait().unwrap().success());
    let mut second = under_pid(pid, &driver, &["--ms", "600000", "--busy", "7"]).spawn().unwrap();
    until("the second holds the GPU too", || driver.pids(0).len() == 2);
    assert_eq!(driver.pids(0), [u64::from(pid), u64::from(pid)]);
    let truth = wait_for_lines(&driver, pid, 1);
    assert_eq!(driver.stats(0, pid)["start_us"], truth[0]["start_time_us"], "the dead one masks");
    assert!(truth[0].get("joined").is_none());
    let running = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(running, rustix::process::Signal::KILL).unwrap();
    second.wait().unwrap();
    drop(driver);
}

#[test]
fn a_reused_pid_after_the_first_was_final_replaces_its_entry() {
    if !may_choose_pids("a_reused_pid_after_the_first_was_final_replaces_its_entry") {
        return;
    }
    let driver = Driver::start(&[]);
    let mut first = driver.work(&["--ms", "1"]).spawn().unwrap();
    let pid = first.id();
    assert!(first.wait().unwrap().success());
    wait_for_lines(&driver, pid, 1);
    let status = under_pid(pid, &driver, &["--ms", "2", "--busy", "7"]).status().unwrap();
    assert!(status.success());
    let truth = wait_for_lines(&driver, pid, 2);
    assert_eq!(driver.pids(0), [u64::from(pid)]);
    assert_eq!(driver.stats(0, pid)["start_us"], truth[1]["start_time_us"]);
    assert!(!truth[0]["argv"].as_array().unwrap().contains(&Value::from("--busy")));
    assert!(truth[1]["argv"].as_array().unwrap().contains(&Value::from("--busy")));
}

#[test]
fn a_reused_pid_joins_the_entry_that_an_inherited_descriptor_kept_live() {
    if !may_choose_pids("a_reused_pid_joins_the_entry_that_an_inherited_descriptor_kept_live") {
        return;
    }
    let driver = Driver::start(&[]);
    // Long enough to be there when the second comes; ended by hand.
    let mut first = driver.work(&["--ms", "1", "--hold-fd-ms", "8000"]).spawn().unwrap();
    let pid = first.id();
    assert!(first.wait().unwrap().success());
    let status = under_pid(pid, &driver, &["--ms", "2", "--busy", "7"]).status().unwrap();
    assert!(status.success());
    let truth = wait_for_lines(&driver, pid, 1);
    assert_eq!(truth.len(), 1, "one entry for both: {truth:?}");
    assert!(!truth[0]["argv"].as_array().unwrap().contains(&Value::from("--busy")));
    let joined = &truth[0]["joined"][0];
    assert!(joined["argv"].as_array().unwrap().contains(&Value::from("--busy")));
    assert!(joined["joined_us"].as_u64() >= truth[0]["start_time_us"].as_u64());
}

#[test]
fn a_storm_is_counted_and_every_job_of_it_is_in_the_truth() {
    let driver = Driver::start(&["--teardown-ms", "0..20"]);
    let mut storm = crate::support::nvsim();
    storm.args(["storm", "--processes", "300", "--gpu-jobs", "100", "--fork-share", "40"]);
    storm.args(["--gpus", "2", "--gpu-ms", "1..5", "--", "/bin/true"]);
    let output = storm.env("NVSIM_SOCKET", driver.socket()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&counts["processes"], &counts["failed"]), (&Value::from(300), &Value::from(0)));
    let executed = counts["gpu_jobs_executed"].as_u64().unwrap();
    let forked = counts["gpu_jobs_forked"].as_u64().unwrap();
    assert_eq!(executed + forked, 100);
    until("every job is in the truth", || driver.truth().len() >= 100);
    let truth = driver.truth();
    assert_eq!(truth.len(), 100);
    let is_work = |line: &&Value| line["argv"][1] == "work";
    assert_eq!(truth.iter().filter(is_work).count(), usize::try_from(executed).unwrap());
    assert!(truth.iter().all(|line| line["exe"] == env!("CARGO_BIN_EXE_nvsim")));
}

#[test]
fn four_thousand_connections_fit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, wanted).unwrap();
    if limit.maximum.is_some_and(|maximum| maximum < 10_000) {
        skip("four_thousand_connections_fit", "fewer than 10,000 descriptors may be open");
        return;
    }
    let driver = Driver::start(&[]);
    // One process, so one entry; as many connections as the real driver has entries.
    let held: Vec<Held> = (0..4_000).map(|_| Held::open(&driver.socket(), 0, 1).unwrap()).collect();
    assert_eq!(driver.state(0)["memory_used_bytes"], 4_000);
    drop(held);
    let truth = wait_for_lines(&driver, std::process::id(), 1);
    assert_eq!(truth.len(), 1);
    until("all are closed", || driver.state(0)["memory_used_bytes"] == 0);
    assert!(driver.server_pid() > 0);
}
