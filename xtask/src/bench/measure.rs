//! One tracer under one storm, seen from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::guard::{self, Guarded};
use super::procfs;
use super::storm::{Programs, Shape};
use super::tracer::{Agent, AgentReport, Missed, Tracer};
use crate::text::complain;

/// A tracer that uses less than [`QUIET_CPU_NS`] in this time has caught up.
const QUIET_WINDOW: Duration = Duration::from_millis(400);
/// 5 % of [`QUIET_WINDOW`]: the rest of the machine makes events too.
const QUIET_CPU_NS: u64 = 20_000_000;
/// bpftrace compiles its program at start; on a busy machine that takes a while.
const QUIET_LIMIT: Duration = Duration::from_mins(2);
/// A tracer that was asked to end and does not is killed after this.
const END_LIMIT: Duration = Duration::from_mins(1);

/// What is needed to start any tracer.
pub(super) struct Bench<'a> {
    pub(super) programs: &'a Programs,
    pub(super) folder: &'a Path,
    /// The product, or why there is none.
    pub(super) agent: Result<&'a Agent, &'a str>,
}

/// A tracer at work.
pub(super) struct Session<'a> {
    bench: &'a Bench<'a>,
    tracer: Tracer,
    child: Guarded,
    printed: PathBuf,
    errors: PathBuf,
    report: PathBuf,
}

/// What one storm showed of one tracer.
pub(super) struct Measured {
    pub(super) elapsed_ns: u64,
    /// CPU time of the tracer from before the storm until it had caught up.
    pub(super) cpu_ns: u64,
    /// When it had caught up.
    pub(super) memory: procfs::Memory,
    /// Bytes of its BPF rings, each mapped twice and so twice in its memory.
    pub(super) ring_bytes: u64,
    pub(super) missed: Missed,
    pub(super) programs: Vec<ProgramCost>,
    /// CPU time by thread name, during the storm.
    pub(super) threads: BTreeMap<String, u64>,
    /// The product's own report; none of a peer.
    pub(super) report: Option<AgentReport>,
}

/// What the kernel counted of one BPF program during a storm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramCost {
    pub(super) name: String,
    pub(super) runs: u64,
    pub(super) run_ns: u64,
    pub(super) recursion_misses: u64,
}

impl<'a> Session<'a> {
    /// Starts a tracer and waits until it is attached and has nothing more to do.
    pub(super) fn start(bench: &'a Bench<'a>, tracer: Tracer) -> anyhow::Result<Self> {
        let at = |end: &str| bench.folder.join(format!("{}.{end}", tracer.name()));
        let (printed, errors, report) = (at("out"), at("err"), at("json"));
        if report.exists() {
            fs::remove_file(&report).context("the report of the last storm")?;
        }
        let child = Guarded::start(
            tracer
                .command(bench.agent.ok(), &report)?
                .stdin(Stdio::null())
                .stdout(fs::File::create(&printed)?)
                .stderr(fs::File::create(&errors)?),
        )?;
        let mut session = Self { bench, tracer, child, printed, errors, report };
        // Twice: between two steps of its start a tracer may wait for the kernel.
        session.wait_until_quiet(2)?;
        Ok(session)
    }

    fn wait_until_quiet(&mut self, windows: u32) -> anyhow::Result<()> {
        let end = Instant::now() + QUIET_LIMIT;
        let mut quiet = 0;
        while quiet < windows {
            self.ensure_alive()?;
            let before_ns = self.cpu_ns()?;
            guard::pause(QUIET_WINDOW)?;
            self.ensure_alive()?;
            let used_ns = self.cpu_ns()?.saturating_sub(before_ns);
            let is_idle =
                used_ns <= QUIET_CPU_NS && procfs::holds(self.child.pid(), self.tracer.handles())?;
            quiet = if is_idle { quiet + 1 } else { 0 };
            ensure!(Instant::now() < end, "{} does not come to rest", self.tracer.name());
        }
        Ok(())
    }

    fn cpu_ns(&self) -> anyhow::Result<u64> {
        self.bench.programs.cpu_ns(self.child.pid())
    }

