//! What fuzzing asks of every parser of bytes that come from outside (`fuzz/README.md`).
//!
//! A target is a function of bytes that panics where something that must always hold does not. The programs of `fuzz/`
//! call it with what libFuzzer makes up; the tests of this crate call it with what was found worth keeping
//! (`fuzz/corpus`) and with changes to that. Compiled for both alone.

mod entries;
pub(crate) mod input;
mod procfs;
pub(crate) mod scratch;
#[cfg(test)]
mod tests;
mod texts;

pub use crate::accounting::nvml::fuzzing::nvml;
pub use crate::audit::fuzzing::{bundle, bundle_documents, proof};
pub use crate::daemon::fuzzing::socket;
pub use crate::journal::store::fuzzing::journal;
pub use crate::kernel::fuzzing::{btf, ring};
pub use crate::naming::fuzzing::names;
pub use crate::residency::files::fuzzing::{batch, rows};
pub use entries::entry;
pub use procfs::{host, process};
pub use texts::{argv, bill, cgroup_path, config, meters, note, prices, rules};

/// A target: its name, which is that of its folder of `fuzz/corpus` and of its program, and what it asks.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 22] = [
    ("argv", argv),
    ("batch", batch),
    ("bill", bill),
    ("btf", btf),
    ("bundle", bundle),
    ("bundle_documents", bundle_documents),
    ("cgroup_path", cgroup_path),
    ("config", config),
    ("entry", entry),
    ("host", host),
    ("journal", journal),
    ("meters", meters),
    ("names", names),
    ("note", note),
    ("nvml", nvml),
    ("prices", prices),
    ("process", process),
    ("proof", proof),
    ("ring", ring),
    ("rows", rows),
    ("rules", rules),
    ("socket", socket),
];
