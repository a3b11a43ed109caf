//! `gpu-ledger rules replay`: totals stay, accounts change, and nothing is written.

use std::collections::BTreeMap;
use std::path::Path;

use gpu_ledger::argv::CmdlineMode;
use gpu_ledger::journal::store::{Reader, StateDir, Store};
use gpu_ledger::settlement::Account;
use gpu_ledger::unknown::{DisputeReason, NamelessReason};
use serde_json::Value;

use crate::made::{EPOCH_MS, Job};
use crate::{File, rules, text, value};

/// Milliseconds between two jobs, and of each.
const STEP_MS: u64 = 10_000;
const JOBS: u32 = 40;

/// Jobs one after another, the last two without a name and in doubt.
pub(crate) fn filled(folder: &Path) {
    let (mut store, _) = Store::open(&StateDir::at(folder)).unwrap();
    let key = store.commitment_key().clone();
    let jobs = (1..=JOBS).map(|pid| {
        let mut job = Job::of(pid, EPOCH_MS + u64::from(pid) * STEP_MS, u64::from(pid) * 100);
        match pid {
            39 => job.account = Account::Unattributed(NamelessReason::EventLost),
            40 => job.dispute = Some(DisputeReason::ClockStep),
            _ => {}
        }
        job.draft(Some(&key))
    });
    for job in jobs {
        store.append(vec![job]).unwrap();
    }
}

fn replayed(state: &Path, rules: &str) -> (Value, i32) {
    let file = File::of(rules);
    let schema = include_str!("../../gpu-ledger/schema/rules-replay.v1.schema.json");
    let state = state.to_str().unwrap();
    value(schema, &["replay", "--json", "--period", "all", "--state-dir", state, file.name()])
}

/// Settlements and sums of each account, as booked and as they would be.
fn lines(report: &Value) -> BTreeMap<String, [[u64; 3]; 2]> {
    let billed = |line: &Value, side: &str| {
        ["settlements", "held_ms", "span_ms_total"].map(|field| line[side][field].as_u64().unwrap())
    };
    let accounts = report["accounts"].as_array().unwrap().iter();
    let line = |line: &Value| [billed(line, "booked"), billed(line, "would_be")];
    accounts.map(|one| (one["account"].as_str().unwrap().to_owned(), line(one))).collect()
}

#[test]
fn accounts_change_as_the_rules_say_and_the_totals_do_not() {
    let folder = crate::made::folder();
    filled(folder.path());
    let end = |folder: &Path| Reader::open(&StateDir::at(folder)).unwrap().end().unwrap().head;
    let before = end(folder.path());
    let (report, status) = replayed(
        folder.path(),
        "[[rule]]\naccount = \"third\"\nargv = \"--run=3\"\n\
         [[rule]]\naccount = \"teens\"\nargv = { regex = '--run=1\\d' }\nancestor = \"bash\"\n\
         [[rule]]\naccount = \"run ${n}\"\nargv = { regex = '--run=(?P<n>2[0-9])' }\nunit = \"train.service\"\n\
         [[rule]]\naccount = \"nobody\"\nprogram = \"serve.py\"\n",
    );
    assert_eq!(status, 0, "{report}");
    let lines = lines(&report);
    assert_eq!(lines["third"], [[0; 3], [1, 300, 300]]);
    let teens: u64 = (10..20).map(|pid| pid * 100).sum();
    assert_eq!(lines["teens"], [[0; 3], [10, teens, teens]]);
    assert_eq!(lines["run 25"], [[0; 3], [1, 2_500, 2_500]]);
    assert!(!lines.contains_key("nobody"));
    // Of service-3 the third, and 20 of its three jobs, went elsewhere; 37 stays.
    assert_eq!(lines["service-3"], [[3, 6_000, 6_000], [1, 3_700, 3_700]]);
    for field in 0..3 {
        let [booked, would_be] =
            [0, 1].map(|side| lines.values().map(|line| line[side][field]).sum::<u64>());
        assert_eq!(booked, would_be, "{lines:?}");
    }
    assert_eq!(end(folder.path()).hash, before.hash);
}

