//! A host whose events fail in the kernel.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::host::News;
use crate::kernel::btf::Btf;
use crate::kernel::offsets;
use crate::kernel::preflight::{self, Need, Outcome};
use crate::kernel::tracer::KERNEL_BTF;
use crate::support::skip;
use crate::unknown::GapCause;

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
fn blinded(clock: &Clock) -> Observer {
    let btf = Btf::parse(std::fs::read(KERNEL_BTF).unwrap()).unwrap();
    let mut places = offsets::resolve(&btf).unwrap();
    // Null but while the kernel kills for want of memory.
    places.task_group_leader = btf.member("task_struct", &["oom_reaper_list"]).unwrap().offset;
    let options = TracerOptions { offsets: Some(places), ..TracerOptions::default() };
    let ring = Ring::attach(&options).unwrap();
    let settings = HostSettings::of_trace(true, false);
    let host = Host::new(Arc::from("host"), clock.now(), settings, Resumed::default());
    let mut observer =
        Observer::new(clock.clone(), host, Some(ring), CgroupMounts::default(), None);
    observer.host.begin(clock.now());
    observer
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a process must end for its exit to be lost")]
async fn records_about_nobody_are_a_gap_with_their_number_after_which_procfs_is_read() {
    let name = "records_about_nobody_are_a_gap_with_their_number_after_which_procfs_is_read";
    if let Some(cause) = missing() {
        return skip(name, &cause);
    }
    let clock = Clock::system();
    let mut observer = blinded(&clock);
    assert!(observer.host().lifetimes().is_empty());
    assert!(Command::new("true").status().unwrap().success());
    observer.advance(None).unwrap();
    assert!(!observer.host().coverage().gaps.is_empty(), "fork, exec and exit are losses");
    let own = Pid(std::process::id());
    let seeded = observer.host().lifetimes().of_pid(own).next_back().map(|life| life.ended);
    assert_eq!(seeded, Some(None), "procfs was read, and shows this process");
    let counts = observer.stop().unwrap().unwrap();
    let notes = observer.host_mut().take_notes();
    let gaps = notes.iter().filter_map(|note| match &note.news {
        News::Gap(gap) => Some(gap),
        _ => None,
    });
    let gaps: Vec<_> = gaps.collect();
    assert!(gaps.iter().all(|gap| gap.cause == GapCause::EventLost), "{gaps:?}");
    let sizes: u64 = gaps.iter().map(|gap| gap.size.unwrap()).sum();
    assert_eq!(sizes, counts.lost);
    assert!(counts.lost >= 3 && counts.produced == counts.received + counts.lost, "{counts:?}");
}
