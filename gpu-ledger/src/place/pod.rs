//! Kubernetes pods.

use super::path::{is_hex, is_uuid, parent};
use super::{Pod, Qos};

/// The pod whose group this part is.
///
/// The kubelet's two drivers name it (pkg/kubelet/cm/cgroup_manager_linux.go, Kubernetes 1.31): systemd
/// `[ROOT-]kubepods[-QOS]-podUID.slice`, with underscores for the uid's dashes; cgroupfs
/// `kubepods[/QOS]/podUID`. Where systemd's name reached a runtime on cgroupfs it stands before a colon:
/// `SLICE:cri-containerd:ID`.
pub(super) fn pod_at(above: &[&[u8]], part: &[u8]) -> Option<Pod> {
    let slice = part.split(|byte| *byte == b':').next().unwrap_or(part);
    by_systemd(slice).or_else(|| by_cgroupfs(above, part))
}

fn by_systemd(slice: &[u8]) -> Option<Pod> {
    let name = slice.strip_suffix(b".slice").unwrap_or(slice);
    // The uid is the rest of the name; it may hold dashes itself.
    let levels = [
        (b"kubepods-pod".as_slice(), Qos::Guaranteed),
        (b"kubepods-burstable-pod", Qos::Burstable),
        (b"kubepods-besteffort-pod", Qos::BestEffort),
    ];
    levels.into_iter().find_map(|(level, qos)| {
        let place = name.windows(level.len()).position(|window| window == level)?;
        // `--cgroup-root=kubelet` puts its own name in front.
        let root = name.get(..place)?;
        let uid = uid_of(name.get(place.checked_add(level.len())?..)?)?;
        (root.is_empty() || root.ends_with(b"-")).then_some(Pod { uid: uid.into(), qos: Some(qos) })
    })
}

fn by_cgroupfs(above: &[&[u8]], part: &[u8]) -> Option<Pod> {
    let uid = uid_of(part.strip_prefix(b"pod")?)?;
    if !above.contains(&b"kubepods".as_slice()) {
        return None;
    }
    let qos = match parent(above)? {
        b"kubepods" => Some(Qos::Guaranteed),
        b"burstable" => Some(Qos::Burstable),
        b"besteffort" => Some(Qos::BestEffort),
        _ => None,
    };
    Some(Pod { uid: uid.into(), qos })
}

/// A uid with dashes; or the hash of a static pod's manifest, which has none.
fn uid_of(word: &[u8]) -> Option<String> {
    let dashed: Vec<u8> =
        word.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect();
    let is_hash = dashed.len() == 32 && is_hex(&dashed);
    (is_hash || is_uuid(&dashed)).then(|| String::from_utf8(dashed).ok()).flatten()
}
