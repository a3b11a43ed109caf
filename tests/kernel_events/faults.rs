//! Reads that fail in the kernel: what they hit is flagged, counted, and unknown; it is never 0.
//!
//! The programs are given places where nothing can be read: a number in place of a pointer, which
//! the helper that follows it refuses, or another member of the same type that is null or 0, which
//! is what a direct load that faults gives. The verifier takes both.

use std::process::Command;

use gpu_ledger::kernel::btf::Btf;
use gpu_ledger::kernel::selftest::{self, KnownChild};
use gpu_ledger::kernel::tracer::KERNEL_BTF;
use gpu_ledger::kernel::{
    ArgvState, DeviceTouchState, Event, Exec, Exit, Fork, Subject, TracerOptions, offsets,
};
use gpu_ledger::unit::Pid;
use gpu_ledger_ebpf::{Offsets, kind};

use crate::support::{Watch, actor, skip, watch};

/// Kinds of record that are about a process.
const OF_PROCESSES: [u16; 4] = [kind::FORK, kind::EXEC, kind::EXIT, kind::DEVICE_TOUCH];

/// Where the members lie, one of them moved to where `moved` says.
fn blinded(test: &str, moved: impl Fn(&Btf, &mut Offsets) -> Option<()>) -> Option<TracerOptions> {
    let Ok(bytes) = std::fs::read(KERNEL_BTF) else {
        skip(test, "this kernel has no BTF");
        return None;
    };
    let btf = Btf::parse(bytes).unwrap();
    let mut places = offsets::resolve(&btf).unwrap();
    if moved(&btf, &mut places).is_none() {
        skip(test, "this kernel has no such member to read instead");
        return None;
    }
    Some(TracerOptions { offsets: Some(places), ..TracerOptions::default() })
}

fn place(btf: &Btf, structure: &str, member: &str) -> Option<u32> {
    btf.member(structure, &[member]).ok().map(|found| found.offset)
}

/// A process from its fork to its exit.
struct Life {
    fork: Fork,
    exec: Exec,
    exit: Exit,
}

fn live(watch: &mut Watch) -> Life {
    let pid = watch.act(&["exit", "29"]);
    let exit = watch.exit_of(pid);
    let exec = watch.exec_of(pid);
    let fork = crate::support::forks(&watch.events).find(|it| it.subject.key.pid == pid).cloned();
    Life { fork: fork.unwrap(), exec, exit }
}

impl Life {
    fn subjects(&self) -> [&Subject; 3] {
        [&self.fork.subject, &self.exec.subject, &self.exit.subject]
    }
}

#[test]
fn a_user_that_cannot_be_read_is_unknown_in_every_record_and_each_is_counted() {
    let name = "a_user_that_cannot_be_read_is_unknown_in_every_record_and_each_is_counted";
    // A pid and a tgid are no address of the kernel.
    let options = blinded(name, |_, places| {
        places.task_real_cred = places.task_pid;
        Some(())
    });
    let Some(options) = options else { return };
    let Some(mut watch) = watch(name, &options) else { return };
    let life = live(&mut watch);
    for subject in life.subjects() {
        assert_eq!((subject.uid, subject.euid), (None, None));
        assert_eq!(subject.key, life.exec.subject.key, "whose it is was read");
        assert_eq!(subject.parent.unwrap().pid, Pid(std::process::id()));
        assert!(subject.cgroups.is_some());
    }
    assert_eq!(life.exit.wait_status, Some(29 << 8));
    if matches!(watch.tracer.device_touch(), DeviceTouchState::On { .. }) {
        // The one program whose every read is a copy.
        drop(std::fs::File::open(crate::devices::Node::make(195, 8).path()));
        let touch = watch.until("the touch", |events| {
            events.iter().find_map(|event| match event {
                Event::DeviceTouch(touch) => Some(touch.clone()),
                _ => None,
            })
        });
        assert_eq!((touch.subject.uid, touch.subject.euid), (None, None));
        assert_eq!(touch.subject.key.pid, Pid(std::process::id()));
    }
    let counts = watch.quiet();
    let produced = OF_PROCESSES.iter().map(|kind| counts.produced().of(*kind).unwrap());
    assert_eq!(counts.read_faults(), produced.sum::<u64>(), "one in each record");
    assert_eq!(counts.lost().total(), 0, "what can be named is kept");
}

