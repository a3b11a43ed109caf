//! The join: rows × lifetimes → settlements.
//!
//! Purpose: decide, for one final row, whose it was, or why nobody can say. May touch: nothing.
//! May not: read a clock, file, environment or log; guess where inputs contradict each other.
//! Invariant: every row given in comes out as exactly one settlement with the same milliseconds.
#![deny(clippy::arithmetic_side_effects)]
