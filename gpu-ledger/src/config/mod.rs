//! The configuration file: one TOML file with documented defaults.
//!
//! Purpose: read it, refuse what it does not know, and say what a reload would change. May touch: the
//! file it is given, and the file of rules. May not: apply anything, or fall back to a default where a value is wrong.
//! The commented file with every default is `gpu-ledger/units/config.toml`; a test compares the two.

mod file;
mod keys;
mod reload;
mod rules;
#[cfg(test)]
mod tests;
pub mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use crate::argv::CmdlineMode;

pub(crate) use file::read_bounded;
pub use keys::{KEYS, Key};
pub use reload::{Change, Reload};
pub use rules::{RULES_DEFAULT, Rules, RulesError};

/// Where the file lies unless `--config` names another.
pub const CONFIG_DEFAULT: &str = "/etc/gpu-ledger/config.toml";
/// A file larger than this is no configuration.
const BYTES_MAX: u64 = 1 << 20;

/// Everything that can be configured, checked.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The journal's folder.
    #[serde(deserialize_with = "values::absolute")]
    pub state_dir: PathBuf,
    /// The NVML library; the system's where there is none.
    #[serde(deserialize_with = "values::absolute_or_none")]
    pub nvml_library: Option<PathBuf>,
    /// The file of rules; the default one, where there is one, if none is named.
    #[serde(deserialize_with = "values::absolute_or_none")]
    pub rules: Option<PathBuf>,
    /// Size of the kernel's event ring in bytes.
    #[serde(deserialize_with = "values::ring", rename = "ring_size")]
    pub ring_bytes: u32,
    /// Watch which processes open the NVIDIA devices.
    pub device_touch: bool,
    /// Give a driver call up after this long.
    #[serde(deserialize_with = "values::time")]
    pub call_deadline: Duration,
    /// How often the journal notes up to when everything was seen.
    #[serde(deserialize_with = "values::interval")]
    pub mark_interval: Duration,
    /// How often device memory is sampled; never where there is none.
    #[serde(deserialize_with = "values::memory_period")]
    pub memory_period: Option<Duration>,
    /// What to do when kernel events were lost.
    pub on_loss: OnLoss,
    /// How much of command lines is kept.
    pub cmdline: CmdlineMode,
    /// The helper that tells names of containers; nobody is asked where there is none.
    #[serde(deserialize_with = "values::absolute_or_off")]
    pub names_socket: Option<PathBuf>,
    /// Where ollama keeps its models; nobody looks where there is none.
    #[serde(deserialize_with = "values::absolute_or_off")]
    pub ollama_models: Option<PathBuf>,
    /// What is logged, as `tracing_subscriber::EnvFilter` reads it.
    #[serde(deserialize_with = "values::log_filter")]
    pub log: String,
    /// The file of prices; the default one, where it exists, where there is none. Read by `bill` alone.
    #[serde(deserialize_with = "values::absolute_or_none")]
    pub prices: Option<PathBuf>,
    /// The journal's limits.
    pub journal: JournalLimits,
    /// Where meters go.
    pub metrics: MetricsOutlets,
    /// Where readers ask.
    pub socket: SocketPlace,
    /// Where proofs go.
    pub audit: AuditOutlets,
}

/// What to do when kernel events were lost. The gap is recorded in every case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// Record the gap.
    Record,
    /// Log an error as well.
    Alert,
    /// End with an error as well.
    Exit,
}

impl OnLoss {
    /// The word in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Alert => "alert",
            Self::Exit => "exit",
        }
    }
}

/// The journal's limits.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalLimits {
    /// Entries that may wait for the disk.
    #[serde(deserialize_with = "values::queue_length")]
    pub queue_length: usize,
}

/// Where meters go.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsOutlets {
    /// The file for the textfile collector; none is written where there is none.
    #[serde(deserialize_with = "values::textfile")]
    pub textfile: Option<PathBuf>,
    /// How often it is written.
    #[serde(deserialize_with = "values::interval")]
    pub interval: Duration,
    /// The loopback address to serve; nothing listens where there is none.
    #[serde(deserialize_with = "values::loopback")]
    pub listen: Option<SocketAddr>,
}

/// Where readers ask.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketPlace {
    /// The socket.
    #[serde(deserialize_with = "values::absolute")]
    pub path: PathBuf,
    /// Members of this group see everybody's lines.
    pub group: String,
}

