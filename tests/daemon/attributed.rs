//! On whose account a job stands by where it ran: in control groups that are made for it and gone again before
//! anybody can look.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpu_ledger::journal::Figures;
use gpu_ledger::kernel::mounts;
use serde_json::Value;

use crate::billed::Billed;
use crate::daemon::{Daemon, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::support::{Sim, skip};

/// Containers that are made and removed, one after the other.
const CONTAINERS: usize = 200;

/// A control group, removed with its parents as far as they are empty.
struct Group {
    root: PathBuf,
    path: PathBuf,
}

impl Group {
    fn make(root: &Path, path: &str) -> Self {
        let (root, path) = (root.to_path_buf(), root.join(path));
        std::fs::create_dir_all(&path).unwrap();
        Self { root, path }
    }

    /// Runs a job in it to its end, as a runtime does: the process moves, then becomes the program.
    fn job(&self, sim: &Sim, words: &str) -> u32 {
        let work = sim.program("work");
        let mut job = Command::new("/bin/sh");
        job.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.path);
        job.arg(work.get_program()).args(work.get_args()).args(words.split(' '));
        job.envs(work.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = job.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        child.id()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in self.path.ancestors().take_while(|path| **path != *self.root) {
            // Another test is in one that is not empty.
            if std::fs::remove_dir(path).is_err() {
                break;
            }
        }
    }
}

/// Where groups can be made, where this test can run at all.
fn root(test: &str) -> Option<PathBuf> {
    if !can_trace(test) {
        return None;
    }
    let root = mounts::cgroup2_root(Path::new("/proc")).unwrap();
    if root.is_none() {
        skip(test, "cgroup v2 is not mounted");
    }
    root
}

fn watching(sim: &Sim) -> Daemon<'_> {
    let daemon = Setup::on(sim).start();
    daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    daemon
}

/// Another one each time, as runtimes make them.
fn id(number: usize) -> String {
    let seed = format!("{:x}{number:x}a", std::process::id());
    seed.chars().cycle().take(64).collect()
}

