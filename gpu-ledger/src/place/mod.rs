//! Where a process ran: what the paths of its control groups mean.
//!
//! Purpose: unit, container, pod and job, read off the paths alone, so that it is known also when the group
//! is gone by the time anyone looks. May touch: nothing. May not: guess; a path that merely looks like one
//! of these is none of them. Ids of containers are 64 hexadecimal digits, pods' are uids, jobs' are where their
//! scheduler puts them, or there is none.

mod container;
mod desktop;
mod job;
mod path;
mod pod;
mod safe;
mod service;
#[cfg(test)]
mod tests;
mod units;

use std::sync::Arc;

pub use desktop::{DESKTOP, desktop_program};
pub use path::PATH_BYTES_MAX;
pub use safe::without_secrets;

/// Where a process ran, as far as its control groups say. Empty where they say nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// The system manager's unit: `ollama.service`, `session-3.scope`.
    pub unit: Option<Arc<str>>,
    /// The unit of a user's manager, below `user@UID.service`.
    pub user_unit: Option<Arc<str>>,
    /// The innermost slice of the system manager.
    pub slice: Option<Arc<str>>,
    /// Whose user manager or session it is.
    pub owner_uid: Option<u32>,
    /// The innermost container.
    pub container: Option<Container>,
    /// The Kubernetes pod.
    pub pod: Option<Pod>,
    /// The batch job.
    pub job: Option<Job>,
    /// Who made container and pod, where that was no system's runtime: they are below a group that is this user's.
    pub inner_owner_uid: Option<u32>,
    /// The outermost container that container and pod are in: its root made them, and may call groups what it likes.
    pub within: Option<Container>,
}

/// A container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container {
    /// Who runs it; `None` where the path does not say: a kubelet on cgroupfs, Fargate, Garden, Mesos.
    pub runtime: Option<Runtime>,
    /// Its whole id, or its name where that is what the path has (LXC, nspawn; Nomad's is `<alloc>.<task>`).
    pub id: Arc<str>,
}

/// What a container is called whose runtime the path does not tell.
pub const CONTAINER: &str = "container";

/// What stands before a container's id where it has no name: its runtime's word, or [`CONTAINER`].
pub fn container_kinds() -> impl Iterator<Item = &'static str> {
    Runtime::ALL.into_iter().map(Runtime::as_str).chain([CONTAINER])
}

/// What runs containers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Runtime {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// containerd: nerdctl, ctr, or the kubelet's.
    Containerd,
    /// CRI-O.
    CriO,
    /// LXC: Incus, LXD, Proxmox.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
    /// Nomad's own task groups.
    Nomad,
}

impl Runtime {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Docker,
        Self::Podman,
        Self::Containerd,
        Self::CriO,
        Self::Lxc,
        Self::Nspawn,
        Self::Nomad,
    ];

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Lxc => "lxc",
            Self::Nspawn => "nspawn",
            Self::Nomad => "nomad",
        }
    }
}

/// A Kubernetes pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pod {
    /// Its uid, with dashes; of a static pod the 32 hexadecimal digits of its manifest's hash.
    pub uid: Arc<str>,
    /// Its quality of service; `None` where the path does not say.
    pub qos: Option<Qos>,
}

/// A pod's quality of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Qos {
    /// Requests are limits.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// None.
    BestEffort,
}

impl Qos {
    /// The word that Kubernetes has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// A batch job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Whose.
    pub scheduler: Scheduler,
    /// Its id; `None` where the path tells of the scheduler's slot only (HTCondor).
    pub id: Option<Arc<str>>,
    /// Its step.
    pub step: Option<Arc<str>>,
    /// The task of that step.
    pub task: Option<Arc<str>>,
}

/// What schedules batch jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scheduler {
    /// Slurm.
    Slurm,
    /// OpenPBS, PBS Professional.
    Pbs,
    /// IBM Spectrum LSF.
    Lsf,
    /// HTCondor.
    HtCondor,
}

impl Scheduler {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Slurm, Self::Pbs, Self::Lsf, Self::HtCondor];

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Pbs => "pbs",
            Self::Lsf => "lsf",
            Self::HtCondor => "htcondor",
        }
    }
}
