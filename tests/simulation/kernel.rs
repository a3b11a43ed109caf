//! The kernel's side of process events: numbered per CPU, in a ring that can be too small.

use std::collections::VecDeque;

use bytes::Bytes;
use gpu_ledger::kernel::loss::CpuCounts;
use gpu_ledger::kernel::wire::{RecordHead, parse_head};
use gpu_ledger::kernel::{
    Argv, ArgvState, CgroupId, CgroupMade, Counts, DeviceTouch, Event, Exec, Exit, Fork, LoginUid,
    PerKind, ProcessKey, Subject,
};
use gpu_ledger::unit::BootNs;
use gpu_ledger_ebpf::{WIRE_VERSION, kind};
use nvsim::random::Random;

/// What every event says of its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) key: ProcessKey,
    pub(crate) parent: ProcessKey,
    pub(crate) uid: u32,
    pub(crate) at: BootNs,
}

#[derive(Clone, Default, Debug)]
struct Cpu {
    next_seq: u64,
    produced: [u64; kind::COUNT],
    lost: [u64; kind::COUNT],
    last_lost_at: Option<BootNs>,
    argv_shed: u64,
}

/// The programs and their ring.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    attached: bool,
    ring: VecDeque<(Vec<u8>, Event)>,
    pub(crate) ring_records: usize,
    cpus: Vec<Cpu>,
    /// When events were lost since the programs were attached.
    pub(crate) lost_at: Vec<BootNs>,
    /// How many had their arguments shed.
    pub(crate) shed: u64,
}

impl Kernel {
    pub(crate) fn new(cpus: usize, ring_records: usize) -> Self {
        Self {
            attached: false,
            ring: VecDeque::new(),
            ring_records,
            cpus: vec![Cpu::default(); cpus],
            lost_at: Vec::new(),
            shed: 0,
        }
    }

    pub(crate) fn attach(&mut self) {
        let (cpus, ring_records, shed) = (self.cpus.len(), self.ring_records, self.shed);
        *self = Self { attached: true, shed, ..Self::new(cpus, ring_records) };
    }

    /// The reader is gone: nothing is recorded for anybody.
    pub(crate) fn detach(&mut self) {
        self.attached = false;
        self.ring.clear();
    }

    /// What the programs counted.
    pub(crate) fn counts(&self) -> Counts {
        let cpus = self.cpus.iter().map(|cpu| CpuCounts {
            next_seq: cpu.next_seq,
            last_lost_at: cpu.last_lost_at,
            produced: PerKind::new(cpu.produced),
            lost: PerKind::new(cpu.lost),
            argv_shed: cpu.argv_shed,
            read_faults: 0,
            ring_fill_bytes_max: 0,
        });
        Counts { cpus: cpus.collect() }
    }

    /// Empties the ring.
    pub(crate) fn drain(&mut self) -> Vec<(RecordHead, Event)> {
        let records = std::mem::take(&mut self.ring).into_iter();
        records.map(|(head, event)| (parse_head(&head).unwrap(), event)).collect()
    }

    pub(crate) fn fork(&mut self, about: About, random: &mut Random) {
        self.record(kind::FORK, about, random, |subject, _| Event::Fork(Fork { subject }));
    }

    pub(crate) fn exec(&mut self, about: About, program: &str, random: &mut Random) {
        self.record(kind::EXEC, about, random, |subject, shed| {
            let argv = if shed { shed_argv(program) } else { argv(program) };
            let (filename, exe) = (file_of(program), Some(exe_of(program)));
            Event::Exec(Exec { subject, argv, filename, exe })
        });
    }

    pub(crate) fn exit(&mut self, about: About, random: &mut Random) {
        // Several threads may see that they are the last.
        for _ in 0..=u64::from(random.below(10) == 0) {
            self.record(kind::EXIT, about, random, |subject, _| {
                Event::Exit(Exit { subject, wait_status: Some(0) })
            });
        }
    }