/// A helper that does this with each connection; the line of configuration that names it.
fn helper(sim: &Sim, serves: impl Fn(UnixStream) + Send + 'static) -> String {
    let socket = sim.folder().join("names.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serves));
    format!("names_socket = {socket:?}\n")
}

fn stop(daemon: Daemon<'_>) {
    let state = daemon.state().to_path_buf();
    daemon.stop();
    assert_sound(&state);
}

fn bill_by(sim: &Sim, by: &str) -> Value {
    let mut bill = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    bill.args(["bill", "--period", "all", "--format", "json", "--by", by]);
    let output = bill.arg("--state-dir").arg(sim.folder().join("state")).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn explain(sim: &Sim, words: &[&str]) -> Output {
    let mut explain = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    explain.arg("explain").args(words).arg("--state-dir").arg(sim.folder().join("state"));
    explain.output().unwrap()
}

#[test]
fn short_jobs_in_containers_that_are_gone_at_once_are_each_attributed_to_their_own() {
    let test = "short_jobs_in_containers_that_are_gone_at_once_are_each_attributed_to_their_own";
    let Some(root) = root(test) else { return };
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    let mut ids: BTreeMap<u32, String> = BTreeMap::new();
    for number in 0..CONTAINERS {
        let id = id(number);
        let group = Group::make(&root, &format!("docker/{id}"));
        ids.insert(group.job(&sim, "--ms 5"), id);
    }
    assert_eq!(ids.len(), CONTAINERS, "no pid came twice");
    daemon.until_booked(CONTAINERS);
    stop(daemon);
    let billed = Billed::of(&sim);
    let wrong: Vec<&Value> = billed
        .list("settlements")
        .iter()
        .filter(|one| {
            let pid = u32::try_from(one["pid"].as_u64().unwrap()).unwrap();
            one["labels"]["container"].as_str() != ids.get(&pid).map(String::as_str)
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {CONTAINERS}: {:?}", wrong.len(), wrong.first());
    assert_eq!(billed.list("settlements").len(), CONTAINERS);
    // A line each, and together what the bill by account has.
    let by = bill_by(&sim, "container");
    let lines = by["accounts"].as_array().unwrap();
    assert_eq!(lines.len(), CONTAINERS);
    assert_eq!(by["span_ms_total"], billed.bill["span_ms_total"]);
}

/// Only what held a GPU in the time that is asked about is explained.
fn only_of_its_time(sim: &Sim, id: &str, found: &Value) {
    let held = jiff::SignedDuration::from_millis(found["held_ms"].as_i64().unwrap());
    let start: jiff::Timestamp = found["start"].as_str().unwrap().parse().unwrap();
    let after = (start + held + jiff::SignedDuration::from_millis(1)).to_string();
    let within = (start + jiff::SignedDuration::from_millis(1)).to_string();
    assert_eq!(explain(sim, &[id, "--since", &after]).status.code(), Some(1));
    assert_eq!(explain(sim, &[id, "--until", &start.to_string()]).status.code(), Some(1));
    assert_eq!(explain(sim, &[id, "--until", &within]).status.code(), Some(0));
    assert_eq!(explain(sim, &[id, "--since", "2200-01-01"]).status.code(), Some(64));
    assert_eq!(explain(sim, &[id, "--utc", "--period", "all"]).stdout, explain(sim, &[id]).stdout);
    assert_eq!(explain(sim, &[id, "--utc", "--period", "2001"]).status.code(), Some(1));
}

#[test]
fn a_service_is_its_unit_and_every_settlement_says_why() {
    let test = "a_service_is_its_unit_and_every_settlement_says_why";
    let Some(root) = root(test) else { return };
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    let unit = format!("gpu-ledger-test-{}.service", std::process::id());
    let served = {
        let group = Group::make(&root, &format!("system.slice/{unit}"));
        group.job(&sim, "--ms 20")
    };
    let by_hand = {
        let group = Group::make(&root, "user.slice/user-1000.slice/session-7.scope");
        group.job(&sim, "--ms 20")
    };
    daemon.until_booked(2);
    stop(daemon);
    let billed = Billed::of(&sim);
    let service = unit.trim_end_matches(".service");
    let one = billed.named(served, service);
    assert_eq!(
        (&one["labels"]["unit"], &one["labels"]["service"]),
        (&unit.as_str().into(), &service.into())
    );
    // A session is nobody's service.
    billed.named(by_hand, "nvsim");
    let by = bill_by(&sim, "unit");
    let mut lines: Vec<&str> = by["accounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["account"].as_str().unwrap())
        .collect();
    lines.sort_unstable();
    let mut expected = [unit.as_str(), "session-7.scope"];
    expected.sort_unstable();
    assert_eq!(lines, expected);

    let id = one["id"].as_str().unwrap();
    let json = explain(&sim, &["--json", id]);
    assert_eq!(json.status.code(), Some(0), "{}", String::from_utf8_lossy(&json.stderr));
    let explained: Value = serde_json::from_slice(&json.stdout).unwrap();
    let schema = include_str!("../../gpu-ledger/schema/explain.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&explained).map(|it| it.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{explained}");
    let [found] = &explained["settlements"].as_array().unwrap()[..] else { panic!("{explained}") };
    assert_eq!((&found["account"], &found["basis"]), (&service.into(), &"exec".into()));
    assert_eq!(found["held_ms"], one["held_ms"]);
    let groups = found["who"]["cgroups"].as_array().unwrap();
    let path = format!("/system.slice/{unit}");
    let own = serde_json::json!({ "version": "v2", "hierarchy": 0, "path": path });
    assert!(groups.contains(&own), "{groups:?}");
    let ground = &found["grounds"][0];
    assert_eq!((&ground["ground"], &ground["value"]), (&"unit".into(), &unit.as_str().into()));
    for words in [["--unit", &unit], ["--unit", service], ["--account", service]] {
        let page = explain(&sim, &words);
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        assert!(
            page.contains(id) && page.contains(&format!("  because       unit {unit}\n")),
            "{page}"
        );
    }
    only_of_its_time(&sim, id, found);
    let nobody = explain(&sim, &["--job", "4711"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("lists their ids"));
}

/// The labels of each settlement by its job's pid.
fn labels(sim: &Sim) -> BTreeMap<u32, Value> {
    let billed = Billed::of(sim);
    let settlements = billed.list("settlements").iter();
    let labelled = settlements.map(|one| {
        let pid = u32::try_from(one["pid"].as_u64().unwrap()).unwrap();
        (pid, one["labels"].clone())
    });
    labelled.collect()
}

#[test]
fn jobs_in_containers_bear_the_names_that_the_helper_tells() {
    let test = "jobs_in_containers_bear_the_names_that_the_helper_tells";
    let Some(root) = root(test) else { return };
    let sim = Sim::start(&["--gpus", "1"]);
    let named = helper(&sim, |mut stream| {
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        let id = line.trim_end().strip_prefix("docker ").unwrap().to_owned();
        let names = serde_json::json!({
            "name": format!("job-{id}"), "image": "team/demo:1.0", "compose_project": "shop",
            "compose_service": "web", "labels": { "team": "red" },
        });
        let answer = serde_json::json!({ "version": 1, "names": names });
        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
    });
    let daemon = Setup::on(&sim).config(&named).start();
    daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    let mut ids: BTreeMap<u32, String> = BTreeMap::new();
    for number in 0..20 {
        let id = id(number);
        let group = Group::make(&root, &format!("docker/{id}"));
        ids.insert(group.job(&sim, "--ms 100"), id);
    }
    daemon.until_booked(20);
    stop(daemon);
    let labels = labels(&sim);
    assert_eq!(labels.keys().collect::<Vec<_>>(), ids.keys().collect::<Vec<_>>());
    for (pid, id) in &ids {
        let found = &labels[pid];
        let name = format!("job-{id}");
        for (label, value) in [
            ("container", id.as_str()),
            ("container_name", &name),
            ("image", "team/demo:1.0"),
            ("compose_project", "shop"),
            ("compose_service", "web"),
            ("user", "root"),
        ] {
            assert_eq!(found[label].as_str(), Some(value), "{label}: {found}");
        }
    }
}

#[test]
fn a_helper_that_hangs_costs_the_names_and_nothing_else() {
    let test = "a_helper_that_hangs_costs_the_names_and_nothing_else";
    let Some(root) = root(test) else { return };
    let sim = Sim::start(&["--gpus", "1"]);
    // Held open for good.
    let hanging = helper(&sim, std::mem::forget);
    let daemon = Setup::on(&sim).config(&hanging).start();
    daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    let mut ids: BTreeMap<u32, String> = BTreeMap::new();
    for number in 0..10 {
        let id = id(1_000 + number);
        let group = Group::make(&root, &format!("docker/{id}"));
        ids.insert(group.job(&sim, "--ms 5"), id);
    }
    daemon.until_booked(10);
    stop(daemon);
    let labels = labels(&sim);
    for (pid, id) in &ids {
        let found = &labels[pid];
        assert_eq!(found["container"].as_str(), Some(id.as_str()), "{found}");
        assert_eq!((found.get("container_name"), found.get("image")), (None, None), "{found}");
    }
}

/// Puts processors and memory into each group on the way to one of cpuset: it takes nobody before.
fn lend_processors(root: &Path, group: &Path) {
    let mut levels: Vec<&Path> = group.ancestors().take_while(|path| *path != root).collect();
    levels.reverse();
    for level in levels {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let lent = std::fs::read(level.with_file_name(file)).unwrap();
            std::fs::write(level.join(file), lent).unwrap();
        }
    }
}

#[test]
fn a_job_of_slurm_that_one_v1_controller_alone_knows_is_billed_as_that_job() {
    let test = "a_job_of_slurm_that_one_v1_controller_alone_knows_is_billed_as_that_job";
    if !can_trace(test) {
        return;
    }
    let mounted = mounts::cgroup_mounts(Path::new("/proc")).unwrap();
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = watching(&sim);
    let mut jobs = BTreeMap::new();
    // ProctrackType, ConstrainDevices and ConstrainCores; in memory with ConstrainRAMSpace.
    for (number, controller) in (4_711..).zip(["freezer", "devices", "cpuset", "memory"]) {
        let carries = |mount: &&mounts::CgroupMount| {
            let mut controllers = mount.controllers.iter().flatten();
            mount.root == Path::new("/") && controllers.any(|it| it == controller)
        };
        let Some(root) = mounted.iter().find(carries).map(|mount| &mount.place) else { continue };
        let group = Group::make(root, &format!("slurm/uid_1000/job_{number}/step_0"));
        if controller == "cpuset" {
            lend_processors(root, &group.path);
        }
        jobs.insert(group.job(&sim, "--ms 20"), number.to_string());
    }
    if jobs.is_empty() {
        stop(daemon);
        return skip(test, "none of the controllers is mounted as v1");
    }
    daemon.until_booked(jobs.len());
    stop(daemon);
    let billed = Billed::of(&sim);
    for (pid, number) in jobs {
        let job = format!("slurm {number}");
        let one = billed.named(pid, &job);
        let labels = &one["labels"];
        assert_eq!((&labels["job"], &labels["place"]), (&job.into(), &Value::Null), "{one}");
    }
}
