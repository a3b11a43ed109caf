//! Skipping a test for want of what it needs: loudly, counted, and not at all where nothing may be skipped.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says loudly that a test did not run, counts it, and fails where skipping is not allowed.
pub(crate) fn skip(test: &str, reason: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let number = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // The harness captures what `eprint!` prints, not what goes to the descriptor.
    let line = format!("SKIPPED ({number} so far) {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    let must = std::env::var_os("GPU_LEDGER_REQUIRE_PRIVILEGED").is_some();
    assert!(!must, "{test} was skipped, and GPU_LEDGER_REQUIRE_PRIVILEGED is set: {reason}");
}
