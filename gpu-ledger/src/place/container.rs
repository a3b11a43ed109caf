//! Containers.

use super::job::slurm_job_at;
use super::path::{is_grouped_hex, is_hex, is_id, is_number, is_uuid, name, parent};
use super::pod::pod_at;
use super::service::unescape;
use super::{Container, Runtime};

/// The container whose group this part is. Monitors (conmon, `lxc.monitor`, nspawn's supervisor) and virtual
/// machines are none.
pub(super) fn container_at(above: &[&[u8]], part: &[u8], below: &[&[u8]]) -> Option<Container> {
    by_prefix(above, part)
        .or_else(|| by_colons(part))
        .or_else(|| by_parent(above, part))
        .or_else(|| ecs(above, part))
        .or_else(|| nomad(above, part))
        .or_else(|| lxc(above, part))
        .or_else(|| nspawn(above, part, below))
}

/// The same of a group that its user made: of rootless Docker, Podman and containerd (nerdctl), which ask the user's
/// manager for a scope, and Podman's below a unit (`--cgroups=split`); and of LXC that a user started. Others have no
/// groups there, and whoever makes one named so has made no container.
pub(super) fn users_container_at(part: &[u8]) -> Option<Container> {
    use Runtime::{Containerd, Docker, Lxc, Podman};
    let is_prefixed = |one: &Container| {
        matches!(one.runtime, Some(Docker | Podman))
            || (one.runtime == Some(Containerd) && part.starts_with(b"nerdctl-"))
    };
    let payload = || lxc(&[], part).filter(|one| one.runtime == Some(Lxc));
    by_prefix(&[], part).filter(is_prefixed).or_else(payload)
}

/// The same of what Podman runs in the group of the unit that it was started by (`--cgroups=split`, quadlets).
pub(super) fn payload_of_unit(part: &[u8]) -> Option<Container> {
    part.starts_with(b"libpod-payload-").then(|| by_prefix(&[], part)).flatten()
}

fn container(runtime: impl Into<Option<Runtime>>, id: &[u8]) -> Option<Container> {
    Some(Container { runtime: runtime.into(), id: name(id)?.into() })
}

/// What runtimes write before an id.
#[rustfmt::skip]
const PREFIXES: [(&[u8], Runtime); 6] = [
    // moby, daemon/oci_linux.go
    (b"docker", Runtime::Docker),
    // podman, libpod; under `--cgroups=split` and quadlets it is `libpod-payload`
    (b"libpod", Runtime::Podman),
    (b"libpod-payload", Runtime::Podman),
    // containerd's CRI plugin (`getCgroupsPath`)
    (b"cri-containerd", Runtime::Containerd),
    // nerdctl, pkg/cmd/container/run_cgroup_linux.go
    (b"nerdctl", Runtime::Containerd),
    // cri-o, internal/config/cgmgr
    (b"crio", Runtime::CriO),
];

/// `PREFIX-ID.scope` of systemd's driver, `PREFIX-ID` of cgroupfs.
fn by_prefix(above: &[&[u8]], part: &[u8]) -> Option<Container> {
    let stem = part.strip_suffix(b".scope").unwrap_or(part);
    let dash = stem.len().checked_sub(65)?;
    let (prefix, id) = (stem.get(..dash)?, stem.get(dash..)?.strip_prefix(b"-")?);
    let (_, runtime) = PREFIXES.iter().find(|(known, _)| *known == prefix)?;
    // Under systemd's driver CRI-O makes a group without `.scope` for the sandbox of a pod.
    let is_sandbox = *runtime == Runtime::CriO
        && stem.len() == part.len()
        && parent(above).is_some_and(|parent| parent.ends_with(b".slice"));
    (is_id(id) && !is_sandbox).then(|| container(*runtime, id)).flatten()
}

/// `SLICE:PREFIX:ID`: what is meant for systemd's driver, made by a runtime on cgroupfs as one group.
fn by_colons(part: &[u8]) -> Option<Container> {
    let mut words = part.rsplitn(3, |byte| *byte == b':');
    let (id, prefix, _slice) = (words.next()?, words.next()?, words.next()?);
    let (_, runtime) = PREFIXES.iter().find(|(known, _)| *known == prefix)?;
    is_id(id).then(|| container(*runtime, id)).flatten()
}

