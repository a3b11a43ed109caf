//! Rules and configuration that are read anew while it runs: what is in force then, and where that is told.

use serde_json::{Value, json};

use crate::asked::{ledger, status, text};
use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::metered::text_file;
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

#[test]
fn rules_are_taken_over_on_hangup_and_wrong_ones_leave_the_old_in_force() {
    if !can_trace("rules_are_taken_over_on_hangup_and_wrong_ones_leave_the_old_in_force") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let rules = sim.folder().join("rules.toml");
    let rule = |account: &str| format!("[[rule]]\naccount = \"{account}\"\nprogram = \"nvsim\"\n");
    std::fs::write(&rules, rule("")).unwrap();
    let config = format!("rules = \"{}\"\n", rules.display());
    let mut refused = Setup::on(&sim).config(&config).spawn();
    assert_eq!(poll("it ends", || refused.has_ended()).code(), Some(1));
    let said = refused.log();
    assert!(said.contains("rules.toml:2:12: `account`: the account has no name"), "{said}");
    std::fs::write(&rules, rule("first")).unwrap();
    let daemon = Setup::on(&sim).config(&config).start();
    daemon.until_logged("rules in force");
    sim.work("--ms 5").wait();
    daemon.until_booked(1);
    std::fs::write(&rules, "[[rule]]\naccount = \"x\"\nprogram = { regex = '(' }\n").unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged("the rules stay as they were");
    // The files say something else than what is in force, and everybody who looks can see it.
    let first = gpu_ledger::journal::chain::sha256(rule("first").as_bytes()).to_string();
    let refused = status(&sim);
    assert_eq!(refused["rules"]["sha256"], first, "{refused}");
    assert_eq!((&refused["rules"]["rules"], &refused["cmdline"]), (&1.into(), &"redacted".into()));
    assert_eq!(refused["rules"]["path"], rules.to_str().unwrap());
    let why = refused["reload_refused"]["error"].as_str().unwrap();
    assert!(why.contains("rules.toml:3:22: `program`: bad regular expression"), "{why}");
    let asked = ledger(&sim, &["status"]);
    assert_eq!(asked.status.code(), Some(2), "what is in force is not what the files say");
    let said = text(&asked.stdout);
    assert!(said.contains("  RELOAD REFUSED 20") && said.contains(&first), "{said}");
    sim.work("--ms 5").wait();
    daemon.until_booked(2);
    std::fs::write(&rules, rule("second")).unwrap();
    let before = daemon.log().len();
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged(&gpu_ledger::journal::chain::sha256(rule("second").as_bytes()).to_string());
    // Nobody is told that nothing changed, unless nothing did.
    status(&sim);
    assert!(!daemon.log()[before..].contains("nothing in"), "{}", &daemon.log()[before..]);
    let before = daemon.log().len();
    daemon.signal(rustix::process::Signal::HUP);
    let whole = "the configuration was read again: nothing in it changed";
    poll(whole, || daemon.log()[before..].contains(whole).then_some(()));
    sim.work("--ms 5").wait();
    daemon.until_booked(3);
    let taken = status(&sim);
    assert_eq!(taken["reload_refused"], Value::Null);
    assert!(taken["rules"]["since"].as_str() > refused["rules"]["since"].as_str(), "{taken}");
    let state = daemon.state().to_path_buf();
    let log = daemon.stop();
    assert!(log.contains("rules.toml:3:22: `program`: bad regular expression"), "{log}");
    let books = Books::of(&journal(&state));
    let accounts: Vec<String> = books.settled.iter().map(|one| one.account.to_string()).collect();
    assert_eq!(accounts, ["first", "first", "second"]);
    assert_sound(&state);
}

