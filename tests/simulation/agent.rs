//! The agent: the product's host, drafts, backlog and chain, with the loop and the writer's thread of the daemon
//! around them, each moved by the steps of a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_ledger::accounting::RowKey;
use gpu_ledger::accounting::calls::ReadCost;
use gpu_ledger::accounting::driver::{DriverFacts, Report};
use gpu_ledger::accounting::nvml::DriverKind;
use gpu_ledger::host::{Drained, Host, HostSettings, Lost, News, Note};
use gpu_ledger::identity::Limits;
use gpu_ledger::journal::draft::{Drafter, Left, Pending};
use gpu_ledger::journal::entry::AgentFacts;
use gpu_ledger::journal::keeping::{Backlog, Hand, Overflow};
use gpu_ledger::journal::{CommitmentKey, Digest};
use gpu_ledger::kernel::{Event, Loss, SequenceTracker};
use gpu_ledger::unit::{BootNs, GpuUuid, Pid};

use super::bugs::Bug;
use super::disk::{Disk, DiskError, Outcome};
use super::faulty;
use super::reader::{Noted, Reader};
use super::resume::left;
use super::tally::Kind;
use super::truth::At;
use super::world::World;

/// What keeps a run from going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Death {
    /// It was killed, or its disk failed: it starts anew.
    Restart,
    /// Something that must never be.
    Wrong(String),
}

impl From<String> for Death {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

/// How one agent differs from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Drafts that may wait.
    pub(crate) queue_length: usize,
    pub(crate) limits: Limits,
    pub(crate) bug: Option<Bug>,
}

/// A run of the agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) host: Host,
    pub(crate) readers: Vec<Reader>,
    pub(crate) tracker: SequenceTracker,
    drafter: Drafter,
    backlog: Backlog,
    hand: Hand,
    overflow: Overflow,
    reports: Vec<Report>,
    pub(crate) released: BTreeSet<usize>,
    habits: Habits,
    /// Coverage began then.
    pub(crate) began: At,
    /// Settlements that were told, by the number of their note, until they are acknowledged.
    pub(crate) told: BTreeMap<u64, RowKey>,
    acknowledged: u64,
    /// Reads since the checks last looked.
    pub(crate) noted: Vec<Noted>,
    /// Up to here the ring was drained.
    pub(crate) drained: BootNs,
    /// Events that a planted fault holds back.
    held_back: Vec<Event>,
}

impl Agent {
    pub(crate) fn start(world: &mut World, disk: &mut Disk, habits: Habits) -> Result<Self, Death> {
        let wrong = |what: &str, error| Death::Wrong(format!("{what}: {error:?}"));
        let boot = world.clocks.boot;
        disk.open(boot).map_err(|error| wrong("the journal does not follow", error))?;
        let mut left = left(disk).map_err(|error| wrong("the journal is broken", error))?;
        if habits.bug == Some(Bug::OpenNotResumed) {
            left.earlier.clear();
            left.resumed.open.clear();
        }
        let name: Arc<str> = Arc::from("made");
        let (version, kernel) = (Arc::from("0"), Arc::from("6"));
        let facts = AgentFacts { version, object: Digest::NONE, kernel };
        let key = CommitmentKey::new([7; 32]);
        let drafter = Drafter::new(boot, Arc::clone(&name), facts, key);
        world.kernel.attach();
        let limits = habits.limits;
        let settings = HostSettings { limits, ..HostSettings::of_daemon(true, true) };
        let Left { earlier, resumed, last_seen, last } = left;
        let host = Host::new(name, world.clocks.stamp(), settings, resumed);
        let mut agent = Self {
            host,
            readers: Vec::new(),
            tracker: SequenceTracker::default(),
            drafter,
            backlog: Backlog::new(habits.queue_length),
            hand: Hand::new(boot),
            overflow: Overflow::default(),
            reports: Vec::new(),
            released: BTreeSet::new(),
            habits,
            began: world.at(),
            told: BTreeMap::new(),
            acknowledged: 0,
            noted: Vec::new(),
            drained: world.clocks.now(),
            held_back: Vec::new(),
        };
        agent.drain(world);
        world.stir();
        let snapshot = world.snapshot();
        world.stir();
        agent.host.look(&snapshot, world.clocks.stamp());
        agent.drain(world);
        agent.began = world.at();
        agent.host.begin(world.clocks.stamp());
        agent.drafter.device_touch(true);
        let since = agent.host.coverage().end;
        let down = Left::gap_since_another_boot(last, boot, &agent.drafter, since);
        let over = agent.drafter.resume(earlier, &last_seen, since);
        agent.keep(down.into_iter().collect(), world)?;
        agent.turn(world)?;
        agent.keep(over, world)?;
        agent.open(world);
        agent.host.want_reads(true, true);
        agent.turn(world)?;
        world.tally.count(Kind::AgentBegan);
        Ok(agent)
    }

