//! What a batch was opened with, as the first row of every window repeats it.
//!
//! A manifest is replaced when its batch ends, and whoever may replace it may also write something else. Rows
//! are only ever appended to: what they repeat, a manifest must still say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::{Manifest, ManifestStatus};
use super::seed::Seed;
use super::whole::sha256;

/// A field whose text is longer stands in the row as its SHA-256: a command may be longer than any row.
const FIELD_BYTES_MAX: usize = 16 << 10;

/// Every field of a manifest that is fixed when its batch is opened, by its name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recorded(BTreeMap<String, Value>);

impl Recorded {
    /// Of a manifest, open or closed.
    pub(super) fn of(manifest: &Manifest) -> serde_json::Result<Self> {
        let mut opened = manifest.clone();
        opened.status = ManifestStatus::Open;
        opened.wall_anchor.truncate(1);
        let mut fields: BTreeMap<String, Value> =
            serde_json::from_str(&serde_json::to_string(&opened)?)?;
        // The status changes, and the three keys are counted again from the rows themselves.
        for changes in ["status", Seed::BACKEND, Seed::SUBPROCESS, Seed::RECOVERY] {
            fields.remove(changes);
        }
        for value in fields.values_mut() {
            let text = value.to_string();
            if text.len() > FIELD_BYTES_MAX {
                *value = Value::String(format!("sha256:{}", sha256(text.as_bytes())));
            }
        }
        Ok(Self(fields))
    }

    /// Fields that are not as they are in `other`: by name, what is here and what is there.
    pub(super) fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        let said = |fields: &BTreeMap<String, Value>, name: &str| {
            fields.get(name).map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        let differs = names.filter(|name| self.0.get(*name) != other.0.get(*name));
        differs.map(|name| (name.clone(), said(&self.0, name), said(&other.0, name))).collect()
    }
}
