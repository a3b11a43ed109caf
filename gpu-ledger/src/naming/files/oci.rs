//! containerd and CRI-O: annotations in the configuration that they give to runc and its like.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::answer::Told;
use super::super::asked::{Question, is_id};
use super::reading::Folder;
use super::{Files, FilesError, Home, first, is_of};

/// Where containerd has its bundles, `NAMESPACE/ID/config.json` below it: its own state folder, that of k3s
/// and RKE2, of microk8s and of k0s (containerd, `core/runtime/v2/bundle.go`; `containerd.rs` says by what these set
/// theirs; looked at with containerd 1.6.20 on Debian 12).
const TASKS: [&str; 4] = [
    "/run/containerd/io.containerd.runtime.v2.task",
    "/run/k3s/containerd/io.containerd.runtime.v2.task",
    "/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
    "/run/k0s/containerd/io.containerd.runtime.v2.task",
];
/// The namespace that Docker's engine has for itself, which tells nothing that Docker does not tell better
/// (moby 20.10, `cmd/dockerd/config.go`, `--containerd-namespace`).
pub(super) const DOCKERS: &str = "moby";
/// Where containers-storage keeps a bundle of CRI-O: the run root first, which has it while the container runs
/// (cri-o, `server/container_create.go`: saved in both `Dir` and `RunDir`).
const STORES: [&str; 2] = [
    "/run/containers/storage/overlay-containers",
    "/var/lib/containers/storage/overlay-containers",
];
/// The annotation of CRI-O that names the pod's sandbox, of that itself too.
const SANDBOX_ID: &str = "io.kubernetes.cri-o.SandboxID";
/// Bytes of a configuration, of which mounts and the system call filter are most.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct Config {
    annotations: Option<BTreeMap<String, String>>,
}

pub(super) fn tell_containerd(
    files: &Files,
    home: &Home,
    question: &Question,
) -> Result<Option<Told>, FilesError> {
    // That of a user's own containerd lies in a mount namespace of theirs.
    let folders = files.folders(home, &TASKS, None)?;
    let folders: Vec<&Folder> = folders.iter().collect();
    first(&folders, |tasks| {
        let mut namespaces = tasks.entries()?;
        namespaces.retain(|name| name != DOCKERS);
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        first(&namespaces, |namespace| {
            let below = format!("{namespace}/{}/config.json", question.id());
            Ok(annotations(tasks, &below)?.map(|found| of_containerd(found, question)))
        })
    })
}

/// The labels of a pod are its sandbox's, which has a configuration also where no container runs for it
/// (cri-o 0002c7a, `internal/lib/container_server.go`, `LoadSandbox`).
pub(super) fn tell_crio(
    files: &Files,
    home: &Home,
    question: &Question,
) -> Result<Option<Told>, FilesError> {
    let folders = files.folders(home, &STORES, None)?;
    let folders: Vec<&Folder> = folders.iter().collect();
    let below = |id: &str| format!("{id}/userdata/config.json");
    first(&folders, |store| {
        let Some(found) = annotations(store, &below(question.id()))? else { return Ok(None) };
        let stored = found.get("io.kubernetes.cri-o.ContainerID");
        if !is_of(stored.map(String::as_str), question.id()) {
            return Ok(None);
        }
        let sandbox = found.get(SANDBOX_ID).filter(|id| is_id(id));
        let of_sandbox = sandbox.map(|id| annotations(store, &below(id))).transpose()?.flatten();
        let is_sandbox = |found: &BTreeMap<String, String>| {
            sandbox.is_some_and(|id| is_of(found.get(SANDBOX_ID).map(String::as_str), id))
        };
        let sandbox = of_sandbox.filter(is_sandbox);
        let labels = sandbox.map(|mut sandbox| labels(&mut sandbox)).unwrap_or_default();
        Ok(Some(of_crio(found).in_pod(labels)))
    })
}

fn annotations(
    folder: &Folder,
    below: &str,
) -> Result<Option<BTreeMap<String, String>>, FilesError> {
    let Some(bytes) = folder.read(below, BYTES_MAX)? else { return Ok(None) };
    let config: Config = serde_json::from_slice(&bytes)
        .map_err(|_| FilesError::Form { path: folder.path(below) })?;
    Ok(Some(config.annotations.unwrap_or_default()))
}

/// The kubelet's (containerd 2.0-dev 02e0fef, `pkg/cri/annotations/annotations.go`), nerdctl's (nerdctl 03f0862,
/// `pkg/labels/labels.go`: its labels come as annotations too) or ctr's, whose ids are names.
fn of_containerd(mut found: BTreeMap<String, String>, question: &Question) -> Told {
    let pod = found.remove("io.kubernetes.cri.sandbox-name");
    let name = found
        .remove("io.kubernetes.cri.container-name")
        .or_else(|| found.remove("nerdctl/name"))
        .or_else(|| (!question.has_random_id()).then(|| question.id().to_owned()));
    let told = Told {
        name,
        image: found.remove("io.kubernetes.cri.image-name"),
        pod,
        namespace: found.remove("io.kubernetes.cri.sandbox-namespace"),
        ..Told::default()
    };
    found.retain(|key, _| !key.starts_with("io.kubernetes.cri.") && !key.starts_with("nerdctl/"));
    told.with_labels(found)
}

/// CRI-O adds the container's labels twice, each as an annotation and all of them as one
/// (cri-o 03c46e4, `internal/factory/container/container.go`, `SpecAddAnnotations`; podman,
/// `pkg/annotations/annotations.go`); the kubelet's are in `kubelet/pkg/types/labels.go`.
fn of_crio(mut found: BTreeMap<String, String>) -> Told {
    let labels = labels(&mut found);
    let mut take = |key: &str| found.remove(key).filter(|value| !value.is_empty());
    let told = Told {
        name: take("io.kubernetes.container.name"),
        // Empty where the image was named by its id; then what was asked for is that id.
        image: take("io.kubernetes.cri-o.ImageName").or_else(|| take("io.kubernetes.cri-o.Image")),
        pod: take("io.kubernetes.pod.name"),
        namespace: take("io.kubernetes.pod.namespace"),
        ..Told::default()
    };
    told.with_labels(labels)
}

fn labels(found: &mut BTreeMap<String, String>) -> BTreeMap<String, String> {
    let labels = found.remove("io.kubernetes.cri-o.Labels");
    labels.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
}