    /// Opens the driver: every GPU that is not given back.
    fn open(&mut self, world: &World) {
        self.drafter.driver(&DriverFacts {
            kind: DriverKind::Simulated,
            version: Ok("595.45.04".to_owned()),
            library_version: Ok("13.595.45.04".to_owned()),
            stats_v2: true,
            symbols_missing: Vec::new(),
            unknowns: Vec::new(),
            cost: ReadCost::default(),
        });
        for card in 0..world.cards.len() {
            if self.readers.len() <= card {
                let uuid = world.cards[card].uuid.clone();
                self.readers.push(Reader::new(card, uuid, self.habits.bug));
            }
            if !self.released.contains(&card) {
                self.readers[card].reopen();
                self.host.found(world.facts(card));
            }
        }
    }

    fn drain(&mut self, world: &mut World) {
        let began = world.clocks.stamp();
        let counts = world.kernel.counts();
        let mut events = Vec::new();
        for (head, event) in world.kernel.drain() {
            self.tracker.observe(&head);
            events.push(event);
        }
        let losses = self.tracker.confirm(&counts);
        let mut losses: Vec<Lost> = losses
            .into_iter()
            .map(|Loss { count, after, before, .. }| Lost::Between { after, before, size: count })
            .collect();
        faulty::drained(self.habits.bug, &mut events, &mut losses, &mut self.held_back);
        self.drained = began.boot;
        self.host.drained(Drained { began, events, losses });
    }

    /// One turn of the crank.
    pub(crate) fn turn(&mut self, world: &mut World) -> Result<(), Death> {
        let reports = std::mem::take(&mut self.reports);
        world.pass(1);
        self.drain(world);
        if self.host.wants_look() {
            if world.random.below(4) == 0 {
                world.tally.count(Kind::ProcfsUnreadable);
            } else {
                let snapshot = world.snapshot();
                self.host.look(&snapshot, world.clocks.stamp());
            }
        }
        let unknown: Vec<Pid> = self.host.bearers_unknown().into_iter().collect();
        let gone = unknown.into_iter().filter(|pid| !world.living.contains_key(&pid.0));
        self.host.bearers_gone(gone.collect());
        for report in reports {
            self.host.reported(faulty::report(self.habits.bug, report));
        }
        self.host.observe_clock(world.clocks.stamp());
        self.host.advance().map_err(|error| Death::Wrong(format!("host: {error}")))?;
        self.take_notes(world)?;
        for wanted in self.host.take_wanted() {
            let of = |reader: &&mut Reader| *reader.harvest.gpu() == wanted.gpu;
            let Some(reader) = self.readers.iter_mut().find(of) else { continue };
            reader.awaited = wanted.pace.unwrap_or(reader.awaited);
            wanted.read.into_iter().for_each(|request| reader.request(request));
        }
        self.see_to_overflow(world)
    }

    pub(crate) fn take_notes(&mut self, world: &mut World) -> Result<(), Death> {
        let mut drafts = Vec::new();
        for note in self.host.take_notes() {
            let note = faulty::note(self.habits.bug, note, &self.host);
            let Note { number, news, .. } = &note;
            if let News::Settled(settled) = news {
                self.told.extend(settled.row.row.key().map(|key| (*number, key)));
            }
            drafts.extend(self.drafter.draft(note));
        }
        drafts.extend(self.drafter.compare(&self.host));
        self.keep(drafts, world)
    }

    /// Reads what is due.
    pub(crate) fn read(&mut self, world: &mut World) {
        for card in 0..self.readers.len() {
            if self.released.contains(&card) {
                continue;
            }
            if let Some((outcome, noted)) = self.readers[card].run(world) {
                self.reports.push(Report::Read(Box::new(outcome)));
                self.noted.push(noted);
            }
        }
    }

