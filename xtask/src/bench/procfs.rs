//! What the kernel tells about another process from outside: memory, handles, BPF programs and
//! maps, threads. Parsers are pure; what a file does not say is an error, never a zero.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, ensure};

/// `BPF_MAP_TYPE_RINGBUF` of `include/uapi/linux/bpf.h`.
const MAP_TYPE_RING: u64 = 27;
/// Whether the kernel times BPF programs.
const BPF_STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// One BPF program of a process, as its descriptor's fdinfo has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) tag: String,
    pub(super) runs: u64,
    pub(super) run_ns: u64,
    /// Events not seen because the same program was running on that CPU already.
    pub(super) recursion_misses: u64,
}

/// CPU time of one thread so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) cpu_ns: u64,
}

/// The value after `key:` in a file of such lines.
fn field<'a>(text: &'a str, key: &str) -> anyhow::Result<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .map(str::trim)
        .with_context(|| format!("no `{key}:` line"))
}

/// That value as a number.
fn number(text: &str, key: &str) -> anyhow::Result<u64> {
    let value = field(text, key)?;
    value.parse().with_context(|| format!("`{key}: {value}` is no number"))
}

/// A memory line of /proc/PID/status in KiB.
fn kib(status: &str, key: &str) -> anyhow::Result<u64> {
    let value = field(status, key)?;
    let kib = value.strip_suffix(" kB").with_context(|| format!("{key} is not in kB: {value}"))?;
    kib.trim().parse().with_context(|| format!("{key} is no number: {value}"))
}

/// The id and counters of a program, out of its fdinfo.
fn program(fdinfo: &str) -> anyhow::Result<(u64, Program)> {
    let program = Program {
        tag: field(fdinfo, "prog_tag")?.to_owned(),
        runs: number(fdinfo, "run_cnt")?,
        run_ns: number(fdinfo, "run_time_ns")?,
        recursion_misses: number(fdinfo, "recursion_misses")?,
    };
    Ok((number(fdinfo, "prog_id")?, program))
}

/// The id and size of a ring, out of a map's fdinfo; none of any other map.
fn ring(fdinfo: &str) -> anyhow::Result<Option<(u64, u64)>> {
    if number(fdinfo, "map_type")? != MAP_TYPE_RING {
        return Ok(None);
    }
    Ok(Some((number(fdinfo, "map_id")?, number(fdinfo, "max_entries")?)))
}

/// Time on a CPU, the first number of a schedstat file.
fn on_cpu_ns(schedstat: &str) -> anyhow::Result<u64> {
    let first = schedstat.split_whitespace().next().context("an empty schedstat")?;
    first.parse().with_context(|| format!("schedstat begins with {first}"))
}

fn read(path: impl AsRef<Path>) -> anyhow::Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The entries of a folder of /proc; those that went meanwhile are no error.
fn entries(folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).with_context(|| format!("cannot list {folder}"))?;
    let paths: Result<Vec<_>, io::Error> = listed.map(|entry| Ok(entry?.path())).collect();
    paths.with_context(|| format!("cannot list {folder}"))
}

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Memory {
    pub(super) now_kib: u64,
    /// The most since its start.
    pub(super) peak_kib: u64,
}

/// Resident memory of a process now and at its peak.
pub(super) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = read(format!("/proc/{pid}/status"))?;
    Ok(Memory { now_kib: kib(&status, "VmRSS")?, peak_kib: kib(&status, "VmHWM")? })
}

/// What the descriptors of a process are, as their links say, with the fdinfo of each.
fn handles(pid: u32) -> anyhow::Result<Vec<(String, String)>> {
    let mut handles = Vec::new();
    for path in entries(&format!("/proc/{pid}/fd"))? {
        let Ok(target) = fs::read_link(&path) else { continue };
        let Some(name) = path.file_name() else { continue };
        let info = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(name);
        let Ok(info) = fs::read_to_string(info) else { continue };
        handles.push((target.to_string_lossy().into_owned(), info));
    }
    Ok(handles)
}

/// Whether a process holds a descriptor whose link begins with one of `kinds`.
pub(super) fn holds(pid: u32, kinds: &[&str]) -> anyhow::Result<bool> {
    Ok(handles(pid)?.iter().any(|(target, _)| kinds.iter().any(|kind| target.starts_with(kind))))
}

