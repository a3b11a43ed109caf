//! The built binary where something is wrong: every cause is named with its remedy, the exit status
//! is the right one, and nothing that nobody could know is a number.
//!
//! Needs root (or the capabilities that tracing needs), and namespaces.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[path = "support/explained.rs"]
mod explained;
#[cfg(test)]
#[path = "support/privilege.rs"]
mod privilege;
#[cfg(test)]
#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
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
#[path = "surroundings/lost.rs"]
mod lost;
#[cfg(test)]
#[path = "surroundings/memory.rs"]
mod memory;
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
#[cfg(test)]
#[path = "surroundings/unread.rs"]
mod unread;
