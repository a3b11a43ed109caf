//! Units, slices and owners, as systemd reads them off a path (src/basic/cgroup-util.c, systemd 257:
//! `cg_path_get_unit`, `cg_path_get_user_unit`, `cg_path_get_slice`, `cg_path_get_owner_uid`): slices first,
//! then the unit, and all below is the unit's own.

use std::sync::Arc;

use crate::argv::REDACTED;

/// The units of one path.
#[derive(Default)]
pub(super) struct Units {
    pub(super) unit: Option<Arc<str>>,
    pub(super) user_unit: Option<Arc<str>>,
    pub(super) slice: Option<Arc<str>>,
    pub(super) owner_uid: Option<u32>,
}

impl Units {
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let (slice, rest) = skip_slices(parts);
        let owner_uid = slice.and_then(owner_of);
        let slice = slice.map(Arc::from);
        let mut units = Self { slice, owner_uid, ..Self::default() };
        let Some((first, below)) = rest.split_first() else { return units };
        let Some(unit) = unit_name(first) else { return units };
        units.unit = Some(unit.into());
        if is_user_manager(unit) || is_session(unit) {
            let (_, below) = skip_slices(below);
            units.user_unit = below.first().and_then(|part| unit_name(part)).map(Arc::from);
        }
        units
    }

    /// How specific they are. A user's manager has its units in v2 alone: in the hierarchies of v1 the same
    /// process is in `user@UID.service`.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (self.user_unit.is_some(), self.unit.is_some(), self.slice.is_some())
    }
}

/// The innermost of the slices that a path begins with, and what follows them.
fn skip_slices<'p, 'a>(parts: &'a [&'p [u8]]) -> (Option<&'p str>, &'a [&'p [u8]]) {
    let mut innermost = None;
    let mut rest = parts;
    while let Some((first, below)) = rest.split_first() {
        let Some(slice) = slice_name(first) else { break };
        (innermost, rest) = (Some(slice), below);
    }
    (innermost, rest)
}

/// Bytes of a unit's name (`UNIT_NAME_MAX` counts the NUL, src/basic/unit-name.h).
const UNIT_BYTES_MAX: usize = 255;

fn slice_name(part: &[u8]) -> Option<&str> {
    let name = valid_name(part)?;
    (name.strip_suffix(".slice").is_some_and(|prefix| !prefix.is_empty()) && !name.contains('@'))
        .then_some(name)
}

/// The name of a service or scope; a template without an instance is none.
fn unit_name(part: &[u8]) -> Option<&str> {
    let name = valid_name(part)?;
    let stem = name.strip_suffix(".service").or_else(|| name.strip_suffix(".scope"))?;
    let named = match stem.split_once('@') {
        Some((template, instance)) => !template.is_empty() && !instance.is_empty(),
        None => !stem.is_empty(),
    };
    named.then_some(name)
}

/// A part without systemd's escape (`_` in front of what would collide with the kernel's own files), of the
/// letters that unit names are made of (`VALID_CHARS`, src/basic/unit-name.c).
fn valid_name(part: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(part.strip_prefix(b"_").unwrap_or(part)).ok()?;
    let valid = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    // What stands where a secret stood has brackets.
    let redacted = std::str::from_utf8(REDACTED).unwrap_or_default();
    let is_valid = |rest: &str| rest.chars().all(valid);
    (name.len() <= UNIT_BYTES_MAX && name.split(redacted).all(is_valid)).then_some(name)
}

/// Where all that lies below is a user's to make, and whose: below `user@UID.service`, which systemd delegates
/// (user@.service.in, `Delegate=`), and below a session's scope, which pam_cgfs hands over (lxc, src/lxc/pam/pam_cgfs.c).
/// The groups of both are the system's own only as long as they lie where its manager makes them.
pub(super) fn users_of(parts: &[&[u8]]) -> Option<(usize, u32)> {
    let (slice, rest) = skip_slices(parts);
    let unit = unit_name(rest.first()?)?;
    let at = parts.len().saturating_sub(rest.len());
    let of_session = || slice.filter(|_| is_session(unit)).and_then(owner_of);
    Some((at, manager_of(unit).or_else(of_session)?))
}

/// From where on a path says nothing of pods, jobs and the host's containers: below a unit that is no runtime's, which
/// may be handed to whoever runs it (`Delegate=`, `User=`), and below what pam_cgfs made for a login where there is no
/// systemd (`/user/NAME/N`; `/user/UID.user/N.session` of systemd-shim).
pub(super) fn closed_from(parts: &[&[u8]]) -> Option<usize> {
    if parts.first() == Some(&b"user".as_slice()) {
        return Some(1);
    }
    let (_, rest) = skip_slices(parts);
    let unit = unit_name(rest.first()?)?;
    let at = parts.len().saturating_sub(rest.len());
    let is_open = is_user_manager(unit) || is_session(unit) || runs_others(unit);
    (!is_open).then_some(at)
}

/// Units in whose groups runtimes, kubelets and schedulers put what they run, on cgroupfs and where systemd's driver
/// failed them; paths of most are in the table of tests.
const RUNNERS: [&str; 25] = [
    "containerd.service",
    "cri-docker.service",
    "crio.service",
    "docker.service",
    "garden.service",
    "incus.service",
    "k0scontroller.service",
    "k0sworker.service",
    "k3s-agent.service",
    "k3s.service",
    "kubelet.service",
    "lxc.service",
    "lxd.service",
    "nomad.service",
    "pbs.service",
    "pbs_jobs.service",
    "podman.service",
    "rke2-agent.service",
    "rke2-server.service",
    "slurmd.service",
    "slurmstepd.scope",
    "snap.docker.dockerd.service",
    "snap.lxd.daemon.service",
    "snap.microk8s.daemon-containerd.service",
    "snap.microk8s.daemon-kubelite.service",
];

fn runs_others(unit: &str) -> bool {
    RUNNERS.contains(&unit)
        || unit.ends_with("_slurmstepd.scope")
        || ["lxc@", "pve-container@", "systemd-nspawn@"].iter().any(|one| unit.starts_with(one))
        || unit.starts_with("machine-")
}

fn is_session(unit: &str) -> bool {
    let id = unit.strip_prefix("session-").and_then(|rest| rest.strip_suffix(".scope"));
    id.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_user_manager(unit: &str) -> bool {
    manager_of(unit).is_some()
}

fn manager_of(unit: &str) -> Option<u32> {
    let uid = unit.strip_prefix("user@").and_then(|rest| rest.strip_suffix(".service"));
    uid.and_then(uid_of)
}

fn owner_of(slice: &str) -> Option<u32> {
    slice.strip_prefix("user-").and_then(|rest| rest.strip_suffix(".slice")).and_then(uid_of)
}

/// A uid in its one decimal form; the two that stand for "none" are none (`uid_is_valid`,
/// src/basic/user-util.c).
fn uid_of(text: &str) -> Option<u32> {
    let uid: u32 = text.parse().ok()?;
    (uid.to_string() == text && uid != u32::MAX && uid != 0xFFFF).then_some(uid)
}