    /// A call to a GPU hangs.
    pub(crate) fn hang(&mut self, card: usize, world: &mut World) {
        if !self.released.contains(&card)
            && let Some(stall) = self.readers[card].hang(world)
        {
            self.reports.push(Report::Stalled(stall));
        }
    }

    pub(crate) fn return_from_hang(&mut self, world: &mut World) {
        for reader in &mut self.readers {
            if let Some((outcome, noted)) = reader.return_from_hang(world) {
                self.reports.push(Report::Read(Box::new(outcome)));
                self.noted.push(noted);
            }
        }
    }

    /// Gives a GPU back.
    pub(crate) fn release(&mut self, card: usize, world: &mut World) -> Result<(), Death> {
        if self.readers.iter().any(Reader::hangs) {
            return Ok(());
        }
        self.turn(world)?;
        self.released.insert(card);
        let now = world.clocks.stamp();
        for card in &self.released {
            self.host.released(&world.cards[*card].uuid, now);
        }
        self.open(world);
        world.tally.count(Kind::Released);
        self.turn(world)
    }

    pub(crate) fn regain(&mut self, world: &mut World) -> Result<(), Death> {
        if self.readers.iter().any(Reader::hangs) || self.released.is_empty() {
            return Ok(());
        }
        self.turn(world)?;
        self.released.clear();
        self.open(world);
        world.tally.count(Kind::Regained);
        self.turn(world)
    }

    pub(crate) fn mark(&mut self, world: &mut World) -> Result<(), Death> {
        let mut mark = self.drafter.mark(&self.host, None);
        if self.habits.bug != Some(Bug::MarkedBeyondTheQueue) {
            self.overflow.hold_back(&mut mark);
        }
        self.keep(vec![mark], world)
    }

    /// Hands drafts to the writer; what has no room is as if it had not been learnt.
    fn keep(&mut self, mut drafts: Vec<Pending>, world: &mut World) -> Result<(), Death> {
        drafts.retain(|pending| !faulty::drops(self.habits.bug, pending));
        let was_losing = self.overflow.is_to_ask();
        let Self { overflow, backlog, drafter, host, .. } = self;
        let refused = overflow.keep(drafts, backlog, drafter, host);
        if self.habits.bug == Some(Bug::AcknowledgedBeforeCommit) {
            self.acknowledged = self.host.last_note();
        }
        // Told in vain, and asked for again.
        refused.notes.iter().for_each(|note| drop(self.told.remove(note)));
        if refused.count > 0 && !was_losing {
            world.tally.count(Kind::QueueOverflowed);
        }
        world.tally.add(Kind::RowRefused, refused.count);
        if refused.for_good > 0 { Err(Death::Restart) } else { Ok(()) }
    }

    fn see_to_overflow(&mut self, world: &mut World) -> Result<(), Death> {
        let hangs = self.readers.iter().any(Reader::hangs);
        let to_ask = self.overflow.is_to_ask() && self.backlog.has_room() && !hangs;
        if let Some(asked) = to_ask.then(|| self.overflow.to_ask(world.clocks.stamp())).flatten() {
            for (gpu, again) in asked.rows {
                let of = |reader: &&mut Reader| *reader.harvest.gpu() == gpu;
                if let Some(reader) = self.readers.iter_mut().find(of) {
                    reader.harvest.hand_out_again(again);
                }
            }
            let now = world.clocks.stamp();
            let pending = self.drafter.gap(asked.gap, now);
            self.overflow.asked(now.boot);
            self.keep(vec![pending], world)?;
            self.open(world);
            self.host.want_reads(true, true);
            return self.turn(world);
        }
        let released: BTreeSet<_> =
            self.released.iter().map(|card| &world.cards[*card].uuid).collect();
        let is_closed = |gpu: &GpuUuid| released.contains(gpu);
        let drafts = self.overflow.settle(&mut self.drafter, &self.host, is_closed);
        self.keep(drafts, world)
    }

