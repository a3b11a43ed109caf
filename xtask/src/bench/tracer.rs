//! The tracers that are compared: how each is started, and what it says it saw.
//!
//! Starting needs the system; the counting of what was seen is pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::storm::{PROCESS_NAME, Pids};

/// Kernel events of one short process: fork, exec, exit.
pub(super) const EVENTS_PER_PROCESS: u64 = 3;
/// bpftrace's program: one line an exec and one an exit of a process, as short as they can be.
const BPFTRACE: &str = "tracepoint:sched:sched_process_exec { printf(\"e %d %s\\n\", pid, str(args->filename)); } \
     tracepoint:sched:sched_process_exit /pid == tid/ { printf(\"x %d\\n\", pid); }";

/// A tracer under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tracer {
    GpuLedger,
    Execsnoop,
    Bpftrace,
    Forkstat,
}

/// Where the product's binary is, and which driver library it is to use.
pub(super) struct Agent {
    pub(super) binary: PathBuf,
    pub(super) library: PathBuf,
    pub(super) socket: Option<PathBuf>,
}

/// What a tracer missed of one storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Out of how many.
    pub(super) expected: u64,
    /// Not reported at all.
    pub(super) absent: u64,
    /// Reported without saying which program it was.
    pub(super) nameless: u64,
}

impl Tracer {
    pub(super) const PEERS: [Self; 3] = [Self::Execsnoop, Self::Bpftrace, Self::Forkstat];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GpuLedger => "gpu-ledger",
            Self::Execsnoop => "execsnoop",
            Self::Bpftrace => "bpftrace",
            Self::Forkstat => "forkstat",
        }
    }

    /// Debian's package of a peer.
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Execsnoop => "libbpf-tools",
            other => other.name(),
        }
    }

    /// What its descriptors are when it is attached: one of these.
    pub(super) fn handles(self) -> &'static [&'static str] {
        match self {
            Self::GpuLedger => &["anon_inode:bpf_link", "anon_inode:bpf-link"],
            // bpftrace 0.17 attaches through perf events.
            Self::Execsnoop | Self::Bpftrace => &["anon_inode:[perf_event]"],
            // It listens on netlink.
            Self::Forkstat => &["socket:"],
        }
    }

    /// What `missed` counts.
    pub(super) fn counts(self) -> &'static str {
        match self {
            Self::GpuLedger => "events",
            _ => "execs",
        }
    }

    /// Where a peer is installed; Debian puts tools for root into `sbin`, which may not be on PATH.
    pub(super) fn installed(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
        let mut candidates = folders.map(|folder| folder.join(self.name()));
        candidates.find(|candidate| candidate.is_file())
    }

    /// The command line; the product writes its report to `report`, peers print.
    pub(super) fn command(self, agent: Option<&Agent>, report: &Path) -> anyhow::Result<Command> {
        if let Self::GpuLedger = self {
            let agent = agent.context("gpu-ledger is not built")?;
            let mut command = Command::new(&agent.binary);
            command.arg("--nvml-library").arg(&agent.library);
            // Ended by an interrupt when the storm is over, long before.
            command.args(["trace", "--for", "6h", "--settle-timeout", "5s", "--json", "--output"]);
            command.arg(report).env("GPU_LEDGER_LOG", "info");
            if let Some(socket) = &agent.socket {
                command.env("NVSIM_SOCKET", socket);
            }
            return Ok(command);
        }
        let program =
            self.installed().with_context(|| format!("{} is not installed", self.name()))?;
        let mut command = Command::new(program);
        match self {
            Self::Bpftrace => command.args(["-e", BPFTRACE]),
            Self::Forkstat => command.args(["-e", "exec,exit"]),
            _ => &mut command,
        };
        Ok(command)
    }

    /// What a peer missed of a storm, from what it printed.
    pub(super) fn missed(self, printed: &[u8], storm: &Pids) -> Missed {
        let mut named = BTreeMap::<u32, u64>::new();
        let mut nameless = BTreeMap::<u32, u64>::new();
        for line in printed.split(|&byte| byte == b'\n') {
            if let Some((pid, is_named)) = self.exec_line(&String::from_utf8_lossy(line)) {
                *if is_named { &mut named } else { &mut nameless }.entry(pid).or_insert(0) += 1;
            }
        }
        let mut missed = Missed::default();
        for (pid, &expected) in storm {
            let with_name = named.get(pid).copied().unwrap_or(0).min(expected);
            let without = nameless.get(pid).copied().unwrap_or(0).min(expected - with_name);
            missed.expected += expected;
            missed.nameless += without;
            missed.absent += expected - with_name - without;
        }
        missed
    }

    /// The pid of an exec line, and whether it names the storm's program. A line that names
    /// another program is none of the storm's; one that names none may be.
    fn exec_line(self, line: &str) -> Option<(u32, bool)> {
        let mut words = line.split_whitespace();
        let is_ours = |name: &str| name.rsplit('/').next() == Some(PROCESS_NAME);
        match self {
            // PCOMM PID PPID RET ARGS
            Self::Execsnoop => {
                is_ours(words.next()?).then_some(())?;
                Some((words.next()?.parse().ok()?, true))
            }
            // e PID FILENAME
            Self::Bpftrace => {
                (words.next()? == "e").then_some(())?;
                let pid = words.next()?.parse().ok()?;
                is_ours(words.next()?).then_some((pid, true))
            }
            // TIME exec PID PROCESS, the last read from /proc when the event arrived.
            Self::Forkstat => {
                (words.nth(1)? == "exec").then_some(())?;
                let pid = words.next()?.parse().ok()?;
                let process: Vec<&str> = words.collect();
                if process.iter().any(|word| is_ours(word)) {
                    return Some((pid, true));
                }
                // It prints `<unknown>` or nothing for one that is gone already.
                process.first().is_none_or(|word| word.starts_with('<')).then_some((pid, false))
            }
            Self::GpuLedger => None,
        }
    }
}