#[test]
fn without_rules_everything_stands_where_it_stood() {
    let folder = crate::made::folder();
    filled(folder.path());
    let (report, status) = replayed(folder.path(), "");
    assert_eq!(status, 0);
    for (account, [booked, would_be]) in lines(&report) {
        assert_eq!(booked, would_be, "{account}");
    }
    let (_, status) = replayed(folder.path(), "[[rule]]\naccount = \"a\"\nlabels.app = \"x\"\n");
    assert_eq!(status, 2, "labels are not in the journal");
}

/// Of each settlement that lacks what a rule looks at it is said, and of no other.
#[test]
fn what_is_not_stored_of_arguments_makes_not_known_what_rules_on_them_would_have_done() {
    use CmdlineMode::{Exe, Full, None as Nothing, Redacted};
    let folder = crate::made::folder();
    let (mut store, _) = Store::open(&StateDir::at(folder.path())).unwrap();
    let key = store.commitment_key().clone();
    for (pid, cmdline) in (1..).zip([Exe, Exe, Nothing, Redacted, Full]) {
        let job = Job::of(pid, EPOCH_MS + u64::from(pid) * STEP_MS, 100);
        store.append(vec![Job { cmdline, ..job }.draft(Some(&key))]).unwrap();
    }
    drop(store);
    let without = |condition: &str| {
        let rule = format!("[[rule]]\naccount = \"a\"\n{condition}\n");
        let (report, status) = replayed(folder.path(), &rule);
        let taken = lines(&report).get("a").map_or(0, |line| line[1][0]);
        (report["without_argv"].as_u64().unwrap(), status, taken)
    };
    assert_eq!(without("argv = { prefix = \"--run=\" }"), (3, 2, 2));
    assert_eq!(without("command_line = { regex = '.*' }"), (3, 2, 2));
    assert_eq!(without("model = \"llama\""), (3, 2, 0));
    assert_eq!(without("exe = { suffix = \"/python3\" }"), (1, 2, 4));
    // The program is in every entry, whatever is stored of arguments.
    assert_eq!(without("program = \"train.py\""), (0, 0, 5));
    let file = File::of("[[rule]]\naccount = \"a\"\nmodel = \"llama\"\n");
    let state = folder.path().to_str().unwrap();
    let output = rules(&["replay", "--period", "all", "--state-dir", state, file.name()]);
    let said = text(&output.stdout);
    assert!(said.contains("NOT KNOWN: of 3 settlements not all is stored of arguments"), "{said}");
    // What was kept can be deleted; which model they named was found before, and stands where there was one.
    let (mut store, _) = Store::open(&StateDir::at(folder.path())).unwrap();
    let kept = Job::of(5, EPOCH_MS + 5 * STEP_MS, 100).draft(Some(&key)).argv.unwrap();
    assert_eq!(store.forget_argv(&[kept.commitment]).unwrap().texts, 1);
    drop(store);
    assert_eq!(without("argv = { prefix = \"--run=\" }"), (4, 2, 1));
    assert_eq!(without("model = \"llama\""), (3, 2, 0));
}

#[test]
fn people_see_what_would_change() {
    let folder = crate::made::folder();
    filled(folder.path());
    let file = File::of("[[rule]]\naccount = \"everything\"\n");
    let state = folder.path().to_str().unwrap();
    let output = rules(&["replay", "--period", "all", "--state-dir", state, file.name()]);
    let said = text(&output.stdout);
    let all: u64 = (1..=38).map(|pid| pid * 100).sum();
    let line = said.lines().find(|line| line.starts_with("everything")).unwrap();
    assert!(line.contains("0:01:14.100") && line.contains("+0:01:14.100"), "{all} {line}");
    assert!(said.contains("nothing is changed"), "{said}");
    assert!(said.contains("\n1 of them, of 3900 ms, are unattributed"), "{said}");
    let output = rules(&["replay", "--state-dir", state, "--since", "never", file.name()]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}
