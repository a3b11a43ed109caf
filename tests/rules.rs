//! `gpu-ledger rules`: files as operators write them, processes as they are, journals as they were written.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on stops"
)]

#[path = "journal/made.rs"]
#[expect(unreachable_pub, dead_code, reason = "shared with the library's own tests")]
mod made;
#[path = "rules/replayed.rs"]
mod replayed;
#[path = "rules/unheard.rs"]
mod unheard;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const DOCUMENTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/units/rules.toml");

fn rules(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.arg("rules").args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// One object of JSON, as its schema has it, and the exit status.
fn value(schema: &str, words: &[&str]) -> (Value, i32) {
    let output = rules(words);
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&value).map(|fault| fault.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{value}");
    (value, output.status.code().unwrap())
}

fn checked(words: &[&str]) -> (Value, i32) {
    let schema = include_str!("../gpu-ledger/schema/rules-check.v1.schema.json");
    value(schema, &[&["check", "--json"], words].concat())
}

fn tested(words: &[&str]) -> (Value, i32) {
    let schema = include_str!("../gpu-ledger/schema/rules-test.v1.schema.json");
    value(schema, &[&["test", "--json"], words].concat())
}

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        std::fs::write(&path, text).unwrap();
        Self { _folder: folder, path }
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

#[test]
fn the_documented_file_is_right() {
    let (report, status) = checked(&[DOCUMENTED]);
    assert_eq!((status, report["faults"].as_array().unwrap().len()), (0, 0), "{report}");
    assert_eq!(report["shadowed"], Value::Array(vec![]));
    assert!(report["rules"].as_u64().unwrap() > 10);
    let output = rules(&["check", DOCUMENTED]);
    assert!(text(&output.stdout).contains(" rules, sha256 "), "{output:?}");
}

#[test]
fn every_fault_is_a_line_of_its_own_with_its_place() {
    let file = File::of("[[rule]]\naccount = \"a${x}\"\nprogam = \"x\"\nexe = { regex = '(' }\n");
    let output = rules(&["check", file.name()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let wanted = [
        (":3:1: ", "unknown key `progam`; did you mean `program`?"),
        (":4:18: ", "`exe`: bad regular expression: unclosed group"),
    ];
    for ((place, what), line) in wanted.iter().zip(said.lines()) {
        assert!(
            line.starts_with(&format!("{}{place}", file.name())) && line.contains(what),
            "{line}"
        );
    }
    let (report, status) = checked(&[file.name()]);
    assert_eq!((status, &report["rules"], &report["sha256"]), (1, &Value::Null, &Value::Null));
    // A mebibyte in one line.
    let file = File::of(&format!("[[rule]]\naccount = \"{}\"\n", "x".repeat(1 << 20)));
    let output = rules(&["check", file.name()]);
    let said = text(&output.stdout);
    assert!(said.contains(":2:1: a line of") && said.contains("it may have 65536"), "{said}");
    // Whoever tests with it is told the same.
    let output = rules(&["test", "--rules", file.name(), "--program", "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(":2:1: a line of"), "{output:?}");
    let output = rules(&["check", "/nonexistent/rules.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nonexistent/rules.toml"), "{output:?}");
}

#[test]
fn rules_on_arguments_are_wrong_where_none_are_stored() {
    let rule = "[[rule]]\naccount = \"a\"\nargv = \"x\"\n";
    let (file, config) = (File::of(rule), File::of("cmdline = \"exe\"\n"));
    let (report, status) = checked(&["--config", config.name(), file.name()]);
    assert_eq!((status, &report["faults"][0]["line"]), (1, &3.into()), "{report}");
    assert!(report["faults"][0]["what"].as_str().unwrap().starts_with("rule 1 looks at `argv`"));
    assert_eq!(checked(&[file.name()]).1, 0);
    // And what is tested is what is stored.
    let rule = "[[rule]]\naccount = \"a\"\nargv = { regex = '.*hunter2.*' }\n";
    let file = File::of(rule);
    let (_, status) = tested(&["--rules", file.name(), "--argv", "mysql", "--password=hunter2"]);
    assert_eq!(status, 2, "a secret is replaced before rules look");
}

#[test]
fn a_rule_that_never_matches_is_found() {
    let file = File::of(
        "[[rule]]\naccount = \"a\"\nprogram = { prefix = \"x\" }\n\n[[rule]]\naccount = \"b\"\nprogram = \"xy\"\n",
    );
    let (report, status) = checked(&[file.name()]);
    assert_eq!(status, 2);
    let wanted = serde_json::json!([{"rule": 2, "line": 5, "by": 1, "by_line": 1}]);
    assert_eq!(report["shadowed"], wanted);
    let output = rules(&["check", file.name()]);
    assert!(
        text(&output.stdout).contains(":5: rule 2 never matches: rule 1 (line 1)"),
        "{output:?}"
    );
}

#[test]
fn what_hardly_anything_is_called_is_said_and_a_user_only_where_it_is_this_hosts_file() {
    let config = File::of("cmdline = \"full\"\n");
    let file = File::of("[[rule]]\naccount = \"a\"\nancestor = \"ollama serve\"\n");
    let (report, status) = checked(&[file.name()]);
    assert_eq!((status, &report["doubts"][0]["line"]), (2, &3.into()), "{report}");
    let output = rules(&["check", file.name()]);
    assert!(text(&output.stdout).contains(":3:1: `ancestor` is hardly ever"), "{output:?}");
    let file = File::of("[[rule]]\naccount = \"a\"\nuser = [\"root\", \"no-such-user-4711\"]\n");
    assert_eq!(checked(&[file.name()]).1, 0, "another host's, for all that is known");
    let (report, status) = checked(&["--config", config.name(), file.name()]);
    assert_eq!((status, report["doubts"].as_array().unwrap().len()), (2, 1), "{report}");
}

#[test]
fn a_described_process_falls_under_a_rule_for_a_reason() {
    let words = [
        "--rules",
        DOCUMENTED,
        "--ancestor",
        "ollama",
        "--argv",
        "/usr/lib/llama-server",
        "-m",
        "x",
    ];
    let (report, status) = tested(&words);
    assert_eq!((status, &report["account"]), (0, &"ollama".into()));
    let held = serde_json::json!([{"key": "ancestor", "value": "ollama", "pattern": "\"ollama\""}]);
    assert_eq!(report["matched"]["held"], held);
    let output = rules(&[&["test"], &words[..]].concat());
    let said = text(&output.stdout);
    assert!(
        said.starts_with("ollama: rule 1 of ") && said.contains("ancestor ollama is \"ollama\""),
        "{said}"
    );
    let vllm = [
        "--rules",
        DOCUMENTED,
        "--argv",
        "python3",
        "-m",
        "vllm.entrypoints.openai",
        "--model",
        "q/w",
    ];
    assert_eq!(tested(&vllm).0["account"], "vllm/q/w");
    let cases: [(&[&str], &str); 7] = [
        (&["--cgroup", "/system.slice/whisper.service"], "whisper"),
        (&["--unit", "whisper@x.service"], "whisper"),
        (&["--compose", "shop/web"], "shop/web"),
        (&["--pod", "ml/inference-0", "--label", "app=server"], "ml/inference"),
        (&["--job", "slurm 9"], "slurm"),
        (&["--login-user", "1000"], "alice"),
        (&["--container", "frigate"], "frigate"),
    ];
    for (words, account) in cases {
        let (report, status) = tested(&[&["--rules", DOCUMENTED], words].concat());
        assert_eq!((status, &report["account"]), (0, &account.into()), "{report}");
    }
}

#[test]
fn what_no_rule_takes_says_what_each_wanted() {
    let (report, status) = tested(&["--rules", DOCUMENTED, "--program", "xtts", "--gpu", "0"]);
    assert_eq!((status, &report["account"], &report["matched"]), (2, &"xtts".into(), &Value::Null));
    let failed = &report["failed"][0];
    assert_eq!((&failed["key"], &failed["wants"]), (&"program".into(), &"\"ollama\"".into()));
    assert_eq!(failed["seen"], serde_json::json!(["xtts"]));
    let undecided = report["undecided"].as_array().unwrap();
    let by_user = undecided.iter().find(|one| one["key"] == "user").unwrap();
    assert_eq!(by_user["seen"], Value::Array(vec![]));
    let output = rules(&["test", "--rules", DOCUMENTED, "--program", "xtts"]);
    let said = text(&output.stdout);
    assert!(said.starts_with("xtts: by no rule"), "{said}");
    assert!(said.contains("program wants \"ollama\"; it is xtts"), "{said}");
    // What is known not to match stands before what nobody can tell.
    let near = said.find("not by these, the nearest first:\n").unwrap();
    let not_known = said.find("not to be decided, since nothing is known").unwrap();
    assert!(near < not_known, "{said}");
    let lines = said[not_known..].lines().map(str::trim_end);
    assert!(lines.clone().any(|line| line.ends_with("ancestor wants \"ollama\"")), "{said}");
    for wrong in [
        ["--job", "cron 1"],
        ["--label", "x"],
        ["--label", "=x"],
        ["--user", ""],
        ["--unit", ""],
        ["--pod", "lab/"],
        ["--compose", "/web"],
        ["--ancestor", ""],
    ] {
        let output = rules(&[&["test", "--rules", DOCUMENTED], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    }
}

#[test]
fn the_nearest_rules_come_first_and_those_that_nobody_can_decide_last() {
    let file = File::of(
        "[[rule]]\naccount = \"by ancestor\"\nancestor = \"a\"\n\
         [[rule]]\naccount = \"far\"\nprogram = \"x\"\nunit = \"y.service\"\n\
         [[rule]]\naccount = \"one off\"\nprogram = \"x\"\n\
         [[rule]]\naccount = \"nearest\"\nunit = \"web.service\"\nancestor = \"a\"\nprogram = \"x\"\n\
         [[rule]]\naccount = \"near\"\nunit = \"web.service\"\nprogram = \"x\"\n\
         [[rule]]\naccount = \"perhaps\"\nunit = \"web.service\"\nuser = \"u\"\n\
         [[rule]]\naccount = \"it\"\nunit = \"web.service\"\n\
         [[rule]]\naccount = \"later\"\nprogram = \"z\"\n",
    );
    let words = ["--rules", file.name(), "--unit", "web.service", "--program", "web"];
    let (report, status) = tested(&words);
    assert_eq!((status, &report["account"]), (0, &"it".into()));
    let names = |list: &str| {
        let rules = report[list].as_array().unwrap().iter();
        rules.map(|one| one["account"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("failed"), ["near", "one off", "nearest", "far"], "{report}");
    assert_eq!(names("undecided"), ["perhaps", "by ancestor"], "{report}");
    let near = &report["failed"][0];
    assert_eq!((&near["holds"], &near["conditions"]), (&1.into(), &2.into()));
    // Of one that is decided in any case, what decides it, and not what is not known.
    assert_eq!(report["failed"][2]["key"], "program");
    let said = rules(&[&["test"], &words[..]].concat());
    let said = text(&said.stdout);
    assert!(said.contains("program wants \"x\"; it is web (1 of 2 conditions hold)"), "{said}");
    // With many, some are shown, and the rest counted.
    let many = File::of(&"[[rule]]\naccount = \"a\"\nprogram = \"x\"\n".repeat(150));
    let (report, _) = tested(&["--rules", many.name(), "--program", "web"]);
    let listed = report["failed"].as_array().unwrap().len();
    assert_eq!((listed, &report["failed_more"]), (100, &50.into()));
    let said = rules(&["test", "--rules", many.name(), "--program", "web"]);
    assert!(text(&said.stdout).ends_with("  and 142 more rules\n"), "{said:?}");
}

#[test]
fn an_account_that_is_called_like_a_word_of_ours_is_quoted_as_on_a_bill() {
    let rule = "[[rule]]\naccount = \"${p}\"\nprogram = { regex = '(?P<p>dis.*)' }\n";
    let file = File::of(rule);
    for (program, status) in [("unattributed", 2), ("event-lost", 2), ("disputed", 0)] {
        let words = ["--rules", file.name(), "--program", program];
        assert_eq!(tested(&words).0["account"], format!("\"{program}\""));
        let output = rules(&[&["test"], &words[..]].concat());
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let said = text(&output.stdout);
        assert!(said.starts_with(&format!("\"{program}\": ")), "{said}");
    }
}

#[test]
fn a_test_of_nobody_is_told_what_to_give() {
    let nobody = rules(&["test", "--rules", DOCUMENTED]);
    assert_eq!((nobody.status.code(), nobody.stdout.len()), (Some(64), 0), "{nobody:?}");
    assert!(text(&nobody.stderr).contains("give --pid, or describe it: --argv"), "{nobody:?}");
    let both = rules(&["test", "--rules", DOCUMENTED, "--pid", "1", "--argv", "x"]);
    assert_eq!(both.status.code(), Some(64), "{both:?}");
}

#[test]
fn a_living_process_is_read_with_its_ancestors() {
    let own = std::env::current_exe().unwrap();
    let own = own.file_name().and_then(std::ffi::OsStr::to_str).unwrap();
    let file = File::of(&format!(
        "[[rule]]\naccount = \"slept ${{time}}\"\nancestor = \"{own}\"\nargv = {{ regex = '(?P<time>\\d+)' }}\n"
    ));
    let mut child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
    let pid = child.id().to_string();
    // Between fork and exec it is still what this is.
    let exe = Path::new("/proc").join(&pid).join("exe");
    while std::fs::read_link(&exe).unwrap().file_name() == own_exe().file_name() {
        std::thread::yield_now();
    }
    let (report, status) = tested(&["--rules", file.name(), "--pid", &pid]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((status, &report["account"]), (0, &"slept 600".into()), "{report}");
    let output = rules(&["test", "--rules", file.name(), "--pid", &pid]);
    assert!(text(&output.stderr).contains(&format!("there is no process {pid}")), "{output:?}");
}

fn own_exe() -> PathBuf {
    std::fs::read_link("/proc/self/exe").unwrap()
}