/// The parts of the product's report that this benchmark reads.
#[derive(Debug, Deserialize)]
pub(super) struct AgentReport {
    events: Option<Events>,
    pub(super) missed_in_coverage: Option<u64>,
    pub(super) host: Block,
    pub(super) gpus: Vec<Gpu>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Gpu {
    pub(super) reading: Reading,
}

/// What reading one GPU cost, by the product's own count.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Reading {
    pub(super) cpu_us: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Events {
    produced: u64,
    received: u64,
    lost: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Block {
    pub(super) settlements: Vec<serde_json::Value>,
}

impl AgentReport {
    pub(super) fn parse(json: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(json).context("the report of gpu-ledger trace")
    }

    /// What it missed of a storm, in events. Its own count of losses is not simply believed: it
    /// must add up, and it must know of at least the events that the storm is known to have made.
    pub(super) fn missed(&self, processes: u64) -> anyhow::Result<Missed> {
        let events = self.events.context("gpu-ledger had no kernel events; its stderr says why")?;
        ensure!(
            events.received.checked_add(events.lost) == Some(events.produced),
            "produced {} is not received {} + lost {}",
            events.produced,
            events.received,
            events.lost
        );
        let expected = processes * EVENTS_PER_PROCESS;
        let unknown_to_it = expected.saturating_sub(events.produced);
        Ok(Missed { expected, absent: events.lost + unknown_to_it, nameless: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(tracer: Tracer, printed: &str, storm: &[(u32, u64)]) -> (u64, u64, u64) {
        let missed = tracer.missed(printed.as_bytes(), &storm.iter().copied().collect());
        (missed.expected, missed.absent, missed.nameless)
    }

    #[test]
    fn execsnoop_is_read_by_command_name_and_pid() {
        let printed = "PCOMM            PID    PPID   RET ARGS\n\
            storm            19188  19126    0 ./storm /tmp/b/gl-brief storm 3000 2 0 0 p \n\
            gl-brief         19191  19190    0 /tmp/b/gl-brief storm 0 \n";
        assert_eq!(missed(Tracer::Execsnoop, printed, &[(19191, 1), (19192, 1)]), (2, 1, 0));
        assert_eq!(missed(Tracer::Execsnoop, printed, &[(19188, 1)]), (1, 1, 0));
    }

    #[test]
    fn bpftrace_exits_are_not_taken_for_execs() {
        let printed = "Attaching 2 probes...\nx 7\ne 8 /tmp/b/gl-brief\nx 8\ne 9 /bin/true\n";
        assert_eq!(missed(Tracer::Bpftrace, printed, &[(7, 1), (8, 1), (9, 1)]), (3, 2, 0));
    }

    #[test]
    fn forkstat_lines_without_a_name_are_told_from_missing_ones() {
        let printed = "Time     Event   PID Info   Duration Process\n\
            02:42:28 exec  19134                 sh -c true\n\
            02:42:30 exec  19191                 /tmp/b/gl-brief storm 0 \n\
            02:42:30 exit  19191      0   0.001s /tmp/b/gl-brief storm 0\n\
            02:42:30 exec  19192                 <unknown>\n\
            02:42:30 exec  19193                 \n";
        let storm = [(19134, 1), (19191, 1), (19192, 1), (19193, 1), (19194, 1)];
        assert_eq!(missed(Tracer::Forkstat, printed, &storm), (5, 2, 2));
    }

    #[test]
    fn one_line_does_not_stand_for_two_processes_of_the_same_pid() {
        let line = "e 8 /tmp/b/gl-brief\n";
        assert_eq!(missed(Tracer::Bpftrace, line, &[(8, 2)]), (2, 1, 0));
        assert_eq!(missed(Tracer::Bpftrace, &line.repeat(3), &[(8, 2), (9, 1)]), (3, 1, 0));
    }

    fn report(events: &str) -> AgentReport {
        let json = format!(
            r#"{{"format":"gpu-ledger-trace","events":{events},"missed_in_coverage":0,"gpus":[],
                "host":{{"accounts":[],"settlements":[]}}}}"#
        );
        AgentReport::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn the_product_is_not_believed_that_it_lost_nothing_of_what_it_never_saw() {
        let all = report(r#"{"produced":305,"received":300,"lost":5}"#);
        assert_eq!(all.missed(100).unwrap(), Missed { expected: 300, absent: 5, nameless: 0 });
        let blind = report(r#"{"produced":100,"received":100,"lost":0}"#);
        assert_eq!(blind.missed(100).unwrap().absent, 200);
    }

    #[test]
    fn counts_that_do_not_add_up_and_no_counts_are_errors() {
        assert!(report(r#"{"produced":305,"received":300,"lost":0}"#).missed(100).is_err());
        assert!(report("null").missed(100).is_err());
    }
}
