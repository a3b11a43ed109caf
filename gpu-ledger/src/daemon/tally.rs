//! What was ever booked, summed: for the one-line form and for the meters. Read from the journal once at the
//! start, by a thread of its own, and carried on with every transaction.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use crate::accounting::RowKey;
use crate::bill::{Totals, logged_line};
use crate::billing::JournalFiles;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::journal::Figures;
use crate::journal::entry::{Change, Correction, Entry, SettlementFigures};
use crate::journal::store::{Extent, StateDir, StoreError};
use crate::memory::{Hours, Stretch};
use crate::metrics::GapCount;
use crate::metrics::held::{AccountLabel, HeldMeter};
use crate::metrics::memory::MemoryMeter;
use crate::settlement::Account;
use crate::unit::{BootNs, GpuUuid, Ms, WallUs};
use crate::unknown::{DisputeReason, GapCause, NamelessReason};

/// Transactions that may wait while the journal's own sums are read at the start.
const WAITING_MAX: usize = 4_096;

/// What one transaction entered, as far as it is summed.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// A settlement.
    Booked(Booked),
    /// A gap.
    Gap(Gap),
    /// Memory held.
    Memory(Box<Stretch>),
    /// What the entry of this number had open is over, and will not settle.
    Ended(u64),
}

/// A settlement that is on the disk.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    pub(super) gpu: GpuUuid,
    pub(super) key: Option<RowKey>,
    pub(super) read_at: Stamp,
    pub(super) account: Account,
    pub(super) held: Ms,
    pub(super) dispute: Option<DisputeReason>,
}

/// The sums.
#[derive(Debug)]
pub(super) struct Tally {
    /// Everything in the journal is in them.
    pub(super) is_whole: bool,
    totals: Totals,
    pub(super) settlements: u64,
    pub(super) unattributed: BTreeMap<(GpuUuid, NamelessReason), Ms>,
    pub(super) gaps: BTreeMap<GapCause, GapCount>,
    /// Counters begin anew with the daemon, and where a text file has them, go on from there.
    pub(super) held: HeldMeter,
    /// Begins anew with the daemon.
    pub(super) memory: MemoryMeter,
    /// How hours of memory came out, of everything in the journal.
    pub(super) memory_hours: BTreeMap<GpuUuid, Hours>,
    /// Number of the last entry that is in them.
    pub(super) held_head: u64,
    /// Rows that an earlier run left open, by the number of their entry.
    pub(super) resumed: BTreeMap<u64, RowKey>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            is_whole: false,
            totals: Totals::logged(),
            settlements: 0,
            unattributed: BTreeMap::new(),
            gaps: BTreeMap::new(),
            held: HeldMeter::default(),
            memory: MemoryMeter::default(),
            memory_hours: BTreeMap::new(),
            held_head: 0,
            resumed: BTreeMap::new(),
        }
    }
}

/// Shared by the loop, which tells what is open, and the thread, which tells what was booked.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Tally>>);

/// Where the writer sends what it entered.
pub(super) type Sender = mpsc::SyncSender<Entered>;

/// What one transaction entered: when, up to which number, and what of it is summed.
pub(super) type Entered = (Stamp, u64, Vec<News>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Tally> {
        // Sums are whole between two additions.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread. `until`: number of the last entry before this run.
    pub(super) fn start(&self, dir: StateDir, until: u64) -> std::io::Result<Sender> {
        let (sender, receiver) = mpsc::sync_channel::<Entered>(WAITING_MAX);
        self.lock().held_head = until;
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("journal-sums".to_owned());
        thread.spawn(move || {
            match read(&dir, until) {
                Ok(before) => shared.lock().begin(before),
                // The lines and meters that need them are then left out.
                Err(error) => tracing::warn!(%error, "the journal's sums cannot be read"),
            }
            while let Ok((at, head, news)) = receiver.recv() {
                let line = shared.lock().take(at, head, &news);
                if let Some(line) = line {
                    // Nobody may read it.
                    let _ = writeln!(std::io::stderr().lock(), "{line}");
                }
            }
        })?;
        Ok(sender)
    }
}

fn read(dir: &StateDir, until: u64) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    // With the archives beside it: the line is that of a bill of everything.
    let files = JournalFiles::open_beside_writer(dir)?;
    files.visit((0, u64::MAX), Extent::default(), &mut |entry| {
        if let Some(news) = News::of(entry).filter(|_| entry.seq <= until) {
            tally.add(&news);
            // Of an hour that is not over this run counts what an earlier one entered: that one never did.
            tally.meter_memory(&news);
        }
    })?;
    if files.missing() > 0 {
        tracing::warn!(
            last = files.missing(),
            "entries up to this one were archived, and no archive is here: sums begin after them"
        );
    }
    Ok(tally)
}

impl News {
    fn of(entry: &Entry) -> Option<Self> {
        Self::of_figures(&entry.figures)
    }

