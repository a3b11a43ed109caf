//! Real processes, real events: every way in which a process begins, changes and ends.
//!
//! Needs root (or the capabilities that `gpu-ledger doctor` names); otherwise each test says
//! loudly that it was skipped, and fails if GPU_LEDGER_REQUIRE_PRIVILEGED is set.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and watch a deadline of their own"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    reason = "a test that cannot go on stops"
)]

#[path = "kernel_events/support.rs"]
mod support;

#[path = "kernel_events/argv.rs"]
mod argv;
#[path = "kernel_events/cgroups.rs"]
mod cgroups;
#[path = "kernel_events/devices.rs"]
mod devices;
#[path = "kernel_events/faults.rs"]
mod faults;
#[path = "kernel_events/lifetimes.rs"]
mod lifetimes;
#[path = "kernel_events/loss.rs"]
mod loss;
#[path = "kernel_events/pids.rs"]
mod pids;
#[path = "kernel_events/self_test.rs"]
mod self_test;
