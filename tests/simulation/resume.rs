//! What a run takes over from the journal: found on the simulated disk as the daemon finds it in its store,
//! and made of it by the product.

use std::collections::BTreeMap;

use gpu_ledger::clock::Stamp;
use gpu_ledger::journal::draft::{Earlier, Left};
use gpu_ledger::journal::entry::{CoverageEdge, Evidence, Figures};
use gpu_ledger::journal::{BootId, ChainError};

use super::disk::Disk;

pub(crate) fn left(disk: &Disk, boot: BootId) -> Result<Left, ChainError> {
    let mut earlier = Vec::new();
    for (seq, figures) in &disk.end.unresolved {
        let (entry, evidence) = disk.read(*seq)?;
        let Evidence::Open(evidence) = evidence else { panic!("entry {seq} is no open one") };
        let (at, evidence) = (entry.at, *evidence);
        earlier.push(Earlier { seq: *seq, at, open: figures.clone(), evidence });
    }
    let (mut began, mut last_seen): (Option<Stamp>, BTreeMap<_, _>) = (None, BTreeMap::new());
    for seq in 1..=disk.entries.len() as u64 {
        let (entry, _) = disk.read(seq)?;
        match entry.figures {
            Figures::Coverage(CoverageEdge::Began { at, .. }) if entry.at.boot == boot => {
                began = Some(began.map_or(at, |before| before.min(at)));
            }
            Figures::Mark(mark) => {
                let gpus = mark.gpus.into_iter();
                let read = gpus.filter_map(|gpu| Some((gpu.gpu, gpu.last_good?.ended)));
                last_seen = read.collect();
            }
            _ => {}
        }
    }
    Left::of(boot, earlier, began, last_seen, disk.end.last, |commitment| Ok(disk.argv(commitment)))
}
