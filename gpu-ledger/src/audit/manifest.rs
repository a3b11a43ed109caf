//! `manifest.json`: what a bundle is of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::error::BundleError;
use super::layout::{FILES_MAX, FORMAT, MANIFEST, VERSION, is_name};
use super::line::number;
use crate::journal::Digest;

/// What is said of a file that is not written as it would be made.
pub(super) const OTHERWISE: &str = "is not written as this format writes it";

/// What a bundle is of. Numbers that are no entry's are text: a reader of JSON may round what is larger than 2^53.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: String,
    version: u32,
    /// Of the checkpoint, and the name of its key.
    pub origin: String,
    /// The journal's sixteen bytes, in hex.
    pub journal: String,
    /// Its host, as the journal names it; empty where it does not.
    pub host: String,
    /// The period.
    pub period: ManifestPeriod,
    /// What the bill was asked to be.
    pub bill: ManifestBill,
    /// First entry of the range.
    pub first: u64,
    /// Its last one.
    pub last: u64,
    /// Number of the last entry that the checkpoint covers: the bill is that of the journal as it stood then.
    pub size: u64,
    /// Version of the program.
    pub program: String,
    /// Every file but this one and its signature, ascending by name.
    #[serde(skip_serializing, default)]
    pub files: Vec<Listed>,
}

/// A period, twice: as it is counted and as it is read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestPeriod {
    /// First millisecond since 1970. `0`: from where the journal begins.
    pub since_ms: String,
    /// The first after it.
    pub until_ms: String,
    /// The same, RFC 3339 in UTC.
    pub since: String,
    /// The same, RFC 3339 in UTC.
    pub until: String,
    /// The zone that the bill's days are those of, as the tz database names it.
    pub zone: String,
}

/// What a bill is made with beside its entries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestBill {
    /// What a line stands for.
    pub by: String,
    /// How shared time is divided.
    pub share: String,
    /// SHA-256 of the file of prices; null where nothing is priced.
    pub prices: Option<String>,
    /// What it calls now: when the checkpoint's last entry was learnt, in ms since 1970.
    pub now_ms: String,
    /// What the host called users, by the real user id.
    pub users: BTreeMap<u32, String>,
}

/// A file of a bundle.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its name, from the bundle's folder.
    pub name: String,
    /// Its size.
    pub bytes: String,
    /// Its SHA-256.
    pub sha256: String,
}

impl Listed {
    /// A file of these bytes.
    #[must_use]
    pub fn new(name: &str, bytes: u64, sha256: Digest) -> Self {
        Self { name: name.to_owned(), bytes: bytes.to_string(), sha256: sha256.to_string() }
    }

    /// Its size; `None` where that is no number.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        number(self.bytes.as_bytes())
    }
}

/// What a manifest says beside its files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Of {
    /// See [`Manifest`].
    pub origin: String,
    /// See [`Manifest`].
    pub journal: String,
    /// See [`Manifest`].
    pub host: String,
    /// See [`Manifest`].
    pub period: ManifestPeriod,
    /// See [`Manifest`].
    pub bill: ManifestBill,
    /// First and last entry of the range, and the last that the checkpoint covers.
    pub range: (u64, u64, u64),
}

impl Manifest {
    /// A manifest of these files, which are put in order.
    #[must_use]
    pub fn new(of: Of, mut files: Vec<Listed>) -> Self {
        files.sort();
        let Of { origin, journal, host, period, bill, range: (first, last, size) } = of;
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            origin,
            journal,
            host,
            period,
            bill,
            first,
            last,
            size,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            files,
        }
    }

    /// As it is written: a line for each file.
    ///
    /// # Errors
    /// Where it cannot be written as JSON, which it can.
    pub fn text(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string(self)?;
        text.pop();
        text.push_str(",\"files\":[");
        let mut before = "\n";
        for file in &self.files {
            text.push_str(before);
            text.push_str(&serde_json::to_string(file)?);
            before = ",\n";
        }
        text.push_str(if self.files.is_empty() { "\n\n]}\n" } else { "\n]}\n" });
        Ok(text)
    }

    /// Reads one: every number, name and order is right, and the text is the one that it would be written as.
    ///
    /// # Errors
    /// [`BundleError::Wrong`] and [`BundleError::Version`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let wrong = |what: &str| BundleError::wrong(MANIFEST, what);
        of_version(bytes, MANIFEST, FORMAT)?;
        let manifest: Self = same_again(bytes, MANIFEST, Self::text)?;
        let is_right = |file: &Listed| {
            file.size().is_some() && Digest::of_hex(&file.sha256).is_some() && is_name(&file.name)
        };
        if manifest.files.len() > FILES_MAX {
            return Err(wrong("names more files than a bundle has"));
        }
        if !manifest.files.iter().all(is_right) {
            return Err(wrong("names a file that no bundle has"));
        }
        if !manifest.files.is_sorted_by(|a, b| a.name < b.name) {
            return Err(wrong("does not name its files in order, each once"));
        }
        let Self { first, last, size, .. } = manifest;
        if first < 1 || first > last || last > size {
            return Err(wrong("has a range that no journal has"));
        }
        let (Some((since, until)), Some(_)) = (manifest.span_ms(), manifest.now_ms()) else {
            return Err(wrong(OTHERWISE));
        };
        if since >= until {
            return Err(wrong("has a period that ends before it begins"));
        }
        if manifest.bill.prices.as_deref().is_some_and(|digest| Digest::of_hex(digest).is_none()) {
            return Err(wrong(OTHERWISE));
        }
        Ok(manifest)
    }

    /// The period in ms since 1970; `None` where that is none, which a manifest that was read has.
    #[must_use]
    pub fn span_ms(&self) -> Option<(u64, u64)> {
        let ms = |text: &str| number(text.as_bytes());
        Some((ms(&self.period.since_ms)?, ms(&self.period.until_ms)?))
    }

    /// What its bill calls now, in ms since 1970.
    #[must_use]
    pub fn now_ms(&self) -> Option<u64> {
        number(self.bill.now_ms.as_bytes())
    }
}

/// Reads a document that must be the text it would be written as.
pub(super) fn same_again<T: DeserializeOwned>(
    bytes: &[u8],
    file: &str,
    text: impl FnOnce(&T) -> serde_json::Result<String>,
) -> Result<T, BundleError> {
    let otherwise = |_| BundleError::wrong(file, OTHERWISE);
    let value: T = serde_json::from_slice(bytes).map_err(otherwise)?;
    if text(&value).map_err(otherwise)?.as_bytes() == bytes {
        Ok(value)
    } else {
        Err(BundleError::wrong(file, OTHERWISE))
    }
}

/// That a document is of a format, and of the version that is read.
pub(super) fn of_version(bytes: &[u8], file: &str, format: &str) -> Result<(), BundleError> {
    let begin = format!("{{\"format\":\"{format}\",\"version\":");
    let version = bytes.strip_prefix(begin.as_bytes()).and_then(|rest| {
        let digits = rest.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
        number(rest.get(..digits)?)
    });
    match version {
        Some(version) if version == u64::from(VERSION) => Ok(()),
        Some(version) => Err(BundleError::Version { path: file.to_owned(), version }),
        None => Err(BundleError::wrong(file, format!("is not of the format {format}"))),
    }
}
