//! The command, the rest of the host, and who was there before.

use std::fs::File;
use std::process::Stdio;

use serde_json::Value;

use crate::ledger::{assert_fits_a_terminal, python};
use crate::privilege::can_trace;
use crate::support::Sim;
use crate::truth::settlements;

fn len(list: &Value) -> usize {
    list.as_array().unwrap().len()
}

#[test]
fn a_gpu_process_older_than_the_trace_is_named_from_procfs() {
    if !can_trace("a_gpu_process_older_than_the_trace_is_named_from_procfs") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut older = sim.actor("older.py");
    older.told("open 0");
    let watching = sim.watch(&[]);
    let pid = older.pid();
    older.end();
    sim.until_ended(1);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let settled = settlements(&report);
    assert_eq!((settled.len(), settled[0].pid), (1, pid));
    assert_eq!(settled[0].basis.as_deref(), Some("procfs"));
    assert_eq!(settled[0].program.as_deref(), Some("older.py"));
    assert!(settled[0].uncovered_ms > 0, "it began before the period: {settled:?}");
}

#[test]
fn the_command_and_the_host_are_told_apart_and_share_the_gpu() {
    if !can_trace("the_command_and_the_host_are_told_apart_and_share_the_gpu") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let job = sim.program_called("whisper");
    let words = ["work", "--ms", "300"].map(Into::into);
    let command: Vec<_> = std::iter::once(job.into_os_string()).chain(words).collect();
    let (report, status) = sim.run(&[], &command);
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    let own = &report["command"]["settlements"];
    assert_eq!((len(own), len(&report["host"]["settlements"])), (1, 0));
    assert_eq!((&own[0]["alone_ms"], &own[0]["shared_ms"]), (&0.into(), &own[0]["held_ms"]));
    let open = &report["open"];
    assert_eq!(len(open), 1, "{open}");
    assert_eq!((&open[0]["pid"], &open[0]["of_command"]), (&server.pid().into(), &false.into()));
    assert_eq!(open[0]["account"], "server.py");
}

#[test]
fn a_daemon_that_outlives_the_command_is_open_and_still_the_commands() {
    if !can_trace("a_daemon_that_outlives_the_command_is_open_and_still_the_commands") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (script, orders) = (sim.script_called("daemon.py"), sim.folder().join("orders"));
    // The child holds the GPU before the order is answered, and is left behind at the last order.
    std::fs::write(&orders, "fork 0\n").unwrap();
    let (report, status) = sim.run_with(&[], &[python(), &script], |trace| {
        trace.stdin(File::open(&orders).unwrap()).stdout(Stdio::null())
    });
    let open = &report["open"];
    assert_eq!((status, len(open)), (0, 1), "{open}");
    let pid = i32::try_from(open[0]["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!((&open[0]["account"], &open[0]["of_command"]), (&"daemon.py".into(), &true.into()));
    assert!(open[0]["accrued_ms"].is_u64() && open[0]["memory_bytes"] == 64 << 20, "{open}");
    sim.until_ended(1);
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(settlements(&report).len(), 0);
}

#[test]
fn a_process_older_than_accounting_has_no_row_and_counts_as_a_sharer() {
    if !can_trace("a_process_older_than_accounting_has_no_row_and_counts_as_a_sharer") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    let mut resident = sim.actor("resident.py");
    resident.told("open 0");
    sim.fault("accounting on");
    let job = sim.program_called("whisper");
    let words = ["work", "--ms", "600"].map(Into::into);
    let command: Vec<_> = std::iter::once(job.into_os_string()).chain(words).collect();
    let (report, status) = sim.run(&[], &command);
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    let rowless = &report["no_driver_row"];
    assert_eq!(len(rowless), 1, "{rowless}");
    assert_eq!(
        (&rowless[0]["pid"], &rowless[0]["account"]),
        (&resident.pid().into(), &"resident.py".into())
    );
    let own = &report["command"]["settlements"][0];
    assert_eq!((&own["alone_ms"], &own["shared_ms"]), (&0.into(), &own["held_ms"]), "{own}");
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["free_ms"], 0, "somebody held it all the time: {gpu}");
}

#[test]
fn the_page_for_people_names_both_parts_of_the_host_in_eighty_columns() {
    if !can_trace("the_page_for_people_names_both_parts_of_the_host_in_eighty_columns") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let mut server = sim.actor("a-server-with-quite-a-long-name-for-a-table.py");
    server.told("open 1");
    let job = sim.program_called("whisper");
    let script = format!("for i in 1 2 3 4 5 6; do {} work --ms 10; done", job.display());
    let output = sim.trace(&["--", "sh", "-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_fits_a_terminal(&text);
    for said in [
        "SIMULATED DRIVER: no GPU was used",
        "rest of the host",
        "whisper                    6",
        "… 2 more",
        "a-server-with-quite-a…",
        "unattributed: nothing",
        "not seen: nothing",
        "missed_in_coverage 0",
    ] {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
}
