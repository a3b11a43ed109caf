//! Reading paths: one, and all that a process was seen in.

use std::sync::Arc;

use super::container::{container_at, payload_of_unit, users_container_at};
use super::job::job_at;
use super::pod::pod_at;
use super::units::{Units, closed_from, users_of};
use super::{Container, Job, Place, Pod};

/// Bytes of a path that is read; a longer one tells nothing. The kernel hands out none: the buffers behind
/// `/proc/PID/cgroup` are `PATH_MAX` (`proc_cgroup_show`, kernel/cgroup/cgroup.c).
pub const PATH_BYTES_MAX: usize = 4_096;

impl Place {
    /// What one path says, as the kernel shows it from the root of a hierarchy: `/system.slice/a.service`.
    ///
    /// A path that leads out of the reader's cgroup namespace (`/../x`) says nothing: what stands before the
    /// rest of it is not known.
    #[must_use]
    pub fn of_path(path: &[u8]) -> Self {
        let (units, inner) = read(path);
        units.and(inner)
    }

    /// What the paths of one process say together: those of its hierarchies, in the order in which it was
    /// seen in them.
    ///
    /// Of the units and of what runs below them (container, pod, job) the most specific answer wins, the
    /// later one where two are as specific. Each of the two is taken from one path as a whole, so that no
    /// container is shown with the pod of another.
    #[must_use]
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut units = Units::default();
        let mut inner = Inner::default();
        for path in paths {
            let (seen_units, seen_inner) = read(path);
            if seen_units.rank() >= units.rank() {
                units = seen_units;
            }
            if seen_inner.rank() >= inner.rank() {
                inner = seen_inner;
            }
        }
        units.and(inner)
    }

    /// Whether both are the same of what accounts go by where no rule says: the job, else the pod, else the
    /// container, else the unit.
    #[must_use]
    pub fn is_same_ground(&self, other: &Self) -> bool {
        let job = |place: &Self| {
            let job = place.job.as_ref()?;
            Some((job.scheduler, Arc::clone(job.id.as_ref()?)))
        };
        let pod = |place: &Self| {
            let pod = place.pod.as_ref()?;
            Some((Arc::clone(&pod.uid), place.inner_owner()))
        };
        let container = |place: &Self| {
            let container = place.container.as_ref()?;
            Some((container.runtime, Arc::clone(&container.id), place.inner_owner()))
        };
        let decide = |same: bool, is_known: bool| is_known.then_some(same);
        let of_job = decide(job(self) == job(other), job(self).or(job(other)).is_some());
        let of_pod = || decide(pod(self) == pod(other), pod(self).or(pod(other)).is_some());
        let of_container = || {
            let is_known = container(self).or(container(other)).is_some();
            decide(container(self) == container(other), is_known)
        };
        let of_unit = || (&self.unit, &self.user_unit) == (&other.unit, &other.user_unit);
        of_job.or_else(of_pod).or_else(of_container).unwrap_or_else(of_unit)
    }
}

impl Units {
    fn and(self, inner: Inner) -> Place {
        Place {
            unit: self.unit,
            user_unit: self.user_unit,
            slice: self.slice,
            owner_uid: self.owner_uid,
            container: inner.container,
            pod: inner.pod,
            job: inner.job,
            inner_owner_uid: inner.owner_uid,
            within: inner.within,
        }
    }
}

fn read(path: &[u8]) -> (Units, Inner) {
    // A group that was removed while its last process is a zombie (kernel, cgroup-v2.rst, "Processes").
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let Some(below) = path.strip_prefix(b"/").filter(|_| path.len() <= PATH_BYTES_MAX) else {
        return Default::default();
    };
    let parts: Vec<&[u8]> = below.split(|byte| *byte == b'/').filter(|p| !p.is_empty()).collect();
    if parts.contains(&b"..".as_slice()) {
        return Default::default();
    }
    (Units::of(&parts), Inner::of(&parts))
}

/// What runs below the host's units.
#[derive(Default)]
struct Inner {
    container: Option<Container>,
    pod: Option<Pod>,
    job: Option<Job>,
    /// Whose container and pod are, where they are a user's own.
    owner_uid: Option<u32>,
    /// The outermost container that they are in.
    within: Option<Container>,
    /// How many containers, pods and jobs the path goes through.
    depth: usize,
}

