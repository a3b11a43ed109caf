//! What is missing in the journal, and whether it says so.

use gpu_ledger::accounting::reading::ListingState;
use gpu_ledger::journal::entry::OpenKind;
use gpu_ledger::unit::GpuUuid;
use gpu_ledger::unknown::UnknownReason;

use super::{Audit, Checked, card_of, ensure};
use crate::disk::Disk;
use crate::reader::Noted;
use crate::truth::{At, Fate, TruthRow};
use crate::world::World;

impl Audit {
    /// Whether the journal says that rows of a GPU could not be seen at a moment.
    fn is_unseen(&self, card: usize, at: At) -> bool {
        let over = self.over.get(&card).is_some_and(|since| *since <= at);
        let mut unseen = self.unseen.iter();
        over || unseen
            .any(|(of, from, to)| of.is_none_or(|of| of == card) && *from <= at && at <= *to)
    }

    /// At the end of a life: what is missing lies in a gap, what is open still runs.
    pub(crate) fn nothing_is_missing(&self, world: &World, disk: &Disk) -> Checked {
        let Some(first) = self.runs.first().map(|run| run.began) else { return Ok(()) };
        for (id, row) in &world.truth.rows {
            if self.booked.contains_key(id) || row.lost.is_some_and(|at| at < first) {
                continue;
            }
            let (card, _, _) = *id;
            match row.fate {
                Fate::Dead => {
                    return Err(format!("row {id:?} is in the store, was read, and is not booked"));
                }
                Fate::Live | Fate::Monitor => continue,
                // Nobody can know of a stretch without accounting in which nobody looked.
                Fate::NoEntry if !self.looked_while_off(card, row, world) => continue,
                _ => {}
            }
            let needed = row.billable || row.fate == Fate::NoEntry;
            let Some(lost) = row.lost.filter(|_| needed) else { continue };
            if self.is_unseen(card, lost) || self.is_invisible(card, row, lost, world) {
                continue;
            }
            return Err(format!("row {id:?} {row:?} is missing, and no gap covers its loss"));
        }
        self.nothing_held_is_free(world)?;
        let lives = |card: usize, pid: u32| {
            let mut rows = world.truth.rows.range((card, pid, 0)..=(card, pid, u64::MAX));
            rows.any(|(_, row)| row.fate == Fate::Live)
        };
        for (seq, open) in &disk.end.unresolved {
            let (card, pid) = (card_of(world, &open.gpu), open.pid.0);
            let runs = match (open.kind, open.start) {
                (OpenKind::Row, Some(start)) => {
                    let row = world.truth.rows.get(&(card, pid, start.0));
                    // A live row of the pid that is hidden behind an older dead one may be this one.
                    let mut store = world.truth.stores.get(&card).into_iter().flatten();
                    let hidden = store
                        .any(|dead| dead.1 == pid && (dead.2 < start.0 || !world.steps.is_empty()));
                    row.is_some_and(|row| row.fate == Fate::Live) || hidden && lives(card, pid)
                }
                (OpenKind::Masked, _) => lives(card, pid),
                _ => world.cards[card].model.holders().iter().any(|one| one.pid == pid),
            };
            ensure(runs, || format!("entry {seq} is open, and {open:?} runs no more"))?;
        }
        Ok(())
    }

    /// No moment in which a row held its GPU is called free, by what the journal says so far.
    pub(super) fn nothing_held_is_free(&self, world: &World) -> Checked {
        // Where the clock was set, that of the bill says nothing of the truth's.
        if !world.steps.is_empty() {
            return Ok(());
        }
        let gpus: Vec<GpuUuid> = world.cards.iter().map(|card| card.uuid.clone()).collect();
        let held = world.truth.rows.iter().filter(|(id, row)| {
            let lost =
                row.lost.is_some_and(|lost| self.is_hidden_by_the_driver(id.0, row, lost, world));
            let known = !lost || self.booked.contains_key(*id);
            row.billable && row.fate != Fate::NoEntry && known
        });
        self.bills.nothing_held_is_free(&self.end, &gpus, held)
    }

    /// Whether the GPU answered while accounting was off, in the stretch in which the row began.
    fn looked_while_off(&self, card: usize, row: &TruthRow, world: &World) -> bool {
        let mut off = world.truth.off.iter().filter(|(of, from, to)| {
            *of == card && *from <= row.opened && to.is_none_or(|to| row.opened <= to)
        });
        off.any(|(_, from, to)| {
            let answered = |read: &&Noted| {
                matches!(read.listing, ListingState::Listed | ListingState::AccountingOff)
            };
            let mut reads = self.reads.iter().filter(|read| read.card == card).filter(answered);
            reads.any(|read| *from < read.began && to.is_none_or(|to| read.ended < to))
        })
    }

    /// What no gap has to say: what the driver hides, and, since nobody is in sight before the first whole list of a
    /// run, what was lost before that.
    fn is_invisible(&self, card: usize, row: &TruthRow, lost: At, world: &World) -> bool {
        let run = self.runs.iter().rev().find(|run| run.began <= lost).map(|run| run.began);
        let mut proofs = self
            .reads
            .iter()
            .filter(|read| read.card == card && Some(read.began) >= run && read.ended <= lost);
        let unproven = !proofs.any(|read| read.listing == ListingState::Listed);
        unproven || self.is_hidden_by_the_driver(card, row, lost, world)
    }

    /// What no reader of the driver can notice, by the driver's own rules.
    fn is_hidden_by_the_driver(
        &self,
        card: usize,
        row: &TruthRow,
        lost: At,
        world: &World,
    ) -> bool {
        let reads = self.reads.iter().filter(|read| read.card == card);
        let within_a_read =
            reads.clone().any(|read| read.began <= row.opened && lost <= read.ended);
        // The next answer says that accounting is off, or that the GPU is lost: so it may have been since the last
        // list.
        let answers = |read: &&Noted| !matches!(read.listing, ListingState::Missing(reason) if reason != UnknownReason::GpuLost);
        let next = reads.clone().filter(answers).find(|read| read.ended > lost);
        let seen_off = next.is_some_and(|read| read.listing != ListingState::Listed);
        // A store of which no row was known when it was cleared.
        let before = reads.clone().rfind(|read| read.ended <= lost);
        let after = reads.clone().find(|read| read.ended > lost).map(|read| read.ended);
        let known_empty = before.is_some_and(|read| read.dead_rows == Some(0));
        let cleared =
            world.truth.clears.iter().any(|(of, at)| {
                *of == card && lost <= *at && after.is_none_or(|after| *at <= after)
            });
        match row.fate {
            _ if within_a_read => true,
            Fate::Replaced => !row.shown,
            Fate::ThrownAway => !row.shown && !seen_off,
            Fate::Cleared | Fate::Evicted => known_empty && cleared && !row.shown,
            _ => false,
        }
    }

    /// I11: while no agent ran, the journal says so.
    pub(crate) fn downs_are_gaps(&self) -> Checked {
        let Some(first) = self.runs.first().map(|run| run.began) else { return Ok(()) };
        for (from, to) in self.downs.iter().filter(|(from, _)| *from >= first) {
            let covered = self
                .unseen
                .iter()
                .any(|(card, begins, ends)| card.is_none() && begins <= from && to <= ends);
            ensure(covered, || {
                let near: Vec<_> = self.unseen.iter().filter(|one| one.0.is_none()).collect();
                format!(
                    "I11: no agent ran from {from:?} to {to:?}, in no gap of {near:?}, runs {:?}",
                    self.runs
                )
            })?;
        }
        Ok(())
    }
}
