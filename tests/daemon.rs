//! `gpu-ledger daemon` from end to end: the built binary as its own user with the capabilities of its unit,
//! real processes and real kernel events, against the simulated driver. The journal is read through
//! its reader, which proves every entry, and compared with the driver's truth log row by row.
//!
//! Needs root (to become that user); otherwise each test says loudly that it was skipped, and fails if
//! GPU_LEDGER_REQUIRE_PRIVILEGED is set.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;

#[cfg(test)]
#[path = "support/asking.rs"]
mod asking;
#[cfg(test)]
#[path = "support/billed.rs"]
mod billed;
#[cfg(test)]
#[path = "support/booked.rs"]
mod booked;
#[cfg(test)]
#[path = "support/calls.rs"]
mod calls;
#[cfg(test)]
#[path = "support/daemon.rs"]
mod daemon;
#[cfg(test)]
#[path = "support/explained.rs"]
mod explained;
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of trace need is here as well")]
#[path = "support/ledger.rs"]
mod ledger;
#[cfg(test)]
#[path = "support/privilege.rs"]
mod privilege;
#[cfg(test)]
#[path = "support/python.rs"]
mod python;
#[cfg(test)]
#[path = "support/truth.rs"]
mod truth;

#[cfg(test)]
#[path = "daemon/asked.rs"]
mod asked;
#[cfg(test)]
#[path = "daemon/attributed.rs"]
mod attributed;
#[cfg(test)]
#[path = "daemon/audited.rs"]
mod audited;
#[cfg(test)]
#[path = "daemon/canary.rs"]
mod canary;
#[cfg(test)]
#[path = "daemon/disk.rs"]
mod disk;
#[cfg(test)]
#[path = "daemon/driver.rs"]
mod driver;
#[cfg(test)]
#[path = "daemon/faults.rs"]
mod faults;
#[cfg(test)]
#[path = "daemon/gaps.rs"]
mod gaps;
#[cfg(test)]
#[path = "daemon/life.rs"]
mod life;
#[cfg(test)]
#[path = "daemon/memory.rs"]
mod memory;
#[cfg(test)]
#[path = "daemon/metered.rs"]
mod metered;
#[cfg(test)]
#[path = "daemon/off.rs"]
mod off;
#[cfg(test)]
#[path = "daemon/points.rs"]
mod points;
#[cfg(test)]
#[path = "daemon/reading.rs"]
mod reading;
#[cfg(test)]
#[path = "daemon/ready.rs"]
mod ready;
#[cfg(test)]
#[path = "daemon/reasons.rs"]
mod reasons;
#[cfg(test)]
#[path = "daemon/redacted.rs"]
mod redacted;
#[cfg(test)]
#[path = "daemon/reloaded.rs"]
mod reloaded;
#[cfg(test)]
#[path = "daemon/restart.rs"]
mod restart;
#[cfg(test)]
#[path = "daemon/signed.rs"]
mod signed;
#[cfg(test)]
#[path = "daemon/streams.rs"]
mod streams;
#[cfg(test)]
#[path = "daemon/traps.rs"]
mod traps;
#[cfg(test)]
#[path = "daemon/unknowns.rs"]
mod unknowns;
#[cfg(test)]
#[path = "daemon/why.rs"]
mod why;