    pub(crate) fn touch(&mut self, about: About, minor: u32, random: &mut Random) {
        self.record(kind::DEVICE_TOUCH, about, random, |subject, _| {
            Event::DeviceTouch(DeviceTouch { subject, major: 195, minor })
        });
    }

    pub(crate) fn cgroup(&mut self, about: About, id: u64, random: &mut Random) {
        self.record(kind::CGROUP_MADE, about, random, |subject, _| {
            let Subject { at, cpu, seq, .. } = subject;
            let path = Some(Bytes::from(format!("/system.slice/unit-{id}.service")));
            let cgroup = CgroupId { hierarchy: 0, id };
            Event::CgroupMade(CgroupMade { cgroup, path, at, cpu, seq })
        });
    }

    fn record(
        &mut self,
        kind: u16,
        about: About,
        random: &mut Random,
        event: impl FnOnce(Subject, bool) -> Event,
    ) {
        if !self.attached {
            return;
        }
        let place = random.below(self.cpus.len() as u64) as usize;
        let cpu = &mut self.cpus[place];
        let (seq, number) = (cpu.next_seq, u32::try_from(place).unwrap());
        cpu.next_seq += 1;
        cpu.produced[usize::from(kind)] += 1;
        if self.ring.len() >= self.ring_records {
            cpu.lost[usize::from(kind)] += 1;
            cpu.last_lost_at = Some(about.at);
            self.lost_at.push(about.at);
            return;
        }
        let shed = kind == kind::EXEC && self.ring.len() * 4 >= self.ring_records * 3;
        if shed {
            cpu.argv_shed += 1;
            self.shed += 1;
        }
        let subject = Subject {
            key: about.key,
            parent: Some(about.parent),
            uid: Some(about.uid),
            euid: Some(about.uid),
            login_uid: LoginUid::Set(about.uid),
            cgroups: Some(vec![CgroupId { hierarchy: 0, id: 7 }]),
            at: about.at,
            cpu: number,
            seq,
        };
        let head = head(kind, number, seq, about.at);
        let record = (head, event(subject, shed));
        // Two CPUs may hand their records in in another order than they were made.
        let swaps = self.ring.back().is_some_and(|(_, last)| {
            let of = |event: &Event| match event {
                Event::Fork(one) => (one.subject.cpu, one.subject.at),
                Event::Exec(one) => (one.subject.cpu, one.subject.at),
                Event::Exit(one) => (one.subject.cpu, one.subject.at),
                Event::DeviceTouch(one) => (one.subject.cpu, one.subject.at),
                Event::CgroupMade(one) => (one.cpu, one.at),
            };
            let (cpu, at) = of(last);
            cpu != number && about.at.0 - at.0 < 5_000
        });
        if swaps && random.below(4) == 0 {
            let last = self.ring.len() - 1;
            self.ring.insert(last, record);
        } else {
            self.ring.push_back(record);
        }
    }
}

/// The header of a record, which is all that the counting of numbers looks at.
fn head(kind: u16, cpu: u32, seq: u64, at: BootNs) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    bytes.extend(WIRE_VERSION.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(32_u32.to_ne_bytes());
    bytes.extend(seq.to_ne_bytes());
    bytes.extend(at.0.to_ne_bytes());
    bytes.extend(cpu.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes
}

pub(crate) fn argv(program: &str) -> Argv {
    let bytes = format!("{program}\0--all\0").into_bytes();
    let true_length = Some(bytes.len() as u64);
    Argv { bytes: bytes.into(), true_length, state: ArgvState::Whole }
}

fn shed_argv(program: &str) -> Argv {
    Argv { bytes: Bytes::new(), state: ArgvState::Shed, ..argv(program) }
}

pub(crate) fn file_of(program: &str) -> Bytes {
    Bytes::from(format!("/usr/bin/{program}"))
}

pub(crate) fn exe_of(program: &str) -> (u64, u64) {
    (1, program.bytes().fold(7, |sum: u64, byte| sum * 31 % 1_000_003 + u64::from(byte)))
}