/// The BPF programs of a process by id.
pub(super) fn programs(pid: u32) -> anyhow::Result<BTreeMap<u64, Program>> {
    let handles = handles(pid)?;
    let programs = handles.iter().filter(|(target, _)| target == "anon_inode:bpf-prog");
    programs.map(|(_, info)| program(info)).collect()
}

/// Bytes of all BPF rings of a process.
pub(super) fn ring_bytes(pid: u32) -> anyhow::Result<u64> {
    let mut rings = BTreeMap::new();
    for (_, info) in handles(pid)?.iter().filter(|(target, _)| target == "anon_inode:bpf-map") {
        rings.extend(ring(info)?);
    }
    Ok(rings.values().sum())
}

/// The threads of a process by id.
pub(super) fn threads(pid: u32) -> anyhow::Result<BTreeMap<String, Thread>> {
    let mut threads = BTreeMap::new();
    for task in entries(&format!("/proc/{pid}/task"))? {
        let name = read(task.join("comm"))?.trim_end().to_owned();
        let cpu_ns = on_cpu_ns(&read(task.join("schedstat"))?)?;
        threads.insert(task.to_string_lossy().into_owned(), Thread { name, cpu_ns });
    }
    Ok(threads)
}

/// Switches the kernel's timing of BPF programs on, and back to what it was at the end.
pub(super) struct BpfStatistics(String);

impl BpfStatistics {
    pub(super) fn enable() -> anyhow::Result<Self> {
        let before = read(BPF_STATS)?;
        fs::write(BPF_STATS, "1").with_context(|| format!("cannot write {BPF_STATS}"))?;
        ensure!(read(BPF_STATS)?.trim() == "1", "{BPF_STATS} does not stay 1");
        Ok(Self(before))
    }
}

impl Drop for BpfStatistics {
    fn drop(&mut self) {
        if let Err(error) = fs::write(BPF_STATS, self.0.trim()) {
            crate::text::complain(&format!("cannot set {BPF_STATS} back to {}: {error}", self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1041\nprog_type:\t26\n\
        prog_jited:\t1\nprog_tag:\tc0bfcbf4e52d5b57\nmemlock:\t4096\nprog_id:\t32\n\
        run_time_ns:\t1234567\nrun_cnt:\t1000\nrecursion_misses:\t2\nverified_insns:\t640\n";

    #[test]
    fn the_counters_of_a_program_are_read_from_its_fdinfo() {
        let (id, program) = program(PROGRAM).unwrap();
        assert_eq!((id, program.runs, program.run_ns), (32, 1000, 1_234_567));
        assert_eq!((program.recursion_misses, program.tag.as_str()), (2, "c0bfcbf4e52d5b57"));
    }

    #[test]
    fn a_counter_that_is_missing_is_an_error_and_not_zero() {
        let old = PROGRAM.replace("recursion_misses:\t2\n", "");
        let error = program(&old).unwrap_err();
        assert_eq!(error.to_string(), "no `recursion_misses:` line");
    }

    #[test]
    fn a_ring_is_told_from_other_maps() {
        let map = "map_type:\t27\nkey_size:\t0\nmax_entries:\t4194304\nmap_id:\t9\n";
        assert_eq!(ring(map).unwrap(), Some((9, 4 << 20)));
        assert_eq!(ring(&map.replace("27", "2")).unwrap(), None);
        assert!(ring("map_id:\t9\n").is_err());
    }

    #[test]
    fn memory_is_read_with_its_unit() {
        let status = "Name:\tx\nVmPeak:\t  9000 kB\nVmHWM:\t    4712 kB\nVmRSS:\t    4000 kB\n";
        assert_eq!(kib(status, "VmHWM").unwrap(), 4712);
        assert!(kib("VmHWM:\t4712\n", "VmHWM").is_err());
    }

    #[test]
    fn this_process_has_memory_and_a_thread_that_used_the_cpu() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(memory.now_kib > 100 && memory.peak_kib >= memory.now_kib, "{memory:?}");
        assert!(threads(pid).unwrap().values().any(|thread| thread.cpu_ns > 0));
        assert_eq!(ring_bytes(pid).unwrap(), 0);
    }
}
