//! `gpu-ledger trace` from end to end: the built binary, real processes and real kernel events,
//! against the simulated driver. Every report is compared with the driver's truth log row by row.
//!
//! Needs root (or the capabilities that tracing needs); otherwise each test says loudly that it was
//! skipped, and fails if GPU_LEDGER_REQUIRE_PRIVILEGED is set.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;

#[cfg(test)]
#[path = "support/explained.rs"]
mod explained;
#[cfg(test)]
#[path = "support/ledger.rs"]
mod ledger;
#[cfg(test)]
#[path = "support/privilege.rs"]
mod privilege;
#[cfg(test)]
#[path = "support/truth.rs"]
mod truth;

#[cfg(test)]
#[path = "trace/argv.rs"]
mod argv;
#[cfg(test)]
#[path = "trace/contract.rs"]
mod contract;
#[cfg(test)]
#[path = "trace/host.rs"]
mod host;
#[cfg(test)]
#[path = "trace/programs.rs"]
mod programs;
#[cfg(test)]
#[path = "trace/reopen.rs"]
mod reopen;
#[cfg(test)]
#[path = "trace/reuse.rs"]
mod reuse;
#[cfg(test)]
#[path = "trace/teardown.rs"]
mod teardown;
#[cfg(test)]
#[path = "trace/touch.rs"]
mod touch;
