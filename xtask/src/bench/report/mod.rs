//! The result of the events benchmark as text: pure, the same on the screen and in the file.

mod aims;

use super::measure::ProgramCost;
use super::paired::{Paired, Ratios};
use super::simulated::DriverCost;
use super::statistics::{Estimate, ONE_PPM};
use super::tracer::{Missed, Tracer};
use crate::number::grouped;
use crate::text::{decimal, table};

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_US: u64 = 1_000;
const KIB_PER_MIB: u64 = 1024;
const MIB: u64 = 1 << 20;

/// A value, or why there is none.
pub(super) type Found<T> = Result<T, String>;

/// A tracer over the rounds of one load.
pub(super) struct Row {
    pub(super) missed: Missed,
    /// Median over the rounds.
    pub(super) cpu_ns: u64,
    /// Median over the rounds.
    pub(super) elapsed_ns: u64,
    /// After the storm, largest of the rounds.
    pub(super) rss_kib: u64,
    /// Since its start, largest of the rounds.
    pub(super) peak_kib: u64,
    pub(super) ring_bytes: u64,
}

/// All tracers under one load.
pub(super) struct LoadRows {
    pub(super) title: String,
    pub(super) processes: u64,
    pub(super) rounds: u8,
    /// Median time of the storm without any tracer.
    pub(super) bare_ns: u64,
    pub(super) rows: Vec<(Tracer, Found<Row>)>,
}

/// What the kernel counted of a tracer's programs in one storm.
pub(super) struct KernelRows {
    pub(super) processes: u64,
    pub(super) rows: Vec<(Tracer, Found<Vec<ProgramCost>>)>,
}

/// After a long storm.
pub(super) struct LongRun {
    pub(super) processes: u64,
    pub(super) row: Found<Row>,
}

/// Everything that was measured.
pub(super) struct Report {
    pub(super) command: String,
    pub(super) surroundings: Vec<String>,
    pub(super) paired: Found<Paired>,
    pub(super) loads: Vec<LoadRows>,
    pub(super) kernel: KernelRows,
    pub(super) long_run: LongRun,
    pub(super) driver: Found<DriverCost>,
}

fn ratio(estimate: &Estimate) -> String {
    let text = |ppm| decimal(ppm, ONE_PPM, 4);
    let median = text(estimate.median);
    match estimate.bounds {
        Some((below, above)) => format!("{median} (95 %: {} to {})", text(below), text(above)),
        None => format!("{median} (too few rounds for bounds)"),
    }
}

fn mib(kib: u64) -> String {
    decimal(kib, KIB_PER_MIB, 1)
}

impl Row {
    /// Memory less the ring, which is mapped twice and resident from the start.
    fn net_kib(&self) -> u64 {
        self.rss_kib.saturating_sub(2 * self.ring_bytes / 1024)
    }
}

fn missed(tracer: Tracer, missed: &Missed) -> String {
    let counted =
        format!("{} of {} {}", grouped(missed.absent), grouped(missed.expected), tracer.counts());
    if missed.nameless == 0 {
        return counted;
    }
    format!("{counted}, {} nameless", grouped(missed.nameless))
}

fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

impl LoadRows {
    /// Starts a second without any tracer.
    pub(super) fn bare_rate(&self) -> Option<u64> {
        self.rate(self.bare_ns)
    }

    fn rate(&self, elapsed_ns: u64) -> Option<u64> {
        self.processes.checked_mul(NS_PER_S)?.checked_div(elapsed_ns)
    }

    fn render(&self) -> String {
        let rate = |ns| self.rate(ns).map_or_else(|| "unknown".to_owned(), grouped);
        let head = [
            "tracer",
            "CPU s",
            "storm s",
            "processes/s",
            "RSS MiB",
            "net MiB",
            "peak MiB",
            "missed",
        ];
        let mut rows = vec![cells(head)];
        let bare_s = decimal(self.bare_ns, NS_PER_S, 3);
        rows.push(cells(["none", "", &bare_s, &rate(self.bare_ns), "", "", "", ""]));
        for (tracer, row) in &self.rows {
            rows.push(match row {
                Ok(row) => cells([
                    tracer.name(),
                    &decimal(row.cpu_ns, NS_PER_S, 4),
                    &decimal(row.elapsed_ns, NS_PER_S, 3),
                    &rate(row.elapsed_ns),
                    &mib(row.rss_kib),
                    &mib(row.net_kib()),
                    &mib(row.peak_kib),
                    &missed(*tracer, &row.missed),
                ]),
                Err(reason) => cells([tracer.name(), "", "", "", "", "", "", reason]),
            });
        }
        format!("{}, {} round(s)\n{}", self.title, self.rounds, table(&rows))
    }
}

impl KernelRows {
    fn render(&self) -> String {
        let head = ["tracer", "program", "runs", "ns/run", "missed by recursion", "remark"];
        let mut rows = vec![cells(head)];
        for (tracer, programs) in &self.rows {
            let programs = match programs {
                Ok(programs) => programs,
                Err(reason) => {
                    rows.push(cells([tracer.name(), "", "", "", "", reason]));
                    continue;
                }
            };
            for program in programs {
                let ns = program.run_ns.checked_div(program.runs);
                rows.push(cells([
                    tracer.name(),
                    &program.name,
                    &grouped(program.runs),
                    &ns.map_or_else(|| "did not run".to_owned(), grouped),
                    &grouped(program.recursion_misses),
                    "",
                ]));
            }
            let total_ns: u64 = programs.iter().map(|program| program.run_ns).sum();
            if let Some(ns) = total_ns.checked_div(self.processes).filter(|_| !programs.is_empty())
            {
                let us = decimal(ns, NS_PER_US, 2);
                rows.push(cells([
                    tracer.name(),
                    "all, per process",
                    "",
                    "",
                    "",
                    &format!("{us} µs"),
                ]));
            }
        }
        format!(
            "In the kernel, from its own bpf_stats, one storm of {} processes\n{}",
            grouped(self.processes),
            table(&rows)
        )
    }
}

