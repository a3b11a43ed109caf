//! Killed, and started again.

use std::time::Duration;

use gpu_ledger::identity::Basis;
use gpu_ledger::journal::Figures;
use gpu_ledger::unknown::{GapCause, NamelessReason};

use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

#[test]
fn what_ends_while_it_is_down_keeps_its_name_and_nothing_is_booked_twice() {
    if !can_trace("what_ends_while_it_is_down_keeps_its_name_and_nothing_is_booked_twice") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    sim.work("--ms 20").wait();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let pid = server.pid();
    daemon.until_booked(1);
    let open = daemon.until_entered(
        "the server is entered as open",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    daemon.kill();
    server.end();
    sim.until_ended(2);
    let unseen = sim.work("--ms 10");
    let unseen_pid = unseen.pid();
    unseen.wait();
    let truth = sim.until_ended(3);
    let daemon = Setup::on(&sim).start();
    daemon.until_booked(3);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let entries = journal(&state);
    let books = Books::of(&entries);
    assert_eq!(books.faults(&truth), Vec::<String>::new());
    let of_server = books.of_pid(pid);
    assert_eq!((of_server.basis, of_server.opened), (Some(Basis::Journal), Some(open.seq)));
    assert_eq!(of_server.program.as_deref(), Some("server.py"));
    let of_unseen = books.of_pid(unseen_pid);
    assert_eq!(of_unseen.account.unattributed(), Some(NamelessReason::AgentDown));
    let [down] = books.gaps_of(GapCause::AgentDown)[..] else { panic!("{:?}", books.gaps) };
    let ended = truth.iter().map(|row| row.end_time_us).max().unwrap();
    assert!(down.from.wall.0 < ended && ended < down.to.wall.0, "{down:?}");
    assert_sound(&state);
}

#[test]
fn killed_at_random_points_it_books_everything_once() {
    if !can_trace("killed_at_random_points_it_books_everything_once") {
        return;
    }
    let each = kills().div_ceil(HOSTS);
    let rows: usize = std::thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|host| scope.spawn(move || killed_again_and_again(host, each)))
            .collect();
        hosts.into_iter().map(|host| host.join().unwrap()).sum()
    });
    println!("{rows} rows over {} kills", each * HOSTS);
}

/// Kills one daemon after the other on one journal, while jobs come and go; how many there were.
fn killed_again_and_again(host: u64, kills: u64) -> usize {
    let sim = Sim::start(&["--gpus", "1"]);
    // The first one covers what follows, as soon as the journal says so.
    let first = Setup::on(&sim).start();
    first.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    first.kill();
    let mut random = random(0x5eed + host);
    let mut killed = Vec::new();
    for number in 0..kills {
        let mut jobs = Vec::new();
        // While it starts, or while it works.
        let (daemon, until) = if number % 2 == 0 {
            (Setup::on(&sim).spawn(), random(400))
        } else {
            (Setup::on(&sim).start(), random(150))
        };
        for at in (0..until).step_by(50) {
            jobs.push(sim.work(&format!("--ms {}", 1 + random(40))));
            std::thread::sleep(Duration::from_millis(50.min(until - at)));
        }
        daemon.kill();
        killed.push(jiff::Timestamp::now().as_microsecond());
        jobs.into_iter().for_each(crate::support::Job::wait);
    }
    let daemon = Setup::on(&sim).start();
    let truth = sim.truth();
    poll("everything that the driver still has is booked", || {
        let books = Books::of(&daemon.journal());
        let booked = |row: &crate::truth::Row| {
            books.settled.iter().any(|one| {
                one.pid.0 == row.pid && one.start.map(|start| start.0) == Some(row.start_time_us)
            })
        };
        truth.iter().rev().take(100).all(booked).then_some(())
    });
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&truth), Vec::<String>::new(), "{} rows", truth.len());
    assert_eq!(books.conflicts, 0);
    // Every absence is a gap: nobody was there just after each kill.
    let down = books.gaps_of(GapCause::AgentDown);
    for moment in killed {
        let moment = u64::try_from(moment).unwrap();
        let in_gap = down.iter().any(|gap| (gap.from.wall.0..=gap.to.wall.0).contains(&moment));
        assert!(in_gap, "killed at {moment}: {down:?}");
    }
    let predates = Some(NamelessReason::PredatesCoverage);
    assert!(books.settled.iter().all(|one| one.account.unattributed() != predates));
    // Every hash, every sum, and all that is derived from them.
    assert_sound(&state);
    truth.len()
}

/// Journals that are written at the same time: a daemon mostly waits, and the machine need not.
const HOSTS: u64 = 4;

/// How often one is killed: so often wherever tests run, and as often as asked in a long run.
fn kills() -> u64 {
    const USUAL: u64 = 200;
    match std::env::var("GPU_LEDGER_TEST_KILLS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => USUAL,
    }
}

/// Numbers below a bound, the same in every run (splitmix64).
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}
