//! What procfs says of one living process: the other side of the self-test.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpu_ledger_ebpf::CONTROLLERS;

use super::mounts::{CgroupMount, cgroup_mounts};
use super::{CgroupId, KernelError, LoginUid, ROOT_GROUP_ID, read_file};
use crate::unit::Pid;

/// A file by device (as the kernel packs it, major << 20 | minor) and inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// What procfs says. `Err` holds the reason where it cannot say.
#[derive(Debug)]
pub(super) struct Witness {
    pub(super) start_ticks: u64,
    pub(super) parent: Pid,
    pub(super) parent_start_ticks: u64,
    pub(super) uid: u32,
    pub(super) euid: u32,
    pub(super) login_uid: LoginUid,
    pub(super) argv: Vec<u8>,
    /// The executable as stat(2) and as the memory map name it.
    pub(super) executables: Result<Vec<FileIdentity>, String>,
    /// In order.
    pub(super) cgroups: Result<Vec<CgroupId>, String>,
}

impl Witness {
    pub(super) fn read(proc_root: &Path, pid: Pid) -> Result<Self, KernelError> {
        let process = proc_root.join(pid.to_string());
        let (parent, start_ticks) = stat(&process)?;
        let (_, parent_start_ticks) = stat(&proc_root.join(parent.to_string()))?;
        let (uid, euid) = user_ids(&process)?;
        Ok(Self {
            start_ticks,
            parent,
            parent_start_ticks,
            uid,
            euid,
            login_uid: login_uid(&process)?,
            argv: read_file(&process.join("cmdline"))?,
            executables: executables(&process).map_err(|error| error.to_string()),
            cgroups: cgroups(proc_root, &process),
        })
    }
}

fn wrong(path: &Path, what: &'static str) -> KernelError {
    KernelError::Text { path: path.display().to_string(), what }
}

/// Parent and start time: fields 4 and 22, counted behind the name, which may hold anything.
pub(super) fn stat(process: &Path) -> Result<(Pid, u64), KernelError> {
    let path = process.join("stat");
    let text = read_file(&path)?;
    let behind = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 1..));
    let text = String::from_utf8_lossy(behind.unwrap_or(&[])).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |field: usize| words.get(field.checked_sub(3)?)?.parse::<u64>().ok();
    let parent = number(4).and_then(|parent| u32::try_from(parent).ok());
    match (parent, number(22)) {
        (Some(parent), Some(start)) => Ok((Pid(parent), start)),
        _ => Err(wrong(&path, "fields 4 and 22 are not numbers")),
    }
}

pub(super) fn user_ids(process: &Path) -> Result<(u32, u32), KernelError> {
    let path = process.join("status");
    let text = read_file(&path)?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut words = line.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(uid)), Some(Ok(euid))) => Ok((uid, euid)),
        _ => Err(wrong(&path, "no line `Uid:` with numbers")),
    }
}

pub(super) fn login_uid(process: &Path) -> Result<LoginUid, KernelError> {
    let path = process.join("loginuid");
    let text = match read_file(&path) {
        Ok(text) => text,
        Err(KernelError::File { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {
            return Ok(LoginUid::Unset);
        }
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&text);
    let number: u32 = text.trim().parse().map_err(|_| wrong(&path, "not a number"))?;
    Ok(if number == u32::MAX { LoginUid::Unset } else { LoginUid::Set(number) })
}

pub(super) fn executables(process: &Path) -> Result<Vec<FileIdentity>, KernelError> {
    let path = process.join("exe");
    let shown = |cause| KernelError::File { path: path.display().to_string(), cause };
    let metadata = std::fs::metadata(&path).map_err(shown)?;
    let device =
        pack(rustix::fs::major(metadata.dev()).into(), rustix::fs::minor(metadata.dev()).into());
    let mut all = vec![FileIdentity { device, inode: metadata.ino() }];
    // Lines are: addresses permissions offset major:minor inode path. Devices are hexadecimal.
    let maps = read_file(&process.join("maps"))?;
    for line in String::from_utf8_lossy(&maps).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(device), Some(inode)) = (words.get(3), words.get(4)) else { continue };
        let Some((major, minor)) = device.split_once(':') else { continue };
        let numbers = (u64::from_str_radix(major, 16), u64::from_str_radix(minor, 16));
        if let ((Ok(major), Ok(minor)), Ok(inode)) = (numbers, inode.parse()) {
            let found = FileIdentity { device: pack(major, minor), inode };
            if inode != 0 && !all.contains(&found) {
                all.push(found);
            }
        }
    }
    Ok(all)
}

/// `MKDEV` (`include/linux/kdev_t.h`).
const fn pack(major: u64, minor: u64) -> u64 {
    major << 20 | minor
}

/// v2, and the hierarchies of [`CONTROLLERS`] where v1 carries them. A kernfs id is the inode of
/// the group's directory, so the mounted tree tells it.
pub(super) fn cgroups(proc_root: &Path, process: &Path) -> Result<Vec<CgroupId>, String> {
    let mounts = cgroup_mounts(proc_root).map_err(|error| error.to_string())?;
    let text = read_file(&process.join("cgroup")).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut all = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("a line of {}/cgroup has no three fields", process.display()));
        };
        let hierarchy: u32 = hierarchy.parse().map_err(|_| format!("hierarchy {hierarchy}"))?;
        let named: Vec<&str> = controllers.split(',').collect();
        if hierarchy == 0 || named.iter().any(|name| CONTROLLERS.contains(name)) {
            let id = directory_inode(&mounts, hierarchy, &named, path)?;
            all.push(CgroupId { hierarchy, id });
        }
    }
    // v2 is listed from its first mount on (`kernel/cgroup/cgroup.c`, `cgrp_dfl_visible`); until then
    // every process is in its root.
    if all.iter().all(|group| group.hierarchy != 0) {
        all.push(CgroupId { hierarchy: 0, id: ROOT_GROUP_ID });
    }
    all.sort_unstable();
    Ok(all)
}

fn directory_inode(
    mounts: &[CgroupMount],
    hierarchy: u32,
    named: &[&str],
    path: &str,
) -> Result<u64, String> {
    let mount = mounts.iter().find(|mount| match &mount.controllers {
        None => hierarchy == 0,
        Some(options) => {
            hierarchy != 0 && named.iter().all(|name| options.iter().any(|it| it == name))
        }
    });
    let mount = mount.ok_or_else(|| format!("hierarchy {hierarchy} is mounted nowhere"))?;
    let inside = Path::new(path).strip_prefix(&mount.root);
    let inside = inside.map_err(|_| format!("{path} lies outside the mounted {mount:?}"))?;
    let directory = mount.place.join(inside);
    let metadata = std::fs::metadata(&directory);
    metadata.map(|it| it.ino()).map_err(|error| format!("{}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_host_of_v1_alone_a_process_is_in_the_root_of_v2_and_in_each_watched_group() {
        let made = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = made.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (own, job, tree) = (folder("self"), folder("freezer/job"), folder("freezer"));
        let mount = format!("35 31 0:32 / {} rw - cgroup cgroup rw,freezer\n", tree.display());
        std::fs::write(own.join("mountinfo"), mount).unwrap();
        std::fs::write(own.join("cgroup"), "6:freezer:/job\n5:blkio:/elsewhere\n").unwrap();
        let freezer = CgroupId { hierarchy: 6, id: std::fs::metadata(job).unwrap().ino() };
        let v2 = CgroupId { hierarchy: 0, id: ROOT_GROUP_ID };
        assert_eq!(cgroups(made.path(), &own), Ok(vec![v2, freezer]));
    }
}
