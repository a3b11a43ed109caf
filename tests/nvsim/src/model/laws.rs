//! What must hold whatever happens.

use proptest::prelude::*;

use super::tests::{SECOND_US, at, busy, gpu, host};
use super::*;
use crate::protocol::Use;

/// Everything that may happen to a GPU.
#[derive(Clone, Debug)]
enum Act {
    Open(Pid),
    Use(usize, Use),
    Close(usize),
    Accounting(bool),
    Clear,
    Teardown,
    Wait(u64),
    Step(i64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let usage = (0_u64..1_000, any::<bool>(), 0_u32..=100).prop_map(
        |(memory_bytes, channel, busy_percent)| Use {
            memory_bytes,
            channel,
            busy_percent,
            memory_busy_percent: busy_percent,
        },
    );
    let act = prop_oneof![
        6 => (1_u32..200).prop_map(Act::Open),
        6 => (any::<usize>(), usage).prop_map(|(object, usage)| Act::Use(object, usage)),
        6 => any::<usize>().prop_map(Act::Close),
        1 => any::<bool>().prop_map(Act::Accounting),
        1 => Just(Act::Clear),
        1 => Just(Act::Teardown),
        3 => (0_u64..3_000_000).prop_map(Act::Wait),
        1 => (-5_000_000_i64..5_000_000).prop_map(Act::Step),
    ];
    proptest::collection::vec(act, 0..400)
}

proptest! {
    /// The laws of the stores, after every act of any history.
    #[test]
    fn whatever_happens_the_stores_keep_their_laws(acts in acts()) {
        let mut gpu = gpu();
        let mut now = at(0);
        let mut open = Vec::new();
        let mut told = std::collections::BTreeSet::new();
        for act in acts {
            match act {
                Act::Open(pid) => open.push((pid, gpu.open(pid, now).0)),
                Act::Use(nth, usage) if !open.is_empty() => {
                    gpu.set_use(open[nth % open.len()].1, usage, now);
                }
                Act::Close(nth) if !open.is_empty() => {
                    let (_, object) = open.swap_remove(nth % open.len());
                    gpu.close(object, now);
                }
                Act::Use(..) | Act::Close(_) => {}
                Act::Accounting(on) => gpu.set_accounting(on, now).unwrap(),
                Act::Clear => gpu.clear(),
                Act::Teardown => gpu.teardown(now),
                Act::Wait(us) => {
                    now = Moment { mono_us: now.mono_us + us, wall_us: now.wall_us + us };
                }
                Act::Step(us) => now.wall_us = now.wall_us.saturating_add_signed(us),
            }
            let pids = gpu.accounting_pids(View::Host);
            let live = gpu.accounting_pids(View::Container);
            let dead = &pids[..pids.len() - live.len()];
            prop_assert!(dead.len() <= DEAD_ENTRIES_MAX);
            prop_assert!(live.len() <= LIVE_ENTRIES_MAX);
            for part in [dead, &live] {
                let distinct: std::collections::BTreeSet<_> = part.iter().collect();
                prop_assert_eq!(distinct.len(), part.len());
            }
            for pid in &live {
                prop_assert!(open.iter().any(|(holder, _)| holder == pid), "{} holds", pid);
            }
            for pid in dead {
                let stats = host(&gpu, *pid).unwrap();
                prop_assert!(!stats.running);
                prop_assert!(stats.gpu_percent <= 100);
                prop_assert!(stats.gpu_util_sum <= stats.samples * 10_000);
            }
            for ended in gpu.take_ended() {
                if ended.billable && ended.loss.is_none() {
                    told.insert(ended.pid);
                }
            }
            // Whatever is dead was told to be final.
            prop_assert!(dead.iter().all(|pid| told.contains(pid)));
        }
        for (_, object) in open {
            gpu.close(object, now);
        }
        prop_assert!(!gpu.is_held());
        prop_assert!(gpu.accounting_pids(View::Container).is_empty());
    }

    /// The sums over processes are never more than the device's own samples.
    #[test]
    fn processes_together_are_never_busier_than_the_device(
        shares in proptest::collection::vec((1_u32..50, 0_u32..=100), 1..6), seconds in 1_u64..20
    ) {
        let mut gpu = gpu();
        for (pid, percent) in &shares {
            let (object, _) = gpu.open(*pid, at(0));
            gpu.set_use(object, busy(*percent), at(0));
        }
        let now = at(seconds * SECOND_US);
        let rows = gpu.process_samples(0, now);
        let samples = gpu.samples_since(0, now);
        let all: u64 = samples.iter().map(|sample| u64::from(sample.gpu_hundredths)).sum();
        let device = all / u64::try_from(samples.len()).unwrap().max(1) / 100;
        let processes: u64 = rows.iter().map(|row| u64::from(row.gpu_percent)).sum();
        prop_assert!(processes <= device, "{processes} {device}");
    }
}
