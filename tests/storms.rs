//! Storms, in a program of their own: what is promised is promised of one storm on two cores, and the
//! tests of this program run one after another, with no other test beside them.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;

#[cfg(test)]
#[path = "support/explained.rs"]
mod explained;
#[cfg(test)]
#[expect(dead_code, reason = "what only the other tests of trace need is here as well")]
#[path = "support/ledger.rs"]
mod ledger;
#[cfg(test)]
#[path = "support/privilege.rs"]
mod privilege;
#[cfg(test)]
#[path = "support/truth.rs"]
mod truth;

#[cfg(test)]
#[path = "storms/bursts.rs"]
mod bursts;
