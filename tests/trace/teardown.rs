//! Rows that become final long after their process is dead.

use crate::privilege::can_trace;
use crate::support::Sim;
use crate::truth::settlements;

#[test]
fn no_row_is_booked_before_its_teardown_is_over() {
    if !can_trace("no_row_is_booked_before_its_teardown_is_over") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--teardown-ms", "0..3000"]);
    let storm = sim.program_called("transcribe");
    let words = ["storm", "--processes", "40", "--gpu-jobs", "40", "--gpu-ms", "1..20"];
    let command: Vec<_> = std::iter::once(storm.into_os_string())
        .chain(words.iter().map(Into::into))
        .chain(["--fork-share", "50"].iter().map(Into::into))
        .collect();
    let (report, status) = sim.run(&[], &command);
    assert_eq!(status, 0);
    assert_eq!(sim.faults_of(&report), []);
    assert_eq!(sim.truth().len(), 40, "the trace waited for the last of them");
    assert_eq!(report["command"]["settlements"].as_array().unwrap().len(), 40);
    // The jobs held for 20 ms at most: what is longer was torn down slowly, and in the bill.
    assert!(settlements(&report).iter().any(|one| one.held_ms > 500));
}

#[test]
fn rows_that_are_not_final_in_time_are_open_and_not_booked() {
    if !can_trace("rows_that_are_not_final_in_time_are_open_and_not_booked") {
        return;
    }
    // So long that no machine is slow enough to see its end.
    let sim = Sim::start(&["--gpus", "1", "--teardown-ms", "600000..600000"]);
    let job = sim.program_called("train");
    let words = ["work", "--gpu", "0", "--ms", "10"].map(Into::into);
    let command: Vec<_> = std::iter::once(job.into_os_string()).chain(words).collect();
    let (report, status) = sim.run(&["--settle-timeout", "500ms"], &command);
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    assert_eq!(settlements(&report).len(), 0);
    let open = report["open"].as_array().unwrap();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!((&open[0]["account"], &open[0]["of_command"]), (&"train".into(), &true.into()));
    assert!(open[0]["accrued_ms"].as_u64().unwrap() >= 10, "{open:?}");
}
