//! Memory beside a settlement.

use super::made::bare;
use crate::bill::made::{Journal, gpu, program, stamp};
use crate::explain::MemoryExplained;
use crate::explain::memory::Gathered;
use crate::memory::{HOUR_MS, SLOT_MS};
use crate::residency::verdict::VoidReason;
use crate::unit::{Ms, Pid};

const GIB: u64 = 1 << 30;

/// What is told of a process with pid 7, from 0 on for two hours.
fn told(journal: &Journal) -> MemoryExplained {
    let mut one = bare(None);
    one.gpu_uuid = gpu(0);
    (one.pid, one.start_time_us, one.held_ms) = (Pid(7), Some(stamp(0).wall), Ms(2 * HOUR_MS));
    let mut gathered = Gathered::of(&[one]);
    for entry in &journal.entries {
        gathered.take(entry);
    }
    gathered.told().remove(0)
}

#[test]
fn it_is_of_the_process_alone_and_a_void_hour_has_its_size() {
    let mut journal = Journal::began(0, 1);
    let both = [(program("ollama"), 7, 8 * GIB), (program("other"), 8, GIB)];
    for quarter in 0..4 {
        journal.memory((quarter * SLOT_MS, (quarter + 1) * SLOT_MS), &both, &[]);
    }
    let first = told(&journal);
    assert_eq!(first.gib_s.as_deref(), Some("28800.000"));
    assert_eq!((first.known_ms, first.void_ms), (Ms(HOUR_MS), Ms::ZERO));
    // A quarter of the next hour is void, and so all of that hour.
    journal.memory((HOUR_MS, HOUR_MS + SLOT_MS), &both, &[]);
    journal.memory((HOUR_MS + SLOT_MS, HOUR_MS + 2 * SLOT_MS), &both, &[VoidReason::ProbeStuck]);
    // Another process of that pid, later.
    journal.memory((3 * HOUR_MS, 3 * HOUR_MS + SLOT_MS), &both, &[]);
    let told = told(&journal);
    assert_eq!(told.byte_ms, first.byte_ms);
    assert_eq!(told.void_ms, Ms(2 * SLOT_MS));
    assert_eq!(
        told.to_string(),
        "28800.000 GiB·s over 1:00:00, sampled every 5000.000 ms: beginning and end may be off by as \
         much; UNKNOWN for 0:30:00 in hours that are void (probe_stuck 1)"
    );
}

#[test]
fn what_no_sample_showed_is_unknown_and_never_0() {
    let mut journal = Journal::began(0, 1);
    journal.memory((0, SLOT_MS), &[(program("other"), 8, GIB)], &[]);
    let told = told(&journal);
    assert_eq!((&told.byte_ms, &told.gib_s, told.known_ms), (&None, &None, Ms::ZERO));
    assert!(told.to_string().starts_with("UNKNOWN: no sample showed it"), "{told}");
}
