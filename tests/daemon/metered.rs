//! The meters of the running daemon: in the text file, and over the loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_ledger::journal::Figures;
use gpu_ledger::metrics::HeldPage;
use gpu_ledger::metrics::held::{AccountLabel, HeldCount};
use gpu_ledger::unit::WallUs;
use serde_json::Value;

use crate::daemon::{NOBODY, Setup};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// A folder for the text file, as the collector's is: the daemon may write there.
pub(crate) fn text_file(sim: &Sim) -> PathBuf {
    let folder = sim.folder().join("meters");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    folder.join("gpu-ledger.prom")
}

fn writing(file: &Path) -> String {
    format!("[metrics]\ntextfile = \"{}\"\ninterval = \"100ms\"\n", file.display())
}

/// Waits until the page is such, and takes what is found there.
fn until_page<T>(file: &Path, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
    poll(what, || find(&std::fs::read_to_string(file).ok()?))
}

/// The counters of an account on the only GPU, and up to when they count.
fn held(page: &str, account: &str) -> Option<(HeldCount, WallUs)> {
    let page = HeldPage::of(page)?;
    let gpu = page.gpus.values().next()?;
    let of_account = |label: &&AccountLabel| *label.account == *account;
    Some((*gpu.counts.get(gpu.counts.keys().find(of_account)?)?, gpu.until))
}

#[test]
fn meters_are_in_the_text_file_and_on_the_loopback() {
    if !can_trace("meters_are_in_the_text_file_and_on_the_loopback") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let file = text_file(&sim);
    let config = format!("{}listen = \"127.0.0.1:0\"\n", writing(&file));
    let daemon = Setup::on(&sim).config(&config).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let page = until_page(&file, "the file has what was booked", |page| {
        let is_there = page.lines().any(|line| line == "gpu_ledger_settlements_total 1");
        is_there.then(|| page.to_owned())
    });
    assert!(page.contains("account=\"server.py\""), "{page}");
    assert!(page.contains("gpu_ledger_healthy 1"), "{page}");
    let said = daemon.log();
    let address = said.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.contains("gpu_ledger_settlements_total 1"), "{told}");
    // The line of the first version of this idea, one a transaction that booked something.
    assert!(said.contains(" gpu-ledger: nvsim "), "{said}");
    daemon.stop();
}

#[test]
fn held_counters_go_on_over_restarts_and_end_as_what_was_booked() {
    if !can_trace("held_counters_go_on_over_restarts_and_end_as_what_was_booked") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let file = text_file(&sim);
    let start = || Setup::on(&sim).config(&writing(&file)).start();
    let mut daemon = start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let counted = |page: &str| held(page, "server.py").filter(|(count, _)| count.held.0 > 500);
    let mut before = until_page(&file, "it is counted", counted).0;
    assert_eq!(before.adjusted_down.0, 0, "{before:?}");
    for is_killed in [false, true, false] {
        if is_killed {
            daemon.kill();
        } else {
            daemon.stop();
            // The last page says that it is the last: an alert on health sees a daemon that was stopped.
            let page = std::fs::read_to_string(&file).unwrap();
            assert!(page.contains("\ngpu_ledger_healthy 0\n"), "{page}");
            assert!(page.contains("unhealthy{reason=\"stopped\"} 1\n"), "{page}");
        }
        daemon = start();
        let now = until_page(&file, "it is counted on", |page| {
            let is_well = page.contains("\ngpu_ledger_healthy 1\n");
            held(page, "server.py").filter(|(now, _)| is_well && now.held > before.held)
        });
        assert!(now.0.adjusted_up >= before.adjusted_up, "{before:?} {now:?}");
        assert_eq!((now.0.adjusted_down.0, now.0.unplaced.0), (0, 0), "{before:?} {now:?}");
        before = now.0;
    }
    server.end();
    daemon.until_booked(1);
    let booked =
        daemon.until_entered("it is booked", |figures| matches!(figures, Figures::Settlement(_)));
    let Figures::Settlement(booked) = booked.figures else { panic!("no settlement") };
    let end = WallUs(booked.start.unwrap().0 + (booked.held.0 + 1) * 1_000);
    let (count, _) = until_page(&file, "all of it is counted", |page| {
        held(page, "server.py").filter(|(_, until)| *until > end)
    });
    let sum = count.held.0 + count.adjusted_up.0 - count.adjusted_down.0;
    // Each run places the row's start by a reading of both clocks of its own.
    assert!(sum.abs_diff(booked.held.0) <= 5, "{count:?} {booked:?}");
    daemon.stop();
}

#[test]
fn a_job_of_the_first_seconds_is_on_the_counters() {
    if !can_trace("a_job_of_the_first_seconds_is_on_the_counters") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let file = text_file(&sim);
    let config = writing(&file).replace("100ms", "2s");
    let daemon = Setup::on(&sim).config(&config).start();
    sim.work("--ms 300").wait();
    daemon.until_booked(1);
    let count = until_page(&file, "it is counted", |page| {
        held(page, "nvsim").map(|(count, _)| count).filter(|count| count.held.0 > 0)
    });
    assert!(count.held.0 >= 299 && count.unplaced.0 == 0, "{count:?}");
    daemon.stop();
}

#[test]
fn a_full_store_that_is_read_leaves_room() {
    if !can_trace("a_full_store_that_is_read_leaves_room") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let file = text_file(&sim);
    let daemon = Setup::on(&sim).config(&writing(&file)).start();
    for _ in 0..132 {
        sim.work("--ms 1").wait();
    }
    daemon.until_booked(132);
    let mut ask = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    ask.args(["status", "--json", "--socket"]).arg(sim.folder().join("run/daemon.sock"));
    let status: Value = serde_json::from_slice(&ask.output().unwrap().stdout).unwrap();
    let gpu = &status["gpus"][0];
    assert_eq!(gpu["dead_rows"], 128, "{gpu}");
    let margin = gpu["eviction_margin_rows"].as_u64().unwrap();
    assert!((1..=128).contains(&margin), "{gpu}");
    until_page(&file, "so says the page", |page| {
        let mut lines = page.lines();
        let line = lines.find(|line| line.starts_with("gpu_ledger_eviction_margin_rows{"))?;
        (line.rsplit_once(' ')?.1 != "0").then_some(())
    });
    daemon.stop();
}
