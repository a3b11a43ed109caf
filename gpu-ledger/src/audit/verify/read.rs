//! What a bundle says of itself, read strictly: a file that is not written exactly as this format writes it is refused,
//! so that no two texts say the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Wrong;
use super::books::Opening;
use super::folder::{FILES_MAX, shown};
use super::line::{hex, number};
use super::period::Period;
use crate::journal::Digest;
use crate::journal::tree::subtrees;
use crate::unit::GpuUuid;

/// The version that is read.
pub(super) const VERSION: u32 = 1;
/// Files that no bundle is without.
const NEEDED: [&str; 6] =
    ["checkpoint", "context.jsonl", "entries.jsonl", "key.pub", "range.json", "schema.json"];
const OTHERWISE: &str = "is not written as this format writes it";

/// `manifest.json`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    pub(super) origin: String,
    journal: String,
    pub(super) host: String,
    pub(super) period: Times,
    bill: Bill,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) size: u64,
    program: String,
    #[serde(skip_serializing, default)]
    pub(super) files: Vec<Listed>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Times {
    since_ms: String,
    until_ms: String,
    pub(super) since: String,
    pub(super) until: String,
    zone: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Bill {
    by: String,
    share: String,
    prices: Option<String>,
    now_ms: String,
    users: BTreeMap<u32, String>,
}

/// A file of the bundle.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    pub(super) name: String,
    bytes: String,
    sha256: String,
}

impl Listed {
    /// Its size.
    pub(super) fn size(&self) -> Option<u64> {
        number(self.bytes.as_bytes())
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        hex(self.sha256.as_bytes())
    }
}

/// The word of a format and its version, which every JSON file begins with.
pub(super) fn of_version(bytes: &[u8], format: &str) -> Result<(), Wrong> {
    let begin = format!("{{\"format\":\"{format}\",\"version\":");
    let version = bytes.strip_prefix(begin.as_bytes()).and_then(|rest| {
        let end = rest.iter().take(10).position(|byte| *byte == b',')?;
        number(rest.get(..end)?).filter(|version| *version > 0)
    });
    match version {
        Some(version) if version == u64::from(VERSION) => Ok(()),
        Some(other) => {
            Err(format!("is of version {other}, and this checks version {VERSION}").into())
        }
        None => Err(format!("is not of the format {format}").into()),
    }
}

fn parsed<T: DeserializeOwned>(
    bytes: &[u8],
    made: impl FnOnce(&T) -> serde_json::Result<String>,
) -> Result<T, Wrong> {
    let value: T = serde_json::from_slice(bytes).map_err(|_| OTHERWISE)?;
    let made = made(&value).map_err(|_| OTHERWISE)?;
    if made.as_bytes() == bytes { Ok(value) } else { Err(OTHERWISE.into()) }
}

impl Manifest {
    /// Reads it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Wrong> {
        of_version(bytes, "gpu-ledger-audit")?;
        let manifest: Self = parsed(bytes, Self::made)?;
        let is_right = |file: &Listed| file.size().is_some() && file.digest().is_some();
        let prices =
            manifest.bill.prices.as_deref().is_none_or(|digest| hex(digest.as_bytes()).is_some());
        let now = number(manifest.bill.now_ms.as_bytes()).is_some();
        let Some((since, until)) = manifest.edges() else { return Err(OTHERWISE.into()) };
        if !prices || !now || !manifest.files.iter().all(is_right) {
            return Err(OTHERWISE.into());
        }
        let names = || manifest.files.iter().map(|file| file.name.as_str());
        if manifest.files.len() > FILES_MAX {
            return Err("names more files than a bundle has".into());
        }
        if let Some(name) = names().find(|name| !is_name(name)) {
            let name = shown(name.as_bytes());
            return Err(format!("names a file that no bundle has: {name}").into());
        }
        if names().zip(names().skip(1)).any(|(one, next)| one >= next) {
            return Err("does not name its files in order, each once".into());
        }
        if let Some(name) = NEEDED.iter().find(|needed| !names().any(|name| name == **needed)) {
            return Err(format!("does not name {name}").into());
        }
        let Self { first, last, size, .. } = manifest;
        if first < 1 || first > last || last > size || size >= 1 << 63 {
            return Err("has a range that no journal has".into());
        }
        if since >= until {
            return Err("has a period that ends before it begins".into());
        }
        Ok(manifest)
    }

    /// As it is written: one line a file.
    fn made(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string(self)?;
        text.pop();
        text.push_str(",\"files\":[");
        let mut before = "\n";
        for file in &self.files {
            text.push_str(before);
            text.push_str(&serde_json::to_string(file)?);
            before = ",\n";
        }
        if self.files.is_empty() {
            text.push('\n');
        }
        text.push_str("\n]}\n");
        Ok(text)
    }

    fn edges(&self) -> Option<(u64, u64)> {
        Some((number(self.period.since_ms.as_bytes())?, number(self.period.until_ms.as_bytes())?))
    }

    /// Its period.
    pub(super) fn period(&self) -> Period {
        let us = |ms: u64| u128::from(ms).saturating_mul(1_000);
        let (since, until) = self.edges().unwrap_or((0, u64::MAX));
        Period { since: us(since), until: us(until) }
    }
}

