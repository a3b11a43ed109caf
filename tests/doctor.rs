//! `gpu-ledger doctor` and `gpu-ledger accounting`, run as their users run them, and the units that
//! start the daemon: every cause is named with its remedy, and looking changes nothing.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;

#[cfg(test)]
#[path = "support/asked.rs"]
mod asked;

#[cfg(test)]
#[path = "doctor/driver.rs"]
mod driver;
#[cfg(test)]
#[path = "doctor/host.rs"]
mod host;
#[cfg(test)]
#[path = "doctor/mode.rs"]
mod mode;
#[cfg(test)]
#[path = "doctor/options.rs"]
mod options;
#[cfg(test)]
#[path = "doctor/state.rs"]
mod state;
#[cfg(test)]
#[path = "doctor/units.rs"]
mod units;
