//! Phases that are marked where none can begin.

use crate::recorded::{batches, json, recorder, residency, text};
use crate::support::{Sim, poll};

#[test]
fn between_two_iterations_and_after_a_windows_end_nobody_marks_and_the_marker_is_told() {
    let sim = Sim::start(&["--gpus", "1"]);
    let product = env!("CARGO_BIN_EXE_gpu-ledger");
    // The first is marked in its window; the others when that of the first iteration is long over.
    let script = format!(
        "{product} residency mark 'warm up'; echo $?; sleep 1.5; {product} residency mark late; echo $?"
    );
    let words = ["--duration", "500ms", "--", "sh", "-c", &script];
    let output = recorder(&sim, &words).output().unwrap();
    let (page, said) = (text(&output.stdout), text(&output.stderr));
    assert!(page.starts_with("0\n1\n"), "{page}{said}");
    assert!(
        said.contains("no phase can begin now: the 500.000 ms of iteration 1 are over"),
        "{said}"
    );
    let batch = batches(&sim).pop().unwrap();
    let marks = std::fs::read_to_string(batch.join("marks.jsonl")).unwrap();
    assert_eq!(marks.lines().count(), 1, "{marks}");
    assert!(marks.contains("warm up"), "{marks}");
    // That the command failed to mark is its own affair; its status is in the last lines.
    assert_eq!(json(&batch.join("summary.json"))["data_verdict"], "valid");
}

#[test]
fn before_the_first_sample_nobody_marks() {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("code nvmlDeviceGetMemoryInfo_v2 --code 999");
    let words = ["--duration", "1s", "--start-timeout", "4s"];
    let mut child = recorder(&sim, &words).stderr(std::process::Stdio::null()).spawn().unwrap();
    let batch = poll("a window is made", || {
        let batch = batches_there(&sim)?;
        batch.join("iterations/0001/samples.jsonl").exists().then_some(batch)
    });
    let early = residency(&["mark", "early", "--batch", batch.to_str().unwrap()]);
    let said = text(&early.stderr);
    assert_eq!(early.status.code(), Some(1), "{said}");
    assert!(said.contains("iteration 1 has no sample yet"), "{said}");
    sim.fault("heal");
    child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(batch.join("marks.jsonl")).unwrap(), "");
}

fn batches_there(sim: &Sim) -> Option<std::path::PathBuf> {
    Some(std::fs::read_dir(crate::recorded::runs(sim)).ok()?.next()?.ok()?.path())
}

#[test]
fn whoever_has_no_batch_and_no_right_is_told_what_to_do() {
    let none = residency(&["mark", "load"]);
    assert_eq!(none.status.code(), Some(64));
    assert!(text(&none.stderr).contains("--batch DIR"), "{}", text(&none.stderr));
    let nothing = residency(&["mark", "load", "--batch", "/nonexistent"]);
    let said = text(&nothing.stderr);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(said.contains("no batch lies here") && !said.contains("os error"), "{said}");
    let words = residency(&["mark", "cool", "down"]);
    assert_eq!(words.status.code(), Some(64));
    let test = "marked::whoever_has_no_batch_and_no_right_is_told_what_to_do";
    if !rustix::process::geteuid().is_root() {
        crate::support::skip(test, "not root: another user cannot be taken");
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(sim.folder(), everybody).unwrap();
    let product = env!("CARGO_BIN_EXE_gpu-ledger");
    let script = format!(
        "setpriv --reuid 65534 --regid 65534 --clear-groups {product} residency mark load; echo $?"
    );
    let output = recorder(&sim, &["--as-root", "--", "sh", "-c", &script]).output().unwrap();
    let said = text(&output.stderr);
    assert!(text(&output.stdout).starts_with("1\n"), "{said}");
    assert!(said.contains("phases are marked by user id 0"), "{said}");
}
