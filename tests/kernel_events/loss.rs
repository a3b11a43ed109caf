//! Nothing is lost uncounted: `produced = received + lost`, per CPU and per kind.

use gpu_ledger::kernel::{ProcessKey, TracerOptions};
use gpu_ledger_ebpf::kind;

use crate::support::{children, execs, exits, watch};

const SPAWNED: usize = 5_000;
const KINDS: [u16; 5] = [kind::FORK, kind::EXEC, kind::EXIT, kind::CGROUP_MADE, kind::DEVICE_TOUCH];

#[test]
fn a_storm_of_processes_arrives_whole() {
    let Some(mut watch) = watch("a_storm_of_processes_arrives_whole", &TracerOptions::default())
    else {
        return;
    };
    let pid = watch.act(&["storm", &SPAWNED.to_string()]);
    let counts = watch.quiet();
    assert_eq!(counts.lost().total(), 0);
    assert!(watch.losses.is_empty());
    let mut born = children(&watch.events, pid);
    assert_eq!(born.len(), SPAWNED);
    let of_storm = |parent: Option<ProcessKey>| parent.is_some_and(|parent| parent.pid == pid);
    let mut imaged: Vec<_> = execs(&watch.events)
        .filter(|it| of_storm(it.subject.parent))
        .map(|it| it.subject.key)
        .collect();
    let mut ended: Vec<_> = exits(&watch.events)
        .filter(|it| of_storm(it.subject.parent))
        .map(|it| it.subject.key)
        .collect();
    for keys in [&mut born, &mut imaged, &mut ended] {
        keys.sort_unstable();
        keys.dedup();
    }
    assert_eq!(born.len(), SPAWNED);
    assert!(born == imaged && born == ended);
    watch.tracer.sequence().balance(&counts).unwrap();
    assert_eq!(watch.tracer.sequence().repeated(), 0);
    let missed = watch.tracer.program_statistics().unwrap();
    assert!(missed.iter().all(|it| it.recursion_misses.unwrap_or(0) == 0), "{missed:?}");
}

#[test]
fn a_reader_that_pauses_loses_exactly_what_is_counted() {
    let options = TracerOptions { ring_bytes: 65_536, ..TracerOptions::default() };
    let name = "a_reader_that_pauses_loses_exactly_what_is_counted";
    let Some(mut watch) = watch(name, &options) else { return };
    let pid = watch.act(&["exit", "0"]);
    watch.exit_of(pid);
    // Paused: nothing is drained while the storm lasts.
    let status =
        std::process::Command::new(crate::support::actor()).args(["storm", "1000"]).status();
    assert!(status.unwrap().success());
    let counts = watch.quiet();
    // And once more with a reader: what comes after a loss is received again.
    let pid = watch.act(&["exit", "31"]);
    assert_eq!(watch.exit_of(pid).wait_status, Some(31 << 8));
    assert!(counts.lost().total() > 0, "1,000 processes do not fit into 64 KiB");
    assert!(counts.argv_shed() > 0, "argv goes before identity");
    assert!(counts.ring_fill_bytes_max() <= 65_536);

    let counts = watch.quiet();
    let sequence = watch.tracer.sequence();
    sequence.balance(&counts).unwrap();
    for kind in KINDS {
        let (produced, lost) = (counts.produced().of(kind), counts.lost().of(kind));
        let received = sequence.received().of(kind);
        assert_eq!(produced, received.zip(lost).map(|(received, lost)| received + lost));
    }
    assert_eq!(sequence.received().total(), watch.events.len() as u64);
    let reported: u64 = watch.losses.iter().map(|loss| loss.count).sum();
    assert_eq!(reported, counts.lost().total());
    for (cpu, counted) in (0_u32..).zip(&counts.cpus) {
        assert_eq!(sequence.missing_on(cpu), counted.lost.total());
    }
    for loss in &watch.losses {
        let last = counts.cpus[loss.cpu as usize].last_lost_at.unwrap();
        assert!(loss.after.is_none_or(|after| after <= last));
    }
}

#[test]
fn a_ring_of_a_size_that_no_kernel_takes_is_refused_by_name() {
    for ring_bytes in [0, 1, 4_095, 65_537] {
        let options = TracerOptions { ring_bytes, ..TracerOptions::default() };
        let Err(error) = gpu_ledger::kernel::Tracer::attach(&options) else {
            panic!("{ring_bytes} bytes is no ring")
        };
        assert!(error.to_string().contains("power of two"), "{error}");
    }
}
