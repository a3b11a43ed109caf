//! Every key by its name: what it takes, and whether a running daemon can take it over.

use std::path::Path;

use super::Config;
use super::values::{size_text, time_text};
use crate::likeness::nearest_by;

/// A key of the file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// With its table: `metrics.interval`.
    pub path: &'static str,
    /// What it takes, after "give".
    pub takes: &'static str,
    /// Whether a change takes effect only when the daemon starts anew.
    pub needs_restart: bool,
    /// Its value as people write it; `None` where it is not set.
    pub text: fn(&Config) -> Option<String>,
}

const TIME: &str = "a time such as \"500ms\", \"2s\" or \"1m\", greater than 0";
const INTERVAL: &str = "a time such as \"500ms\", \"15s\" or \"1m\", at least \"50ms\"";
const PATH: &str = "an absolute path in quotation marks";

/// The keys in the order of the documented file.
pub const KEYS: &[Key] = &[
    Key {
        path: "state_dir",
        takes: PATH,
        needs_restart: true,
        text: |config| Some(config.state_dir.display().to_string()),
    },
    Key {
        path: "nvml_library",
        takes: PATH,
        needs_restart: true,
        text: |config| config.nvml_library.as_ref().map(|path| path.display().to_string()),
    },
    Key {
        path: "rules",
        takes: PATH,
        needs_restart: false,
        text: |config| config.rules.as_ref().map(|path| path.display().to_string()),
    },
    Key {
        path: "ring_size",
        takes: "a power of two from \"64KiB\" to \"1GiB\", such as \"4MiB\"",
        needs_restart: true,
        text: |config| Some(size_text(config.ring_bytes)),
    },
    Key {
        path: "device_touch",
        takes: "true or false, without quotation marks",
        needs_restart: true,
        text: |config| Some(config.device_touch.to_string()),
    },
    Key {
        path: "call_deadline",
        takes: TIME,
        needs_restart: true,
        text: |config| Some(time_text(config.call_deadline)),
    },
    Key {
        path: "mark_interval",
        takes: INTERVAL,
        needs_restart: false,
        text: |config| Some(time_text(config.mark_interval)),
    },
    Key {
        path: "memory_period",
        takes: "a time from \"50ms\" to \"1m\" such as \"5s\", or \"off\"",
        needs_restart: true,
        text: |config| Some(config.memory_period.map_or_else(|| "off".to_owned(), time_text)),
    },
    Key {
        path: "on_loss",
        takes: "\"record\", \"alert\" or \"exit\"",
        needs_restart: false,
        text: |config| Some(config.on_loss.as_str().to_owned()),
    },
    Key {
        path: "cmdline",
        takes: "\"none\", \"exe\", \"redacted\" or \"full\"",
        needs_restart: false,
        text: |config| Some(config.cmdline.as_str().to_owned()),
    },
    Key {
        path: "names_socket",
        takes: "an absolute path in quotation marks, or \"\" to ask nobody",
        needs_restart: true,
        text: |config| {
            let path = config.names_socket.as_deref().unwrap_or(Path::new(""));
            Some(path.display().to_string())
        },
    },
    Key {
        path: "ollama_models",
        takes: "an absolute path in quotation marks, or \"\" not to look",
        needs_restart: true,
        text: |config| {
            let path = config.ollama_models.as_deref().unwrap_or(Path::new(""));
            Some(path.display().to_string())
        },
    },
    Key {
        path: "log",
        takes: "\"error\", \"warn\", \"info\", \"debug\", \"trace\", or a filter such as \"warn,gpu_ledger::kernel=debug\"",
        needs_restart: false,
        text: |config| Some(config.log.clone()),
    },
    Key {
        path: "prices",
        takes: PATH,
        needs_restart: false,
        text: |config| config.prices.as_ref().map(|path| path.display().to_string()),
    },
    Key {
        path: "journal.queue_length",
        takes: "a whole number from 64 to 1048576",
        needs_restart: true,
        text: |config| Some(config.journal.queue_length.to_string()),
    },
    Key {
        path: "metrics.textfile",
        takes: "an absolute path in quotation marks whose name ends in .prom",
        needs_restart: false,
        text: |config| config.metrics.textfile.as_ref().map(|path| path.display().to_string()),
    },
    Key {
        path: "metrics.interval",
        takes: INTERVAL,
        needs_restart: false,
        text: |config| Some(time_text(config.metrics.interval)),
    },
    Key {
        path: "metrics.listen",
        takes: "a loopback address with a port, such as \"127.0.0.1:9838\" or \"[::1]:9838\"",
        needs_restart: true,
        text: |config| config.metrics.listen.map(|address| address.to_string()),
    },
    Key {
        path: "socket.path",
        takes: PATH,
        needs_restart: true,
        text: |config| Some(config.socket.path.display().to_string()),
    },
    Key {
        path: "socket.group",
        takes: "the name of a group in quotation marks",
        needs_restart: false,
        text: |config| Some(config.socket.group.clone()),
    },
    Key {
        path: "audit.checkpoint_file",
        takes: PATH,
        needs_restart: true,
        text: |config| config.audit.checkpoint_file.as_ref().map(|path| path.display().to_string()),
    },
];

/// A known key, or a table of known keys.
pub(super) fn is_known(path: &str) -> bool {
    KEYS.iter().any(|key| key.path == path) || is_table(path)
}

/// A table of known keys.
pub(super) fn is_table(path: &str) -> bool {
    KEYS.iter().filter_map(|key| key.path.split_once('.')).any(|(table, _)| table == path)
}

/// What a key takes.
pub(super) fn remedy(path: &str) -> &'static str {
    let key = KEYS.iter().find(|key| key.path == path);
    key.map_or("a table: a line such as [metrics], and its keys below", |key| key.takes)
}

/// What was probably meant by an unknown key.
pub(super) fn advice(unknown: &str) -> String {
    // The table may be what is wrong, or lacking: names are compared whole and by their last part.
    let last = |path: &str| path.rsplit('.').next().map_or_else(String::new, str::to_owned);
    let likeness = |known: &str| {
        let parts = strsim::jaro_winkler(&last(unknown), &last(known));
        parts.max(strsim::jaro_winkler(unknown, known))
    };
    let tables = KEYS.iter().filter_map(|key| key.path.split_once('.').map(|(table, _)| table));
    let known = KEYS.iter().map(|key| key.path).chain(tables);
    match nearest_by(known, likeness) {
        Some(path) => match path.split_once('.') {
            Some((table, key)) => format!("did you mean `{key}` under [{table}]?"),
            None if is_table(path) => format!("did you mean the table [{path}]?"),
            None => format!("did you mean `{path}`, above all tables?"),
        },
        None => "the documented file units/config.toml has every key".to_owned(),
    }
}
