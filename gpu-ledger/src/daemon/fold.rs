//! What one client may see of an entry.
//!
//! Everybody may see how long each GPU was held, since every bill's statement says so; whose it was only
//! those who see all, and the user whose it was. Other users' rows keep their place in time, so that a
//! bill closes to the same millisecond for everybody, and lose name, program, user and pid. A number that is
//! no pid keeps them apart: two that held a GPU at once are two.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use super::request::{OTHER_USERS, Peer};
use crate::journal::entry::{Change, Correction, Entry, Figures, OpenFigures};
use crate::memory::Holding;
use crate::settlement::Account;
use crate::unit::Pid;

/// Half of the bits of a pid (`include/linux/threads.h`, `PID_MAX_LIMIT` is 2²²).
const HALF_BITS: u32 = 11;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;
/// Rounds of the network; from the third on its permutations look random to whoever lacks the key.
const ROUNDS: u32 = 6;

/// One client's view.
pub(super) struct Fold {
    peer: Peer,
    /// A key of this stream alone: the numbers of two streams have nothing in common.
    key: RandomState,
}

impl Fold {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer, key: RandomState::new() }
    }

    /// The entry as it may be seen. `uid_of` says whose an entry is, by its number.
    pub(super) fn entry<E>(
        &self,
        mut entry: Entry,
        uid_of: impl FnOnce(u64) -> Result<Option<u32>, E>,
    ) -> Result<Entry, E> {
        if self.peer.sees_all {
            return Ok(entry);
        }
        entry.figures = match entry.figures {
            Figures::Settlement(mut settlement) if !self.peer.sees(settlement.uid) => {
                settlement.account = hidden(&settlement.account);
                (settlement.program, settlement.uid) = (None, None);
                settlement.pid = self.alias(settlement.pid);
                settlement.labels.clear();
                Figures::Settlement(settlement)
            }
            Figures::Open(open) => Figures::Open(Box::new(self.open(*open))),
            Figures::Correction(Correction { of, change: Change::Account(account) }) => {
                let account = if self.peer.sees(uid_of(of)?) { account } else { hidden(&account) };
                Figures::Correction(Correction { of, change: Change::Account(account) })
            }
            Figures::Mark(mut mark) => {
                mark.note = None;
                Figures::Mark(mark)
            }
            Figures::Memory(mut stretch) => {
                for Holding { holder, .. } in &mut stretch.holders {
                    if !self.peer.sees(holder.uid) {
                        holder.account = hidden(&holder.account);
                        (holder.program, holder.uid, holder.start) = (None, None, None);
                        holder.pid = self.alias(holder.pid);
                        holder.labels.clear();
                    }
                }
                Figures::Memory(stretch)
            }
            figures @ (Figures::Settlement(_)
            | Figures::Correction(_)
            | Figures::Conflict(_)
            | Figures::Gap(_)
            | Figures::Epoch(_)
            | Figures::Coverage(_)
            | Figures::Key(_)
            | Figures::Closed(_)) => figures,
        };
        Ok(entry)
    }

    /// An open entry as it may be seen.
    pub(super) fn open(&self, mut open: OpenFigures) -> OpenFigures {
        if !self.peer.sees(open.uid) {
            open.account = hidden(&open.account);
            (open.program, open.uid) = (None, None);
            open.pid = self.alias(open.pid);
            open.labels.clear();
        }
        open
    }

    /// Another number for each pid, always the same one on this stream: a Feistel network over its 22
    /// bits, which no two pids leave as one.
    fn alias(&self, pid: Pid) -> Pid {
        let (mut left, mut right) = (pid.0 >> HALF_BITS & HALF_MASK, pid.0 & HALF_MASK);
        for round in 0..ROUNDS {
            let mixed = self.key.hash_one((round, right)) & u64::from(HALF_MASK);
            let mixed = u32::try_from(mixed).unwrap_or(HALF_MASK);
            (left, right) = (right, left ^ mixed);
        }
        Pid::alias((left << HALF_BITS) | right)
    }
}

