//! What must hold after every step, by the journal's bytes and by the truth.

use std::collections::BTreeMap;

use gpu_ledger::coverage::Gap;
use gpu_ledger::identity::Basis;
use gpu_ledger::journal::chain::read_evidence;
use gpu_ledger::journal::entry::{
    Change, CoverageEdge, EpochEdge, Evidence, Figures, IdentityEvidence, OpenEvidence,
    OpenFigures, OpenKind, SettlementEvidence, SettlementFigures,
};
use gpu_ledger::journal::{Entry, Recovered};
use gpu_ledger::settlement::Balance;
use gpu_ledger::unit::GpuUuid;
use gpu_ledger::unknown::{DisputeReason, GapCause, NamelessReason, UnknownReason};

use super::agent::Agent;
use super::bills::Bills;
use super::disk::{Bytes, Disk};
use super::reader::Noted;
use super::tally::Kind;
use super::truth::{At, RowId, TruthRow, Who};
use super::world::World;

#[path = "unseen.rs"]
mod unseen;

/// A stretch that the journal says was not seen: of one GPU's rows or of all, from, to.
type Unseen = (Option<usize>, At, At);

/// One run of the agent, as the journal has it.
#[derive(Clone, Debug)]
struct Run {
    began: At,
    /// Of each GPU the beginning of its last good read that a mark names.
    proven: BTreeMap<usize, At>,
}

/// Every so many steps the bills of two periods are compared with that of both.
const BILLED_EVERY: u64 = 48;

/// Follows the journal as it grows, and compares it with the truth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit {
    end: Recovered,
    /// Every entry as it was when it came.
    entries: Vec<Bytes>,
    pub(crate) booked: BTreeMap<RowId, u64>,
    sums: BTreeMap<GpuUuid, Balance>,
    lines: BTreeMap<(GpuUuid, String), u128>,
    unseen: Vec<Unseen>,
    runs: Vec<Run>,
    /// The epoch of each GPU is over since then.
    over: BTreeMap<usize, At>,
    /// The last entry of the boot that wrote last, and that of the one before.
    last: Option<At>,
    last_before: Option<At>,
    /// Every read, of every run.
    reads: Vec<Noted>,
    /// Lost events that were looked for in the host's coverage.
    lost_checked: usize,
    bills: Bills,
    /// Steps since the bills of the journal were made, and how many entries it had then.
    unbilled: u64,
    billed: usize,
    /// Entries that there were when it was last looked whether anything held is called free.
    looked_at: usize,
    /// Stretches without an agent: since, until.
    down_since: Option<At>,
    pub(crate) downs: Vec<(At, At)>,
}

