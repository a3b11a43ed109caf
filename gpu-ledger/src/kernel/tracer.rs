//! Loads the kernel object, attaches it, drains its ring and reads its counters.
//!
//! The object is built by `cargo xtask ebpf` and committed; `gpu-ledger-ebpf` is its source.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;

use aya::maps::{MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, CgroupAttachMode, CgroupDevice, Program, ProgramError};
use aya::{Ebpf, EbpfLoader};
use bytes::Bytes;
use gpu_ledger_ebpf::{
    COUNTERS_WORDS, Counters, DEVICE_MAJORS_MAX, NO_MAJOR, Offsets, global, kind, map, program,
};

use super::btf::Btf;
use super::fault_log::{self, FaultLog};
use super::loss::{Counts, CpuCounts, Imbalance, Loss, PerKind, SequenceTracker};
use super::wire::{self, WireError};
use super::{Event, KernelError, devices, mounts, offsets, preflight};
use crate::unit::BootNs;

/// Where the kernel describes its types.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// The tracepoints that are attached to.
pub const TRACEPOINTS: [&str; 4] =
    ["sched_process_exit", "sched_process_exec", "cgroup_mkdir", "sched_process_fork"];

/// The ring's size where nothing else is asked for. It is mapped twice.
pub const RING_BYTES: u32 = 4 << 20;

static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/gpu-ledger.bpf.o"));

/// The kernel object that is loaded, byte for byte.
#[must_use]
pub fn object() -> &'static [u8] {
    OBJECT
}

/// What to trace, and how.
#[derive(Clone, Debug)]
pub struct TracerOptions {
    /// Size of the ring in bytes: a power of two and at least a page.
    pub ring_bytes: u32,
    /// Whether to watch NVIDIA's character devices.
    pub device_touch: bool,
    /// Majors to watch; `None` = those of `/proc/devices` and NVIDIA's registered one.
    pub device_majors: Option<Vec<u32>>,
    /// Root of the cgroup v2 tree; `None` = where it is mounted.
    pub cgroup2_root: Option<PathBuf>,
    /// Where procfs is mounted.
    pub proc_root: PathBuf,
    /// Where the kernel's members lie; `None` = where its BTF says. Others than these make reads
    /// fail, which is how it is tested what comes of that.
    pub offsets: Option<Offsets>,
}

impl Default for TracerOptions {
    fn default() -> Self {
        Self {
            ring_bytes: RING_BYTES,
            device_touch: true,
            device_majors: None,
            cgroup2_root: None,
            proc_root: PathBuf::from("/proc"),
            offsets: None,
        }
    }
}

/// Whether opens of NVIDIA's devices are seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceTouchState {
    /// They are, on these majors.
    On {
        /// Watched majors.
        majors: Vec<u32>,
    },
    /// They are not; everything else works.
    Off {
        /// Why, for people.
        reason: String,
    },
}

/// What the kernel says of one loaded program; times only while `kernel.bpf_stats_enabled` is 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramStatistics {
    /// Its name in the object.
    pub program: &'static str,
    /// Runs; `None` where the kernel does not say.
    pub run_count: Option<u64>,
    /// Time in it, nanoseconds.
    pub run_time_ns: Option<u64>,
    /// Runs that were skipped because it was already running on that CPU: must be 0.
    pub recursion_misses: Option<u64>,
    /// Instructions the verifier walked (5.16 and later).
    pub verified_instructions: Option<u64>,
}

/// The attached kernel programs and the reading end of their ring. Dropping it detaches them.
pub struct Tracer {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    counters: PerCpuArray<MapData, [u64; COUNTERS_WORDS]>,
    fault_log: FaultLog,
    sequence: SequenceTracker,
    device_touch: DeviceTouchState,
    loaded: Vec<&'static str>,
    ring_bytes: u32,
}

impl Tracer {
    /// Loads and attaches everything. From its return on, every event is in the ring or counted.
    pub fn attach(options: &TracerOptions) -> Result<Self, KernelError> {
        Self::attach_object(options, OBJECT)
    }

