//! A process of its own that records: this test binary again. Told on its input what to do, it says what came
//! of it on its output.
#![expect(clippy::disallowed_methods, reason = "it is started by other tests, around a limit")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::made::{self, Recipe};
use crate::residency::events::Labels;
use crate::residency::files::{Batch, Rows, verify};
use crate::residency::sample::Sample;

/// Starts it by a shell, after a script in which `"$@"` is the program.
pub(super) fn start(script: &str, orders: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program);
    command.args(["--exact", "residency::files::tests::work::works", "--ignored", "--nocapture"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(orders.as_bytes()).unwrap();
    child
}

/// What it said under a word.
pub(super) fn said(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("SAID ")).map(str::to_owned).collect()
}

#[test]
#[ignore = "started by other tests"]
fn works() {
    let mut lines = BufReader::new(std::io::stdin()).lines().map(Result::unwrap);
    let (what, folder) = (lines.next().unwrap(), lines.next().unwrap());
    match what.as_str() {
        "record" => record(Path::new(&folder)),
        "for ever" => for_ever(Path::new(&folder)),
        other => panic!("{other}"),
    }
}

/// Records two windows, and says what is proven of them.
fn record(folder: &Path) {
    let windows = vec![vec![[1, 1, 1, 1]]; 2];
    match made::try_batch(folder, &Recipe { windows, duration_ms: 6_000, ..Recipe::default() }) {
        Ok(report) => {
            let verified = verify(&report.folder);
            let rows: u64 = verified.iterations.iter().map(|iteration| iteration.rows).sum();
            println!("SAID status {} {}", report.verdict.exit_status(), verified.exit_status());
            println!("SAID findings {}", verified.findings.len());
            println!("SAID troubles {}", report.troubles.len());
            println!("SAID rows {rows}");
            println!("SAID text {}", verified.to_string().replace('\n', " | "));
        }
        Err(error) => {
            println!("SAID error {}", error.is_full());
            println!("SAID text {error}");
        }
    }
}

/// Writes samples until it is killed.
fn for_ever(folder: &Path) {
    let source = tempfile::tempdir().unwrap();
    let report = made::batch(source.path(), &Recipe::default());
    let rows = Rows::<Sample>::open(&report.iterations[0].path("samples.jsonl")).unwrap();
    let rows: Vec<Sample> = rows.map(Result::unwrap).collect();
    let mut batch = Batch::create(folder, made::manifest(&Recipe::default())).unwrap();
    let mut writer = batch.begin(Labels::default()).unwrap();
    println!("SAID begun");
    for sample in rows.iter().cycle() {
        writer.sample(sample).unwrap();
    }
}
