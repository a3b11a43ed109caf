//! The journal on a real disk: killed, full, failing, read-only, contended, and with other users about.
//!
//! The tests that mount a file system need root; without it they say loudly that they were skipped.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and watch a deadline of their own"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::arithmetic_side_effects,
    reason = "a test that cannot go on stops"
)]

#[path = "journal/made.rs"]
#[expect(unreachable_pub, dead_code, reason = "shared with the library's own tests")]
mod made;
#[path = "support/skip.rs"]
mod skip;

#[path = "support/calls.rs"]
mod calls;
#[path = "journal/child.rs"]
mod child;
#[path = "journal/disk.rs"]
mod disk;
#[path = "journal/holders.rs"]
mod holders;
#[path = "journal/kill.rs"]
mod kill;
#[path = "journal/points.rs"]
mod points;
#[path = "journal/power.rs"]
mod power;
#[path = "journal/reboot.rs"]
mod reboot;
