//! A made host: processes as events, a driver's store as rows, and the real harvest between them.
//! Times are milliseconds since boot; the wall clock is ahead of the boot clock by [`OFFSET_MS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::busy::SampleLoss;
use crate::accounting::calls::ReadCost;
use crate::accounting::driver::{GpuFacts, Report};
use crate::accounting::harvest::{Again, Harvest};
use crate::accounting::reading::{
    Answer, Finding, GpuRead, Holder, Listing, ListingState, ReadContent,
};
use crate::accounting::worker::ReadOutcome;
use crate::accounting::{Row, RowKey, Window};
use crate::clock::Stamp;
use crate::host::{Drained, Host, HostSettings, Lost, News, Note, Resumed, Settled};
use crate::identity::made::{MS, exec, exit, fork, key, seen, snapshot, touch};
use crate::identity::{Basis, SeenProcess};
use crate::kernel::{Event, ProcessKey};
use crate::settlement::Attribution;
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{NamelessReason, Observed, UnknownReason};

pub(crate) const OFFSET_MS: u64 = 1_790_000_000_000;
/// Coverage begins here where a test says nothing else.
pub(crate) const BEGAN: u64 = 10_000;
/// Who forks everything.
pub(crate) const SHELL: u32 = 7;

pub(crate) fn gpu() -> GpuUuid {
    GpuUuid("GPU-2f9a1b3c-0000-0000-0000-000000000000".into())
}

pub(crate) fn stamp(ms: u64) -> Stamp {
    Stamp { boot: BootNs(ms * MS), mono_ns: ms * MS, wall: WallUs((OFFSET_MS + ms) * 1_000) }
}

pub(crate) fn process(pid: u32, born_ms: u64) -> ProcessKey {
    key(pid, born_ms * MS)
}

pub(crate) fn shell() -> ProcessKey {
    process(SHELL, 1_000)
}

fn facts() -> GpuFacts {
    let unknown = UnknownReason::ValueNotAvailable;
    GpuFacts {
        uuid: gpu(),
        index: 0,
        name: Observed::Known("made".to_owned()),
        minor: Observed::Known(0),
        pci_bus_id: Observed::Unknown(unknown),
        persistence: Observed::Unknown(unknown),
        mig: Observed::Unknown(unknown),
        vgpu_host: Observed::Unknown(unknown),
        accounting: Ok(true),
        buffer_size: Observed::Unknown(unknown),
    }
}

pub(crate) fn row_key(pid: u32, start_ms: u64) -> RowKey {
    RowKey { gpu: gpu(), pid: Pid(pid), start: stamp(start_ms).wall }
}

fn row(pid: u32, start_ms: u64, held: Option<u64>) -> Row {
    Row {
        gpu: gpu(),
        pid: Pid(pid),
        start: Some(stamp(start_ms).wall),
        held: Ms(held.unwrap_or(0)),
        running: held.is_none(),
        memory_peak: Observed::Known(Bytes(1 << 20)),
        utilization: Observed::Known(0),
        sums: None,
    }
}

/// A host and the driver's store of one GPU.
pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) now: u64,
    harvest: Harvest,
    pub(crate) dead: Vec<Row>,
    live: Vec<Row>,
    events: Vec<Event>,
    losses: Vec<Lost>,
    /// Who holds the device, where that is asked.
    pub(crate) holders: Vec<u32>,
    pub(crate) notes: Vec<Note>,
    /// Whether every note is acknowledged as soon as it is taken.
    pub(crate) acknowledges: bool,
}

impl World {
    pub(crate) fn daemon() -> Self {
        Self::begun(HostSettings::of_daemon(true, true), Resumed::default(), BEGAN, Vec::new())
    }

