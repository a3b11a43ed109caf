//! containerd: its metadata database, else the bundle of a container that runs.
//!
//! The database has what a bundle has and what none has: the labels of a pod, the image under nerdctl and ctr, and
//! containers that have ended, until whoever made them removes them. containerd has it open for as long as it
//! runs and writes to it; `bolt.rs` says why that is no matter.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::answer::Told;
use super::super::asked::{Question, is_id};
use super::bolt::{self, Bucket, Fault, Look, Value};
use super::reading::Folder;
use super::{Files, FilesError, Home, first, oci};

/// The configuration of containerd, which may name another root.
const CONFIG: (&str, &str) = ("/etc/containerd", "config.toml");
/// Bytes of it.
const CONFIG_BYTES_MAX: u64 = 256 << 10;
/// Where containerd keeps what lasts: its own default (containerd 1.6, `defaults/defaults_unix.go`), and those of
/// k3s and RKE2 (k3s, `pkg/agent/config/config.go`), microk8s (`microk8s-resources/default-args/containerd`) and k0s
/// (`pkg/component/worker/containerd/component.go`).
pub(super) const ROOTS: [&str; 5] = [
    "/var/lib/containerd",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/rancher/rke2/agent/containerd",
    "/var/snap/microk8s/common/var/lib/containerd",
    "/var/lib/k0s/containerd",
];
/// The same of a user's own (nerdctl, `extras/rootless/containerd-rootless.sh`).
const ROOT_OF_USER: &str = ".local/share/containerd";
/// The database below it (containerd 1.6, `metadata/plugin/plugin.go`).
const DATABASE: &str = "io.containerd.metadata.v1.bolt/meta.db";
/// What its CRI plugin notes of a container and of a pod's sandbox (containerd 1.6, `pkg/cri/server/helpers.go`;
/// containerd 2.0, `internal/cri/labels/labels.go`).
const CONTAINER: &[u8] = b"io.cri-containerd.container.metadata";
const SANDBOX: &[u8] = b"io.cri-containerd.sandbox.metadata";
/// Labels by which runtimes and their clients find again what they made.
const OWN_LABELS: [&str; 4] =
    ["io.cri-containerd.", "io.containerd.", "containerd.io/", "nerdctl/"];

#[derive(Deserialize)]
struct Config {
    root: Option<String>,
}

/// What is noted is versioned, and `v1` the only version that there is (containerd 2.0,
/// `internal/cri/store/container/metadata.go` and `internal/cri/store/sandbox/metadata.go`; looked at with containerd
/// 1.6.20 on Debian 12 and 1.7.24 on Debian 13).
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Versioned<T> {
    version: String,
    metadata: T,
}

/// Of a container; below `Config` stands what the kubelet sent, by the names of the CRI
/// (kubernetes 0268656, `cri-api/pkg/apis/runtime/v1/api.proto`, `ContainerConfig`).
#[derive(Deserialize)]
struct ContainerNoted {
    #[serde(rename = "SandboxID")]
    sandbox: Option<String>,
    #[serde(rename = "Config")]
    config: Option<ContainerConfig>,
}

#[derive(Deserialize)]
struct ContainerConfig {
    metadata: Option<Metadata>,
    image: Option<Image>,
    labels: Option<BTreeMap<String, String>>,
}

/// The kubelet asks for an image by its id; a newer one says beside it what the pod calls it.
#[derive(Deserialize)]
struct Image {
    user_specified_image: Option<String>,
}

/// The same of a sandbox (`PodSandboxConfig`).
#[derive(Deserialize)]
struct SandboxNoted {
    #[serde(rename = "Config")]
    config: Option<SandboxConfig>,
}