/// Where proofs go.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditOutlets {
    /// The file that every checkpoint is appended to; none is written where there is none.
    #[serde(deserialize_with = "values::absolute_or_none")]
    pub checkpoint_file: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state_dir: PathBuf::from("/var/lib/gpu-ledger"),
            nvml_library: None,
            rules: None,
            ring_bytes: 4 << 20,
            device_touch: true,
            call_deadline: crate::accounting::driver::CALL_DEADLINE,
            mark_interval: Duration::from_mins(1),
            memory_period: Some(crate::memory::PERIOD_DEFAULT),
            on_loss: OnLoss::Record,
            cmdline: CmdlineMode::default(),
            names_socket: Some(PathBuf::from(crate::naming::SOCKET_DEFAULT)),
            ollama_models: Some(PathBuf::from(crate::naming::OLLAMA_MODELS_DEFAULT)),
            log: "info".to_owned(),
            prices: None,
            journal: JournalLimits::default(),
            metrics: MetricsOutlets::default(),
            socket: SocketPlace::default(),
            audit: AuditOutlets::default(),
        }
    }
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self { queue_length: 16_384 }
    }
}

impl Default for MetricsOutlets {
    fn default() -> Self {
        Self { textfile: None, interval: Duration::from_secs(15), listen: None }
    }
}

impl Default for SocketPlace {
    fn default() -> Self {
        Self {
            path: PathBuf::from("/run/gpu-ledger/gpu-ledger.sock"),
            group: "gpu-ledger".to_owned(),
        }
    }
}

/// Why a file is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{path}: {cause}; name another file with --config", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It is too large to be meant.
    #[error("{path}: larger than {BYTES_MAX} bytes; this is no configuration file", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is no TOML.
    #[error("{path}:{line}: {what}; write `key = value`, texts in quotation marks", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What the parser said.
        what: String,
    },
    /// A key that nothing reads.
    #[error("{path}:{line}: unknown key `{key}`; {advice}", path = path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// The key, with its tables.
        key: String,
        /// The nearest known key, or where the known ones are listed.
        advice: String,
    },
    /// A value that the key does not take.
    #[error("{path}:{line}: `{key}`: {what}; give {remedy}", path = path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// The key, with its tables.
        key: String,
        /// What is wrong.
        what: String,
        /// What it takes.
        remedy: &'static str,
    },
}

impl Config {
    /// The configuration in a file; keys that it does not name have their defaults.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |cause| ConfigError::Read { path: path.to_path_buf(), cause };
        let bytes = read_bounded(path, BYTES_MAX.saturating_add(1)).map_err(failed)?;
        if u64::try_from(bytes.len()).map_or(true, |length| length > BYTES_MAX) {
            return Err(ConfigError::TooLarge { path: path.to_path_buf() });
        }
        let no_text = |error| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, error));
        Self::parse(&String::from_utf8(bytes).map_err(no_text)?, path)
    }

    /// The same; without `path`, the default file where it exists and the defaults where it does not.
    pub fn read_or_default(path: Option<&Path>) -> Result<Self, ConfigError> {
        match path {
            Some(path) => Self::read(path),
            None => match Self::read(Path::new(CONFIG_DEFAULT)) {
                Err(ConfigError::Read { cause, .. })
                    if cause.kind() == std::io::ErrorKind::NotFound =>
                {
                    Ok(Self::default())
                }
                read => read,
            },
        }
    }

    /// The configuration in a text; `path` is named in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let syntax = |error: &toml::de::Error| ConfigError::Syntax {
            path: path.to_path_buf(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            what: one_line(error.message()),
        };
        let table = DeTable::parse(text).map_err(|error| syntax(&error))?;
        let mut found = Vec::new();
        walk(table.get_ref(), "", &mut found);
        for entry in &found {
            if !keys::is_known(&entry.key) {
                return Err(ConfigError::UnknownKey {
                    path: path.to_path_buf(),
                    line: line_of(text, entry.key_at),
                    advice: keys::advice(&entry.key),
                    key: entry.key.clone(),
                });
            }
        }
        toml::from_str(text).map_err(|error| {
            // The innermost entry that holds the place of the error.
            let at = error.span().map_or(0, |span| span.start);
            let holder = found.iter().rev().find(|entry| entry.value.contains(&at));
            match holder {
                Some(entry) => ConfigError::Value {
                    path: path.to_path_buf(),
                    line: line_of(text, entry.key_at),
                    key: entry.key.clone(),
                    what: one_line(error.message()),
                    remedy: keys::remedy(&entry.key),
                },
                None => syntax(&error),
            }
        })
    }
}

/// A key as it stands in the file.
struct Entry {
    key: String,
    key_at: usize,
    value: std::ops::Range<usize>,
}

/// Every key below a table, with the tables it stands in. A table that ought to be one comes with
/// what is in it; one that is no known table comes alone.
fn walk(table: &DeTable<'_>, prefix: &str, found: &mut Vec<Entry>) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        let (key_at, range) = (name.span().start, value.span());
        let below = match value.get_ref() {
            DeValue::Table(below) if prefix.is_empty() && keys::is_table(&key) => Some(below),
            _ => None,
        };
        found.push(Entry { key: key.clone(), key_at, value: range });
        if let Some(below) = below {
            walk(below, &format!("{key}."), found);
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count().saturating_add(1)
}

fn one_line(text: &str) -> String {
    crate::escape::escape(text.trim().replace('\n', ", ").as_bytes()).to_string()
}