    pub(crate) fn begun(
        settings: HostSettings,
        resumed: Resumed,
        at: u64,
        living: Vec<SeenProcess>,
    ) -> Self {
        let mut host = Host::new(Arc::from("made"), stamp(at - 20), settings, resumed);
        let mut all = vec![seen(shell(), 1, "bash")];
        all.extend(living);
        host.look(&snapshot((at - 15) * MS, (at - 10) * MS, all), stamp(at - 10));
        host.begin(stamp(at));
        host.found(facts());
        Self {
            host,
            now: at,
            harvest: Harvest::new(gpu(), false),
            dead: Vec::new(),
            live: Vec::new(),
            events: Vec::new(),
            losses: Vec::new(),
            holders: Vec::new(),
            notes: Vec::new(),
            acknowledges: true,
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// A process that forks from the shell, executes `line`, and opens the GPU.
    pub(crate) fn starts(&mut self, pid: u32, at: u64, line: &str) -> ProcessKey {
        let key = process(pid, at);
        self.event(fork(key, shell()));
        self.event(exec(key, shell(), at * MS + 1, line));
        self.event(touch(key, shell(), at * MS + 2));
        key
    }

    pub(crate) fn ends(&mut self, key: ProcessKey, at: u64) {
        self.event(exit(key, shell(), at * MS));
    }

    pub(crate) fn opens(&mut self, pid: u32, at: u64) {
        self.live.push(row(pid, at, None));
    }

    /// The live row of a pid becomes final.
    pub(crate) fn closes(&mut self, pid: u32, at: u64) {
        let place = self.live.iter().position(|row| row.pid == Pid(pid)).unwrap();
        let open = self.live.remove(place);
        let held = (OFFSET_MS + at) - open.start.unwrap().ms();
        self.dead_row(pid, open.start.unwrap().ms() - OFFSET_MS, held);
    }

    /// The driver throws the live row of a pid away.
    pub(crate) fn throws_away(&mut self, pid: u32) {
        self.live.retain(|row| row.pid != Pid(pid));
    }

    pub(crate) fn dead_row(&mut self, pid: u32, start: u64, held: u64) {
        self.dead.push(row(pid, start, Some(held)));
    }

    pub(crate) fn loses(&mut self, after: u64, before: u64, size: u64) {
        let (after, before) = (Some(BootNs(after * MS)), Some(BootNs(before * MS)));
        self.losses.push(Lost::Between { after, before, size });
    }

    /// Time passes until a drain at `at`; procfs shows the shell and `living` where a look is wanted.
    pub(crate) fn drain(&mut self, at: u64, living: &[SeenProcess]) {
        self.now = at;
        let (events, losses) = (std::mem::take(&mut self.events), std::mem::take(&mut self.losses));
        self.host.drained(Drained { began: stamp(at), events, losses });
        if self.host.wants_look() {
            let mut all = vec![seen(shell(), 1, "bash")];
            all.extend(living.iter().cloned());
            self.host.look(&snapshot(at * MS, (at + 1) * MS, all), stamp(at + 1));
        }
    }

    pub(crate) fn advance(&mut self) {
        self.host.advance().unwrap();
        let notes = self.host.take_notes();
        if let Some(last) = notes.last().filter(|_| self.acknowledges) {
            self.host.acknowledged(last.number);
        }
        self.notes.extend(notes);
    }

    /// One read of the whole store from `began` to two milliseconds later.
    pub(crate) fn outcome(&mut self, began: u64) -> ReadOutcome {
        let window = Window { began: stamp(began), ended: stamp(began + 2) };
        let pids = self.dead.iter().chain(&self.live).map(|row| row.pid).collect();
        let mut answers: BTreeMap<Pid, Answer> = BTreeMap::new();
        for row in self.dead.iter().chain(&self.live) {
            answers.entry(row.pid).or_insert_with(|| Answer::Row(row.clone()));
        }
        self.outcome_of(window, ReadContent::Listed(Listing { pids, junk_pids: 0, answers }))
    }

    /// A read that finds accounting off, a drain right after its end, and a turn.
    pub(crate) fn read_off(&mut self, began: u64) {
        let window = Window { began: stamp(began), ended: stamp(began + 2) };
        let outcome = self.outcome_of(window, ReadContent::AccountingOff);
        self.drain(began + 3, &[]);
        self.host.reported(Report::Read(Box::new(outcome)));
        self.advance();
    }

    fn outcome_of(&mut self, window: Window, content: ReadContent) -> ReadOutcome {
        let listing = ListingState::of(&content);
        let seen = self.harvest.observe(&GpuRead { window, touching_exits: Some(0), content });
        let in_doubt = self.harvest.in_doubt(window.ended);
        ReadOutcome {
            gpu: gpu(),
            window,
            sweep: true,
            requested: true,
            listing,
            findings: seen.findings,
            in_doubt: in_doubt.into_iter().filter_map(Finding::into_gap).collect(),
            exits_unwitnessed: self.harvest.exits_unwitnessed(),
            open: self.harvest.open(),
            holders: Some(self.holders.iter().map(|pid| holder(*pid)).collect()),
            dead_rows: self.harvest.dead_rows(),
            dead_rows_max: self.harvest.dead_rows_max(),
            unread_rows: self.harvest.unread_rows(),
            unknowns: seen.unknowns,
            cost: ReadCost::default(),
            disagreement: None,
            sample_loss: SampleLoss::default(),
            last: false,
        }
    }

    /// The next list hands these out once more.
    pub(crate) fn hand_out_again(&mut self, again: Again) {
        self.harvest.hand_out_again(again);
    }

    /// A read at `began`, a drain right after its end, and a turn.
    pub(crate) fn read(&mut self, began: u64) {
        let outcome = self.outcome(began);
        self.drain(began + 3, &[]);
        self.host.reported(Report::Read(Box::new(outcome)));
        self.advance();
    }

    pub(crate) fn settled(&self) -> Vec<&Settled> {
        let settled = self.notes.iter().filter_map(|note| match &note.news {
            News::Settled(settled) => Some(&**settled),
            _ => None,
        });
        settled.collect()
    }

    /// What the row of a pid was called, and on what basis; or the reason for having no name.
    pub(crate) fn answer(&self, pid: u32) -> Result<(String, Basis), NamelessReason> {
        let settled = self.settled();
        let mut of_pid = settled.iter().filter(|one| one.row.row.pid == Pid(pid));
        let settled = of_pid.next_back().unwrap_or_else(|| panic!("no row of {pid} was settled"));
        match &settled.settlement.attribution {
            Attribution::Named(named) => {
                Ok((settled.whose.program.as_ref().unwrap().to_string(), named.image.basis))
            }
            Attribution::Nameless(nameless) => Err(nameless.reason),
        }
    }
}

fn holder(pid: u32) -> Holder {
    let memory = Observed::Known(Bytes(1 << 30));
    Holder { pid: Pid(pid), memory, compute: true, graphics: false, mps: false }
}
