//! Drafts bound to the end of a journal: open entries by their numbers, marks with what is unresolved.
//!
//! Numbers are given in order, so that of a draft of the same batch is foreseen, as long as every draft
//! before it becomes exactly one entry. A row that may be booked already does not: where one stands
//! in between, the batch ends before the draft that would name such a number, and goes on
//! when the first part is entered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{OpenRef, Pending};
use crate::accounting::RowKey;
use crate::journal::chain::Recovered;
use crate::journal::entry::{Change, Correction, Draft, Evidence, Figures};

/// What of the journal has to be asked before a draft can be bound.
pub trait Settlements {
    /// Why it cannot be told.
    type Error;

    /// The number of the settlement under this key, where it is booked.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn booked(&self, key: &RowKey) -> Result<Option<u64>, Self::Error>;
}

/// Drafts that can be entered together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// In order.
    pub drafts: Vec<Draft>,
    /// How many of the pending ones that is: some are nothing any more.
    pub taken: usize,
    /// The open entry that each of them begins.
    begins: Vec<Option<OpenRef>>,
}

/// Knows the numbers of the open entries that this run drafted.
#[derive(Debug, Default)]
pub struct Binder {
    numbers: BTreeMap<OpenRef, u64>,
}

/// What is foreseen of one batch.
struct Foresight {
    /// The number of the next entry; `None` after a draft that may become none or two.
    next: Option<u64>,
    unresolved: BTreeSet<u64>,
    /// Opened in this batch: numbers that are foreseen, or not.
    opened: BTreeMap<OpenRef, Option<u64>>,
    settled: BTreeMap<RowKey, Option<u64>>,
}

/// What binding one draft came to.
enum Step {
    Draft(Box<Draft>),
    /// Two entries.
    Both(Box<[Draft; 2]>),
    /// It names what never was entered: there is nothing to say.
    Nothing,
    /// It names a number that is not foreseen.
    Wait,
}

impl Binder {
    /// Binds as many of the first `limit` pending drafts as can be entered together. At least one, where there
    /// is any.
    ///
    /// # Errors
    /// Those of `settlements`.
    pub fn bind<S: Settlements>(
        &self,
        pending: &VecDeque<Pending>,
        limit: usize,
        end: &Recovered,
        settlements: &S,
    ) -> Result<Bound, S::Error> {
        let mut foresight = Foresight {
            next: end.head.seq.checked_add(1),
            unresolved: end.unresolved.keys().copied().collect(),
            opened: BTreeMap::new(),
            settled: BTreeMap::new(),
        };
        let mut bound = Bound::default();
        for one in pending.iter().take(limit) {
            match self.step(one, &mut foresight, settlements)? {
                Step::Wait => break,
                Step::Nothing => {}
                Step::Draft(draft) => {
                    bound.drafts.push(*draft);
                    bound.begins.push(one.begins);
                }
                Step::Both(drafts) => {
                    bound.drafts.extend(*drafts);
                    bound.begins.extend([None, None]);
                }
            }
            bound.taken = bound.taken.saturating_add(1);
        }
        Ok(bound)
    }

    /// The bound drafts were entered; `numbers`: of each its own, `None` where it became no entry of its
    /// own.
    pub fn entered(&mut self, bound: &Bound, numbers: &[Option<u64>], end: &Recovered) {
        for (begins, number) in bound.begins.iter().zip(numbers) {
            if let (Some(reference), Some(number)) = (begins, number) {
                self.numbers.insert(*reference, *number);
            }
        }
        // What is over is named by nobody any more.
        self.numbers.retain(|_, number| end.unresolved.contains_key(number));
    }

    fn step<S: Settlements>(
        &self,
        one: &Pending,
        foresight: &mut Foresight,
        settlements: &S,
    ) -> Result<Step, S::Error> {
        let ends = match one.ends.as_ref().map(|(reference, _)| *reference) {
            None => None,
            Some(OpenRef::Entered(seq)) => Some(seq),
            Some(reference) => match foresight.opened.get(&reference) {
                Some(Some(seq)) => Some(*seq),
                Some(None) => return Ok(Step::Wait),
                None => self.numbers.get(&reference).copied(),
            },
        };
        // Over already, or never entered.
        let ends = ends.filter(|seq| foresight.unresolved.contains(seq));
        let mut draft = one.draft.clone();
        match &mut draft.figures {
            Figures::Settlement(_) => return settle(draft, ends, foresight, settlements),
            Figures::Open(_) => {
                if let Some(reference) = one.begins {
                    foresight.opened.insert(reference, foresight.next);
                }
                foresight.unresolved.extend(foresight.next);
                foresight.advance();
            }
            Figures::Correction(correction) => {
                let Some(of) = ends else { return Ok(Step::Nothing) };
                correction.of = of;
                foresight.resolve(ends);
                foresight.advance();
            }
            Figures::Conflict(conflict) => {
                let Some(key) = &one.conflicts_with else { return Ok(Step::Nothing) };
                conflict.of = match foresight.settled.get(key) {
                    Some(Some(seq)) => *seq,
                    Some(None) => return Ok(Step::Wait),
                    None => match settlements.booked(key)? {
                        Some(seq) => seq,
                        None => return Ok(Step::Nothing),
                    },
                };
                foresight.advance();
            }
            Figures::Mark(mark) => {
                // What it lists must be certain.
                if foresight.next.is_none() {
                    return Ok(Step::Wait);
                }
                mark.unresolved = foresight.unresolved.iter().copied().collect();
                foresight.advance();
            }
            Figures::Gap(_)
            | Figures::Memory(_)
            | Figures::Epoch(_)
            | Figures::Coverage(_)
            | Figures::Key(_)
            | Figures::Closed(_) => {
                foresight.advance();
            }
        }
        Ok(Step::Draft(Box::new(draft)))
    }
}

/// A settlement: new, or one that the journal has.
fn settle<S: Settlements>(
    mut draft: Draft,
    ends: Option<u64>,
    foresight: &mut Foresight,
    settlements: &S,
) -> Result<Step, S::Error> {
    let Figures::Settlement(settlement) = &mut draft.figures else { return Ok(Step::Nothing) };
    settlement.opened = ends;
    let key = settlement.key();
    let booked = match &key {
        Some(key) if foresight.settled.contains_key(key) => None,
        Some(key) => Some(settlements.booked(key)?),
        None => None,
    };
    match (booked, ends) {
        (Some(None), _) => {
            let number = foresight.next;
            foresight.settled.extend(key.map(|key| (key, number)));
            foresight.resolve(ends);
            foresight.advance();
        }
        // Booked before: the entry that it would end is left over from a run that learnt of the row
        // twice.
        (Some(Some(_)), Some(of)) => {
            let change = Change::Ended { last_seen: settlement.read_at, cause: None };
            settlement.opened = None;
            let figures = Figures::Correction(Correction { of, change });
            let (at, evidence) = (draft.at, Evidence::None);
            let correction = Draft { at, figures, evidence, argv: None };
            foresight.resolve(ends);
            foresight.next = None;
            return Ok(Step::Both(Box::new([draft, correction])));
        }
        // Whether it becomes an entry the journal decides.
        _ => foresight.next = None,
    }
    Ok(Step::Draft(Box::new(draft)))
}

impl Foresight {
    fn resolve(&mut self, ends: Option<u64>) {
        if let Some(seq) = ends {
            self.unresolved.remove(&seq);
        }
    }

    fn advance(&mut self) {
        self.next = self.next.and_then(|next| next.checked_add(1));
    }
}
