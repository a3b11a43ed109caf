//! gpu-ledger: who spent the GPU, how much, and what could not be seen.
//!
//! The driver's accounting knows *how much* for a pid, also after its death; the kernel's process
//! events know *who*, at the moment it happens. This crate joins the two.
//!
//! ```text
//! kernel events ─► identity ─┐
//!                            ├─► host (joins them by settlement) ─► bill ─► session (prints)
//! NVML rows ────► accounting ┘
//! ```
//!
//! # Rooms
//! | room | is | touches |
//! |---|---|---|
//! | [`unit`], [`unknown`] | units as types; known, or unknown with a reason | nothing |
//! | [`clock`] | the only readers of time, and what the wall clock showed when | the kernel's clocks |
//! | `adjtimex` | whether somebody keeps the wall clock right | adjtimex(2) |
//! | [`coverage`] | when and what could be seen | nothing |
//! | [`argv`] | how much of a command line is kept, and no secret of it | nothing |
//! | [`escape`] | strangers' bytes, made safe to print | nothing |
//! | [`calling`] | GPUs by the words that people have for them | nothing |
//! | [`kernel`] | bytes of the ring become typed events | bpf(2), BTF, the ring |
//! | [`identity`] | lifetimes and their images; programs | procfs, cgroupfs |
//! | [`accounting`] | what the driver said, each final row once | NVML |
//! | [`settlement`] | the join: rows × lifetimes | nothing |
//! | [`place`] | what paths of control groups mean: unit, container, pod, job | nothing |
//! | [`attribution`] | from what is stored of a process to its account | nothing; `ollama`: its manifests |
//! | [`naming`] | names of users and containers, asked beside the join | NSS, the helper's socket; the helper: files of runtimes |
//! | [`host`] | one watched host: order, gaps, reads that are wanted, news | nothing |
//! | [`journal`] | entries, canonical bytes, hash chain, tree, checkpoints; their store | nothing; `store`: the state directory |
//! | [`memory`] | memory held over time: from samples to stretches of an hour | nothing |
//! | [`prices`] | what an hour costs and since when; exact amounts | nothing |
//! | [`bill`] | interval algebra, statements that close | nothing |
//! | `observer` | the hands and eyes of a host: ring, procfs, driver threads, releasing the driver | bpf, procfs, NVML |
//! | `notify` | what the service manager is told | its socket |
//! | [`metrics`] | meters in Prometheus' format | a text file, a loopback socket |
//! | [`config`] | the configuration file, checked | that file |
//! | [`survey`], [`doctor`], [`mode`] | one look at driver and host; the accounting mode | the driver, procfs, sysfs |
//! | [`residency`] | curves that prove how near each number was to its moment; books nothing | `files`: a batch's folder |
//! | [`rendering`], `output` | columns for people, JSON for programs; files that are replaced once whole | nothing; `output`: that file |
//! | [`likeness`] | the nearest known word to an unknown one | nothing |
//! | `tables` | tables as Parquet | what they are written into |
//! | [`billing`] | a bill, from its source to its reader | a journal, the clock |
//! | [`audit`] | bundles: a bill with all that it is made of, for whoever has nothing else; `verify` shares no arithmetic with `bill` | a journal, the bundle's folder |
//! | [`explain`] | why a settlement stands where it does | a journal |
//! | [`export`] | bills and settlements as other programs and people elsewhere take them | nothing |
//! | `fuzzing` | what must hold of every parser of bytes from outside; for fuzz targets and tests alone | a folder of its own |
//! | [`daemon`] | the loop that watches for months, its journal's writer, its socket | everything |
//! | [`session`], [`cli`] | the shell: know every room, are known by none | everything |
//!
//! # Invariants
//! - Pure rooms take values, shell rooms take handles: the join is tested with made histories, without
//!   root and without a GPU.
//! - A number that was not observed is [`unknown::Observed::Unknown`], never a zero. Every limit is a
//!   named constant, and reaching it is counted.
//! - A pid alone is never a key: a process is a pid and the moment it started, a row is a GPU, a
//!   pid and the driver's start time.
//! - A row is settled once, and only when it is final; what goes in as milliseconds comes out.
//! - Per GPU and period, alone + shared + free + uncovered = period, to the millisecond.
//! - Amounts are integers in the smallest unit; rounding happens only where text is rendered.
//! - Nothing here knows the simulated driver, except that a library which says it is one is
//!   always reported as such.
#![deny(unsafe_code)]

// Helpers that are shared with the tests of the built binary call the crate by its name.
#[cfg(test)]
extern crate self as gpu_ledger;

pub mod accounting;
mod adjtimex;
pub mod argv;
pub mod attribution;
pub mod audit;
pub mod bill;
pub mod billing;
pub mod calling;
pub mod cli;
pub mod clock;
pub mod config;
pub mod coverage;
pub mod daemon;
pub mod doctor;
pub mod escape;
pub mod explain;
pub mod export;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod host;
pub mod identity;
pub mod journal;
pub mod kernel;
pub mod likeness;
pub mod memory;
pub mod metrics;
pub mod mode;
pub mod naming;
mod notify;
mod observer;
mod output;
pub mod place;
pub mod prices;
#[cfg(test)]
mod random;
pub mod rendering;
pub mod residency;
pub mod session;
pub mod settlement;
#[cfg(test)]
#[path = "../../tests/support/mod.rs"]
#[expect(dead_code, reason = "shared with the tests of the built binary, which need more of it")]
mod support;
pub mod survey;
#[cfg(feature = "parquet")]
mod tables;
pub mod unit;
pub mod unknown;
