//! Rows and processes where they meet.

use std::sync::Arc;

use super::made::{World, process, row_key, shell};
use crate::attribution::rules::RuleSet;
use crate::attribution::{Attributor, Label, label_of};
use crate::host::News;
use crate::identity::Basis;
use crate::identity::made::{MS, exec, exit, fork, seen, touch};
use crate::kernel::{CgroupId, CgroupMade, Event};
use crate::unit::{BootNs, Ms, Pid};
use crate::unknown::{Flag, GapCause, NamelessReason};

#[test]
fn a_row_that_ends_is_settled_with_its_name_its_ancestors_and_its_groups_path() {
    let mut world = World::daemon();
    let cgroup = CgroupId { hierarchy: 0, id: 7 };
    world.event(Event::CgroupMade(CgroupMade {
        cgroup,
        path: Some("/system.slice/asr.service".into()),
        at: BootNs(10_001 * MS),
        cpu: 0,
        seq: 0,
    }));
    let key = world.starts(100, 10_100, "python3 serve.py");
    world.opens(100, 10_110);
    world.read(10_200);
    world.ends(key, 10_300);
    world.closes(100, 10_301);
    world.read(10_400);
    // The account is the service that its group stands for, the program is what it ran.
    assert_eq!(world.answer(100), Ok(("serve.py".to_owned(), Basis::Exec)));
    let settled = world.settled();
    let [settled] = settled.as_slice() else { panic!("{settled:?}") };
    assert_eq!(settled.settlement.row.held, Ms(191));
    assert_eq!(settled.whose.account.to_string(), "asr");
    assert_eq!(settled.whose.program.as_ref().unwrap().to_string(), "serve.py");
    let unit = label_of(&settled.whose.labels, Label::Unit).map(|unit| &**unit);
    assert_eq!(unit, Some("asr.service"));
    let above = settled.whose.ancestors.first().unwrap();
    assert_eq!(
        (above.key.pid, above.program.as_ref().unwrap().to_string()),
        (shell().pid, "bash".into())
    );
    let groups: Vec<_> =
        settled.whose.cgroups.iter().map(|one| (one.cgroup, one.path.as_deref())).collect();
    assert_eq!(groups, vec![(cgroup, Some(&b"/system.slice/asr.service"[..]))]);
    assert_eq!(world.host.books().balance(&super::made::gpu()).held_ms, 191);
}

#[test]
fn a_row_is_told_when_it_opens_with_the_identity_that_a_journal_keeps() {
    let mut world = World::daemon();
    let key = world.starts(100, 10_100, "train");
    world.opens(100, 10_110);
    world.read(10_200);
    let opened = world.notes.iter().find_map(|note| match &note.news {
        News::Opened(opened) => Some(opened),
        _ => None,
    });
    let opened = opened.unwrap();
    assert_eq!(opened.attribution.named().unwrap().key, key);
    assert_eq!(opened.row.row.as_ref().unwrap().key(), Some(row_key(100, 10_110)));
    assert_eq!(opened.whose.program.as_ref().unwrap().to_string(), "train");
}

#[test]
fn a_settlement_is_labelled_with_what_it_was_held_for_and_the_model_that_was_served() {
    let mut world = World::daemon();
    let server = world.starts(100, 10_050, "llama-server -m /models/qwen3-8b.gguf");
    world.opens(100, 10_060);
    world.holders = vec![100];
    world.read(10_100);
    world.read(10_200);
    world.ends(server, 10_300);
    world.closes(100, 10_301);
    // The next of that pid comes and goes before anybody asks who holds the GPU.
    let short = world.starts(101, 10_310, "train");
    world.opens(101, 10_311);
    world.ends(short, 10_320);
    world.closes(101, 10_321);
    world.holders = Vec::new();
    world.read(10_400);
    let labels = |pid: u32, label: Label| {
        let settled = world.settled();
        let one = settled.iter().find(|one| one.settlement.row.pid == Pid(pid)).unwrap();
        label_of(&one.whose.labels, label).map(ToString::to_string)
    };
    let is = |word: &str| Some(word.to_owned());
    assert_eq!(labels(100, Label::Kind), is("compute"));
    assert_eq!(labels(100, Label::Model), is("qwen3-8b"));
    assert_eq!((labels(101, Label::Kind), labels(101, Label::Model)), (is("unknown"), None));
}

