//! What a run takes over from the journal: found on the simulated disk as the daemon finds it in its store,
//! and made of it by the product.

use gpu_ledger::journal::ChainError;
use gpu_ledger::journal::draft::{Earlier, Left};
use gpu_ledger::journal::entry::Evidence;

use super::disk::Disk;

pub(crate) fn left(disk: &Disk) -> Result<Left, ChainError> {
    let mut earlier = Vec::new();
    for (seq, figures) in &disk.end.unresolved {
        let (entry, evidence) = disk.read(*seq)?;
        let Evidence::Open(evidence) = evidence else { panic!("entry {seq} is no open one") };
        let (at, evidence) = (entry.at, *evidence);
        earlier.push(Earlier { seq: *seq, at, open: figures.clone(), evidence });
    }
    let edges = disk.edges.clone().expect("it was opened");
    Left::of(edges, earlier, disk.end.last, |place| Ok(disk.argv(place)))
}
