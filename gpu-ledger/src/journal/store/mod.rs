//! The store: the journal on the disk. The only part of this room that touches it.
//!
//! Purpose: one writer that acknowledges what is on the disk and nothing else, and readers that give a
//! figure only where they can prove it. May touch: the state directory. May not: change or delete an
//! entry, read a source, trust what the database says because it says so.
//!
//! # What is believed
//! Nothing that SQLite returns, until it is proven: a turned bit in a file is not noticed by SQLite (its pages
//! carry no checksums), and one in an index or an inner page can make rows disappear without an error. So
//! - a figure comes from an entry's body, and that body is hashed again whenever it is read
//!   ([`crate::journal::chain`]). The tables of columns beside the chain and the views (`VIEWS.md`) are for
//!   people, and no bill reads them;
//! - **that no entry is missing** is proven by numbers and links: entries are read by primary key, in runs
//!   without holes, each naming the hash of the one before it;
//! - **that none is missing at the end** is what no chain can prove of itself. `ledger.head` says, outside
//!   the database, up to where it was acknowledged; a database that ends earlier is an error
//!   ([`StoreError::LostEntries`]), whether a page was cut, the `-wal` file removed, or a copy restored;
//! - **that a driver row is booked** is looked up in two trees, the unique keys and the settlements'
//!   columns: one damage does not hide it in both. (Of archived settlements only the key is kept.)
//!
//! # Reading a period without reading everything
//! Every 4,096 entries the writer seals a *segment* in the same transaction: an interval that has everything
//! in it which its settlements and gaps shorter than a day can bear on; one by one, with their intervals, all
//! other entries that bear on a period (longer settlements; edges of epochs and of coverage, which bear on
//! every period; corrections and conflicts, which bear on what they are about, wherever that stands); and
//! the state of the chain at its end: hash, sums, what is open.
//! All of it stands under one SHA-256. A reading of a period walks **all** segments (a few hundred of a million
//! settlements), proves that they follow each other without a hole from the first entry on, and that the
//! entries after the last one follow it. A segment whose interval meets the period is read whole and
//! followed from the state at the end of the one before: it must come out at its own. Of the others the entries
//! that are told one by one are read by number. So a hidden segment is a hole or a longer tail, a hidden
//! entry is a hole, a changed one has another hash, and one that is passed over was said, under a digest that
//! was checked, to bear on nothing in the period. Bills over all time read everything, and their sums must be
//! those at the end of the chain.
//!
//! Segments are in no hash chain: they are derived, and whoever can write them can write entries. [`check`]
//! derives them again, with everything else that is derived, and compares.
//!
//! # Writing
//! One process (`flock` on `ledger.lock`, so a killed one leaves nothing behind), one transaction an
//! [`Store::append`], WAL with `synchronous=FULL`. After an error of which it is not known what reached the
//! disk the store is poisoned and must be opened again: a failed fsync is not repeated, since the kernel drops
//! the pages that it could not write. A full disk is rolled back whole and can be tried again.

mod archive;
mod check;
mod database;
mod entering;
mod erase;
mod error;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod parts;
mod period;
mod place;
mod projection;
mod proven;
mod raw;
mod reader;
mod schema;
mod segment;
mod side;
mod signing;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod writer;

pub use archive::{Archived, archive};
pub use check::{CheckReport, Fault, check, check_file};
pub use database::OpenIdentity;
pub use erase::{Forgotten, Whose, erase_in_archives, texts_of};
pub use error::StoreError;
pub use files::{Files, files_of};
pub(crate) use parts::archives_of;
pub use parts::{CheckedArchive, CheckedArchives, check_archives};
pub use period::{Extent, PeriodRead};
pub use place::{StateDir, Warning, is_of_a_journal};
pub use raw::RawEntry;
pub use reader::Reader;
pub use segment::{Bearing, names};
pub use signing::{Signed, Signer};
pub use tree::Tree;
pub use writer::{Appended, Outcome, Store};
