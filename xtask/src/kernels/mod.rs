//! `cargo xtask kernels`: the committed kernel object on kernels as distributions ship them, each booted under
//! emulation, with the event tests of `tests/kernel_events` run inside by the product's own loader.
#![expect(
    clippy::disallowed_methods,
    reason = "the product's rule of one door for time and programs; a task starts foreign programs and waits for them"
)]

mod guest;
mod packages;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use self::guest::{Contents, Outcome, Said};
use self::packages::{Btf, Kernel, NOT_TRIED, SOURCES, Source};
use crate::cargo;
use crate::text::{say, table};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these: 5.10, 6.1, 6.12, newest, no-btf (may be given again)
    #[arg(long = "kernel", value_name = "NAME")]
    kernels: Vec<String>,
    /// Only the two that are through first
    #[arg(long, conflicts_with = "kernels")]
    quick: bool,
    /// Print what the guests printed
    #[arg(long)]
    console: bool,
}

/// Those that `.ci/run` boots.
const QUICK: [&str; 2] = ["6.1", "6.12"];

/// What the tests are about: the suite that they run in, and how their names begin. Each test counts for the first.
const CASES: [(&str, &str, &[&str]); 14] = [
    (
        "exec",
        "hybrid",
        &[
            "lifetimes::posix_spawn",
            "lifetimes::an_image",
            "lifetimes::an_exec_that_fails",
            "lifetimes::vfork",
        ],
    ),
    ("fork without exec", "hybrid", &["lifetimes::a_fork_without_exec"]),
    ("exec from a thread", "hybrid", &["lifetimes::an_exec_from_a_thread"]),
    ("leader exits first", "hybrid", &["lifetimes::a_leader"]),
    ("many threads exit at once", "hybrid", &["lifetimes::many_threads"]),
    ("exit status and signal", "hybrid", &["lifetimes::"]),
    ("control groups, v1 and v2", "hybrid", &["cgroups::"]),
    ("control groups, v2 alone", "v2", &["cgroups::"]),
    ("device touch", "hybrid", &["devices::"]),
    ("pid namespace", "hybrid", &["pids::the_first_process"]),
    ("pids given out again", "hybrid", &["pids::a_pid"]),
    ("argv at its limits", "hybrid", &["argv::"]),
    ("storm; small ring, paused", "hybrid", &["loss::"]),
    ("unreadable fields, self-test", "hybrid", &["faults::", "self_test::"]),
];

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let chosen = chosen(options)?;
    let folder = cargo::target()?.join("kernels");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let contents = Contents {
        tests: cargo::build_test("gpu-ledger", "kernel_events")?,
        product: cargo::build(&["gpu-ledger"])?.named("gpu-ledger")?,
        target_tmpdir: cargo::target()?.join("tmp"),
        actor: cargo::root().join("tests/kernel_events/actor.c"),
    };
    let image = guest::image(&contents, &folder)?;
    let mut columns = Vec::new();
    for source in chosen {
        let Kernel { release, image: kernel } = packages::fetch(source, &folder)?;
        say(&format!("booting {release}"));
        let said = guest::boot(&kernel, &image)?;
        let faults = faults(source, &release, &said);
        if options.console || !faults.is_empty() {
            said.console.iter().for_each(|line| say(&format!("  | {line}")));
        }
        columns.push((source, said, faults));
    }
    say(&rendered(&columns));
    for (name, why) in NOT_TRIED {
        say(&format!("not tried: {name}: {why}"));
    }
    let mut is_good = true;
    for (source, _, faults) in &columns {
        for fault in faults {
            is_good = false;
            say(&format!("FAILED on {}: {fault}", source.name));
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(options: &Options) -> anyhow::Result<Vec<&'static Source>> {
    let quick = QUICK.map(str::to_owned);
    let named = if options.quick { &quick[..] } else { &options.kernels[..] };
    for name in named {
        let known = SOURCES.map(|source| source.name);
        ensure!(
            known.contains(&&**name),
            "there is no kernel {name} here; one of {}",
            known.join(", ")
        );
    }
    let is_chosen =
        |source: &&Source| named.is_empty() || named.iter().any(|name| name == source.name);
    Ok(SOURCES.iter().filter(is_chosen).collect())
}

/// What must not be.
fn faults(source: &Source, release: &str, said: &Said) -> Vec<String> {
    let mut faults = Vec::new();
    if said.release != release {
        faults.push(format!("{release} was to be booted, and {:?} came up", said.release));
    }
    if !said.is_off {
        faults.push("it did not come to its end".to_owned());
    }
    faults.extend(said.complaints.iter().cloned());
    if said.tests.is_empty() {
        faults.push("no test ran".to_owned());
    }
    for ((suite, test), outcome) in &said.tests {
        let is_expected = match (source.btf, outcome) {
            (Btf::There, Outcome::Passed) => true,
            // A kernel may lack what version 1 of control groups needs; the table says so.
            (Btf::There, Outcome::Skipped(reason)) => reason.contains("mounted"),
            // Without BTF nothing is traced, for that one reason.
            (Btf::Missing, Outcome::Skipped(reason)) => reason.contains("BTF"),
            (Btf::Missing, Outcome::Passed) => UNTRACED.iter().any(|name| test.ends_with(name)),
            (_, Outcome::Failed) => false,
        };
        if !is_expected {
            faults.push(format!("{suite}: {test}: {}", word(outcome)));
        }
    }
    let lack =
        said.doctor.iter().any(|line| line.contains("BTF") || line.contains("/sys/kernel/btf"));
    if source.btf == Btf::Missing && !lack {
        faults.push(format!("doctor does not say what is missing: {:?}", said.doctor));
    }
    faults
}

/// Tests that attach nothing.
const UNTRACED: [&str; 1] = ["a_ring_of_a_size_that_no_kernel_takes_is_refused_by_name"];

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Failed => "FAILED".to_owned(),
        Outcome::Skipped(reason) => format!("skipped: {reason}"),
    }
}