    pub(super) fn of_figures(figures: &Figures) -> Option<Self> {
        match figures {
            Figures::Settlement(settlement) => Some(Self::Booked(Booked::of(settlement))),
            Figures::Gap(gap) => Some(Self::Gap(gap.clone())),
            Figures::Memory(stretch) => Some(Self::Memory(stretch.clone())),
            Figures::Correction(Correction { of, change: Change::Ended { .. } }) => {
                Some(Self::Ended(*of))
            }
            _ => None,
        }
    }
}

impl Booked {
    pub(super) fn of(settlement: &SettlementFigures) -> Self {
        Self {
            gpu: settlement.gpu.clone(),
            key: settlement.key(),
            read_at: settlement.read_at,
            account: settlement.account.clone(),
            held: settlement.held,
            dispute: settlement.dispute,
        }
    }
}

/// Where a wall-clock moment lies on the boot clock, seen from a reading of both. Spans during which the wall
/// clock was stepped are disputed, and on no meter.
pub(super) fn boot_of(wall: WallUs, reading: Stamp) -> BootNs {
    let earlier_us = reading.wall.0.saturating_sub(wall.0);
    reading.boot.minus_ns(earlier_us.saturating_mul(1_000))
}

/// Where a moment of the boot clock lies on the wall clock, seen from a reading of both.
pub(super) fn wall_of(boot: BootNs, reading: Stamp) -> WallUs {
    let earlier_us = reading.boot.0.saturating_sub(boot.0) / 1_000;
    WallUs(reading.wall.0.saturating_sub(earlier_us))
}

impl Tally {
    fn begin(&mut self, before: Self) {
        let (held, resumed) = (std::mem::take(&mut self.held), std::mem::take(&mut self.resumed));
        let (mut memory, held_head) = (std::mem::take(&mut self.memory), self.held_head);
        memory.resume(&before.memory);
        *self = Self { is_whole: true, held, memory, held_head, resumed, ..before };
    }

    /// Adds what a transaction entered; the line, where it booked something.
    pub(super) fn take(&mut self, at: Stamp, head: u64, news: &[News]) -> Option<String> {
        let mut booked_any = false;
        for one in news {
            self.add(one);
            match one {
                News::Booked(booked) => {
                    booked_any = true;
                    self.meter(booked);
                }
                News::Ended(of) => {
                    // Of a row that this run saw running, the loss itself was told.
                    if let Some(key) = self.resumed.remove(of) {
                        self.held.lose(&key);
                    }
                }
                News::Memory(_) => self.meter_memory(one),
                News::Gap(_) => {}
            }
        }
        self.held_head = self.held_head.max(head);
        (booked_any && self.is_whole).then(|| logged_line(at.wall, &self.totals))
    }

    /// Memory, after it was added: its hour is known then.
    fn meter_memory(&mut self, news: &News) {
        let News::Memory(stretch) = news else { return };
        let void_hour = self.memory_hours.get(&stretch.gpu).and_then(Hours::void_hour);
        self.memory.take(stretch, void_hour == Some(stretch.hour_ms()));
    }

    fn add(&mut self, news: &News) {
        match news {
            News::Booked(booked) => {
                self.settlements = self.settlements.saturating_add(1);
                let held_ms = u128::from(booked.held.0);
                match (booked.dispute, booked.account.unattributed()) {
                    (Some(_), _) => self.totals.add_disputed(held_ms),
                    (None, Some(reason)) => {
                        self.totals.add_unattributed(held_ms);
                        let sum =
                            self.unattributed.entry((booked.gpu.clone(), reason)).or_default();
                        *sum = Ms(sum.0.saturating_add(booked.held.0));
                    }
                    (None, None) => {
                        let named_by = booked.account.named_by();
                        self.totals.add((booked.account.title(), named_by), booked.held);
                    }
                }
            }
            News::Gap(gap) => {
                self.gaps.entry(gap.cause).or_default().add(gap);
            }
            News::Memory(stretch) => {
                self.memory_hours.entry(stretch.gpu.clone()).or_default().take(stretch);
            }
            // Counted of this run alone.
            News::Ended(_) => {}
        }
    }

    /// A row that was booked ran before, as far as the counters know.
    pub(super) fn meter_open(&mut self, booked: &Booked) {
        if let Some(key) = &booked.key {
            let from = boot_of(key.start, booked.read_at);
            self.held.open(key, &AccountLabel::of(&booked.account), from);
        }
    }

    /// A row was booked.
    pub(super) fn meter(&mut self, booked: &Booked) {
        let Some(key) = &booked.key else { return };
        if booked.dispute.is_some() {
            self.held.lose(key);
            return;
        }
        let from = boot_of(key.start, booked.read_at);
        let span = (from, booked.held);
        self.held.settle(key, &AccountLabel::of(&booked.account), span, booked.read_at.boot);
    }
}
