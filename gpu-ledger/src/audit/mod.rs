//! The audit: what a third party can check without us.

pub mod verify;