/// Nobody's name is no secret of anybody.
fn hidden(account: &Account) -> Account {
    match account {
        Account::Unattributed(reason) => Account::Unattributed(*reason),
        Account::Ruled { .. } | Account::Unclassified { .. } => {
            Account::Unclassified { name: OTHER_USERS.into(), ground: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;
    use crate::bill::ledger::Which;
    use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, program};
    use crate::bill::{By, Ledger};
    use crate::journal::entry::OpenKind;
    use crate::unit::Span;

    const STRANGER: Peer = Peer { uid: 1_000, sees_all: false };

    fn folded(fold: &Fold, journal: &Journal, owner: Option<u32>) -> Vec<Entry> {
        let seen = |entry: &Entry| {
            fold.entry(entry.clone(), |_| Ok::<_, Infallible>(owner)).expect("nobody fails")
        };
        journal.entries.iter().map(seen).collect()
    }

    #[test]
    fn a_user_keeps_their_own_rows_and_others_lose_all_that_names_them() {
        let mut journal = Journal::began(0, 1);
        journal.settle(20, Row::of("mine", 7, 1, 9));
        journal.settle(30, Row { uid: Some(7), ..Row::of("theirs", 8, 12, 9) });
        journal.settle(40, Row { account: NAMELESS, ..Row::of("", 9, 22, 9) });
        let entries = folded(&Fold::new(STRANGER), &journal, None);
        let of = |place: usize| match &entries[place].figures {
            Figures::Settlement(settlement) => settlement.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(entries[2], journal.entries[2], "nothing is taken from their own");
        let theirs = of(3);
        assert_eq!(theirs.account.to_string(), OTHER_USERS);
        assert_eq!((theirs.program.clone(), theirs.uid), (None, None));
        assert!(theirs.pid.is_alias() && theirs.pid.shown().is_none());
        let Figures::Settlement(was) = &journal.entries[3].figures else { panic!() };
        assert_eq!((theirs.start, theirs.held), (was.start, was.held), "their time stays");
        // Whose it was nobody knows: that is no secret.
        assert_eq!(of(4).account, NAMELESS);
        assert!(of(4).pid.is_alias());
    }

    #[test]
    fn a_program_of_theirs_that_is_called_like_all_others_is_told_apart_from_them() {
        let mut journal = Journal::began(0, 1);
        journal.settle(20, Row::of(OTHER_USERS, 7, 1, 9));
        journal.settle(30, Row { uid: Some(7), ..Row::of("theirs", 8, 12, 9) });
        journal.open(30, OpenKind::Row, 0, 9, 29, program("unattributed"));
        let mut ledger = Ledger::for_bill_by(By::Process);
        for entry in folded(&Fold::new(STRANGER), &journal, None) {
            ledger.take(&entry).unwrap();
        }
        let names = |by| {
            let which = Which { period: Span::new(DAY_MS, DAY_MS + 50).unwrap(), by, gpus: &[] };
            let lines = ledger.cut(which).lines;
            lines.iter().map(|line| line.text.to_string()).collect::<Vec<_>>()
        };
        for by in [By::Account, By::Program] {
            assert_eq!(names(by), ["\"other users\"", "other users"], "{by}");
        }
    }

    #[test]
    fn of_memory_a_user_keeps_their_own_and_others_keep_no_more_than_how_much() {
        let mut journal = Journal::began(0, 1);
        journal.memory((0, 1_000), &[(program("mine"), 7, 5), (program("theirs"), 8, 9)], &[]);
        let Figures::Memory(stretch) = &mut journal.entries[2].figures else { panic!() };
        stretch.holders[1].holder.uid = Some(7);
        let was = stretch.clone();
        let seen = folded(&Fold::new(STRANGER), &journal, None);
        let Figures::Memory(stretch) = &seen[2].figures else { panic!() };
        assert_eq!(stretch.holders[0], was.holders[0], "nothing is taken from their own");
        let theirs = &stretch.holders[1];
        assert_eq!(theirs.holder.account.to_string(), OTHER_USERS);
        assert_eq!((&theirs.holder.program, theirs.holder.uid), (&None, None));
        assert_eq!((theirs.holder.start, theirs.holder.labels.len()), (None, 0));
        assert!(theirs.holder.pid.is_alias());
        assert_eq!((theirs.held, stretch.device), (was.holders[1].held, was.device));
        assert!(stretch.closes());
    }

    #[test]
    fn corrections_of_their_own_rows_are_seen_and_those_of_others_are_not() {
        let mut journal = Journal::began(0, 1);
        let open = journal.open(5, OpenKind::Row, 0, 7, 1, program("x"));
        journal.moved(6, open, program("secret"));
        let fold = Fold::new(STRANGER);
        let account = |owner| match &folded(&fold, &journal, owner)[3].figures {
            Figures::Correction(Correction { change: Change::Account(account), .. }) => {
                account.to_string()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(account(Some(1_000)), "secret");
        assert_eq!(account(Some(1)), OTHER_USERS);
        assert_eq!(account(None), OTHER_USERS);
    }

    #[test]
    fn no_two_pids_get_one_number_and_two_streams_have_none_in_common() {
        let (one, other) = (Fold::new(STRANGER), Fold::new(STRANGER));
        // Neighbours, and pids from all over.
        let pids: BTreeSet<u32> = (0..5_000).chain((0..1 << 22).step_by(97)).collect();
        let numbers: BTreeSet<Pid> = pids.iter().map(|pid| one.alias(Pid(*pid))).collect();
        assert_eq!(numbers.len(), pids.len());
        assert!(numbers.iter().all(|number| number.is_alias()));
        assert_eq!(one.alias(Pid(77)), one.alias(Pid(77)));
        let same = (0..1_000).filter(|pid| one.alias(Pid(*pid)) == other.alias(Pid(*pid)));
        assert!(same.count() < 10);
    }

    #[test]
    fn who_sees_all_sees_every_entry_as_it_is() {
        let mut journal = Journal::began(0, 1);
        journal.settle(30, Row { uid: Some(7), ..Row::of("theirs", 8, 12, 9) });
        let fold = Fold::new(Peer { uid: 0, sees_all: true });
        assert_eq!(folded(&fold, &journal, None), journal.entries);
    }
}
