//! Control groups: from ids to paths, on v2, v1 and hybrid hosts.
//!
//! Purpose: the path a group had, also when it is gone by the time anyone looks. What a path *means*
//! is not said here, and secrets in it are left out before it is known to anybody. May touch: `self/mountinfo` and `self/cgroup` of the procfs it is given, and the
//! hierarchies mounted under the root it is given. May not: follow a link, or assume UTF-8.
//!
//! Watched are the hierarchies that process events name: v2, and v1 ones with one of [`CONTROLLERS`].
//! In all of them the kernfs id is the inode of the group's folder (`kernfs_ino`, 64-bit
//! inode numbers since 5.5).

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use gpu_ledger_ebpf::{CGROUP_PATH_MAX, CONTROLLERS};

use crate::identity::IdentityError;
use crate::kernel::{CgroupId, CgroupMade, ROOT_GROUP_ID};
use crate::place::without_secrets;

/// Names kept. A path is under a hundred bytes on the usual host, so this is some megabytes. A container
/// has one in each hierarchy, a dozen of them on v1.
pub const CGROUP_NAMES_MAX: usize = 32_768;

/// One mounted hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    /// As in the first column of `/proc/PID/cgroup`; 0 is v2.
    hierarchy: u32,
    /// Where its root, or the part of it that is mounted, lies.
    folder: PathBuf,
    /// The path of what is mounted, within the hierarchy; `/` but for a bind mount.
    prefix: Vec<u8>,
}

/// The watched hierarchies of this host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CgroupMounts {
    mounts: Vec<Mount>,
}

impl CgroupMounts {
    /// Reads the mounts of the process that looks. `procfs` is the mounted procfs, `root` what
    /// mount points are under (`/` on a host).
    ///
    /// # Errors
    /// `self/mountinfo` or `self/cgroup` cannot be read. No watched hierarchy at all is no error:
    /// then there are no paths.
    pub fn read(procfs: &Path, root: &Path) -> Result<Self, IdentityError> {
        let read = |name: &str| {
            let path = procfs.join(name);
            std::fs::read(&path).map_err(|cause| IdentityError::Read { path, cause })
        };
        Ok(Self::parse(&read("self/mountinfo")?, &read("self/cgroup")?, root))
    }

    fn parse(mountinfo: &[u8], own_cgroups: &[u8], root: &Path) -> Self {
        let mut mounts: Vec<Mount> = Vec::new();
        for line in mountinfo.split(|byte| *byte == b'\n') {
            if let Some(mount) = parse_mount(line, own_cgroups, root)
                && !mounts
                    .iter()
                    .any(|known| known.hierarchy == mount.hierarchy && known.prefix == mount.prefix)
            {
                mounts.push(mount);
            }
        }
        Self { mounts }
    }

    /// The watched groups of a process with their paths, without secrets, from its `/proc/PID/cgroup`, in the order in
    /// which a record has them. A group whose folder is gone or not mounted here has no id to be had and
    /// is left out.
    #[must_use]
    pub fn groups_of(&self, lines: &[u8]) -> Vec<(CgroupId, Bytes)> {
        let lines = lines.split(|byte| *byte == b'\n').filter_map(parse_membership);
        let mut watched: Vec<_> = lines
            .filter_map(|line| Some((place_of(line.hierarchy, line.controllers)?, line)))
            .collect();
        watched.sort_by_key(|(place, _)| *place);
        watched
            .into_iter()
            .filter_map(|(_, line)| {
                let id = self.id_of(line.hierarchy, line.path)?;
                Some((id, Bytes::copy_from_slice(&without_secrets(line.path))))
            })
            .collect()
    }

    fn id_of(&self, hierarchy: u32, path: &[u8]) -> Option<CgroupId> {
        self.mounts.iter().filter(|mount| mount.hierarchy == hierarchy).find_map(|mount| {
            let below = path.strip_prefix(mount.prefix.as_slice())?;
            let below = below.strip_prefix(b"/").unwrap_or(below);
            // A group that was removed meanwhile has no folder, and no id for us.
            let folder = std::fs::symlink_metadata(mount.folder.join(OsStr::from_bytes(below)));
            folder.ok().map(|folder| CgroupId { hierarchy, id: folder.ino() })
        })
    }
}

/// What a scan found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CgroupScan {
    /// Groups named.
    pub found: u64,
    /// Folders that could not be read though they exist.
    pub unreadable: u64,
    /// Whether it stopped because [`CGROUP_NAMES_MAX`] groups were found.
    pub stopped_at_limit: bool,
}

/// The paths of control groups, living or gone, without secrets: what nobody has, nobody passes on.
#[derive(Clone, Debug, Default)]
pub struct CgroupPaths {
    paths: BTreeMap<CgroupId, Bytes>,
    /// In the order they were learned.
    order: VecDeque<CgroupId>,
    forgotten: u64,
}

impl CgroupPaths {
    /// Learns the name of a new group. A name known for the id is replaced: the event is newer.
    pub fn apply(&mut self, made: &CgroupMade) {
        // One that fills its buffer may have been cut, and what a part of it means is not what all of it does.
        if let Some(path) =
            made.path.as_ref().filter(|path| path.len().saturating_add(1) < CGROUP_PATH_MAX)
        {
            self.learn(made.cgroup, path);
        }
    }

