//! Bills that the daemon reads for others: who sees what, and when they speak of.

use std::time::{Duration, Instant};

use gpu_ledger::journal::Figures;
use serde_json::{Value, json};

use crate::asking::{
    Asking, ONE, OTHER, ROOT, answer, bill, booked, ledger, lines, owned, socket, statements, text,
    value,
};
use crate::daemon::Setup;
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// A mark that is no older is good enough for a reader.
const FRESH_FOR: Duration = Duration::from_secs(5);
#[test]
fn root_and_the_group_see_all_and_a_user_their_own_lines_and_every_statement_is_the_same() {
    const TEST: &str =
        "root_and_the_group_see_all_and_a_user_their_own_lines_and_every_statement_is_the_same";
    if !can_trace(TEST) {
        return;
    }
    let group = nix::unistd::Group::from_gid(60.into()).unwrap().expect("the group games");
    let sim = Sim::start(&["--gpus", "1"]);
    let config = format!("[socket]\ngroup = \"{}\"\n", group.name);
    let (daemon, period) = booked(&sim, &config);
    let asking = Asking::of(&sim, &period);

    let root = asking.json(ROOT, &[]);
    assert_eq!(lines(&root), owned(&[("mine", 1), ("train", 1), ("whisper", 1)]));
    assert_eq!(
        root["reading"],
        json!({
            "through": "daemon", "proven": "entries", "only_uid": null, "only_user": null,
            "end_witnessed": true, "missing_to": 0,
        })
    );
    // Read by the files it is the same bill, with more of it proven.
    let mut files = vec!["--state-dir", daemon.state().to_str().unwrap(), "--format", "json"];
    files.extend(period.iter().map(String::as_str));
    let by_files = value(&bill(0, 0, &files));
    assert_eq!(by_files["reading"]["proven"], "journal");
    for part in ["bill_id", "accounts", "gpus", "unattributed", "driver", "host", "journal_head"] {
        assert_eq!(by_files[part], root[part], "{part}");
    }

    let member = asking.json((ONE, group.gid.as_raw()), &[]);
    assert_eq!((lines(&member), &member["reading"]), (lines(&root), &root["reading"]));

    let own = asking.json((ONE, ONE), &[]);
    assert_eq!(lines(&own), owned(&[("mine", 1), ("other users", 2)]));
    let reading = &own["reading"];
    assert_eq!((&reading["proven"], &reading["only_uid"]), (&json!("nothing"), &json!(ONE)));
    let mut folded = own["accounts"].as_array().unwrap().iter();
    let folded = folded.find(|line| line["account"] == "other users").unwrap();
    assert_eq!((&folded["classified"], &folded["uid"]), (&Value::Null, &Value::Null));
    assert_ne!(own["bill_id"], root["bill_id"]);
    let nobodys = asking.json((61_003, 61_003), &[]);
    assert_eq!(lines(&nobodys), owned(&[("other users", 3)]));
    // Three that held it at once are three for everybody: shared to the same millisecond.
    assert!(statements(&root)[0][1] > 0, "{root}");
    for other in [&member, &own, &nobodys] {
        assert_eq!(statements(other), statements(&root));
        assert_eq!(other["settlements_total"], root["settlements_total"]);
        assert_eq!(other["span_ms_total"], root["span_ms_total"]);
    }
    daemon.stop();
}

#[test]
fn in_no_form_does_a_bill_name_another_user_or_what_they_run() {
    if !can_trace("in_no_form_does_a_bill_name_another_user_or_what_they_run") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, period) = booked(&sim, "");
    let asking = Asking::of(&sim, &period);
    let me = (ONE, ONE);
    for by in ["account", "user", "program", "gpu", "process"] {
        for format in ["json", "csv", "table", "line"] {
            // The line has no place for processes, and says so.
            if (by, format) == ("process", "line") {
                continue;
            }
            let said = text(&asking.by(me, &["--by", by, "--format", format]).stdout);
            assert!(!said.is_empty(), "{by} {format}");
            assert!(!said.contains("whisper") && !said.contains("train"), "{by} {format}: {said}");
            assert!(!said.contains(&OTHER.to_string()), "{by} {format}: {said}");
        }
    }
    let listed = asking.json(me, &["--by", "process"]);
    let settled = listed["settlements"].as_array().unwrap();
    assert_eq!((settled.len(), &settled[0]["uid"]), (1, &json!(ONE)));
    let users = asking.json(me, &["--by", "user"]);
    assert_eq!(lines(&users), owned(&[("other users", 2), ("uid 61001", 1)]));
    let page = text(&asking.by(me, &[]).stdout);
    assert!(page.contains("lines of uid 61001 alone"), "{page}");
    assert!(page.contains("its word, nothing of it was proven here"), "{page}");
    crate::ledger::assert_fits_a_terminal(&page);
    daemon.stop();
}

