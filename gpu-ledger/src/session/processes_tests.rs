//! Processes whose events fail in the kernel.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::kernel::btf::Btf;
use crate::kernel::offsets;
use crate::kernel::preflight::{self, Need, Outcome};
use crate::kernel::tracer::KERNEL_BTF;

#[path = "../../../tests/support/skip.rs"]
mod skip;

use self::skip::skip;

fn missing() -> Option<String> {
    let found = preflight::findings(Path::new("/proc"), Path::new("/sys"));
    found.into_iter().filter(|finding| finding.need == Need::Tracing).find_map(|finding| {
        match finding.outcome {
            Outcome::Missing { cause, .. } => Some(cause),
            _ => None,
        }
    })
}

/// Attached where no record can say whom it is about, and not tested: no self-test would pass.
fn blinded(clock: &Clock) -> Processes {
    let btf = Btf::parse(std::fs::read(KERNEL_BTF).unwrap()).unwrap();
    let mut places = offsets::resolve(&btf).unwrap();
    // Null but while the kernel kills for want of memory.
    places.task_group_leader = btf.member("task_struct", &["oom_reaper_list"]).unwrap().offset;
    let options = TracerOptions { offsets: Some(places), ..TracerOptions::default() };
    let tracer = pollable(Tracer::attach(&options).unwrap()).unwrap();
    let start = clock.now();
    Processes::new(clock.clone(), start, Some(tracer), Vec::new(), CgroupMounts::default())
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a process must end for its exit to be lost")]
async fn records_about_nobody_are_a_gap_with_their_number_after_which_procfs_is_read() {
    let name = "records_about_nobody_are_a_gap_with_their_number_after_which_procfs_is_read";
    if let Some(cause) = missing() {
        return skip(name, &cause);
    }
    let clock = Clock::system();
    let mut processes = blinded(&clock);
    assert!(processes.lifetimes.is_empty());
    assert!(Command::new("true").status().unwrap().success());
    assert!(processes.pull(), "fork, exec and exit are losses");
    let own = Pid(std::process::id());
    let seeded = processes.lifetimes.of_pid(own).next_back().map(|life| life.ended);
    assert_eq!(seeded, Some(None), "procfs was read, and shows this process");
    let events = processes.stop().unwrap();
    let gaps = &processes.coverage.gaps;
    assert!(gaps.iter().all(|gap| gap.cause == GapCause::EventLost), "{gaps:?}");
    let sizes: u64 = gaps.iter().map(|gap| gap.size.unwrap()).sum();
    assert_eq!(sizes, events.lost);
    assert!(events.lost >= 3 && events.produced == events.received + events.lost, "{events:?}");
}

#[test]
fn a_record_that_is_no_event_is_counted_and_not_dropped() {
    let mut records = Records::default();
    records.take(Err(WireError::Kind { found: 99 }));
    assert_eq!((records.events.len(), records.undecoded), (0, 1));
}