    fn ensure_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.ended()? {
            bail!("{} ended ({status}): {}", self.tracer.name(), self.last_words()?);
        }
        Ok(())
    }

    /// The end of what it wrote to stderr.
    fn last_words(&self) -> anyhow::Result<String> {
        let text = fs::read(&self.errors).context("a tracer's stderr")?;
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        Ok(lines.into_iter().rev().collect::<Vec<_>>().join(" / "))
    }

    /// Lets a storm blow under the tracer, waits until it has caught up, ends it, and counts.
    pub(super) fn storm(
        mut self,
        shape: &Shape,
        while_it_blows: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Measured> {
        let pid = self.child.pid();
        let cpu_before_ns = self.cpu_ns()?;
        let programs_before = procfs::programs(pid)?;
        let threads_before = procfs::threads(pid)?;
        let (blown, pids) = self.bench.programs.blow(shape, while_it_blows)?;
        let threads_after = procfs::threads(pid)?;
        self.wait_until_quiet(1)?;
        let cpu_ns = self.cpu_ns()?.saturating_sub(cpu_before_ns);
        let programs = program_costs(&programs_before, &procfs::programs(pid)?)?;
        let threads = thread_costs(&threads_before, &threads_after);
        let (memory, ring_bytes) = (procfs::memory(pid)?, procfs::ring_bytes(pid)?);

        self.end()?;
        let (missed, report) = if self.tracer == Tracer::GpuLedger {
            let json = fs::read(&self.report).with_context(|| {
                format!("gpu-ledger left no report: {}", self.last_words().unwrap_or_default())
            })?;
            let report = AgentReport::parse(&json)?;
            (report.missed(shape.processes)?, Some(report))
        } else {
            (self.tracer.missed(&fs::read(&self.printed)?, &pids), None)
        };
        let elapsed_ns = blown.elapsed_ns;
        Ok(Measured { elapsed_ns, cpu_ns, memory, ring_bytes, missed, programs, threads, report })
    }

    /// Ends the tracer as Ctrl-C would.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.ensure_alive()?;
        self.child.interrupt()?;
        if self.child.wait(END_LIMIT)?.is_none() {
            complain(&format!("{} does not end when interrupted; killed", self.tracer.name()));
        }
        Ok(())
    }
}

/// The difference of the counters before and after, with the names that bpftool knows.
fn program_costs(
    before: &BTreeMap<u64, procfs::Program>,
    after: &BTreeMap<u64, procfs::Program>,
) -> anyhow::Result<Vec<ProgramCost>> {
    let mut costs = Vec::new();
    for (id, program) in after {
        let earlier = before.get(id).context("a BPF program that was loaded during the storm")?;
        costs.push(ProgramCost {
            name: name_of_program(*id).unwrap_or_else(|| program.tag.clone()),
            runs: program.runs.saturating_sub(earlier.runs),
            run_ns: program.run_ns.saturating_sub(earlier.run_ns),
            recursion_misses: program.recursion_misses.saturating_sub(earlier.recursion_misses),
        });
    }
    Ok(costs)
}

/// A program's name where bpftool is there to tell it: fdinfo has only the tag.
fn name_of_program(id: u64) -> Option<String> {
    let output = Command::new("bpftool")
        .args(["--json", "prog", "show", "id", &id.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    shown.get("name")?.as_str().map(str::to_owned)
}

/// CPU time by thread name between two looks. A thread that came or went between them counts from
/// or until the look that saw it, which is why totals come from the process's clock instead.
fn thread_costs(
    before: &BTreeMap<String, procfs::Thread>,
    after: &BTreeMap<String, procfs::Thread>,
) -> BTreeMap<String, u64> {
    let mut costs = BTreeMap::new();
    for (id, thread) in after {
        let earlier_ns = before.get(id).map_or(0, |thread| thread.cpu_ns);
        let used_ns = thread.cpu_ns.saturating_sub(earlier_ns);
        *costs.entry(thread.name.clone()).or_insert(0) += used_ns;
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_name_are_summed_and_counted_from_the_first_look() {
        let thread = |name: &str, cpu_ns| procfs::Thread { name: name.to_owned(), cpu_ns };
        let look = |entries: &[(&str, procfs::Thread)]| {
            entries.iter().map(|(id, thread)| ((*id).to_owned(), thread.clone())).collect()
        };
        let before = look(&[("1", thread("main", 50)), ("2", thread("nvml", 10))]);
        let after =
            look(&[("1", thread("main", 80)), ("2", thread("nvml", 15)), ("3", thread("nvml", 7))]);
        let expected = BTreeMap::from([("main".to_owned(), 30), ("nvml".to_owned(), 12)]);
        assert_eq!(thread_costs(&before, &after), expected);
    }
}
