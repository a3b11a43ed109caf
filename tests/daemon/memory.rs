//! Memory held, sampled by the running daemon: of those that never exit, over a stop, a kill, a release and a stall.
//! No time is asserted here: hours and quarters are those of the virtual clock in the library's own tests.

use gpu_ledger::journal::Figures;
use gpu_ledger::memory::Stretch;
use gpu_ledger::residency::verdict::VoidReason;
use serde_json::Value;

use crate::asking::{ledger, text, value};
use crate::daemon::{Daemon, Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// Often enough for a test; the cap is 600 ms.
const PERIOD: &str = "memory_period = \"50ms\"\n";

fn stretches(state: &std::path::Path) -> Vec<Stretch> {
    let entries = journal(state).into_iter();
    let stretches = entries.filter_map(|entry| match entry.figures {
        Figures::Memory(stretch) => Some(*stretch),
        _ => None,
    });
    stretches.collect()
}

fn status(sim: &Sim) -> Value {
    let socket = crate::asking::socket(sim);
    let output = ledger(0, 0, &["status", "--json", "--socket", socket.to_str().unwrap()]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = include_str!("../../gpu-ledger/schema/status.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&status).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{status}");
    status
}

/// Waits until so many samples more have landed.
fn until_sampled(sim: &Sim, more: u64) {
    let samples = || status(sim)["gpus"][0]["memory"]["samples"].as_u64();
    let before = poll("a sample", samples);
    poll("samples", || samples().filter(|now| *now >= before + more));
}

fn bill(daemon: &Daemon<'_>) -> Value {
    let state = daemon.state().to_str().unwrap();
    let words = ["bill", "--state-dir", state, "--period", "all", "--format", "json"];
    value(&ledger(0, 0, &words))
}

fn bytes(of: &Value) -> u128 {
    of.as_str().unwrap().parse().unwrap()
}

#[test]
fn a_warm_model_that_never_exits_has_an_honest_line() {
    if !can_trace("a_warm_model_that_never_exits_has_an_honest_line") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // One is older than accounting and never gets a row, the other's row stays open.
    sim.fault("accounting off");
    let mut older = sim.actor("older.py");
    older.told("open 0");
    sim.fault("accounting on");
    let daemon = Setup::on(&sim).config(PERIOD).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    until_sampled(&sim, 4);
    let told = status(&sim);
    let memory = &told["gpus"][0]["memory"];
    assert_eq!((&memory["cap_ms"], &memory["lack"]), (&Value::from(600.0), &Value::Null));
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let found = stretches(&state);
    assert!(!found.is_empty());
    for stretch in &found {
        assert!(stretch.closes() && stretch.voids.is_empty(), "{stretch:?}");
    }
    let names: std::collections::BTreeSet<String> = found
        .iter()
        .flat_map(|stretch| &stretch.holders)
        .map(|holding| {
            assert!(holding.held.known_ms > 0 && holding.holder.start.is_some(), "{holding:?}");
            holding.holder.account.title()
        })
        .collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["older.py", "server.py"]);
    assert_sound(&state);
    let daemon = Setup::on(&sim).config(PERIOD).start();
    let said = bill(&daemon);
    let line = |name: &str| {
        let lines = said["memory"]["lines"].as_array().unwrap();
        lines
            .iter()
            .find(|line| line["account"] == name)
            .unwrap_or_else(|| panic!("{said}"))
            .clone()
    };
    let (older, server) = (line("older.py"), line("server.py"));
    assert!(bytes(&older["byte_ms"]) >= bytes(&server["byte_ms"]) && bytes(&server["byte_ms"]) > 0);
    let gpu = &said["memory"]["gpus"][0];
    let lines = said["memory"]["lines"].as_array().unwrap();
    let held: u128 = lines.iter().map(|line| bytes(&line["byte_ms"])).sum();
    assert_eq!(held + bytes(&gpu["unattributed_byte_ms"]), bytes(&gpu["used_byte_ms"]));
    // Beside what is held, which neither of them has settled.
    let accounts = said["accounts"].as_array().unwrap();
    assert!(accounts.iter().all(|account| account["held_ms"] == 0), "{said}");
    assert!(accounts.iter().all(|account| account["memory_held_byte_ms"].is_string()), "{said}");
    daemon.stop();
}

#[test]
fn a_stalled_driver_voids_its_hour_and_a_release_is_not_sampled() {
    if !can_trace("a_stalled_driver_voids_its_hour_and_a_release_is_not_sampled") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).config(&format!("{PERIOD}call_deadline = \"500ms\"\n")).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    until_sampled(&sim, 2);
    let socket = crate::asking::socket(&sim);
    let socket = socket.to_str().unwrap();
    let released = ledger(0, 0, &["release", "--for", "1h", "--socket", socket]);
    assert!(released.status.success(), "{}", text(&released.stderr));
    assert_eq!(nvsim::fault::ask(&sim.socket(), &["clients"]).unwrap().trim(), "0");
    daemon.until_entered(
        "what was held until then",
        |figures| matches!(figures, Figures::Memory(stretch) if stretch.voids.is_empty()),
    );
    let ended = ledger(0, 0, &["release", "--end", "--socket", socket]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    until_sampled(&sim, 2);
    sim.fault("hang nvmlDeviceGetComputeRunningProcesses_v3");
    let void = daemon.until_entered(
        "the void",
        |figures| matches!(figures, Figures::Memory(stretch) if !stretch.voids.is_empty()),
    );
    let Figures::Memory(void) = &void.figures else { unreachable!() };
    assert_eq!(void.voids[0].0, VoidReason::AgeSupOverCap);
    assert!(void.closes() && void.holders.len() == 1, "{void:?}");
    poll("the call is named", || {
        let told = status(&sim);
        let hangs = told["gpus"][0]["memory"]["hangs_in"].as_str().map(str::to_owned);
        hangs.filter(|call| call == "nvmlDeviceGetComputeRunningProcesses_v3")
    });
    sim.fault("heal");
    until_sampled(&sim, 2);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let daemon = Setup::on(&sim).config("memory_period = \"off\"\n").start();
    assert_eq!(status(&sim)["gpus"][0]["memory"], Value::Null);
    let said = bill(&daemon);
    let gpu = &said["memory"]["gpus"][0];
    // Whatever hour it is: the one with the stall is void, and nothing of it is a figure.
    assert!(gpu["void_hours"].as_u64() >= Some(1) && gpu["void_ms"].as_u64() > Some(0), "{gpu}");
    assert!(gpu["uncovered_ms"].as_u64() > Some(0), "{gpu}");
    let lines = said["memory"]["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["void_ms"].as_u64() > Some(0)), "{said}");
    let unknown = said["unknown"].as_array().unwrap();
    let is_void = |line: &Value| line["subject"].as_str().unwrap().contains("hours that are void");
    assert!(unknown.iter().any(is_void), "{said}");
    daemon.stop();
    assert_sound(&state);
}
