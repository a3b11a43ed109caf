//! What really happened, against what a journal says, row by row.

use std::collections::BTreeMap;

use gpu_ledger::coverage::Gap;
use gpu_ledger::journal::entry::{Change, OpenFigures, SettlementFigures};
use gpu_ledger::journal::{Entry, Figures};
use gpu_ledger::unknown::{GapCause, NamelessReason};

use crate::truth::Row;

/// What the last read before a crash showed may not have reached the disk: then a row ended shortly before
/// the gap, and who it was went with the process that knew.
const UNREAD_US_MAX: u64 = 1_000_000;

/// A journal's entries, by kind.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) settled: Vec<SettlementFigures>,
    /// Neither settled nor ended.
    pub(crate) open: BTreeMap<u64, OpenFigures>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) conflicts: usize,
}

impl Books {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut books = Self::default();
        for entry in entries {
            match &entry.figures {
                Figures::Settlement(settlement) => {
                    if let Some(opened) = settlement.opened {
                        let open = books.open.remove(&opened).expect("it was open");
                        assert_eq!((open.pid, open.key()), (settlement.pid, settlement.key()));
                    }
                    books.settled.push(SettlementFigures::clone(settlement));
                }
                Figures::Open(open) => {
                    books.open.insert(entry.seq, OpenFigures::clone(open));
                }
                Figures::Correction(correction) => {
                    if let Change::Ended { .. } = correction.change {
                        books.open.remove(&correction.of).expect("it was open");
                    }
                }
                Figures::Mark(mark) => {
                    assert!(mark.unresolved.iter().eq(books.open.keys()), "{mark:?}");
                }
                Figures::Gap(gap) => books.gaps.push(gap.clone()),
                Figures::Conflict(_) => books.conflicts += 1,
                Figures::Epoch(_)
                | Figures::Coverage(_)
                | Figures::Memory(_)
                | Figures::Key(_)
                | Figures::Closed(_) => {}
            }
        }
        books
    }

    pub(crate) fn gaps_of(&self, cause: GapCause) -> Vec<&Gap> {
        self.gaps.iter().filter(|gap| gap.cause == cause).collect()
    }

    pub(crate) fn of_pid(&self, pid: u32) -> &SettlementFigures {
        self.settled.iter().find(|one| one.pid.0 == pid).expect("it is booked")
    }

    /// In what they differ from the truth: rows that are lost and in no gap, doubled, of another amount,
    /// misnamed, without a name for no reason that the gaps bear out, or invented.
    pub(crate) fn faults(&self, truth: &[Row]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut by_key: BTreeMap<(String, u32, u64), Vec<&SettlementFigures>> = BTreeMap::new();
        for one in &self.settled {
            let key = (one.gpu.0.to_string(), one.pid.0, one.start.unwrap().0);
            by_key.entry(key).or_default().push(one);
        }
        for row in truth {
            let key = (row.gpu_uuid.clone(), row.pid, row.start_time_us);
            match by_key.remove(&key).unwrap_or_default().as_slice() {
                [] if row.lost.is_some() || self.hides(row) => {}
                [] => faults.push(format!("lost: {row:?}")),
                [one] => faults.extend(self.judge(row, one)),
                _ => faults.push(format!("doubled: {row:?}")),
            }
        }
        faults.extend(by_key.keys().map(|key| format!("invented: {key:?}")));
        faults
    }

    fn judge(&self, row: &Row, one: &SettlementFigures) -> Vec<String> {
        let mut faults = Vec::new();
        if one.held.0 != row.held_ms() {
            faults.push(format!("{} ms were held, not {:?}: {row:?}", row.held_ms(), one.held));
        }
        let reason = one.account.unattributed();
        let spans = |cause: GapCause| {
            self.gaps.iter().any(|gap| {
                gap.cause == cause
                    && gap.from.wall.0 <= row.end_time_us + UNREAD_US_MAX
                    && row.start_time_us <= gap.to.wall.0
            })
        };
        match (reason, row.program()) {
            (None, Some(name)) if one.program.as_deref() != Some(&name) => {
                faults.push(format!("misnamed {:?}: {row:?}", one.program));
            }
            (None | Some(NamelessReason::PredatesCoverage), _) => {}
            (Some(NamelessReason::AgentDown), _) if spans(GapCause::AgentDown) => {}
            (Some(NamelessReason::RowSpansTwoLifetimes), _) if !row.joined.is_empty() => {}
            (Some(reason), _) => faults.push(format!("no name because of {reason}: {row:?}")),
        }
        faults
    }

    fn hides(&self, row: &Row) -> bool {
        let hiding = [
            GapCause::AgentDown,
            GapCause::RowsPossiblyEvicted,
            GapCause::EpochBroken,
            GapCause::AccountingOff,
        ];
        self.gaps.iter().any(|gap| {
            hiding.contains(&gap.cause)
                && gap.from.wall.0 <= row.end_time_us
                && row.end_time_us <= gap.to.wall.0
        })
    }
}