/// Rules that look at arguments, and a mode that stores none: either both change, or neither, and one line says so.
#[test]
fn rules_and_cmdline_that_do_not_fit_each_other_both_stay_and_one_line_says_so() {
    const TEST: &str =
        "rules_and_cmdline_that_do_not_fit_each_other_both_stay_and_one_line_says_so";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let rules = sim.folder().join("rules.toml");
    let rule = "[[rule]]\naccount = \"a\"\nargv = \"x\"\n";
    // The second one can never match.
    std::fs::write(&rules, rule.repeat(2)).unwrap();
    let page = text_file(&sim);
    let metrics = format!("[metrics]\ntextfile = {page:?}\ninterval = \"50ms\"\n");
    let of = |lines: &str| format!("rules = {rules:?}\n{lines}{metrics}");
    let daemon = Setup::on(&sim).config(&of("")).start();
    daemon.until_logged("rules.toml:4: rule 2 never matches: rule 1 (line 1)");
    let shadowed = status(&sim)["rules"]["shadowed"].clone();
    let wanted = json!([{"rule": 2, "line": 4, "by": 1, "by_line": 1}]);
    assert_eq!(shadowed, wanted);
    let reload = |config: &str, until: &str| {
        let before = daemon.log().len();
        std::fs::write(daemon.config_path(), config).unwrap();
        daemon.signal(rustix::process::Signal::HUP);
        poll(until, || daemon.log()[before..].contains(until).then_some(()));
        // Whatever else it would say follows at once.
        status(&sim);
        daemon.log()[before..].to_owned()
    };
    let has = |series: &str| {
        poll(series, || {
            let page = std::fs::read_to_string(&page).ok()?;
            page.lines().any(|line| line == series).then_some(())
        });
    };
    has("gpu_ledger_rules 2");
    has("gpu_ledger_rules_shadowed 1");
    has("gpu_ledger_reload_refused 0");
    let said = reload(&of("cmdline = \"none\"\n"), "stay as they were");
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in [
        "rules.toml:3:1: rule 1 looks at `argv`",
        "the rules stay as they were, and `cmdline` too",
        "cmdline=\"redacted\"",
        "refused_cmdline=\"none\"",
        "gpu-ledger rules check",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let now = status(&sim);
    assert_eq!((&now["cmdline"], &now["rules"]["rules"]), (&"redacted".into(), &2.into()), "{now}");
    has("gpu_ledger_reload_refused 1");
    has("gpu_ledger_reloads_total{outcome=\"refused\"} 1");
    // Without the rules on arguments the same mode is taken.
    std::fs::write(&rules, "[[rule]]\naccount = \"a\"\nprogram = \"x\"\n").unwrap();
    let said = reload(&of("cmdline = \"none\"\n"), "key=\"cmdline\"");
    assert!(said.contains("in force now") && !said.contains("stay as they were"), "{said}");
    let now = status(&sim);
    assert_eq!((&now["cmdline"], &now["reload_refused"]), (&"none".into(), &Value::Null), "{now}");
    assert_eq!(now["rules"]["shadowed"], json!([]));
    // A configuration that is wrong is told in the same place.
    reload("no_such_key = 1\n", "nothing changed");
    let why = status(&sim)["reload_refused"]["error"].clone();
    assert!(why.as_str().unwrap().contains("config.toml:1: unknown key"), "{why}");
    has("gpu_ledger_reloads_total{outcome=\"refused\"} 2");
    daemon.stop();
}

/// Rules that take seconds to be read hold up nobody: who asks is answered, what was in force stays so until they are
/// read, and the file that lies there last is the one that counts.
#[test]
fn rules_that_take_long_to_be_read_hold_up_nobody_and_the_last_file_wins() {
    if !can_trace("rules_that_take_long_to_be_read_hold_up_nobody_and_the_last_file_wins") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let rules = sim.folder().join("rules.toml");
    let rule = |account: &str| format!("[[rule]]\naccount = \"{account}\"\nprogram = \"nvsim\"\n");
    std::fs::write(&rules, rule("first")).unwrap();
    let daemon = Setup::on(&sim).config(&format!("rules = {rules:?}\n")).start();
    let before = status(&sim);
    assert_eq!(before["reloading_since"], Value::Null);
    // Each is compiled, and held against the others.
    let many = |n: usize| {
        let (low, high) = (1 + n % 100, 1 + n / 100);
        format!(
            "[[rule]]\naccount = \"a{n}\"\nargv = {{ regex = '[a-z]{{{low}}}[0-9]{{{high}}}' }}\n"
        )
    };
    std::fs::write(&rules, (0..10_000).map(many).collect::<String>()).unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    let during =
        poll("it reads", || Some(status(&sim)).filter(|now| now["reloading_since"].is_string()));
    assert_eq!(during["rules"], before["rules"], "what was in force is");
    let said = text(&ledger(&sim, &["status"]).stdout);
    sim.work("--ms 5").wait();
    daemon.until_booked(1);
    std::fs::write(&rules, rule("last")).unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    let last = gpu_ledger::journal::chain::sha256(rule("last").as_bytes()).to_string();
    let taken = poll("the last one", || {
        Some(status(&sim))
            .filter(|now| now["rules"]["sha256"] == *last && now["reloading_since"].is_null())
    });
    assert_eq!(taken["reload_refused"], Value::Null);
    assert!(said.contains("  RELOADING since 20"), "{said}");
    sim.work("--ms 5").wait();
    daemon.until_booked(2);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    let accounts: Vec<String> = books.settled.iter().map(|one| one.account.to_string()).collect();
    assert_eq!(accounts, ["first", "last"]);
}

/// A request that comes before anybody listens is put off, and ends nothing.
#[test]
fn a_hangup_in_the_first_moments_is_heard_later() {
    if !can_trace("a_hangup_in_the_first_moments_is_heard_later") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let rules = sim.folder().join("rules.toml");
    // So many that it reads for a while before it listens.
    let one = |n: usize| format!("[[rule]]\naccount = \"a\"\nargv = {{ regex = 'a{n}[0-9]+' }}\n");
    std::fs::write(&rules, (0..20_000).map(one).collect::<String>()).unwrap();
    let mut daemon = Setup::on(&sim).config(&format!("rules = {rules:?}\n")).spawn();
    // SIGHUP is 1, the lowest bit; the words before it run in the same process.
    let status = format!("/proc/{}/status", daemon.pid());
    poll("it puts off SIGHUP", || {
        let status = std::fs::read_to_string(&status).ok()?;
        let held = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?.trim().to_owned();
        (u64::from_str_radix(&held, 16).ok()? & 1 == 1).then_some(())
    });
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_told("READY=1");
    daemon.until_logged("nothing in it changed");
    daemon.stop();
}
