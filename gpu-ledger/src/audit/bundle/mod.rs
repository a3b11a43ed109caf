//! Making a bundle.
//!
//! ```text
//! DIR.partial/… ─► manifest.json ─► manifest.sig ─► everything on the disk ─► renamed to DIR
//! ```

mod argv;
mod folder;
mod readme;
mod seal;
#[cfg(feature = "parquet")]
mod table;
mod write;

pub use seal::Seal;
pub use write::{ExportAsked, ExportFrom, Exported, Tick, export};
