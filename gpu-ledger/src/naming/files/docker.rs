//! Docker: `config.v2.json` of each container, beside which its engine keeps nothing else of names
//! (moby 20.10.24, `container/container.go`, `ToDisk` and `ConfigFilePath`; looked at on Debian 12).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::answer::Told;
use super::super::asked::{Question, is_id};
use super::reading::Folder;
use super::{Files, FilesError, Home, first, is_of};

/// Where the engine keeps its data: its own default, and that of the snap.
const ROOTS: [&str; 2] = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker"];
/// The same of a user's own engine (moby 20.10, `cmd/dockerd/config_unix.go`, `getDefaultDataRoot`).
const ROOT_OF_USER: &str = ".local/share/docker";
/// The engine's configuration, which may name another place.
const DAEMON_JSON: (&str, &str) = ("/etc/docker", "daemon.json");
/// The label of a pod's container that names its sandbox, a container as any (cri-dockerd 00d31bf,
/// `core/docker_service.go`).
const SANDBOX: &str = "io.kubernetes.sandbox.id";
/// What an annotation begins with that is kept as a label (kubernetes 1.23, `kubelet/dockershim/helpers.go`).
const ANNOTATION: &str = "annotation.";
/// Bytes of either file. A container's has some kilobytes, and its environment.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    #[serde(rename = "ID")]
    id: Option<String>,
    name: Option<String>,
    config: Option<Config>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    image: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

/// `graph` was its name before 17.05.
#[derive(Deserialize)]
struct Daemon {
    #[serde(rename = "data-root", alias = "graph")]
    data_root: Option<String>,
}

pub(super) fn tell(
    files: &Files,
    home: &Home,
    question: &Question,
) -> Result<Option<Told>, FilesError> {
    let folders = files.configured_folders(home, configured_root, &ROOTS, ROOT_OF_USER)?;
    let folders: Vec<&Folder> = folders.iter().collect();
    first(&folders, |root| of_root(root, question))
}

fn of_root(root: &Folder, question: &Question) -> Result<Option<Told>, FilesError> {
    if let Some(told) = of_containers(root, "", question)? {
        return Ok(Some(told));
    }
    // With `userns-remap` the engine's data lie in a folder of the mapped user and group (moby 20.10,
    // daemon/daemon_unix.go, `setupDaemonRoot`).
    let is_remapped = |name: &String| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        name.split_once('.').is_some_and(|(uid, gid)| is_number(uid) && is_number(gid))
    };
    let remapped: Vec<String> = root.entries()?.into_iter().filter(is_remapped).collect();
    let remapped: Vec<&str> = remapped.iter().map(String::as_str).collect();
    first(&remapped, |name| of_containers(root, &format!("{name}/"), question))
}

/// Under Kubernetes (cri-dockerd, formerly dockershim) the labels of a pod are its sandbox's.
fn of_containers(
    root: &Folder,
    below: &str,
    question: &Question,
) -> Result<Option<Told>, FilesError> {
    let Some(mut told) = of_file(root, below, question.id())? else { return Ok(None) };
    let Some(sandbox) = told.labels.get(SANDBOX).filter(|id| is_id(id)) else {
        return Ok(Some(told));
    };
    let sandbox = of_file(root, below, sandbox)?;
    let mut labels = sandbox.map(|sandbox| sandbox.labels).unwrap_or_default();
    labels.retain(|key, _| !key.starts_with(ANNOTATION));
    told.labels.retain(|key, _| !key.starts_with(ANNOTATION));
    Ok(Some(told.in_pod(labels)))
}

fn of_file(root: &Folder, below: &str, id: &str) -> Result<Option<Told>, FilesError> {
    let below = format!("{below}containers/{id}/config.v2.json");
    let Some(bytes) = root.read(&below, BYTES_MAX)? else { return Ok(None) };
    let container: Container =
        serde_json::from_slice(&bytes).map_err(|_| FilesError::Form { path: root.path(&below) })?;
    if !is_of(container.id.as_deref(), id) {
        return Ok(None);
    }
    // The slash is of the time when links named containers within others.
    let name = container.name.map(|name| name.strip_prefix('/').unwrap_or(&name).to_owned());
    let (image, labels) = container.config.map_or((None, None), |one| (one.image, one.labels));
    let told = Told { name, image, ..Told::default() };
    Ok(Some(told.with_labels(labels.unwrap_or_default())))
}

fn configured_root(files: &Files) -> Result<Option<String>, FilesError> {
    let (folder, name) = DAEMON_JSON;
    let Some(folder) = files.folder(folder)? else { return Ok(None) };
    let Some(bytes) = folder.read(name, BYTES_MAX)? else { return Ok(None) };
    let daemon: Daemon =
        serde_json::from_slice(&bytes).map_err(|_| FilesError::Form { path: folder.path(name) })?;
    Ok(daemon.data_root)
}
