//! The built binary where something is wrong: every cause is named with its remedy, the exit status
//! is the right one, and nothing that nobody could know is a number.
//!
//! Needs root (or the capabilities that tracing needs), and namespaces.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

#[expect(dead_code, reason = "what only the tests of single rooms need is here as well")]
mod support;
#[path = "support/surroundings.rs"]
mod traced;

#[path = "surroundings/clocks.rs"]
mod clocks;
#[path = "surroundings/codes.rs"]
mod codes;
#[path = "surroundings/commands.rs"]
mod commands;
#[path = "surroundings/hanging.rs"]
mod hanging;
#[path = "surroundings/libraries.rs"]
mod libraries;
#[path = "surroundings/middle.rs"]
mod middle;
#[path = "surroundings/modes.rs"]
mod modes;
#[path = "surroundings/outputs.rs"]
mod outputs;
#[path = "surroundings/privileges.rs"]
mod privileges;
#[path = "surroundings/signals.rs"]
mod signals;
#[path = "surroundings/together.rs"]
mod together;
