//! Control groups: whose, and how they are called.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_ledger::identity::CgroupPaths;
use gpu_ledger::kernel::{CgroupId, Event, Subject, TracerOptions, mounts};
use gpu_ledger::unit::Pid;
use gpu_ledger_ebpf::CONTROLLERS;

use crate::support::{actor, children, skip, watch};

/// A control group of this test, removed at its end.
struct Group {
    path: PathBuf,
    name: String,
}

impl Group {
    fn make(root: &Path, name: &str) -> Self {
        let name = format!("gpu-ledger-test-{}-{name}", std::process::id());
        let path = root.join(&name);
        std::fs::create_dir(&path).unwrap();
        Self { path, name }
    }

    /// A group of cpuset takes nobody before it has processors and memory.
    fn lend_processors(&self) {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let lent = std::fs::read(self.path.with_file_name(file)).unwrap();
            std::fs::write(self.path.join(file), lent).unwrap();
        }
    }

    fn id(&self, hierarchy: u32) -> CgroupId {
        CgroupId { hierarchy, id: std::fs::metadata(&self.path).unwrap().ino() }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A test that removed it itself leaves nothing to do.
        drop(std::fs::remove_dir(&self.path));
    }
}

#[test]
fn a_child_cloned_into_a_cgroup_is_reported_there() {
    let name = "a_child_cloned_into_a_cgroup_is_reported_there";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let Some(root) = mounts::cgroup2_root(Path::new("/proc")).unwrap() else {
        return skip(name, "cgroup v2 is not mounted");
    };
    let group = Group::make(&root, "into");
    let expected = group.id(0);
    let is_in = |subject: &Subject| subject.cgroups.as_ref().unwrap().contains(&expected);
    let pid = watch.act(&["into-cgroup", group.path.to_str().unwrap()]);
    let child = watch.until("the fork", |events| children(events, pid).first().copied());
    let fork = watch.until("the fork", |events| {
        crate::support::forks(events).find(|it| it.subject.key == child).cloned()
    });
    assert!(is_in(&fork.subject), "{:?}", fork.subject.cgroups);
    let parent = watch.exec_of(pid);
    assert!(!is_in(&parent.subject));
    assert_eq!(watch.exit_of(child.pid).subject.cgroups, fork.subject.cgroups);
}

#[test]
fn a_cgroup_that_is_gone_again_has_left_its_name() {
    let name = "a_cgroup_that_is_gone_again_has_left_its_name";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let mut seen = 0;
    for mount in mounts::cgroup_mounts(Path::new("/proc")).unwrap() {
        let whole = mount.root == Path::new("/");
        let memory = mount.controllers.as_ref().is_none_or(|it| it.iter().any(|it| it == "memory"));
        if !(whole && memory) {
            continue;
        }
        let group = Group::make(&mount.place, "gone");
        let (inode, expected) = (group.id(0).id, format!("/{}", group.name));
        drop(group);
        let made = watch.until("the cgroup", |events| {
            events.iter().find_map(|event| match event {
                Event::CgroupMade(made) if made.cgroup.id == inode => Some(made.clone()),
                _ => None,
            })
        });
        assert_eq!(made.path.unwrap(), expected.as_bytes());
        assert_eq!(made.cgroup.hierarchy == 0, mount.controllers.is_none());
        seen += 1;
    }
    if seen == 0 {
        skip(name, "neither cgroup v2 nor the v1 memory controller is mounted");
    }
}

#[test]
fn a_process_in_a_group_of_any_v1_controller_alone_is_reported_there() {
    let name = "a_process_in_a_group_of_any_v1_controller_alone_is_reported_there";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let mounted = mounts::cgroup_mounts(Path::new("/proc")).unwrap();
    let mut seen = 0;
    for controller in CONTROLLERS {
        let carries = |mount: &&mounts::CgroupMount| {
            let controllers = mount.controllers.iter().flatten();
            mount.root == Path::new("/") && controllers.into_iter().any(|it| it == controller)
        };
        let Some(mount) = mounted.iter().find(carries) else { continue };
        let group = Group::make(&mount.place, controller);
        if controller == "cpuset" {
            group.lend_processors();
        }
        let mut job = Command::new("/bin/sh");
        job.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&group.path);
        let mut job = job.arg(actor()).args(["exit", "0"]).spawn().unwrap();
        let pid = Pid(job.id());
        assert!(job.wait().unwrap().success(), "{controller}");
        let inode = group.id(0).id;
        let exit = watch.exit_of(pid);
        let exec = watch.exec_of(pid);
        let fork = crate::support::forks(&watch.events).find(|it| it.subject.key.pid == pid);
        let born = fork.unwrap().subject.cgroups.clone().unwrap();
        let groups = exec.subject.cgroups.clone().unwrap();
        let moved: Vec<CgroupId> = groups.iter().filter(|it| !born.contains(it)).copied().collect();
        let [CgroupId { hierarchy, id }] = moved[..] else { panic!("{controller}: {moved:?}") };
        assert_eq!((id, hierarchy == 0), (inode, false), "{controller}");
        assert_eq!(exit.subject.cgroups, Some(groups), "{controller}");
        // Its name from the event of its making alone.
        let mut paths = CgroupPaths::default();
        for event in &watch.events {
            if let Event::CgroupMade(made) = event {
                paths.apply(made);
            }
        }
        let expected = format!("/{}", group.name);
        assert_eq!(paths.path_of(moved[0]), Some(expected.as_bytes()), "{controller}");
        seen += 1;
    }
    if seen == 0 {
        skip(name, "none of the controllers is mounted as v1");
    }
}
