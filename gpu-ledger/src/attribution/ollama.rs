//! What ollama calls its blobs.
//!
//! Purpose: the names of models by the digest of their weights, as ollama's runner is given these alone. May
//! touch: the manifests under the folder it is given. May not: follow a link below it, wait for a pipe, or
//! take more than its limits; what it left out is counted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

/// Manifests that are read; a host with more has them left out.
pub const MANIFESTS_MAX: usize = 1_024;
/// Bytes of a manifest, which has a line for each layer; a larger one is left out.
const MANIFEST_BYTES_MAX: u64 = 1 << 18;
/// Folders and files that are looked at, whatever they are.
const ENTRIES_MAX: usize = 65_536;

/// The layer of a manifest that holds the weights (ollama, server/images.go).
const WEIGHTS: &str = "application/vnd.ollama.image.model";

/// Why there are no names.
#[derive(Debug, thiserror::Error)]
pub enum OllamaError {
    /// Its manifests cannot be read.
    #[error("{path}: {cause}; name the folder that ollama has as OLLAMA_MODELS", path = path.display())]
    Read {
        /// The folder of manifests.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
}

/// Names of models by the SHA-256 of their weights.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Blobs {
    names: BTreeMap<String, Arc<str>>,
    left_out: u64,
}

#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "mediaType")]
    kind: String,
    digest: String,
}

impl Blobs {
    /// Reads the manifests below ollama's folder of models, for the service `/usr/share/ollama/.ollama/models`:
    /// `manifests/HOST/NAMESPACE/NAME/TAG` (ollama, types/model/name.go).
    pub fn read(models: &Path) -> Result<Self, OllamaError> {
        let path = models.join("manifests");
        let mut blobs = Self::default();
        let mut looked_at = 0;
        let hosts = match names_in(&path, &mut looked_at, &mut blobs.left_out) {
            Ok(hosts) => hosts,
            Err(cause) => return Err(OllamaError::Read { path, cause }),
        };
        let mut waiting: Vec<Vec<String>> = hosts.into_iter().map(|host| vec![host]).collect();
        let mut read = 0_usize;
        while let Some(parts) = waiting.pop() {
            let below = parts.iter().fold(path.clone(), |path, part| path.join(part));
            if let [host, namespace, model, tag] = parts.as_slice() {
                read = read.saturating_add(1);
                match manifest(&below).filter(|_| read <= MANIFESTS_MAX) {
                    Some(manifest) => blobs.learn(&manifest, &named(host, namespace, model, tag)),
                    None => blobs.left_out = blobs.left_out.saturating_add(1),
                }
                continue;
            }
            match names_in(&below, &mut looked_at, &mut blobs.left_out) {
                Ok(names) => waiting.extend(names.into_iter().map(|name| {
                    let mut parts = parts.clone();
                    parts.push(name);
                    parts
                })),
                Err(_) => blobs.left_out = blobs.left_out.saturating_add(1),
            }
        }
        Ok(blobs)
    }

    /// The model whose weights have this digest, 64 hexadecimal digits: `qwen3:8b`. Of several names a tag's
    /// that is not `latest`, then the first by the alphabet.
    #[must_use]
    pub fn name_of(&self, digest: &str) -> Option<Arc<str>> {
        self.names.get(digest).cloned()
    }

    /// Entries that were not read: no manifests, not readable, too large, or more than the limits.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn learn(&mut self, manifest: &Manifest, name: &str) {
        let weights = manifest.layers.iter().filter(|layer| layer.kind == WEIGHTS);
        for digest in weights.filter_map(|layer| layer.digest.strip_prefix("sha256:")) {
            if !is_sha256(digest.as_bytes()) {
                continue;
            }
            let rank = |name: &str| (name.ends_with(":latest"), name.to_owned());
            let known = self.names.get(digest);
            if known.is_none_or(|known| rank(name) < rank(known)) {
                self.names.insert(digest.to_owned(), name.into());
            }
        }
    }
}

/// Whether it is a SHA-256 as ollama writes it.
pub(super) fn is_sha256(digest: &[u8]) -> bool {
    digest.len() == 64 && digest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// As `ollama list` shows it: without the host and namespace that are the usual ones (`DisplayShortest`,
/// types/model/name.go).
fn named(host: &str, namespace: &str, model: &str, tag: &str) -> String {
    match (host, namespace) {
        ("registry.ollama.ai", "library") => format!("{model}:{tag}"),
        ("registry.ollama.ai", _) => format!("{namespace}/{model}:{tag}"),
        _ => format!("{host}/{namespace}/{model}:{tag}"),
    }
}

/// The names in a folder that are text which can be shown; links are left out.
fn names_in(
    folder: &Path,
    looked_at: &mut usize,
    left_out: &mut u64,
) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        *looked_at = looked_at.saturating_add(1);
        if *looked_at > ENTRIES_MAX {
            *left_out = left_out.saturating_add(1);
            break;
        }
        let entry = entry?;
        let name = entry.file_name().into_string().ok();
        let name = name.filter(|name| !name.chars().any(crate::escape::is_unprintable));
        match name.filter(|_| entry.file_type().is_ok_and(|kind| !kind.is_symlink())) {
            Some(name) => names.push(name),
            None => *left_out = left_out.saturating_add(1),
        }
    }
    Ok(names)
}

fn manifest(path: &Path) -> Option<Manifest> {
    // Another user's folder: a pipe there must not be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(MANIFEST_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MANIFEST_BYTES_MAX);
    fits.then(|| serde_json::from_slice(&bytes).ok()).flatten()
}

#[cfg(test)]
#[path = "ollama_tests.rs"]
mod tests;
