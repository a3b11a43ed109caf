//! The built binary where something is wrong: every cause is named with its remedy, the exit status
//! is the right one, and nothing that nobody could know is a number.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

// The attribute says to the lints what cargo already knows.
#[cfg(test)]
mod support;
#[cfg(test)]
#[path = "support/surroundings.rs"]
mod traced;

#[cfg(test)]
#[path = "surroundings/clocks.rs"]
mod clocks;
#[cfg(test)]
#[path = "surroundings/codes.rs"]
mod codes;
#[cfg(test)]
#[path = "surroundings/commands.rs"]
mod commands;
#[cfg(test)]
#[path = "surroundings/hanging.rs"]
mod hanging;
#[cfg(test)]
#[path = "surroundings/libraries.rs"]
mod libraries;
#[cfg(test)]
#[path = "surroundings/middle.rs"]
mod middle;
#[cfg(test)]
#[path = "surroundings/modes.rs"]
mod modes;
#[cfg(test)]
#[path = "surroundings/outputs.rs"]
mod outputs;
#[cfg(test)]
#[path = "surroundings/privileges.rs"]
mod privileges;
#[cfg(test)]
#[path = "surroundings/signals.rs"]
mod signals;
#[cfg(test)]
#[path = "surroundings/together.rs"]
mod together;