/// `Err` with what is wrong.
pub(crate) type Checked = Result<(), String>;

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Audit {
    /// The agent began or is gone.
    pub(crate) fn agent_is(&mut self, began: Option<At>, now: At) {
        match began {
            Some(began) => {
                self.lost_checked = 0;
                if let Some(since) = self.down_since.take() {
                    self.downs.push((since, began));
                }
            }
            None => self.down_since = self.down_since.or(Some(now)),
        }
    }

    pub(crate) fn after_step(
        &mut self,
        world: &mut World,
        disk: &Disk,
        agent: Option<&mut Agent>,
    ) -> Checked {
        self.committed(world, disk)?;
        self.untouched(world, disk)?;
        self.unbilled += 1;
        if self.unbilled >= BILLED_EVERY && self.billed < self.entries.len() {
            (self.unbilled, self.billed) = (0, self.entries.len());
            self.bills.close(&self.end, &mut world.random)?;
        }
        let grew = self.looked_at < self.entries.len();
        let Some(agent) = agent else { return Ok(()) };
        self.reads.append(&mut agent.noted);
        // What the next mark takes back must not have been said: not at any time, and least while rows have no room.
        if grew && (self.unbilled == 0 || !agent.is_well()) {
            self.looked_at = self.entries.len();
            world.tally.count(Kind::BilledWhileAtWork);
            self.nothing_held_is_free(world)?;
        }
        acknowledged(disk, agent)?;
        self.losses_are_gaps(world, agent)?;
        Self::silence_is_explained(agent)
    }

    /// I1 to I4, I7 and I10, of what was committed since the last step.
    fn committed(&mut self, world: &mut World, disk: &Disk) -> Checked {
        ensure(disk.entries.len() >= self.entries.len(), || {
            format!(
                "I3: the journal had {} entries and has {}",
                self.entries.len(),
                disk.entries.len()
            )
        })?;
        for bytes in &disk.entries[self.entries.len()..] {
            let entry = self.end.follow(bytes.kept()).map_err(|error| format!("I10: {error}"))?;
            self.entries.push(bytes.clone());
            let evidence = read_evidence(entry.seq, bytes.digest, &bytes.evidence);
            let evidence = evidence.map_err(|error| format!("I10: {error}"))?;
            // That the disk is full is told ahead of what waits.
            let in_turn =
                !matches!(&entry.figures, Figures::Gap(gap) if gap.cause == GapCause::DiskFull);
            if in_turn && self.last.is_some_and(|last| last.0 != entry.at.boot) {
                self.last_before = self.last;
            }
            if in_turn {
                self.last = Some((entry.at.boot, entry.at.stamp.boot));
            }
            self.bills.take(&entry)?;
            self.entry(&entry, &evidence, world)?;
        }
        Ok(())
    }

    /// I3: one entry of those before is as it was, another one at every step.
    fn untouched(&self, world: &mut World, disk: &Disk) -> Checked {
        let place = world.random.below(self.entries.len() as u64) as usize;
        let Some(bytes) = disk.entries.get(place) else { return Ok(()) };
        ensure(*bytes == self.entries[place], || format!("I3: entry {} changed", bytes.seq))
    }

    /// Every entry is whole: at the end.
    pub(crate) fn all_untouched(&self, world: &mut World, disk: &Disk) -> Checked {
        for _ in 0..4 {
            self.bills.close(&self.end, &mut world.random)?;
        }
        let mut end = Recovered::default();
        for bytes in &disk.entries {
            end.follow(bytes.kept()).map_err(|error| format!("I10: {error}"))?;
        }
        ensure(end == self.end && end.head == disk.end.head, || "I10: two ends".to_owned())
    }

    fn entry(&mut self, entry: &Entry, evidence: &Evidence, world: &mut World) -> Checked {
        let (boot, seq) = (entry.at.boot, entry.seq);
        match (&entry.figures, evidence) {
            (Figures::Settlement(settlement), Evidence::Settlement(evidence)) => {
                self.settlement(seq, settlement, evidence, world)?;
            }
            (Figures::Open(open), Evidence::Open(evidence)) => {
                world.tally.count(Kind::OpenEntered);
                self.open_entry(seq, open, evidence, world)?;
            }
            (Figures::Correction(correction), _) => {
                if let Change::Ended { .. } = correction.change {
                    world.tally.count(Kind::OpenEnded);
                }
            }
            (Figures::Gap(gap), _) => {
                world.tally.count(Kind::GapEntered);
                if gap.cause == GapCause::QueueOverflow && gap.gpu.is_some() {
                    world.tally.count(Kind::RowsLostInQueue);
                }
                self.gap(boot, gap, world);
            }
            (Figures::Epoch(epoch), _) => {
                world.tally.count(Kind::EpochEntered);
                let (card, at) = (card_of(world, &epoch.gpu), (boot, epoch.at.boot));
                match epoch.edge {
                    EpochEdge::Ended { .. } => {
                        self.over.entry(card).or_insert(at);
                    }
                    EpochEdge::Began { .. } => {
                        let over = self.over.remove(&card);
                        self.unseen.extend(over.map(|since| (Some(card), since, at)));
                    }
                }
            }
            (Figures::Coverage(CoverageEdge::Began { at, .. }), _) => {
                let began = (boot, at.boot);
                self.row_proof_ends(began, world);
                self.runs.push(Run { began, proven: BTreeMap::new() });
            }
            (Figures::Mark(mark), _) => {
                world.tally.count(Kind::Marked);
                for gpu in &mark.gpus {
                    let card = card_of(world, &gpu.gpu);
                    if let (Some(run), Some(good)) = (self.runs.last_mut(), gpu.last_good) {
                        run.proven.insert(card, (boot, good.began.boot));
                    }
                }
            }
            (Figures::Conflict(conflict), Evidence::Conflict { row, .. }) => {
                world.tally.count(Kind::ConflictEntered);
                let start = row.start.map_or(0, |start| start.0);
                let booked = self.booked.get(&(card_of(world, &row.gpu), row.pid.0, start));
                ensure(booked == Some(&conflict.of), || {
                    format!(
                        "conflict {seq} is about {}, its row is booked by {booked:?}",
                        conflict.of
                    )
                })?;
            }
            (Figures::Coverage(_), _) => {}
            (figures, _) => {
                return Err(format!("entry {seq}: a {} without evidence", figures.kind()));
            }
        }
        Ok(())
    }

    /// A GPU is out of sight from the last read that a mark names until the next agent has seen its
    /// accounting on.
    fn row_proof_ends(&mut self, began: At, world: &World) {
        for card in 0..world.cards.len() {
            let proven = match self.runs.last() {
                Some(run) => run.proven.get(&card).copied().unwrap_or(run.began),
                None => began,
            };
            let since = self.over.entry(card).or_insert(proven);
            *since = proven.min(*since);
        }
    }

    fn gap(&mut self, boot: gpu_ledger::journal::BootId, gap: &Gap, world: &World) {
        if !gap.hides_rows() {
            return;
        }
        let card = gap.gpu.as_ref().map(|gpu| card_of(world, gpu));
        let mut from = (boot, gap.from.boot);
        if gap.from.boot.0 == 0 && gap.cause == GapCause::AgentDown {
            // Since another boot: from the last that was learnt in it.
            from = self.last_before.unwrap_or(from);
        }
        self.unseen.push((card, from, (boot, gap.to.boot)));
    }

    fn settlement(
        &mut self,
        seq: u64,
        figures: &SettlementFigures,
        evidence: &SettlementEvidence,
        world: &mut World,
    ) -> Checked {
        let (card, pid) = (card_of(world, &figures.gpu), figures.pid.0);
        let start = figures.start.ok_or_else(|| format!("settlement {seq} has no start"))?;
        let id = (card, pid, start.0);
        if let Some(other) = self.booked.insert(id, seq) {
            return Err(format!("I1: row {id:?} is booked by entries {other} and {seq}"));
        }
        let Some(row) = world.truth.rows.get(&id).cloned() else {
            return Err(format!("settlement {seq} is of row {id:?}, which never was"));
        };
        let held = row.held_ms.filter(|_| row.billable);
        let held = held.ok_or_else(|| format!("I4: row {id:?} was booked and is not final"))?;
        ensure(held == figures.held.0, || {
            format!("row {id:?} was held {held} ms, {} were booked", figures.held.0)
        })?;
        self.balance(seq, figures)?;
        world.tally.count(Kind::Settled);
        let line = figures.account.unattributed();
        ensure(line.is_none() == evidence.identity.is_some(), || {
            format!(
                "I7: settlement {seq} stands on {} with identity {:?}",
                figures.account, evidence.identity
            )
        })?;
        ensure(line.is_some() == evidence.nameless.is_some(), || {
            format!("I7: settlement {seq} has no reason, or a name and a reason")
        })?;
        if let Some(DisputeReason::ClockStep) = figures.dispute {
            world.tally.count(Kind::Disputed);
            ensure(world.clocks.stepped || row.opened.0 != world.clocks.boot, || {
                format!("settlement {seq} is disputed, and nobody set the clock")
            })?;
        }
        match (&evidence.identity, line) {
            (Some(identity), _) => {
                world.tally.count(Kind::Named);
                if identity.basis == Basis::Journal {
                    world.tally.count(Kind::NamedByJournal);
                }
                if self.was_shifted_unseen(&row, world) {
                    return Ok(());
                }
                named_right(seq, id, identity, figures.program.as_deref(), world)
            }
            (None, Some(reason)) => {
                world.tally.count(Kind::Nameless);
                let nameless = evidence.nameless.as_ref();
                self.nameless_rightly(seq, id, &row, reason, world).map_err(|what| {
                    format!("{what}: {row:?} {nameless:?} {:?}", world.truth.lives[&row.opener])
                })
            }
            (None, None) => Ok(()),
        }
    }

    /// I2 and the cumulative figures.
    fn balance(&mut self, seq: u64, figures: &SettlementFigures) -> Checked {
        let sum = self.sums.entry(figures.gpu.clone()).or_default();
        *sum = sum.plus(figures.held);
        ensure(*sum == figures.booked, || {
            format!("I2: settlement {seq} says {:?}, the sum is {sum:?}", figures.booked)
        })?;
        let line = (figures.gpu.clone(), figures.account.to_string());
        *self.lines.entry(line).or_insert(0) += u128::from(figures.held.0);
        let lines = self.lines.iter().filter(|((gpu, _), _)| *gpu == figures.gpu);
        let total: u128 = lines.map(|(_, ms)| ms).sum();
        ensure(total == sum.held_ms, || format!("I2: lines add up to {total}, not {}", sum.held_ms))
    }

    /// A row without a name, though everything that names it was received, is a fault.
    fn nameless_rightly(
        &self,
        seq: u64,
        id: RowId,
        row: &TruthRow,
        reason: NamelessReason,
        world: &World,
    ) -> Checked {
        let run = self.runs.last().map(|run| run.began);
        let same_run = run.is_some_and(|began| began < (row.opener.0, row.opener.1.start));
        let undisturbed = world.kernel.lost_at.is_empty() && !world.clocks.stepped;
        let alone = row.joined.is_empty();
        let known = reason != NamelessReason::IdentityEvicted;
        let excused = !(same_run && undisturbed && alone && known);
        ensure(excused, || {
            format!(
                "settlement {seq} of row {id:?} is {reason}, though all of {:?} was seen",
                row.opener
            )
        })
    }

    /// The clock was set while nobody looked, after the row began: where that was nobody can tell.
    fn was_shifted_unseen(&self, row: &TruthRow, world: &World) -> bool {
        self.downs.iter().chain(self.down_since.map(|since| (since, since)).iter()).any(
            |(from, to)| row.opened < *to && world.steps.iter().any(|at| from <= at && at <= to),
        )
    }

    fn open_entry(
        &self,
        seq: u64,
        figures: &OpenFigures,
        evidence: &OpenEvidence,
        world: &World,
    ) -> Checked {
        let (Some(start), OpenKind::Row) = (figures.start, figures.kind) else { return Ok(()) };
        let id = (card_of(world, &figures.gpu), figures.pid.0, start.0);
        let Some(row) = world.truth.rows.get(&id) else {
            return Err(format!("open entry {seq} is of row {id:?}, which never was"));
        };
        match &evidence.identity {
            // What a read showed running may be over when procfs is looked at after a loss: of an open row the
            // name by procfs is what runs under the pid, and its settlement decides.
            Some(identity) if identity.basis == Basis::Procfs => Ok(()),
            Some(identity) if !self.was_shifted_unseen(row, world) => {
                named_right(seq, id, identity, figures.program.as_deref(), world)
            }
            _ => Ok(()),
        }
    }

    /// I8 and I11: every event that was lost lies in a gap, and none is lost uncounted.
    fn losses_are_gaps(&mut self, world: &mut World, agent: &Agent) -> Checked {
        let lost = &world.kernel.lost_at[self.lost_checked..];
        let drained = lost.iter().take_while(|at| **at < agent.drained).count();
        for at in &lost[..drained] {
            ensure(agent.host.coverage().event_gap_at(*at).is_some(), || {
                format!("I8: an event was lost at {at:?}, and no gap says so")
            })?;
        }
        world.tally.add(Kind::EventLost, drained as u64);
        self.lost_checked += drained;
        Ok(())
    }

    /// I6: a mode that is off and a list that became empty are told apart, and neither passes for an idle
    /// GPU.
    fn silence_is_explained(agent: &Agent) -> Checked {
        for (uuid, rows) in agent.host.gpus() {
            let off = UnknownReason::AccountingModeDisabled;
            let mut unknowns = agent.host.unknowns().iter();
            let said = unknowns.any(|one| one.reason == off && one.gpu.as_ref() == Some(uuid));
            ensure(!rows.accounting_off || said, || {
                format!("I6: accounting of {uuid} is off, and nothing says so")
            })?;
            let was_used = rows.dead_rows_max.is_some_and(|rows| rows > 0);
            let empty = rows.dead_rows == Some(0) && rows.open.is_empty() && was_used;
            ensure(!empty || !rows.unknowns.is_empty() || rows.accounting_off, || {
                format!("I6: the list of {uuid} became empty, and nothing says so")
            })?;
        }
        Ok(())
    }
}