    /// The same with another build of the kernel object than the embedded one.
    pub fn attach_object(options: &TracerOptions, object: &[u8]) -> Result<Self, KernelError> {
        check_ring_size(options.ring_bytes)?;
        preflight::raise_locked_memory();
        let kernel = KernelTypes::read()?;
        let mut ebpf = load(options, &kernel.offsets, object)?;
        let ring = RingBuf::try_from(take(&mut ebpf, map::EVENTS)?);
        let fault_log = FaultLog::open(&mut ebpf)?;
        let counters = PerCpuArray::try_from(take(&mut ebpf, map::COUNTERS)?);
        let failed = |map| move |cause| KernelError::Map { map, cause: Box::new(cause) };
        let mut tracer = Self {
            ebpf,
            ring: ring.map_err(failed(map::EVENTS))?,
            counters: counters.map_err(failed(map::COUNTERS))?,
            fault_log,
            sequence: SequenceTracker::default(),
            device_touch: DeviceTouchState::Off { reason: "not asked for".to_owned() },
            loaded: Vec::new(),
            ring_bytes: options.ring_bytes,
        };
        tracer.attach_tracepoints(kernel.exit_arguments)?;
        if options.device_touch {
            tracer.device_touch = tracer.attach_device_touch(options);
        }
        Ok(tracer)
    }

    /// Takes every record that is in the ring; how many. Each is copied out of the ring once.
    pub fn drain(&mut self, mut each: impl FnMut(Result<Event, WireError>)) -> usize {
        let mut records: usize = 0;
        while let Some(item) = self.ring.next() {
            let record = Bytes::copy_from_slice(&item);
            // Room is given back before anything is done with the record.
            drop(item);
            records = records.saturating_add(1);
            match wire::parse_head(&record) {
                Ok(head) => {
                    self.sequence.observe(&head);
                    each(wire::parse(&record));
                }
                Err(error) => each(Err(error)),
            }
        }
        self.fault_log.flush();
        records
    }

    /// What the programs counted, per CPU.
    pub fn counts(&self) -> Result<Counts, KernelError> {
        let values = self
            .counters
            .get(&0, 0)
            .map_err(|cause| KernelError::Map { map: map::COUNTERS, cause: Box::new(cause) })?;
        Ok(Counts { cpus: values.iter().map(cpu_counts).collect() })
    }

    /// Drains, and reports what was found lost meanwhile: counted by the kernel and missing here.
    pub fn drain_and_confirm(
        &mut self,
        each: impl FnMut(Result<Event, WireError>),
    ) -> Result<Vec<Loss>, KernelError> {
        // Counts first: what they say was produced is then in the ring, lost, or being written.
        let counts = self.counts()?;
        self.drain(each);
        Ok(self.sequence.confirm(&counts))
    }

    /// Takes the programs off their hooks: from its return on nothing is produced any more, so what
    /// is left in the ring is all there is.
    pub fn detach(&mut self) -> Result<(), KernelError> {
        for name in std::mem::take(&mut self.loaded) {
            let program = self.ebpf.program_mut(name).ok_or(KernelError::ObjectLacks { name })?;
            let detached = match program {
                Program::BtfTracePoint(program) => program.unload(),
                Program::CgroupDevice(program) => program.unload(),
                // The object has no other kinds.
                _ => Ok(()),
            };
            detached.map_err(|cause| refused(name, "detached", cause))?;
        }
        Ok(())
    }

    /// What was received.
    #[must_use]
    pub const fn sequence(&self) -> &SequenceTracker {
        &self.sequence
    }

    /// Proves `produced = received + lost` on every CPU. Only while nothing is being produced.
    pub fn balance(&self) -> Result<Result<(), Imbalance>, KernelError> {
        Ok(self.sequence.balance(&self.counts()?))
    }

    /// Whether opens of NVIDIA's devices are seen.
    #[must_use]
    pub const fn device_touch(&self) -> &DeviceTouchState {
        &self.device_touch
    }

    /// Size of the ring in bytes; it is mapped twice and counts in RSS at once.
    #[must_use]
    pub const fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    /// What the kernel says of each loaded program, from `/proc/self/fdinfo`.
    pub fn program_statistics(&self) -> Result<Vec<ProgramStatistics>, KernelError> {
        let mut all = Vec::new();
        for name in &self.loaded {
            let program = self.ebpf.program(name).ok_or(KernelError::ObjectLacks { name })?;
            let fd = program.fd().map_err(|cause| refused(name, "loaded", cause))?;
            let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
            let text = std::fs::read_to_string(&path)
                .map_err(|cause| KernelError::File { path, cause })?;
            all.push(statistics(name, &text));
        }
        Ok(all)
    }