/// An id that is told by the group above it.
fn by_parent(above: &[&[u8]], part: &[u8]) -> Option<Container> {
    let (last, outer) = above.split_last()?;
    match *last {
        b"docker" if is_id(part) => container(Runtime::Docker, part),
        // containerd's namespaces: those of ctr and nerdctl, of the kubelet, and its own name.
        b"default" | b"k8s.io" | b"containerd" if is_id(part) => {
            container(Runtime::Containerd, part)
        }
        b"garden" if is_grouped_hex(part, &[8, 4, 4, 4, 4]) => container(None, part),
        b"mesos" if is_uuid(part) => container(None, part),
        // A kubelet on cgroupfs; Docker on cgroupfs with a job's group as its `--cgroup-parent`.
        _ if is_id(part) => {
            let inside = pod_at(outer, last).is_some() || slurm_job_at(outer, last).is_some();
            inside.then(|| container(None, part)).flatten()
        }
        _ => None,
    }
}

/// `/ecs[/CLUSTER]/TASK/ID` of the agent on EC2, whose runtime is Docker; on Fargate since 1.4.0 the id is
/// 32 digits and a number, and the runtime is not told.
fn ecs(above: &[&[u8]], part: &[u8]) -> Option<Container> {
    let depth = above.iter().rev().take(3).position(|part| *part == b"ecs")?;
    if depth > 0 && is_id(part) {
        return container(Runtime::Docker, part);
    }
    let (hash, number) = (part.get(..32)?, part.get(32..)?.strip_prefix(b"-")?);
    (is_hex(hash) && is_number(number)).then(|| container(None, part)).flatten()
}

/// `nomad.slice[/share.slice|/reserve.slice]/ALLOC.TASK.scope`, on v1 `nomad[/share|/reserve]/ALLOC.TASK`
/// (nomad, client/lib/cgroupslib/editor.go).
fn nomad(above: &[&[u8]], part: &[u8]) -> Option<Container> {
    let (last, outer) = above.split_last()?;
    let partitions: [&[u8]; 4] = [b"share.slice", b"reserve.slice", b"share", b"reserve"];
    let root = if partitions.contains(last) { parent(outer)? } else { last };
    if !matches!(root, b"nomad.slice" | b"nomad") {
        return None;
    }
    let id = part.strip_suffix(b".scope").unwrap_or(part);
    let dot = id.iter().position(|byte| *byte == b'.')?;
    let (alloc, task) = (id.get(..dot)?, id.get(dot..)?);
    (is_uuid(alloc) && task.len() > 1).then(|| container(Runtime::Nomad, id)).flatten()
}

/// `lxc.payload.NAME` since LXC 4.0, before it and on Proxmox `/lxc/NAME`.
fn lxc(above: &[&[u8]], part: &[u8]) -> Option<Container> {
    if let Some(name) = part.strip_prefix(b"lxc.payload.") {
        return container(Runtime::Lxc, name.strip_suffix(b".scope").unwrap_or(name));
    }
    (above == [b"lxc"]).then(|| container(Runtime::Lxc, part)).flatten()
}

/// Drivers of libvirt, which registers `machine-DRIVER\x2dN\x2dNAME.scope` (libvirt, docs/cgroups.rst).
const LIBVIRT: [&str; 5] = ["qemu", "lxc", "xen", "ch", "bhyve"];

/// `systemd-nspawn@NAME.service`, or `machine-NAME.scope` where it was started by hand
/// (systemd, src/nspawn/nspawn-register.c; units/systemd-nspawn@.service.in).
fn nspawn(above: &[&[u8]], part: &[u8], below: &[&[u8]]) -> Option<Container> {
    // Its own process, beside the `payload`.
    if below.first() == Some(&b"supervisor".as_slice()) {
        return None;
    }
    let template = part.strip_prefix(b"systemd-nspawn@");
    if let Some(machine) = template.and_then(|rest| rest.strip_suffix(b".service")) {
        return container(Runtime::Nspawn, unescape(name(machine)?).as_bytes());
    }
    let machines = |part: &[u8]| part.starts_with(b"machine") && part.ends_with(b".slice");
    let machine = part.strip_prefix(b"machine-").and_then(|rest| rest.strip_suffix(b".scope"))?;
    let machine = unescape(name(machine).filter(|_| parent(above).is_some_and(machines))?);
    let mut words = machine.splitn(3, '-');
    let is_virtual = words.next().is_some_and(|word| LIBVIRT.contains(&word))
        && words.next().is_some_and(|word| is_number(word.as_bytes()));
    (!is_virtual).then(|| container(Runtime::Nspawn, machine.as_bytes())).flatten()
}