#[derive(Default, Deserialize)]
struct SandboxConfig {
    metadata: Option<Metadata>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

pub(super) fn tell(
    files: &Files,
    home: &Home,
    question: &Question,
) -> Result<Option<Told>, FilesError> {
    first(&[Source::Database, Source::Bundle], |source| match source {
        Source::Database => {
            let roots = files.configured_folders(home, configured_root, &ROOTS, ROOT_OF_USER)?;
            let roots: Vec<&Folder> = roots.iter().collect();
            first(&roots, |root| bolt::look(root, DATABASE, |look| look_up(look, question)))
        }
        Source::Bundle => oci::tell_containerd(files, home, question),
    })
}

/// What tells, the better first.
#[derive(Clone, Copy)]
enum Source {
    Database,
    Bundle,
}

fn configured_root(files: &Files) -> Result<Option<String>, FilesError> {
    let (folder, name) = CONFIG;
    let Some(folder) = files.folder(folder)? else { return Ok(None) };
    let Some(bytes) = folder.read(name, CONFIG_BYTES_MAX)? else { return Ok(None) };
    let config: Config =
        toml::from_slice(&bytes).map_err(|_| FilesError::Form { path: folder.path(name) })?;
    Ok(config.root)
}

/// Looks in every namespace, below `v1` (containerd 1.6, `metadata/buckets.go`).
fn look_up(look: &mut Look<'_>, question: &Question) -> Result<Option<Told>, Fault> {
    let Some(Value::Bucket(namespaces)) = look.below(&[b"v1"])? else { return Ok(None) };
    for (name, namespace) in look.list(&namespaces)? {
        // The version of the layout stands among them.
        let Value::Bucket(namespace) = namespace else { continue };
        if name == oci::DOCKERS.as_bytes() {
            continue;
        }
        let containers = look.get(&namespace, b"containers")?;
        let Some(Value::Bucket(containers)) = containers else { continue };
        if let Some(container) = bucket(look, &containers, question.id())? {
            return tell_of(look, &containers, &container, question).map(Some);
        }
    }
    Ok(None)
}

fn tell_of(
    look: &mut Look<'_>,
    containers: &Bucket,
    container: &Bucket,
    question: &Question,
) -> Result<Told, Fault> {
    let image = match look.get(container, b"image")? {
        Some(Value::Bytes(name)) => String::from_utf8(name).ok().filter(|name| !name.is_empty()),
        _ => None,
    };
    if let Some(noted) = noted::<ContainerNoted>(look, container, CONTAINER)? {
        let sandbox = noted.sandbox.filter(|id| is_id(id));
        let sandbox = match sandbox {
            Some(id) => bucket(look, containers, &id)?,
            None => None,
        };
        let pod = match sandbox {
            Some(sandbox) => noted_sandbox(look, &sandbox)?.unwrap_or_default(),
            None => SandboxConfig::default(),
        };
        let config = noted.config;
        let named = config.as_ref().and_then(|config| config.image.as_ref());
        let named = named.and_then(|image| image.user_specified_image.clone());
        let (metadata, labels) = config.map_or((None, None), |one| (one.metadata, one.labels));
        let told = Told {
            name: metadata.and_then(|metadata| metadata.name),
            image: named.filter(|name| !name.is_empty()).or(image),
            ..Told::default()
        };
        // Of the image's own labels nothing is noted here.
        return Ok(in_pod(told.with_labels(labels.unwrap_or_default()), pod));
    }
    if let Some(pod) = noted_sandbox(look, container)? {
        return Ok(in_pod(Told { image, ..Told::default() }, pod));
    }
    let mut labels = labels(look, container)?;
    let name = labels.remove("nerdctl/name");
    let name = name.or_else(|| (!question.has_random_id()).then(|| question.id().to_owned()));
    labels.retain(|key, _| !OWN_LABELS.iter().any(|own| key.starts_with(own)));
    Ok(Told { name, image, ..Told::default() }.with_labels(labels))
}

fn in_pod(told: Told, pod: SandboxConfig) -> Told {
    let SandboxConfig { metadata, labels } = pod;
    let Metadata { name, namespace } = metadata.unwrap_or_default();
    let told = told.in_pod(labels.unwrap_or_default());
    Told { pod: name.or(told.pod), namespace: namespace.or(told.namespace), ..told }
}

fn bucket(look: &mut Look<'_>, within: &Bucket, key: &str) -> Result<Option<Bucket>, Fault> {
    Ok(match look.get(within, key.as_bytes())? {
        Some(Value::Bucket(bucket)) => Some(bucket),
        Some(Value::Bytes(_)) | None => None,
    })
}

/// As nerdctl and ctr give them, and as a Dockerfile does.
fn labels(look: &mut Look<'_>, container: &Bucket) -> Result<BTreeMap<String, String>, Fault> {
    let Some(labels) = bucket(look, container, "labels")? else { return Ok(BTreeMap::new()) };
    let labels = look.list(&labels)?.into_iter().filter_map(|(key, value)| match value {
        Value::Bytes(value) => Some((String::from_utf8(key).ok()?, String::from_utf8(value).ok()?)),
        Value::Bucket(_) => None,
    });
    Ok(labels.collect())
}

fn noted_sandbox(look: &mut Look<'_>, container: &Bucket) -> Result<Option<SandboxConfig>, Fault> {
    let noted = noted::<SandboxNoted>(look, container, SANDBOX)?;
    Ok(noted.map(|noted| noted.config.unwrap_or_default()))
}

/// What is noted of it under this name: JSON in a protobuf's `Any`.
fn noted<T: DeserializeOwned>(
    look: &mut Look<'_>,
    container: &Bucket,
    name: &[u8],
) -> Result<Option<T>, Fault> {
    let Some(extensions) = bucket(look, container, "extensions")? else { return Ok(None) };
    let Some(Value::Bytes(any)) = look.get(&extensions, name)? else { return Ok(None) };
    let json = value_of(&any).ok_or(Fault::Form)?;
    let noted: Versioned<T> = serde_json::from_slice(json).map_err(|_| Fault::Form)?;
    if noted.version == "v1" { Ok(Some(noted.metadata)) } else { Err(Fault::Form) }
}

/// The field `value` of a message `google.protobuf.Any` (any.proto: `type_url` is field 1, `value` 2, both of them of
/// a length that stands before them; protobuf.dev/programming-guides/encoding).
fn value_of(mut any: &[u8]) -> Option<&[u8]> {
    const OF_LENGTH: u64 = 2;
    loop {
        let tag = varint(&mut any)?;
        let length = usize::try_from(varint(&mut any)?).ok()?;
        let (field, rest) = any.split_at_checked(length)?;
        match (tag >> 3, tag & 7) {
            (2, OF_LENGTH) => return Some(field),
            (_, OF_LENGTH) => any = rest,
            _ => return None,
        }
    }
}

/// A number of seven bits a byte, the least first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
