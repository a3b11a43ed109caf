//! Runs the fuzz targets of `fuzz/`, each for some minutes, and says what each came to.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context as _, bail, ensure};

/// One unit of memory that no parser has a reason to ask for at once.
const ALLOCATION_MIB: u32 = 256;
/// Longer than any input takes by a hundred times, also on a machine that does something else.
const SECONDS_PER_INPUT: u32 = 30;
/// Longer inputs are made of more of the same.
const INPUT_BYTES_MAX: u32 = 65_536;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each target runs
    #[arg(long, default_value_t = 10)]
    minutes: u32,
    /// How many run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Which targets; without any, all of them
    targets: Vec<String>,
}

/// What a run of one target came to.
struct Outcome {
    target: String,
    executions: String,
    coverage: String,
    corpus: String,
    seconds: String,
    findings: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let folder = fs::canonicalize(&folder).with_context(|| folder.display().to_string())?;
    let all = targets(&folder)?;
    let wanted = if options.targets.is_empty() { all.clone() } else { options.targets.clone() };
    if let Some(unknown) = wanted.iter().find(|target| !all.contains(target)) {
        bail!("{unknown} is no target; these are: {}", all.join(", "));
    }
    let programs = build(&folder)?;
    let waiting = Mutex::new(wanted.into_iter().rev().collect::<Vec<String>>());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(target) = taken(&waiting) {
                    let outcome = fuzz(&folder, &programs, &target, options.minutes);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push(outcome);
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    let outcomes = outcomes.into_iter().collect::<anyhow::Result<Vec<Outcome>>>()?;
    table(outcomes)
}

fn taken(waiting: &Mutex<Vec<String>>) -> Option<String> {
    waiting.lock().ok()?.pop()
}

/// The targets, by their programs.
fn targets(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.push(name.context("a target's name is no text")?.to_owned());
    }
    names.sort();
    Ok(names)
}

/// Builds every target with its instruments, and says where the programs lie.
#[expect(clippy::disallowed_methods, reason = "a task starts builds; the product does not")]
fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let needs = "it needs a nightly toolchain (rustup toolchain install nightly --profile minimal), \
                 cargo install cargo-fuzz --locked, and g++";
    let built = Command::new("rustup")
        .args(["run", "nightly", "cargo", "fuzz", "build"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .status();
    let built = built.with_context(|| format!("cannot start rustup: {needs}"))?;
    ensure!(built.success(), "cargo fuzz build: {built}; {needs}");
    let target = folder.join("target");
    for entry in fs::read_dir(&target)? {
        // The folder of the machine's triple: the instruments ask for one.
        let release = entry?.path().join("release");
        if release.join("ring").is_file() {
            return Ok(release);
        }
    }
    bail!("{}: no programs of targets are there", target.display())
}

#[expect(clippy::disallowed_methods, reason = "a task starts programs; the product does not")]
fn fuzz(folder: &Path, programs: &Path, target: &str, minutes: u32) -> anyhow::Result<Outcome> {
    // What is found on the way is kept beside the builds; what is worth keeping for good, a person puts in corpus/.
    let (grown, artifacts) =
        (folder.join("target/corpus").join(target), folder.join("artifacts").join(target));
    fs::create_dir_all(&grown)?;
    fs::create_dir_all(&artifacts)?;
    let seconds = minutes.saturating_mul(60);
    let ran = Command::new(programs.join(target))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-malloc_limit_mb={ALLOCATION_MIB}"))
        .arg(format!("-timeout={SECONDS_PER_INPUT}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-rss_limit_mb=4096", "-print_final_stats=1", "-use_value_profile=1"])
        .arg(&grown)
        .arg(folder.join("corpus").join(target))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start the program of {target}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    fs::write(folder.join("target").join(format!("{target}.log")), said.as_bytes())?;
    let after = |mark: &str| {
        let behind = said.rfind(mark).and_then(|at| said.get(at..)?.strip_prefix(mark));
        let word = behind.and_then(|behind| behind.split_whitespace().next());
        word.unwrap_or("not told").to_owned()
    };
    let mut findings = Vec::new();
    for entry in fs::read_dir(&artifacts)? {
        findings.push(entry?.path().display().to_string());
    }
    if !ran.status.success() && findings.is_empty() {
        findings.push(format!("it ended with {}, see target/{target}.log", ran.status));
    }
    Ok(Outcome {
        target: target.to_owned(),
        executions: after("stat::number_of_executed_units:"),
        coverage: after(" cov: "),
        corpus: after(" corp: "),
        seconds: seconds.to_string(),
        findings,
    })
}

/// Prints all of them.
///
/// # Errors
/// Where something was found.
fn table(mut outcomes: Vec<Outcome>) -> anyhow::Result<()> {
    outcomes.sort_by(|one, other| one.target.cmp(&other.target));
    let mut out = std::io::stdout().lock();
    writeln!(out, "| target | seconds | executions | edges covered | inputs / bytes | findings |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---|")?;
    for outcome in &outcomes {
        let Outcome { target, executions, coverage, corpus, seconds, findings } = outcome;
        let found = if findings.is_empty() { "none".to_owned() } else { findings.join(", ") };
        writeln!(out, "| {target} | {seconds} | {executions} | {coverage} | {corpus} | {found} |")?;
    }
    let found = outcomes.iter().filter(|outcome| !outcome.findings.is_empty()).count();
    ensure!(found == 0, "{found} targets found something");
    Ok(())
}
