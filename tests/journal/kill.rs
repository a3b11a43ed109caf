//! kill -9 at any moment: nothing that was acknowledged is lost, nothing is booked twice.

use std::time::{Duration, Instant};

use gpu_ledger::journal::store::{Reader, StateDir, check};
use gpu_ledger::journal::{Entry, Figures};
use nvsim::random::Random;

use crate::child::{self, job};
use crate::made;

/// Pids of all settlements, in order.
pub(crate) fn settled(dir: &StateDir) -> Vec<u32> {
    let mut pids = Vec::new();
    let reader = Reader::open(dir).unwrap();
    let take = |entry: &Entry| {
        if let Figures::Settlement(settlement) = &entry.figures {
            pids.push(settlement.pid.0);
        }
    };
    let read = reader.period(0, u64::MAX, take).unwrap();
    let held: u128 = pids.iter().map(|pid| u128::from(job(*pid).held_ms)).sum();
    let booked = read.end.head.booked.values();
    assert_eq!(booked.map(|balance| balance.held_ms).sum::<u128>(), held, "the sums");
    pids
}

/// Everything up to the last row that was acknowledged is there, once and in order.
pub(crate) fn assert_nothing_lost(dir: &StateDir, acknowledged: u32, how: &str) -> u32 {
    let pids = settled(dir);
    let count = pids.len() as u32;
    assert!(count >= acknowledged, "{how}: {acknowledged} acknowledged, {count} there");
    assert!(pids.iter().copied().eq(1..=count), "{how}: doubled or out of order");
    count
}

#[test]
fn killed_two_hundred_times_it_loses_and_doubles_nothing() {
    let folder = made::folder();
    let dir = StateDir::at(folder.path().join("state"));
    let (mut acknowledged, mut unacknowledged) = (0, 0);
    for kill in 0..200 {
        let mut random = Random::seeded(kill);
        let mut writer = child::start("write", dir.path(), &[]);
        let acks = random.below(5);
        let mut seen = 0;
        while seen < acks {
            let line = writer.line().expect("it writes until it is killed");
            if let Some(pid) = line.strip_prefix("ack ") {
                acknowledged = pid.parse().unwrap();
                seen += 1;
            }
        }
        // Anywhere within the next transaction, or within the opening.
        let moment = Instant::now() + Duration::from_micros(random.below(6_000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        writer.process.kill().unwrap();
        for line in writer.rest() {
            match line.strip_prefix("ack ") {
                Some(pid) => acknowledged = pid.parse().unwrap(),
                None => assert!(line.starts_with("open"), "{line}"),
            }
        }
        if dir.journal().exists() && kill % 8 == 0 {
            let there = assert_nothing_lost(&dir, acknowledged, &format!("kill {kill}"));
            unacknowledged += u32::from(there > acknowledged);
        }
    }
    assert!(acknowledged > 200, "only {acknowledged} rows were written");
    assert_nothing_lost(&dir, acknowledged, "at the end");
    let report = check(&dir).unwrap();
    assert!(report.is_whole(), "{:?}", report.faults);
    assert!(report.is_witnessed);
    // Seen or not depends on the machine; said, since it is what the unique key is for.
    println!("{acknowledged} rows; {unacknowledged} of 25 looks found one more than acknowledged");
}