#[test]
fn a_process_born_among_lost_events_costs_its_row_the_name_and_the_gap_is_told_when_procfs_was_read()
 {
    let mut world = World::daemon();
    world.opens(100, 10_150);
    world.closes(100, 10_160);
    world.loses(10_100, 10_170, 3);
    world.read(10_200);
    assert_eq!(world.answer(100), Err(NamelessReason::EventLost));
    let gaps: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::Gap(gap) => Some((gap.cause, gap.from.boot.0 / MS, gap.to.boot.0 / MS, gap.size)),
            _ => None,
        })
        .collect();
    assert_eq!(gaps, vec![(GapCause::EventLost, 10_100, 10_204, Some(3))]);
    assert!(!world.host.wants_look());
}

#[test]
fn what_lives_on_after_lost_events_is_found_in_procfs() {
    let mut world = World::daemon();
    world.loses(10_100, 10_170, 3);
    world.drain(10_200, &[seen(process(100, 10_150), 7, "train")]);
    world.advance();
    world.opens(100, 10_300);
    world.read(10_400);
    world.closes(100, 10_500);
    world.read(10_600);
    assert_eq!(world.answer(100), Ok(("train".to_owned(), Basis::Procfs)));
}

#[test]
fn a_command_is_followed_from_its_fork_on() {
    let mut world = World::daemon();
    world.host.follow(Pid(50), "launch");
    let command = process(50, 10_050);
    world.event(fork(command, shell()));
    world.event(exec(command, shell(), 10_050 * MS, "gpu-ledger launch make"));
    assert!(world.host.programs_of_command().is_empty(), "it is the launcher still");
    world.event(exec(command, shell(), 10_051 * MS, "make"));
    let worker = process(51, 10_060);
    world.event(fork(worker, command));
    world.event(exec(worker, command, 10_061 * MS, "train"));
    world.opens(51, 10_070);
    let stranger = world.starts(52, 10_080, "other");
    world.opens(52, 10_090);
    world.read(10_200);
    assert!(world.host.is_in_command(&worker) && !world.host.is_in_command(&stranger));
    world.ends(worker, 10_250);
    world.closes(51, 10_251);
    world.ends(stranger, 10_260);
    world.closes(52, 10_261);
    world.read(10_300);
    let of_command: Vec<_> =
        world.settled().iter().map(|one| (one.row.row.pid.0, one.of_command)).collect();
    assert_eq!(of_command, vec![(51, true), (52, false)]);
    let programs = world.host.programs_of_command();
    assert_eq!(programs.get("train"), Some(&(1, 0)));
    assert_eq!(programs.get("make"), Some(&(0, 1)));
    assert_eq!(programs.get("other"), None);
}

/// What rules see of a process is what is stored of it: a capture carries no more into the account.
#[test]
fn no_secret_of_a_path_reaches_an_account_a_label_or_what_is_stored() {
    let secret = "hf_QQcdefghijKLMNOPQRSTuvwxyz01234567";
    let rules = "[[rule]]\naccount = \"${e} ${c} ${u}\"\nexe = { regex = '(?P<e>.+)' }\n\
                 cgroup = { regex = '(?P<c>.+)' }\nunit = { regex = '(?P<u>.+)' }\n";
    for ruled in [false, true] {
        let mut world = World::daemon();
        if ruled {
            let set = RuleSet::parse(rules.as_bytes()).unwrap();
            world.host.attributor = Attributor::default().with_rules(&Arc::new(set));
        }
        world.event(Event::CgroupMade(CgroupMade {
            cgroup: CgroupId { hierarchy: 0, id: 7 },
            path: Some(format!("/system.slice/{secret}.service").into()),
            at: BootNs(10_001 * MS),
            cpu: 0,
            seq: 0,
        }));
        let key = world.starts(100, 10_100, &format!("/opt/{secret}/{secret}"));
        world.opens(100, 10_110);
        world.read(10_200);
        world.ends(key, 10_300);
        world.closes(100, 10_301);
        world.read(10_400);
        let settled = world.settled();
        let whose = &settled.first().unwrap().whose;
        let account = whose.account.to_string();
        let wanted = if ruled {
            "/opt/[redacted]/[redacted] /system.slice/[redacted].service [redacted].service"
        } else {
            "[redacted]"
        };
        assert_eq!(account, wanted);
        let told = format!("{account} {:?} {:?} {:?}", whose.labels, whose.cgroups, whose.program);
        assert!(!told.contains("QQ"), "{told}");
    }
}

