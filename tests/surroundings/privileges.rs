//! Too little privilege, a kernel that hides its types, namespaces that are not the host's.

use crate::support::Sim;
use crate::traced::{Ended, NOBODY, Trace};

const JOB: &str = "nvsim work --gpu 0 --ms 30; exit 3";
/// What the shell of [`behind_shell`] sees when it is called with a script and gpu-ledger's words.
const SHELL: &[&str] = &["unshare", "-m", "sh", "-c"];

/// Nobody is named, nothing is claimed, the row is there all the same, and the command ran.
fn blind(ended: &Ended) {
    ended.exited(3).says("no names: ");
    assert_eq!(ended.report()["coverage"]["covered_ms"], 0);
    let row = &ended.report()["command"]["settlements"];
    let row = if row[0].is_null() { &ended.report()["host"]["settlements"][0] } else { &row[0] };
    assert!(row["held_ms"].as_u64().unwrap() >= 30, "{row}");
    assert!(row["basis"].is_null() && row["argv"].is_null() && row["program"].is_null(), "{row}");
    assert_eq!(row["reason"], "agent-down");
    assert_eq!(row["account"], "unattributed");
}

#[test]
fn without_privilege_both_capabilities_are_named() {
    if !crate::privilege::can_trace("without_privilege_both_capabilities_are_named") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let ended = Trace::on(&sim).run_by_nobody_with("").script(&format!("id -u; {JOB}")).run();
    assert_eq!(ended.out, format!("{NOBODY}\n"));
    ended.names("process-events-unavailable:cap-bpf", "grant CAP_BPF");
    ended.names("process-events-unavailable:cap-perfmon", "grant CAP_PERFMON");
    blind(&ended);
    let strict = Trace::on(&sim).run_by_nobody_with("").words("--strict").script("echo ran").run();
    strict.exited(125).says("not started: --strict");
    assert_eq!(strict.out, "");
    let watching = Trace::on(&sim).run_by_nobody_with("").words("--for 50ms").run();
    watching.exited(2).unknown("process-events-unavailable:cap-bpf");
}

#[test]
fn the_one_missing_capability_is_named_and_the_other_is_not() {
    if !crate::privilege::can_trace("the_one_missing_capability_is_named_and_the_other_is_not") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    for (held, lacking, remedy) in
        [("bpf", "perfmon", "grant CAP_PERFMON"), ("perfmon", "bpf", "grant CAP_BPF")]
    {
        let ended = Trace::on(&sim).run_by_nobody_with(&format!("+{held}")).script(JOB).run();
        ended.names(&format!("process-events-unavailable:cap-{lacking}"), remedy);
        assert!(!ended.err.contains(&format!("unavailable:cap-{held} ")), "{}", ended.err);
        blind(&ended);
    }
}

#[test]
fn the_two_capabilities_name_everything_and_only_device_touch_is_off() {
    if !crate::privilege::can_trace(
        "the_two_capabilities_name_everything_and_only_device_touch_is_off",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let trace = Trace::on(&sim).run_by_nobody_with("+bpf,+perfmon");
    let ended = trace.script("nvsim work --gpu 0 --ms 30; grep ^CapEff /proc/self/status").run();
    ended.exited(0);
    assert_eq!(ended.programs(), ["nvsim"]);
    // None of our capabilities reached the command.
    assert_eq!(ended.out, "CapEff:\t0000000000000000\n");
    let touch = &ended.report()["device_touch"];
    assert_eq!(touch["on"], false);
    let why = touch["off_because"].as_str().unwrap();
    assert!(why.contains("CAP_NET_ADMIN") && why.contains("grant"), "{why}");
    ended.says("device-touch off: ").says("CAP_NET_ADMIN");

    let people =
        Trace::on(&sim).run_by_nobody_with("+bpf,+perfmon").output(None).script("true").run();
    people.exited(0).says("  device-touch off: CAP_NET_ADMIN");
    let strict = Trace::on(&sim).run_by_nobody_with("+bpf,+perfmon").words("--strict");
    strict.script("nvsim work --gpu 0 --ms 30").run().exited(0);
    let not_asked = Trace::on(&sim).words("--no-device-touch").script("true").run();
    assert_eq!(not_asked.exited(0).report()["device_touch"]["on"], false);
}

/// Runs it in a mount namespace of its own, after this script.
fn behind_shell(sim: &Sim, script: &str) -> Trace {
    let mut trace = Trace::on(sim);
    for word in SHELL {
        trace = trace.behind(word);
    }
    trace.behind_word(&format!("{script} && exec \"$0\" \"$@\""))
}

#[test]
fn a_kernel_without_types_is_said_with_the_missing_file() {
    if !crate::privilege::can_trace("a_kernel_without_types_is_said_with_the_missing_file") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let ended = behind_shell(&sim, "mount -t tmpfs none /sys/kernel/btf").script(JOB).run();
    ended.names("process-events-unavailable:kernel-types-btf", "CONFIG_DEBUG_INFO_BTF");
    ended.says("/sys/kernel/btf/vmlinux");
    blind(&ended);

    let junk = behind_shell(
        &sim,
        "mount -t tmpfs none /sys/kernel/btf && echo junk > /sys/kernel/btf/vmlinux",
    );
    let ended = junk.script(JOB).run();
    ended.names("process-events-unavailable:kernel-types-btf", "report this kernel");
    blind(&ended);
}

#[test]
fn another_pid_namespace_names_nobody_and_hides_the_drivers_dead_rows() {
    if !crate::privilege::can_trace(
        "another_pid_namespace_names_nobody_and_hides_the_drivers_dead_rows",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("container-view on");
    let ended = Trace::on(&sim).behind("unshare -p -f --mount-proc").script(JOB).run();
    ended.exited(3);
    ended.names("process-events-unavailable:initial-pid-namespace", "--pid=host");
    ended.names("dead-rows-hidden-by-pid-namespace", "--pid=host");
    ended.unknown("dead-rows-hidden-by-pid-namespace");
    assert_eq!(ended.report()["coverage"]["covered_ms"], 0);
    // What the driver hides is no row, and the time in which it hides rows is not free.
    assert_eq!(ended.report()["command"]["settlements"], serde_json::json!([]));
    assert_eq!(ended.gpu_ms("free_ms"), 0, "{}", ended.report()["gpus"]);
    let trace = Trace::on(&sim).behind("unshare -p -f --mount-proc").words("--for 50ms");
    trace.run().exited(2);
}

#[test]
fn the_procfs_of_another_pid_namespace_is_refused() {
    if !crate::privilege::can_trace("the_procfs_of_another_pid_namespace_is_refused") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // The new namespace without a procfs of its own: pids in /proc are the host's, getpid is not.
    let ended = Trace::on(&sim).behind("unshare -p -f").script(JOB).run();
    ended.exited(3).says("process-events-unavailable:");
    assert_eq!(ended.report()["coverage"]["covered_ms"], 0);
    // A procfs that hides other people's processes from whoever is not root.
    let hidden = behind_shell(&sim, "mount -t proc -o hidepid=2 none /proc");
    let ended = hidden.run_by_nobody_with("+bpf,+perfmon").script(JOB).run();
    ended.names("process-events-unavailable:procfs-of-the-host", "without hidepid");
    blind(&ended);
}