impl Inner {
    fn of(parts: &[&[u8]]) -> Self {
        let mut inner = Self::default();
        let users = users_of(parts);
        let closed = closed_from(parts);
        for (place, part) in parts.iter().enumerate() {
            let above = parts.get(..place).unwrap_or_default();
            let below = parts.get(place.saturating_add(1)..).unwrap_or_default();
            // Whoever is given a group may make any below it. No scheduler runs its jobs below a user's manager
            // or a container, and no kubelet its pods below a user's manager but in a container.
            if closed.is_some_and(|at| at < place)
                && inner.container.is_none()
                && inner.pod.is_none()
            {
                if let Some(payload) = payload_of_unit(part) {
                    inner.container = Some(payload);
                    inner.depth = inner.depth.saturating_add(1);
                }
                continue;
            }
            let own = users.filter(|(at, _)| *at < place).map(|(_, uid)| uid);
            let is_users = own.is_some() || above.iter().any(|part| is_users_manager(part));
            let job = job_at(above, part, below);
            if let Some(job) =
                job.filter(|_| !is_users && inner.container.is_none() && inner.job.is_none())
            {
                inner.job = Some(job);
                inner.depth = inner.depth.saturating_add(1);
            }
            let pod = pod_at(above, part);
            if let Some(pod) = pod.filter(|_| !is_users || inner.container.is_some()) {
                // A container above is the node that the pod runs in.
                inner.enter();
                inner.pod = Some(pod);
                inner.owner_uid = own;
                inner.depth = inner.depth.saturating_add(1);
            }
            // What only the system's runtimes make is no container of a user's, but in one.
            let container = match own {
                Some(_) if inner.container.is_none() && inner.pod.is_none() => {
                    users_container_at(part)
                }
                _ => container_at(above, part, below),
            };
            if let Some(container) = container {
                inner.enter();
                inner.container = Some(container);
                inner.owner_uid = own;
                inner.depth = inner.depth.saturating_add(1);
            }
        }
        inner
    }

    /// What follows is in the container that was found last.
    fn enter(&mut self) {
        let outer = self.container.take();
        self.within = self.within.take().or(outer);
    }

    /// How specific it is; compared from left to right.
    fn rank(&self) -> impl Ord + use<> {
        let details = [
            self.container.as_ref().is_some_and(|container| container.runtime.is_some()),
            self.pod.as_ref().is_some_and(|pod| pod.qos.is_some()),
            self.job.as_ref().is_some_and(|job| job.id.is_some()),
            self.job.as_ref().is_some_and(|job| job.step.is_some()),
            self.job.as_ref().is_some_and(|job| job.task.is_some()),
        ];
        let known = details.into_iter().filter(|known| *known).count();
        (self.depth, self.container.is_some(), self.job.is_some(), self.pod.is_some(), known)
    }
}

/// Whether it is one of the ids that Docker, containerd, Podman and CRI-O make: 64 hexadecimal digits.
pub(super) fn is_id(word: &[u8]) -> bool {
    word.len() == 64 && is_hex(word)
}

/// Lower case, as every program writes them that makes such paths.
pub(super) fn is_hex(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Whether it is hexadecimal digits in groups of these lengths with a dash between.
pub(super) fn is_grouped_hex(word: &[u8], groups: &[usize]) -> bool {
    let mut lengths = groups.iter();
    let fits = |group: &[u8]| lengths.next() == Some(&group.len()) && is_hex(group);
    word.split(|byte| *byte == b'-').all(fits) && lengths.next().is_none()
}

/// `8-4-4-4-12`.
pub(super) fn is_uuid(word: &[u8]) -> bool {
    is_grouped_hex(word, &[8, 4, 4, 4, 12])
}

/// A name as people give them: text that can be shown.
pub(super) fn name(word: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(word).ok()?;
    let shown = !text.is_empty() && !text.chars().any(crate::escape::is_unprintable);
    shown.then_some(text)
}

/// The last of those above.
pub(super) fn parent<'p>(above: &[&'p [u8]]) -> Option<&'p [u8]> {
    above.last().copied()
}

/// `user@UID.service`, all below which is its user's.
fn is_users_manager(part: &[u8]) -> bool {
    let uid = part.strip_prefix(b"user@").and_then(|rest| rest.strip_suffix(b".service"));
    uid.is_some_and(is_number)
}
