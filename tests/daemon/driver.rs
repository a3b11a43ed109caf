//! A driver that comes late, goes, or forgets.

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::entry::EpochEdge;
use gpu_ledger::unknown::GapCause;

use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::Sim;

#[test]
fn without_a_driver_it_stays_up_and_books_when_one_comes() {
    if !can_trace("without_a_driver_it_stays_up_and_books_when_one_comes") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let library = sim.folder().join("libnvidia-ml.so.1");
    let daemon = Setup::on(&sim).library(library.clone()).start();
    daemon.until_logged("nvml-library-not-found");
    std::os::unix::fs::symlink(sim.library(), &library).unwrap();
    daemon.until_logged("the driver is there");
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    assert_eq!(Books::of(&journal(&state)).faults(&sim.truth()), Vec::<String>::new());
    assert_sound(&state);
}

#[test]
fn a_mode_that_was_reset_and_an_idle_gpu_are_never_alike() {
    if !can_trace("a_mode_that_was_reset_and_an_idle_gpu_are_never_alike") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let daemon = Setup::on(&sim).start();
    sim.work("--gpu 0 --ms 10").wait();
    daemon.until_booked(1);
    sim.fault("accounting off --gpu 0");
    let lost = daemon.until_entered("the epoch ends", |figures| {
        matches!(figures, Figures::Epoch(epoch) if matches!(epoch.edge, EpochEdge::Ended { .. }))
    });
    let Figures::Epoch(epoch) = &lost.figures else { unreachable!() };
    assert_eq!(epoch.edge, EpochEdge::Ended { cause: GapCause::AccountingOff });
    daemon.until_logged("accounting-mode-disabled");
    sim.fault("accounting on --gpu 0");
    let gap = daemon.until_entered(
        "the time without accounting is a gap",
        |figures| matches!(figures, Figures::Gap(gap) if gap.cause == GapCause::AccountingOff),
    );
    let Figures::Gap(gap) = &gap.figures else { unreachable!() };
    assert_eq!(gap.gpu.as_ref(), Some(&epoch.gpu));
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let entries = journal(&state);
    let books = Books::of(&entries);
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    // The idle GPU has neither edge nor gap.
    assert!(books.gaps.iter().all(|gap| gap.gpu.as_ref() == Some(&epoch.gpu)), "{:?}", books.gaps);
    let edges = entries.iter().filter_map(|entry| match &entry.figures {
        Figures::Epoch(epoch) => Some((epoch.gpu.clone(), epoch.edge.clone())),
        _ => None,
    });
    let of_idle = edges.filter(|(gpu, _)| *gpu != epoch.gpu).count();
    assert_eq!(of_idle, 1);
    assert_sound(&state);
}

#[test]
fn a_gpu_that_falls_off_the_bus_and_comes_back_is_read_on() {
    if !can_trace("a_gpu_that_falls_off_the_bus_and_comes_back_is_read_on") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    sim.fault("gpu-lost on");
    daemon.until_logged("gpu-lost");
    daemon.until_entered("the epoch is broken", |figures| {
        matches!(figures, Figures::Epoch(epoch)
            if epoch.edge == EpochEdge::Ended { cause: GapCause::EpochBroken })
    });
    sim.fault("gpu-lost off");
    sim.fault("accounting on");
    sim.work("--ms 10").wait();
    daemon.until_booked(2);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert!(!books.gaps.is_empty());
    assert_sound(&state);
}