    fn attach_tracepoints(&mut self, exit_arguments: u32) -> Result<(), KernelError> {
        let btf = aya::Btf::from_sys_fs().map_err(|error| no_btf(std::io::Error::other(error)))?;
        let exit = if exit_arguments > 1 { program::EXIT_BY_GROUP } else { program::EXIT_BY_LIVE };
        // Exits first and forks last: whatever is seen to begin is then also seen to end.
        let programs = [exit, program::EXEC, program::CGROUP_MADE, program::FORK];
        for (name, tracepoint) in programs.into_iter().zip(TRACEPOINTS) {
            let found = self.ebpf.program_mut(name).ok_or(KernelError::ObjectLacks { name })?;
            let found: &mut BtfTracePoint =
                found.try_into().map_err(|cause| refused(name, "loaded", cause))?;
            found.load(tracepoint, &btf).map_err(|cause| refused(name, "loaded", cause))?;
            found.attach().map_err(|cause| refused(name, "attached", cause))?;
            self.loaded.push(name);
        }
        Ok(())
    }

    /// Any step that fails turns device touch off and nothing else.
    fn attach_device_touch(&mut self, options: &TracerOptions) -> DeviceTouchState {
        match self.try_device_touch(options) {
            Ok(majors) => DeviceTouchState::On { majors },
            Err(refusal) => {
                // What the verifier says of its absence is about everything but the capability.
                let lack = preflight::touch_lack(&options.proc_root);
                let reason = lack.unwrap_or_else(|| without_verifier_log(&refusal));
                tracing::debug!("device touch: {refusal}");
                DeviceTouchState::Off { reason }
            }
        }
    }