fn card_of(world: &World, gpu: &GpuUuid) -> usize {
    world.cards.iter().position(|card| card.uuid == *gpu).expect("a GPU of this machine")
}

/// A name is that of who opened the device, and what ran then.
fn named_right(
    seq: u64,
    id: RowId,
    identity: &IdentityEvidence,
    program: Option<&str>,
    world: &World,
) -> Checked {
    let row = &world.truth.rows[&id];
    let (boot, key): Who = row.opener;
    let same_start = if identity.start_is_exact {
        identity.key.start == key.start
    } else {
        identity.key.start.ticks() == key.start.ticks()
    };
    ensure(boot == identity.boot && key.pid == identity.key.pid && same_start, || {
        format!("entry {seq} names {:?} for row {id:?} of {:?}", identity.key, row.opener)
    })?;
    let ran = world.truth.lives[&row.opener].program_at(row.opened.1);
    // Who executed something else while others kept its descriptor is shown by procfs as what it runs now.
    let excused = row.duplicated && identity.basis == Basis::Procfs;
    ensure(excused || program == Some(&**ran), || {
        let life = &world.truth.lives[&row.opener];
        format!(
            "entry {seq} says that row {id:?} ran {program:?} ({:?}), it ran {ran}: {row:?} {life:?}",
            identity.basis
        )
    })
}

/// I9: what was acknowledged is on the disk.
fn acknowledged(disk: &Disk, agent: &mut Agent) -> Checked {
    let number = agent.acknowledge();
    let later = agent.told.split_off(&(number + 1));
    for (number, key) in std::mem::replace(&mut agent.told, later) {
        ensure(disk.is_booked(&key), || {
            format!("I9: note {number} of row {key:?} was acknowledged, and is not booked")
        })?;
    }
    Ok(())
}