#[test]
fn a_record_that_cannot_say_whom_it_is_about_is_a_loss_with_its_size() {
    let name = "a_record_that_cannot_say_whom_it_is_about_is_a_loss_with_its_size";
    let options = blinded(name, |btf, places| {
        // Null but while the kernel kills for want of memory.
        places.task_group_leader = place(btf, "task_struct", "oom_reaper_list")?;
        Some(())
    });
    let Some(options) = options else { return };
    let Some(mut watch) = watch(name, &options) else { return };
    let status = Command::new(actor()).args(["storm", "10"]).status();
    assert!(status.unwrap().success());
    let counts = watch.quiet();
    for kind in [kind::FORK, kind::EXEC, kind::EXIT] {
        assert!(counts.lost().of(kind).unwrap() >= 11, "the storm and its ten");
    }
    assert!(watch.events.iter().all(|event| matches!(event, Event::CgroupMade(_))));
    assert_eq!(counts.read_faults(), counts.lost().total());
    let reported: u64 = watch.losses.iter().map(|loss| loss.count).sum();
    assert_eq!(reported, counts.lost().total());
    watch.tracer.sequence().balance(&counts).unwrap();
}

#[test]
fn a_parent_that_cannot_be_read_is_unknown_and_not_the_idle_task() {
    let name = "a_parent_that_cannot_be_read_is_unknown_and_not_the_idle_task";
    let options = blinded(name, |btf, places| {
        places.task_real_parent = place(btf, "task_struct", "oom_reaper_list")?;
        Some(())
    });
    let Some(options) = options else { return };
    let Some(mut watch) = watch(name, &options) else { return };
    let life = live(&mut watch);
    assert_eq!((life.exec.subject.parent, life.exit.subject.parent), (None, None));
    // The tracepoint itself hands over who forked.
    assert_eq!(life.fork.subject.parent.unwrap().pid, Pid(std::process::id()));
    assert_eq!(life.exec.subject.uid, Some(rustix::process::getuid().as_raw()));
    assert!(watch.quiet().read_faults() >= 2);
}

#[test]
fn a_cgroup_that_cannot_be_read_makes_the_cgroups_unknown_and_not_fewer() {
    let name = "a_cgroup_that_cannot_be_read_makes_the_cgroups_unknown_and_not_fewer";
    let options = blinded(name, |btf, places| {
        // Null but while a process moves from one group to another.
        places.css_set_dfl_cgrp = place(btf, "css_set", "mg_src_cgrp")?;
        Some(())
    });
    let Some(options) = options else { return };
    let Some(mut watch) = watch(name, &options) else { return };
    let life = live(&mut watch);
    for subject in life.subjects() {
        assert_eq!(subject.cgroups, None);
        assert!(subject.parent.is_some() && subject.uid.is_some());
    }
    assert!(watch.quiet().read_faults() >= 3);
}

#[test]
fn an_image_that_cannot_be_read_has_no_executable_no_length_and_no_name() {
    let name = "an_image_that_cannot_be_read_has_no_executable_no_length_and_no_name";
    let options = blinded(name, |btf, places| {
        // Numbers that are 0 here, as a direct load that faults would read.
        places.super_block_s_dev = place(btf, "super_block", "s_readonly_remount")?;
        places.mm_arg_start = place(btf, "mm_struct", "locked_vm")?;
        // Null where exec is given a path and no descriptor.
        places.binprm_filename = place(btf, "linux_binprm", "fdpath")?;
        Some(())
    });
    let Some(options) = options else { return };
    let Some(mut watch) = watch(name, &options) else { return };
    let exec = live(&mut watch).exec;
    assert_eq!(exec.exe, None);
    assert_eq!((exec.argv.true_length, exec.argv.state), (None, ArgvState::Unreadable));
    assert_eq!((exec.argv.bytes.len(), exec.filename.len()), (0, 0));
    assert_eq!(exec.subject.uid, Some(rustix::process::getuid().as_raw()));
    let counts = watch.quiet();
    assert_eq!(counts.read_faults(), 3 * counts.produced().of(kind::EXEC).unwrap());
}

#[test]
fn the_self_test_fails_on_a_member_that_cannot_be_read() {
    let name = "the_self_test_fails_on_a_member_that_cannot_be_read";
    let options = blinded(name, |_, places| {
        places.task_real_cred = places.task_pid;
        Some(())
    });
    let Some(options) = options else { return };
    let Some(mut watch) = watch(name, &options) else { return };
    let known = KnownChild { program: "/bin/cat".into(), arguments: vec!["-u".into()] };
    let result = selftest::run(&mut watch.tracer, &known, "/proc".as_ref(), drop).unwrap();
    let wrong: Vec<_> = result.mismatches.iter().map(|it| (it.event, it.field)).collect();
    let events = ["fork", "exec", "exit"];
    let expected: Vec<_> =
        events.iter().flat_map(|event| [(*event, "uid"), (*event, "euid")]).collect();
    assert_eq!(wrong, expected);
    assert!(result.mismatches.iter().all(|it| it.recorded == "None"), "{result:?}");
}