    /// Learns a name that was read elsewhere (`SeenProcess::cgroups`).
    pub fn learn(&mut self, cgroup: CgroupId, path: &[u8]) {
        // A slice of a ring record would keep its whole buffer alive.
        let path = Bytes::copy_from_slice(&without_secrets(path));
        if self.paths.insert(cgroup, path).is_none() {
            self.order.push_back(cgroup);
        }
        if self.paths.len() > CGROUP_NAMES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.paths.remove(&oldest);
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }

    /// Names every group that exists now. Names of groups that are gone stay.
    pub fn scan(&mut self, mounts: &CgroupMounts) -> CgroupScan {
        let mut scan = CgroupScan::default();
        for mount in &mounts.mounts {
            self.scan_mount(mount, &mut scan);
        }
        scan
    }

    /// The path from the hierarchy's root, any bytes; `None` where nobody saw it made, it was gone
    /// before the scan, or it was forgotten. A hierarchy's root needs nobody: v2's is mounted nowhere on a
    /// host of v1 alone, and every process is in it.
    #[must_use]
    pub fn path_of(&self, cgroup: CgroupId) -> Option<&[u8]> {
        if cgroup.id == ROOT_GROUP_ID {
            return Some(b"/");
        }
        self.paths.get(&cgroup).map(AsRef::as_ref)
    }

    /// Every name that is known.
    pub fn iter(&self) -> impl Iterator<Item = (CgroupId, &[u8])> {
        self.paths.iter().map(|(cgroup, path)| (*cgroup, path.as_ref()))
    }

    /// Names that were dropped, the oldest first, because there were more than [`CGROUP_NAMES_MAX`].
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn scan_mount(&mut self, mount: &Mount, scan: &mut CgroupScan) {
        let mut waiting = vec![(mount.folder.clone(), mount.prefix.clone())];
        while let Some((folder, path)) = waiting.pop() {
            if usize::try_from(scan.found).is_ok_and(|found| found >= CGROUP_NAMES_MAX) {
                scan.stopped_at_limit = true;
                return;
            }
            match read_group(&folder) {
                Ok((id, names)) => {
                    let cgroup = CgroupId { hierarchy: mount.hierarchy, id };
                    self.learn(cgroup, if path.is_empty() { b"/" } else { &path });
                    scan.found += 1;
                    waiting.extend(names.into_iter().map(|name| {
                        let below = [path.as_slice(), b"/", &name].concat();
                        (folder.join(OsStr::from_bytes(&name)), below)
                    }));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => scan.unreadable += 1,
            }
        }
    }
}

/// The id of a group and the names of those in it.
fn read_group(folder: &Path) -> std::io::Result<(u64, Vec<Vec<u8>>)> {
    let id = std::fs::symlink_metadata(folder)?.ino();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().into_vec());
        }
    }
    Ok((id, names))
}

/// The place of a hierarchy among those that process events carry ids of; `None` where they carry none.
fn place_of(hierarchy: u32, controllers: &[u8]) -> Option<usize> {
    if hierarchy == 0 { Some(0) } else { place_of_v1(controllers)?.checked_add(1) }
}

/// The place of the first of a v1 hierarchy's controllers in [`CONTROLLERS`].
fn place_of_v1(list: &[u8]) -> Option<usize> {
    let is_named = |controller: &&str| {
        list.split(|byte| *byte == b',').any(|name| name == controller.as_bytes())
    };
    CONTROLLERS.iter().position(is_named)
}

/// A line `hierarchy:controllers:path` of `/proc/PID/cgroup`.
struct Membership<'a> {
    hierarchy: u32,
    controllers: &'a [u8],
    path: &'a [u8],
}

fn parse_membership(line: &[u8]) -> Option<Membership<'_>> {
    let mut parts = line.splitn(3, |byte| *byte == b':');
    let hierarchy = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    Some(Membership { hierarchy, controllers: parts.next()?, path: parts.next()? })
}

/// A line of `mountinfo` (proc_pid_mountinfo(5)), if it is a watched hierarchy:
/// `id parent major:minor ROOT POINT options [tags] - TYPE source SUPER`.
fn parse_mount(line: &[u8], own_cgroups: &[u8], root: &Path) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let (kind, options) = (*fields.get(dash + 1)?, *fields.get(dash + 3)?);
    let hierarchy = match kind {
        b"cgroup2" => 0,
        b"cgroup" if place_of_v1(options).is_some() => hierarchy_of(options, own_cgroups)?,
        _ => return None,
    };
    let mounted = unescape(fields.get(3)?);
    // Seen from inside a cgroup namespace the root is `/..`: paths from there lead nowhere.
    if mounted.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return None;
    }
    let prefix = if mounted == b"/" { Vec::new() } else { mounted };
    let point = unescape(fields.get(4)?);
    let folder = root.join(OsStr::from_bytes(point.strip_prefix(b"/").unwrap_or(&point)));
    Some(Mount { hierarchy, folder, prefix })
}

/// The id of the v1 hierarchy that carries a watched controller of these mount options.
fn hierarchy_of(options: &[u8], own_cgroups: &[u8]) -> Option<u32> {
    let wanted = |name: &&[u8]| place_of_v1(name).is_some();
    let controller = options.split(|byte| *byte == b',').find(wanted)?;
    let mut lines = own_cgroups.split(|byte| *byte == b'\n').filter_map(parse_membership);
    let carries = |line: &Membership<'_>| {
        line.controllers.split(|byte| *byte == b',').any(|name| name == controller)
    };
    lines.find(carries).map(|line| line.hierarchy)
}

/// `mountinfo` writes space, tab, line end and backslash as `\ooo` (`mangle_path`).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { tail.get(3..).unwrap_or_default() } else { tail };
    }
    bytes
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
