//! `gpu-ledger residency` as it is built.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;

#[cfg(test)]
#[path = "support/privilege.rs"]
mod privilege;

#[cfg(test)]
#[path = "residency/acceptance.rs"]
mod acceptance;
#[cfg(test)]
#[path = "residency/compared.rs"]
mod compared;
#[cfg(test)]
#[path = "residency/denied.rs"]
mod denied;
#[cfg(test)]
#[path = "residency/faults.rs"]
mod faults;
#[cfg(test)]
#[path = "residency/halted.rs"]
mod halted;
#[cfg(test)]
#[path = "residency/marked.rs"]
mod marked;
#[cfg(test)]
#[path = "residency/record.rs"]
mod record;
#[cfg(test)]
#[path = "residency/recorded.rs"]
mod recorded;
#[path = "residency/verify.rs"]
mod verify;