impl LongRun {
    fn render(&self) -> String {
        match &self.row {
            Ok(row) => format!(
                "After a storm of {} processes: RSS {} MiB, net of twice the ring of {} MiB: {} MiB, \
                 peak since start {} MiB\n  CPU {} s, missed {}\n",
                grouped(self.processes),
                mib(row.rss_kib),
                decimal(row.ring_bytes, MIB, 1),
                mib(row.net_kib()),
                mib(row.peak_kib),
                decimal(row.cpu_ns, NS_PER_S, 3),
                missed(Tracer::GpuLedger, &row.missed)
            ),
            Err(reason) => format!("After a long storm: {reason}\n"),
        }
    }
}

/// A CPU time as a share of the time passed and of the GPUs, in parts per million of a core.
fn core_ppm(cpu_ns: u64, elapsed_ns: u64, gpus: u64) -> Option<u64> {
    super::statistics::ratio_ppm(cpu_ns, elapsed_ns)?.checked_div(gpus)
}

fn percent(ppm: Option<u64>) -> String {
    ppm.map_or_else(|| "unknown".to_owned(), |ppm| format!("{} %", decimal(ppm, 10_000, 3)))
}

impl DriverCost {
    fn exits_per_s(&self) -> String {
        let per_s =
            self.processes.checked_mul(NS_PER_S).and_then(|n| n.checked_div(self.elapsed_ns));
        per_s.map_or_else(|| "an unknown rate".to_owned(), |n| format!("{} exits/s", grouped(n)))
    }

    fn render(&self) -> String {
        let share = |ns, gpus| percent(core_ppm(ns, self.elapsed_ns, gpus));
        let reported = share(self.reported_ns, self.gpus);
        let in_coverage = self.missed_in_coverage.map_or("null".to_owned(), grouped);
        format!(
            "Reading a simulated driver of {} GPU(s) in a storm of {} processes in {} s, {} GPU jobs \
             among them\n  driver threads, by the kernel:  {} of a core per GPU\n  \
             driver calls, by the product:   {reported} of a core per GPU\n  \
             whole agent:                    {} of a core\n  \
             settlements {}, missed_in_coverage {in_coverage}, missed {}\n",
            self.gpus,
            grouped(self.processes),
            decimal(self.elapsed_ns, NS_PER_S, 1),
            grouped(self.jobs),
            share(self.threads_ns, self.gpus),
            share(self.agent_ns, 1),
            self.settled,
            missed(Tracer::GpuLedger, &self.missed)
        )
    }
}

impl Ratios {
    fn render(&self, of: &str) -> String {
        let (cost, control) = (ratio(&self.cost), ratio(&self.control));
        format!(
            "  {of:<5} with the agent / without:  {cost}\n  {of:<5} without / without (A/A):   {control}\n"
        )
    }
}

impl Paired {
    fn render(&self) -> String {
        format!(
            "Cost on a loop of fork, exec and exit on one CPU ({} µs each), medians of {} rounds\n{}{}",
            decimal(self.process_ns, NS_PER_US, 1),
            self.rounds,
            self.elapsed.render("time,"),
            self.cpu.render("CPU,")
        )
    }
}

impl Report {
    pub(super) fn render(&self) -> String {
        let mut parts = vec![format!("{}\n", self.surroundings.join("\n"))];
        parts.push(match &self.paired {
            Ok(paired) => paired.render(),
            Err(reason) => format!("Cost on a loop of fork, exec and exit: {reason}\n"),
        });
        parts.extend(self.loads.iter().map(LoadRows::render));
        parts.push(self.long_run.render());
        parts.push(match &self.driver {
            Ok(driver) => driver.render(),
            Err(reason) => format!("Driver calls: {reason}\n"),
        });
        parts.push(self.kernel.render());
        parts.push(aims::render(self));
        parts.join("\n")
    }

    /// The section of `BENCHMARKS.md`.
    pub(super) fn section(&self) -> String {
        format!(
            "## Process events\n\nMade by\n\n```sh\n{}\n```\n\n```text\n{}```\n\n{EXPLANATION}",
            self.command,
            self.render()
        )
    }
}

const EXPLANATION: &str = "\
`95 %` are the bounds of the median by the sign test; an aim is decided only where the ratio's bounds \
lie on one side of it and the A/A control's within as much of 1. `CPU` of the loop is its own and its \
processes' CPU time, what tracers do in them included; its ratio is the steadier one on a busy \
machine, and no aim is stated for it. `CPU s` is user and system time of the tracer alone, from before the storm until it had caught up, \
median over the rounds; what the programs in the kernel cost is charged to the traced processes and \
stands in the table of bpf_stats. `RSS` is resident memory when it had caught up, `net` is less \
twice the size of its BPF ring, which is mapped twice and counts in RSS at once, `peak` is `VmHWM`, \
the start included. `missed` is, of a peer, the storm's processes \
whose exec it did not print, by pid; of gpu-ledger, its own count of lost events plus what it does \
not know of the three events that every process of the storm made. `nameless` lines were printed, \
but without the program.\n";
