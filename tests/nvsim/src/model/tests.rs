//! The rules, each by name.
