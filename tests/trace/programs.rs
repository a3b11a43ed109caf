//! What a GPU process is called: by fork alone, after exec, under an interpreter.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::ledger::python;
use crate::privilege::can_trace;
use crate::support::Sim;
use crate::truth::settlements;

/// (program, basis) of every settlement, by start.
fn names(report: &Value) -> Vec<(String, String)> {
    let mut settled = settlements(report);
    settled.sort_by_key(|one| one.start_time_us);
    let name = |one: crate::truth::Settled| (one.program.unwrap(), one.basis.unwrap());
    settled.into_iter().map(name).collect()
}

fn pair(program: &str, basis: &str) -> (String, String) {
    (program.to_owned(), basis.to_owned())
}

#[test]
fn a_pool_of_forked_workers_is_named_by_its_servers_program() {
    if !can_trace("a_pool_of_forked_workers_is_named_by_its_servers_program") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let mut server = sim.actor("prefork.py");
    let workers: Vec<String> = (0..4).map(|_| server.told("fork 0")).collect();
    for worker in &workers {
        server.told(&format!("kill {worker}"));
    }
    server.end();
    sim.until_ended(4);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), vec![pair("prefork.py", "fork"); 4]);
    let mut pids: Vec<String> =
        settlements(&report).iter().map(|one| one.pid.to_string()).collect();
    let mut workers = workers;
    pids.sort();
    workers.sort();
    assert_eq!(pids, workers, "each worker has a row of its own, and the server none");
}

#[test]
fn a_process_that_executes_another_program_is_billed_under_what_it_was_at_each_start() {
    if !can_trace(
        "a_process_that_executes_another_program_is_billed_under_what_it_was_at_each_start",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let mut actor = sim.actor("stage1.py");
    actor.told("open 0");
    actor.told("close");
    sim.until_ended(1);
    sim.reads_pass(1);
    let next = sim.program_called("stage2");
    let pid = actor.pid();
    actor.sent(&format!("exec {} work --ms 30", next.display()));
    let truth = sim.until_ended(2);
    actor.end();
    assert!(truth.iter().all(|row| row.pid == pid), "one process, two programs");
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), [pair("stage1.py", "exec"), pair("stage2", "exec")]);
}

#[test]
fn a_fork_that_executes_is_named_by_its_own_program_and_one_that_does_not_by_its_parents() {
    if !can_trace(
        "a_fork_that_executes_is_named_by_its_own_program_and_one_that_does_not_by_its_parents",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let job = sim.program_called("whisper");
    let script = format!("{0} work --ms 20; {0} work --ms 20 --fork", job.display());
    let (report, status) = sim.run(&[], &["sh", "-c", &script]);
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    assert_eq!(names(&report), [pair("whisper", "exec"), pair("whisper", "fork")]);
    assert_eq!(report["command"]["settlements"].as_array().unwrap().len(), 2);
}

#[test]
fn a_command_that_is_a_script_and_the_gpu_job_that_it_starts_each_have_their_name() {
    if !can_trace("a_command_that_is_a_script_and_the_gpu_job_that_it_starts_each_have_their_name")
    {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (job, script) = (sim.program_called("whisper"), sim.folder().join("batch.py"));
    let text = "import subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)\n";
    std::fs::write(&script, text).unwrap();
    let command = [python(), &script, &job].map(|path| path.as_os_str().to_owned());
    let command: Vec<_> =
        command.into_iter().chain(["work", "--ms", "30"].map(Into::into)).collect();
    let (report, status) = sim.run(&[], &command);
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    assert_eq!(names(&report), [pair("whisper", "exec")]);
    assert_eq!(report["command"]["accounts"][0]["account"], "whisper");
    assert_eq!(report["host"]["settlements"].as_array().unwrap().len(), 0);
}

#[test]
fn a_script_that_holds_the_gpu_itself_is_called_by_its_own_name() {
    if !can_trace("a_script_that_holds_the_gpu_itself_is_called_by_its_own_name") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (script, orders) = (sim.script_called("train.py"), sim.folder().join("orders"));
    std::fs::write(&orders, "open 0\n").unwrap();
    let command = [python(), &script, "--epochs".as_ref(), "3".as_ref()].map(Path::as_os_str);
    let (report, status) = sim.run_with(&[], &command, |trace| {
        trace.stdin(File::open(&orders).unwrap()).stdout(Stdio::null())
    });
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    assert_eq!(names(&report), [pair("train.py", "exec")]);
    assert_eq!(report["command"]["settlements"][0]["argv"][3], "3");
}

#[test]
fn a_script_that_the_kernel_hands_to_its_interpreter_is_called_by_its_own_name() {
    if !can_trace("a_script_that_the_kernel_hands_to_its_interpreter_is_called_by_its_own_name") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let script = sim.script_called("infer");
    let text = std::fs::read_to_string(&script).unwrap();
    std::fs::write(&script, format!("#!{}\n{text}", python().display())).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (orders, mut infer) = (sim.folder().join("orders"), Command::new(&script));
    std::fs::write(&orders, "open 0\n").unwrap();
    infer.stdin(File::open(&orders).unwrap()).stdout(Stdio::null());
    let status = infer.env("NVSIM_SOCKET", sim.socket()).status().unwrap();
    assert!(status.success(), "{status}");
    sim.until_ended(1);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(names(&report), [pair("infer", "exec")]);
}