/// When a process is seen in which group, and whether its settlement says that it was moved.
#[test]
fn a_process_that_is_moved_after_it_was_where_it_works_says_so_and_stands_where_it_was_last() {
    const JOB_1: &str = "/slurm/uid_1000/job_1/step_0/task_0";
    const JOB_2: &str = "/slurm/uid_1000/job_2/step_0/task_0";
    const STEP: &str = "/slurm/uid_1000/job_2/step_1/task_0";
    const ASR: &str = "/system.slice/asr.service";
    const WEB: &str = "/system.slice/web.service";
    let docker = format!("/system.slice/docker-{}.scope", "a".repeat(64));
    let docker = docker.as_str();
    // Forked, executed, opened the GPU, ended: in which group each.
    let cases: [([Option<&str>; 4], &str, bool); 11] = [
        // As systemd, Slurm and Docker start what they start.
        ([Some("/init.scope"), Some(ASR), Some(ASR), Some(ASR)], "asr", false),
        (
            [Some("/system.slice/slurmd.service"), Some(JOB_1), Some(JOB_1), Some(JOB_1)],
            "slurm 1",
            false,
        ),
        (
            [Some("/system.slice/docker.service"), Some(docker), Some(docker), Some(docker)],
            "docker a",
            false,
        ),
        // A desktop that makes a scope of what runs already.
        ([Some(WEB), Some(WEB), Some(ASR), Some(ASR)], "asr", false),
        // Forked only, as a worker is.
        ([Some(WEB), None, Some(ASR), Some(ASR)], "asr", false),
        // Moved while it holds the GPU.
        ([Some(WEB), Some(WEB), Some(WEB), Some(ASR)], "asr", true),
        ([Some(JOB_1), Some(JOB_1), Some(JOB_1), Some(JOB_2)], "slurm 2", true),
        ([Some(JOB_2), Some(JOB_2), Some(JOB_2), Some(STEP)], "slurm 2", false),
        // Back to where it came from.
        ([Some(ASR), Some(WEB), Some(WEB), Some(ASR)], "asr", true),
        ([Some(ASR), Some(WEB), Some(ASR), Some(ASR)], "asr", false),
        // Opens are not watched, so the last exec counts.
        ([Some(WEB), Some(WEB), None, Some(ASR)], "asr", true),
    ];
    for (seen, account, is_moved) in cases {
        let world = seen_in(seen);
        let settled = world.settled();
        let [settled] = settled.as_slice() else { panic!("{settled:?}") };
        let own = settled.whose.account.to_string();
        assert!(own.starts_with(account), "{own}: {seen:?}");
        let flags = &settled.settlement.flags;
        assert_eq!(flags.contains(&Flag::CgroupMoved), is_moved, "{seen:?}");
    }
}

/// A process that is forked, executes, opens the GPU, holds it and ends; in which group it is seen each time.
fn seen_in(seen: [Option<&str>; 4]) -> World {
    let mut world = World::daemon();
    let paths: Vec<&str> = seen.into_iter().flatten().collect();
    let group = |path: &str| {
        let id = paths.iter().position(|one| *one == path).unwrap();
        CgroupId { hierarchy: 0, id: 100 + u64::try_from(id).unwrap() }
    };
    for path in &paths {
        world.event(Event::CgroupMade(CgroupMade {
            cgroup: group(path),
            path: Some(path.as_bytes().to_vec().into()),
            at: BootNs(10_001 * MS),
            cpu: 0,
            seq: 0,
        }));
    }
    let key = process(100, 10_100);
    let events = [
        fork(key, shell()),
        exec(key, shell(), 10_100 * MS + 1, "train"),
        touch(key, shell(), 10_100 * MS + 2),
        exit(key, shell(), 10_300 * MS),
    ];
    for (mut event, path) in events.into_iter().zip(seen) {
        let Some(path) = path else { continue };
        let subject = match &mut event {
            Event::Fork(fork) => &mut fork.subject,
            Event::Exec(exec) => &mut exec.subject,
            Event::DeviceTouch(touch) => &mut touch.subject,
            Event::Exit(exit) => &mut exit.subject,
            Event::CgroupMade(_) => unreachable!(),
        };
        subject.cgroups = Some(vec![group(path)]);
        // Told twice, it changes nothing.
        world.event(event.clone());
        world.event(event);
    }
    world.opens(100, 10_110);
    world.read(10_200);
    world.closes(100, 10_301);
    world.read(10_400);
    world
}