    /// The writer: one transaction of what waits, acknowledged when it is on the disk.
    pub(crate) fn write(
        &mut self,
        limit: usize,
        world: &mut World,
        disk: &mut Disk,
    ) -> Result<(), Death> {
        let room = limit.saturating_sub(self.hand.length());
        self.hand.take(self.backlog.take(room));
        if self.hand.length() == 0 && self.hand.full_since().is_none() {
            return Ok(());
        }
        let bound = self.hand.bind(limit, &disk.end, disk);
        let mut bound = bound.map_err(|error| Death::Wrong(format!("binding: {error:?}")))?;
        let drafts = std::mem::take(&mut bound.drafts);
        let mut numbers = Vec::new();
        if !drafts.is_empty() {
            let outcomes = match disk.append(drafts, false) {
                Ok(outcomes) => outcomes,
                Err(error) => return self.not_written(&error, world, disk),
            };
            for outcome in outcomes {
                let (kind, number) = match outcome {
                    Outcome::Entered(seq) => (Kind::Committed, Some(seq)),
                    Outcome::Reoffered => (Kind::Reoffered, None),
                    Outcome::Conflicting { .. } => (Kind::Committed, None),
                };
                world.tally.count(kind);
                numbers.push(number);
            }
        }
        let done = self.hand.entered(&bound, &numbers, &disk.end);
        self.backlog.entered(done.count, done.bytes);
        if let Some(note) = done.acknowledged {
            self.acknowledged = self.acknowledged.max(note);
        }
        self.tell_well(world, disk)
    }

    fn not_written(
        &mut self,
        error: &DiskError,
        world: &mut World,
        disk: &mut Disk,
    ) -> Result<(), Death> {
        match error {
            DiskError::Full => self.tell_full(world, disk),
            DiskError::Crash | DiskError::Failed => Err(Death::Restart),
            DiskError::Chain(error) => {
                Err(Death::Wrong(format!("drafts contradict the journal: {error}")))
            }
        }
    }

    fn tell_full(&mut self, world: &mut World, disk: &mut Disk) -> Result<(), Death> {
        let now = world.clocks.stamp();
        let Some(gap) = self.hand.is_full(now) else { return Ok(()) };
        match disk.append(vec![gap], true) {
            Ok(_) => self.hand.full_told(now),
            Err(DiskError::Full) => {}
            Err(error) => return self.not_written(&error, world, disk),
        }
        Ok(())
    }

    fn tell_well(&mut self, world: &mut World, disk: &mut Disk) -> Result<(), Death> {
        let Some(gap) = self.hand.has_room(world.clocks.stamp()) else { return Ok(()) };
        match disk.append(vec![gap], false) {
            Ok(_) => self.hand.room_told(),
            Err(DiskError::Full) => {}
            Err(error) => return self.not_written(&error, world, disk),
        }
        Ok(())
    }

    /// Tells the host how far the journal is. Returns the note up to which all is kept.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        let number = self.overflow.acknowledged(self.acknowledged);
        self.host.acknowledged(number);
        number
    }

    /// Nothing waits anywhere.
    pub(crate) fn is_quiet(&self) -> bool {
        self.backlog.length() == 0
            && self.reports.is_empty()
            && self.hand.full_since().is_none()
            && self.overflow.is_well()
    }

    /// Whether everything that was learnt had room.
    pub(crate) const fn is_well(&self) -> bool {
        self.overflow.is_well()
    }

    /// How many drafts wait.
    pub(crate) fn waiting(&self) -> usize {
        self.backlog.length()
    }

    /// The end in order: last reads, last events, a mark, and everything onto the disk.
    pub(crate) fn stop(mut self, world: &mut World, disk: &mut Disk) -> Result<Self, Death> {
        for card in 0..self.readers.len() {
            if !self.released.contains(&card) && !self.readers[card].hangs() {
                let (outcome, noted) = self.readers[card].read(world, None, true, true);
                self.reports.push(Report::Read(Box::new(outcome)));
                self.noted.push(noted);
            }
        }
        self.turn(world)?;
        self.mark(world)?;
        let began = world.clocks.stamp();
        self.drain(world);
        self.host.advance().map_err(|error| Death::Wrong(format!("host: {error}")))?;
        self.host.end(began);
        world.kernel.detach();
        self.take_notes(world)?;
        while self.waiting() > 0 {
            let before = self.waiting();
            self.write(2_048, world, disk)?;
            if self.waiting() == before {
                // The disk is full, and nobody waits for it any more.
                break;
            }
        }
        world.tally.count(Kind::AgentStopped);
        Ok(self)
    }
}