/// Whether a bundle may have a file of that name: it cannot lead out of the folder.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let begins = part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        begins
            && part.chars().all(|c| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-')
            })
    };
    let is_own = matches!(name, "manifest.json" | "manifest.sig");
    !is_own && name.split('/').count() <= 2 && name.split('/').all(is_part)
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RangeText {
    format: String,
    version: u32,
    first: u64,
    last: u64,
    size: u64,
    left: Vec<String>,
    right: Vec<String>,
    opening: OpeningText,
    consistency: Vec<ConsistencyText>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct OpeningText {
    booked: Vec<BookedText>,
    unresolved: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct BookedText {
    gpu: String,
    count: u64,
    held_ms: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ConsistencyText {
    from: u64,
    to: u64,
    hashes: Vec<String>,
}

/// `range.json`: what is known of the tree beside the range, and what the range begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) left: Vec<Digest>,
    pub(super) right: Vec<Digest>,
    pub(super) opening: Opening,
    pub(super) consistency: Vec<Consistency>,
}

/// That the tree of one size is the beginning of this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Consistency {
    pub(super) from: u64,
    pub(super) hashes: Vec<Digest>,
}

impl Range {
    /// Reads it.
    pub(super) fn read(bytes: &[u8], manifest: &Manifest) -> Result<Self, Wrong> {
        of_version(bytes, "gpu-ledger-audit-range")?;
        let text: RangeText =
            parsed(bytes, |text| Ok(format!("{}\n", serde_json::to_string(text)?)))?;
        let (left, right) = (hexes(&text.left)?, hexes(&text.right)?);
        let mut booked = BTreeMap::new();
        let mut is_ordered = true;
        for BookedText { gpu, count, held_ms } in &text.opening.booked {
            let gpu = GpuUuid(gpu.as_str().into());
            is_ordered &= booked.last_key_value().is_none_or(|(last, _)| *last < gpu);
            booked.insert(gpu, (*count, wide(held_ms).ok_or(OTHERWISE)?));
        }
        let consistency = text
            .consistency
            .iter()
            .map(|proof| Ok(Consistency { from: proof.from, hashes: hexes(&proof.hashes)? }));
        let consistency = consistency.collect::<Result<Vec<_>, Wrong>>()?;
        let Manifest { first, last, size, .. } = manifest;
        if (text.first, text.last, text.size) != (*first, *last, *size) {
            return Err("is of another range than the manifest says".into());
        }
        let before = first.saturating_sub(1);
        if subtrees(0, before).count() != left.len()
            || subtrees(*last, *size).count() != right.len()
        {
            return Err("has not as many hashes as the range needs".into());
        }
        let unresolved = text.opening.unresolved;
        is_ordered &= unresolved.is_sorted_by(|one, next| one < next);
        if !is_ordered {
            return Err("has an opening that is not in order".into());
        }
        if unresolved.iter().any(|seq| *seq == 0 || seq >= first) {
            return Err("has an opening that is not of entries before the range".into());
        }
        Ok(Self { left, right, opening: Opening { booked, unresolved }, consistency })
    }
}

fn hexes(digits: &[String]) -> Result<Vec<Digest>, Wrong> {
    digits.iter().map(|one| Ok(hex(one.as_bytes()).ok_or(OTHERWISE)?)).collect()
}

/// A number of 128 bits as it is printed.
fn wide(digits: &str) -> Option<u128> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}
