//! From drafts to the disk: what waits, what had no room, what is told of a full disk. Pure.
//!
//! Purpose: every decision between a note that was drafted and an entry that is on the disk, as values: the
//! threads, the clock and the database are whoever's holds this. May not: lose a draft unsaid.
//!
//! ```text
//! drafts ─► Backlog ─► Hand ─► the journal
//!              └► Overflow: what had no room is asked for again, and what never comes back is a gap
//! ```

mod backlog;
mod hand;
mod overflow;
#[cfg(test)]
mod tests;

pub use backlog::{BACKLOG_BYTES_MAX, BACKLOG_RESERVE, Backlog};
pub use hand::{Done, Hand};
pub use overflow::{Lost, Overflow, REFUSED_MAX, Refused};