    fn try_device_touch(&mut self, options: &TracerOptions) -> Result<Vec<u32>, String> {
        let majors = watched_majors(options).map_err(|error| error.to_string())?;
        let root = match &options.cgroup2_root {
            Some(root) => root.clone(),
            None => mounts::cgroup2_root(&options.proc_root)
                .map_err(|error| error.to_string())?
                .ok_or("cgroup v2 is not mounted: mount -t cgroup2 none /sys/fs/cgroup/unified")?,
        };
        let cgroup = File::open(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        // An older kernel refuses the one with atomic instructions. It is the right one wherever
        // a program can be preempted, so it is tried first.
        let loaded = self
            .load_device_program(program::DEVICE_TOUCH_ATOMIC)
            .or_else(|_| self.load_device_program(program::DEVICE_TOUCH_PLAIN));
        let name = loaded.map_err(|error| error.to_string())?;
        self.loaded.push(name);
        let found = self.device_program(name).map_err(|error| error.to_string())?;
        // Links stack beside one another only without a mode; with one the kernel says EINVAL.
        found
            .attach(cgroup, CgroupAttachMode::Single)
            .map_err(|cause| refused(name, "attached", cause).to_string())?;
        Ok(majors)
    }

    fn load_device_program(&mut self, name: &'static str) -> Result<&'static str, KernelError> {
        self.device_program(name)?.load().map_err(|cause| refused(name, "loaded", cause))?;
        Ok(name)
    }

    fn device_program(&mut self, name: &'static str) -> Result<&mut CgroupDevice, KernelError> {
        let found = self.ebpf.program_mut(name).ok_or(KernelError::ObjectLacks { name })?;
        found.try_into().map_err(|cause| refused(name, "loaded", cause))
    }
}

impl AsFd for Tracer {
    /// The ring's descriptor: readable when the programs force a wake-up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl AsRawFd for Tracer {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

/// What the programs must be told of the running kernel's types.
struct KernelTypes {
    offsets: Offsets,
    /// Arguments of the exit tracepoint, by which one of two programs is chosen.
    exit_arguments: u32,
}

impl KernelTypes {
    /// Looks everything up at once. The types themselves, several megabytes, are gone on return:
    /// aya parses them too, once for [`EbpfLoader::new`] (aya 0.14.0, `src/bpf.rs`, whether or not
    /// other types are given to it) and once for the tracepoints, and no two need be held at a time.
    fn read() -> Result<Self, KernelError> {
        let types = Btf::parse(std::fs::read(KERNEL_BTF).map_err(no_btf)?)?;
        Ok(Self {
            offsets: offsets::resolve(&types)?,
            exit_arguments: types.tracepoint_arguments("sched_process_exit")?,
        })
    }
}

/// A refusal without the verifier's log, which is many lines about registers.
fn without_verifier_log(refusal: &str) -> String {
    match refusal.split_once("Verifier output:") {
        Some((begin, _)) => format!(
            "{}; GPU_LEDGER_LOG=gpu_ledger::kernel=debug shows the verifier's log",
            begin.trim().trim_end_matches(['.', ':', ';'])
        ),
        None => refusal.to_owned(),
    }
}

fn no_btf(cause: std::io::Error) -> KernelError {
    KernelError::NoBtf { path: KERNEL_BTF.to_owned(), cause }
}

/// Creates the maps, with the ring's size and the globals set.
fn load(options: &TracerOptions, kernel: &Offsets, object: &[u8]) -> Result<Ebpf, KernelError> {
    let words = options.offsets.as_ref().unwrap_or(kernel).words();
    let wake_above = u64::from(options.ring_bytes / 4);
    let shed_above = u64::from(options.ring_bytes / 4).saturating_mul(3);
    let mut majors = [NO_MAJOR; DEVICE_MAJORS_MAX];
    if options.device_touch
        && let Ok(watched) = watched_majors(options)
    {
        for (place, major) in majors.iter_mut().zip(watched) {
            *place = major;
        }
    }
    EbpfLoader::new()
        .map_max_entries(map::EVENTS, options.ring_bytes)
        .map_max_entries(fault_log::MAP, fault_log::RING_BYTES)
        .override_global(global::OFFSETS, words.as_slice(), true)
        .override_global(global::WAKE_ABOVE, &wake_above, true)
        .override_global(global::SHED_ABOVE, &shed_above, true)
        .override_global(global::DEVICE_MAJORS, majors.as_slice(), true)
        .load(object)
        .map_err(|cause| KernelError::Object { cause: Box::new(cause) })
}

fn watched_majors(options: &TracerOptions) -> Result<Vec<u32>, KernelError> {
    let majors = match &options.device_majors {
        Some(majors) => majors.clone(),
        None => devices::nvidia_majors(&options.proc_root)?,
    };
    if majors.len() <= DEVICE_MAJORS_MAX {
        return Ok(majors);
    }
    let path = options.proc_root.join("devices").display().to_string();
    Err(KernelError::Text { path, what: "more NVIDIA device majors than can be watched" })
}

fn check_ring_size(bytes: u32) -> Result<(), KernelError> {
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX);
    if bytes.is_power_of_two() && u64::from(bytes) >= page_bytes {
        return Ok(());
    }
    Err(KernelError::RingSize { bytes, page_bytes })
}

fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<aya::maps::Map, KernelError> {
    ebpf.take_map(name).ok_or(KernelError::ObjectLacks { name })
}

fn refused(program: &'static str, step: &'static str, cause: ProgramError) -> KernelError {
    KernelError::Program { program, step, cause: Box::new(cause) }
}

/// One CPU's [`Counters`], read word by word.
fn cpu_counts(words: &[u64; COUNTERS_WORDS]) -> CpuCounts {
    let word = |byte: usize| words.get(byte / 8).copied().unwrap_or_default();
    let per_kind = |byte: usize| {
        PerKind::new(std::array::from_fn::<u64, { kind::COUNT }, _>(|number| {
            word(byte.saturating_add(number.saturating_mul(8)))
        }))
    };
    let last_lost_ns = word(offset_of!(Counters, last_lost_ns));
    CpuCounts {
        next_seq: word(offset_of!(Counters, next_seq)),
        last_lost_at: (last_lost_ns != 0).then_some(BootNs(last_lost_ns)),
        produced: per_kind(offset_of!(Counters, produced)),
        lost: per_kind(offset_of!(Counters, lost)),
        argv_shed: word(offset_of!(Counters, argv_shed)),
        read_faults: word(offset_of!(Counters, read_faults)),
        ring_fill_bytes_max: word(offset_of!(Counters, ring_fill_max)),
    }
}

fn statistics(program: &'static str, fdinfo: &str) -> ProgramStatistics {
    let field = |name: &str| {
        let mut lines = fdinfo.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
    };
    ProgramStatistics {
        program,
        run_count: field("run_cnt"),
        run_time_ns: field("run_time_ns"),
        recursion_misses: field("recursion_misses"),
        verified_instructions: field("verified_insns"),
    }
}
