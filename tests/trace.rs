//! `gpu-ledger trace` from end to end: the built binary, real processes and real kernel events,
//! against the simulated driver. Every report is compared with the driver's truth log row by row.
//!
//! Needs root (or the capabilities that tracing needs); otherwise each test says loudly that it was
//! skipped, and fails if GPU_LEDGER_REQUIRE_PRIVILEGED is set.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;

#[path = "support/ledger.rs"]
mod ledger;
#[path = "support/truth.rs"]
mod truth;

#[path = "trace/argv.rs"]
mod argv;
#[path = "trace/contract.rs"]
mod contract;
#[path = "trace/host.rs"]
mod host;
#[path = "trace/programs.rs"]
mod programs;
#[path = "trace/reopen.rs"]
mod reopen;
#[path = "trace/reuse.rs"]
mod reuse;
#[path = "trace/storms.rs"]
mod storms;
#[path = "trace/teardown.rs"]
mod teardown;
#[path = "trace/touch.rs"]
mod touch;