#[test]
fn who_may_not_open_the_journal_asks_the_daemon_by_themselves_or_is_told_how() {
    const TEST: &str = "who_may_not_open_the_journal_asks_the_daemon_by_themselves_or_is_told_how";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, _) = booked(&sim, "");
    let state = daemon.state().to_str().unwrap().to_owned();
    let config = sim.folder().join("reader.toml");
    let lines = format!(
        "state_dir = \"{state}\"\n[socket]\npath = \"{}\"\n",
        socket(&sim).to_str().unwrap()
    );
    std::fs::write(&config, lines).unwrap();
    let config = config.to_str().unwrap();
    let own = value(&bill(ONE, ONE, &["--config", config, "--format", "json"]));
    assert_eq!(
        (&own["reading"]["through"], &own["reading"]["only_uid"]),
        (&json!("daemon"), &json!(ONE))
    );
    let root = value(&bill(0, 0, &["--config", config, "--format", "json"]));
    assert_eq!(root["reading"]["through"], "files", "who may read the files reads them");
    let refused = bill(ONE, ONE, &["--state-dir", &state]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("gpu-ledger bill --socket /"), "{said}");
    assert_eq!(said.matches("ermission denied").count(), 1, "said once: {said}");
    assert!(refused.stdout.is_empty());
    daemon.stop();
    let nobody = bill(ONE, ONE, &["--config", config]);
    let said = text(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(said.contains(&state) && said.contains("no daemon answers"), "{said}");
    // A journal in a folder that lets everybody in is as closed as its file.
    let folder = sim.folder().join("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("ledger.db"), "x").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.join("ledger.db"), mode).unwrap();
    let refused = bill(ONE, ONE, &["--state-dir", folder.to_str().unwrap()]);
    let said = text(&refused.stderr);
    assert!(said.contains("ermission denied") && said.contains("--socket"), "{said}");
}

/// Rules that look at arguments see through the daemon what they see in the files; of other users' rows nothing.
#[test]
fn rules_are_replayed_through_the_daemon_and_a_user_replays_their_own() {
    const TEST: &str = "rules_are_replayed_through_the_daemon_and_a_user_replays_their_own";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, period) = booked(&sim, "");
    let rules = sim.folder().join("new.toml");
    std::fs::write(&rules, "[[rule]]\naccount = \"worked\"\nargv = \"--ms\"\n").unwrap();
    let state = daemon.state().to_str().unwrap().to_owned();
    let config = sim.folder().join("reader.toml");
    let lines = format!("state_dir = {state:?}\n[socket]\npath = {:?}\n", socket(&sim));
    std::fs::write(&config, lines).unwrap();
    let [rules, config] = [&rules, &config].map(|path| path.to_str().unwrap());
    let period: Vec<&str> = period.iter().map(String::as_str).collect();
    let replayed = |uid: u32, more: &[&str]| {
        let words = [&["rules", "replay", rules, "--json"], &period[..], more].concat();
        let output = ledger(uid, uid, &words);
        let said = text(&output.stdout);
        let value: Value = serde_json::from_str(&said)
            .unwrap_or_else(|error| panic!("{error}: {said} {}", text(&output.stderr)));
        let schema = include_str!("../../gpu-ledger/schema/rules-replay.v1.schema.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        let faults: Vec<String> = schema.iter_errors(&value).map(|one| one.to_string()).collect();
        assert_eq!(faults, Vec::<String>::new(), "{value}");
        (output.status.code(), value)
    };
    let by_files = replayed(0, &["--state-dir", &state]);
    assert_eq!((by_files.0, &by_files.1["only_uid"]), (Some(0), &Value::Null), "{}", by_files.1);
    let moved = |value: &Value, side: &str| {
        let mut accounts = value["accounts"].as_array().unwrap().iter();
        let worked = accounts.find(|line| line["account"] == "worked").unwrap();
        worked[side]["settlements"].as_u64().unwrap()
    };
    assert_eq!((moved(&by_files.1, "booked"), moved(&by_files.1, "would_be")), (0, 3));
    assert_eq!(replayed(0, &["--socket", socket(&sim).to_str().unwrap()]), by_files);
    // A user without rights needs no word for it.
    let (status, own) = replayed(ONE, &["--config", config]);
    assert_eq!(
        (status, &own["only_uid"], &own["without_evidence"]),
        (Some(2), &ONE.into(), &0.into())
    );
    assert_eq!(moved(&own, "would_be"), 1, "{own}");
    assert_eq!(own["settlements_total"], by_files.1["settlements_total"]);
    let said = own.to_string();
    assert!(!said.contains("whisper") && !said.contains("train"), "{said}");
    let (_, nobodys) = replayed(61_003, &["--config", config]);
    assert_eq!(nobodys["accounts"].as_array().unwrap().len(), 1, "{nobodys}");
    let page =
        ledger(ONE, ONE, &[&["rules", "replay", rules, "--config", config], &period[..]].concat());
    assert!(text(&page.stdout).contains("NOT REPLAYED: what is not user 61001's"), "{page:?}");
    let refused = ledger(ONE, ONE, &["rules", "replay", rules, "--state-dir", &state]);
    let said = text(&refused.stderr);
    assert!(said.contains("gpu-ledger rules replay --socket /"), "{said}");
    // What is sent of other users holds none of their evidence or arguments.
    let request = json!({
        "version": 1, "request": "rows", "from_ms": 0, "to_ms": u64::MAX, "why": true,
    });
    let lines = answer(ONE, &sim, &request);
    assert_eq!(lines.matches("\"why\":").count(), 1, "{lines}");
    assert!(lines.lines().last().unwrap().contains(&format!("\"uid\":{ONE}")), "{lines}");
    daemon.stop();
}

#[test]
fn a_bill_through_the_daemon_speaks_of_now_and_no_reader_makes_marks_without_end() {
    const TEST: &str =
        "a_bill_through_the_daemon_speaks_of_now_and_no_reader_makes_marks_without_end";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let began = Instant::now();
    let path = socket(&sim);
    let words = ["--socket", path.to_str().unwrap(), "--format", "json"];
    // Until the first mark is too old, so that one is needed.
    let now = poll("time passes", || (began.elapsed() > FRESH_FOR).then(jiff::Timestamp::now));
    let bill_now = value(&bill(ONE, ONE, &words));
    let as_of: jiff::Timestamp = bill_now["as_of"].as_str().unwrap().parse().unwrap();
    assert!(as_of >= now, "{as_of} was before {now}");
    // So nothing of it is unseen, nor left to the next read.
    let gpu = &bill_now["gpus"][0];
    assert_eq!((&gpu["alone_ms"], &gpu["shared_ms"]), (&json!(0), &json!(0)));
    for _ in 0..20 {
        value(&bill(ONE, ONE, &words));
    }
    let marks =
        daemon.journal().into_iter().filter(|entry| matches!(entry.figures, Figures::Mark(_)));
    let most = 2 + began.elapsed().as_secs() / FRESH_FOR.as_secs();
    assert!(u64::try_from(marks.count()).unwrap() <= most, "more than {most} marks");
    daemon.stop();
}

#[test]
fn an_idle_gpu_is_not_called_free_before_its_empty_list_can_be_believed() {
    if !can_trace("an_idle_gpu_is_not_called_free_before_its_empty_list_can_be_believed") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // Nobody sees who opens a GPU: an empty list is then all that is known, and a mode that was reset looks
    // the same.
    let daemon =
        Setup::on(&sim).config("device_touch = false\nmark_interval = \"100ms\"\n").start();
    let path = socket(&sim);
    let asked = || value(&bill(0, 0, &["--socket", path.to_str().unwrap(), "--format", "json"]));
    let marks =
        || daemon.journal().into_iter().filter(|entry| matches!(entry.figures, Figures::Mark(_)));
    poll("marks", || (marks().count() > 5).then_some(()));
    let idle = asked();
    let gpu = &idle["gpus"][0];
    assert_eq!(gpu["free_ms"], 0, "{gpu}");
    assert!(gpu["uncovered_ms"].as_u64() > Some(0) && gpu["unread_ms"] == 0, "{gpu}");
    let why = |bill: &Value| {
        let unknown = bill["unknown"].as_array().unwrap().iter();
        unknown.filter(|line| line["reason"] == "empty-accounted-list").count()
    };
    assert_eq!(why(&idle), 1, "{idle}");
    // A row that is listed proves that nothing was reset before it.
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let seen = marks().count();
    poll("a mark after it", || (marks().count() > seen + 1).then_some(()));
    let proven = asked();
    assert!(proven["gpus"][0]["free_ms"].as_u64() > Some(0), "{}", proven["gpus"]);
    assert_eq!(why(&proven), 0, "{proven}");
    daemon.stop();
}

#[test]
fn what_comes_into_sight_is_marked_at_once_and_not_after_a_whole_interval() {
    if !can_trace("what_comes_into_sight_is_marked_at_once_and_not_after_a_whole_interval") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let daemon = Setup::on(&sim).config("mark_interval = \"1h\"\n").start();
    let first =
        daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    let Figures::Mark(mark) = &first.figures else { unreachable!() };
    // That it is off is an answer: nothing was missed of a GPU that keeps no rows.
    assert!(
        mark.gpus.len() == 2 && mark.gpus.iter().all(|gpu| gpu.last_good.is_some()),
        "{mark:?}"
    );
    sim.fault("accounting on");
    let began =
        daemon.until_entered("the epoch begins", |figures| matches!(figures, Figures::Epoch(_)));
    poll("it is marked", || {
        let entries = daemon.journal();
        let mut later = entries.iter().filter(|entry| entry.seq > began.seq);
        later.any(|entry| matches!(entry.figures, Figures::Mark(_))).then_some(())
    });
    daemon.stop();
}