fn rendered(columns: &[(&Source, Said, Vec<String>)]) -> String {
    let heads =
        columns.iter().map(|(source, said, _)| format!("{} ({})", source.name, said.release));
    let mut rows = vec![std::iter::once(String::new()).chain(heads).collect::<Vec<_>>()];
    for (number, (case, suite, _)) in CASES.iter().enumerate() {
        let cells = columns.iter().map(|(_, said, _)| cell(said, number, suite));
        rows.push(std::iter::once((*case).to_owned()).chain(cells).collect());
    }
    let boots = columns
        .iter()
        .map(|(_, said, _)| format!("{} s, {} s", said.boot.as_secs(), said.whole.as_secs()));
    rows.push(std::iter::once("boot, and until off".to_owned()).chain(boots).collect());
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (source, said, _) in columns {
        for outcome in said.tests.values() {
            if let Outcome::Skipped(reason) = outcome {
                let names = reasons.entry(reason).or_default();
                if !names.contains(&source.name) {
                    names.push(source.name);
                }
            }
        }
    }
    let mut text = table(&rows);
    for (reason, kernels) in reasons {
        text.extend([&*format!("skipped on {}: ", kernels.join(", ")), reason, "\n"]);
    }
    text
}

fn cell(said: &Said, number: usize, suite: &str) -> String {
    let of_case = said
        .tests
        .iter()
        .filter(|((own, test), _)| own == suite && case_of(suite, test) == Some(number));
    let (mut passed, mut skipped, mut failed) = (0_u32, 0_u32, 0_u32);
    for (_, outcome) in of_case {
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Skipped(_) => skipped += 1,
            Outcome::Failed => failed += 1,
        }
    }
    let parts = [(passed, "passed"), (skipped, "skipped"), (failed, "FAILED")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "DID NOT RUN".to_owned() } else { words.join(", ") }
}

/// The case that a test counts for.
fn case_of(suite: &str, test: &str) -> Option<usize> {
    CASES.iter().position(|(_, own, prefixes)| {
        *own == suite && prefixes.iter().any(|prefix| test.starts_with(prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_test_counts_for_a_case_and_every_case_has_one() {
        let folder = cargo::root().join("tests/kernel_events");
        let mut counted = vec![0; CASES.len()];
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let source = std::fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in source.lines() {
                if line == "#[test]" {
                    is_test = true;
                } else if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                    let test = format!("{module}::{}", name.split('(').next().unwrap());
                    counted[case_of("hybrid", &test).unwrap_or_else(|| panic!("{test}"))] += 1;
                    if let Some(case) = case_of("v2", &test) {
                        counted[case] += 1;
                    }
                    is_test = false;
                }
            }
        }
        assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
    }
}
