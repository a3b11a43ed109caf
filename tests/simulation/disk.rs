//! The journal's disk: what the store promises, and every way in which a disk fails to keep it.

use std::collections::BTreeMap;

use gpu_ledger::accounting::RowKey;
use gpu_ledger::journal::chain::{self, Kept, Sealed, booking_key, read_evidence};
use gpu_ledger::journal::draft::{Edges, Settlements};
use gpu_ledger::journal::entry::{ArgvPlace, KeptArgv};
use gpu_ledger::journal::entry::{ConflictFigures, Draft, Entry, Evidence, Figures};
use gpu_ledger::journal::{BootId, ChainError, Digest, Recovered};
use gpu_ledger::settlement::contradicts;

use super::bugs::Bug;

/// What the next commit does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Luck {
    Good,
    /// The agent dies before it.
    CrashBefore,
    /// The agent dies after it, and nobody hears of it.
    CrashAfter,
    /// The disk fails; whether the batch is on it nobody knows.
    Failure {
        kept: bool,
    },
}

/// Why nothing was acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DiskError {
    Full,
    Crash,
    Failed,
    Chain(ChainError),
}

/// What became of one draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Entered(u64),
    Reoffered,
    Conflicting { entered: bool },
}

/// One entry's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bytes {
    pub(crate) seq: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) evidence: Vec<u8>,
    pub(crate) digest: Digest,
    pub(crate) previous: Digest,
    pub(crate) hash: Digest,
}

impl Bytes {
    pub(crate) fn kept(&self) -> Kept<'_> {
        let Self { seq, body, digest, previous, hash, .. } = self;
        Kept { seq: *seq, body, evidence: *digest, previous: *previous, hash: *hash }
    }
}

/// The disk, and what the store that has it open knows.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) entries: Vec<Bytes>,
    booked: BTreeMap<Vec<u8>, u64>,
    by_key: BTreeMap<RowKey, u64>,
    argv: BTreeMap<ArgvPlace, KeptArgv>,
    /// Conflicts by the settlement that they are about.
    conflicts: BTreeMap<u64, Vec<u64>>,
    /// The end, as the open store has it.
    pub(crate) end: Recovered,
    /// What the entries said when it was opened of when somebody watched.
    pub(crate) edges: Option<Edges>,
    /// No room but the reserve.
    pub(crate) full: bool,
    /// The reserve was used.
    reserve_used: bool,
    pub(crate) luck: Luck,
    bug: Option<Bug>,
    /// Entries of the last batch.
    last_batch: usize,
}

impl Disk {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self {
            entries: Vec::new(),
            booked: BTreeMap::new(),
            by_key: BTreeMap::new(),
            argv: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            end: Recovered::default(),
            edges: None,
            full: false,
            reserve_used: false,
            luck: Luck::Good,
            bug,
            last_batch: 0,
        }
    }

    /// Opens the store: everything is read back and proven.
    pub(crate) fn open(&mut self, boot: BootId) -> Result<(), ChainError> {
        let mut end = Recovered::default();
        let stale = if self.bug == Some(Bug::StaleHead) { self.last_batch } else { 0 };
        let upto = self.entries.len() - stale;
        let mut bytes = self.entries.iter();
        self.edges = None;
        let mut edges = Edges::new(boot);
        for one in bytes.by_ref().take(upto) {
            edges.take(&end.follow(one.kept())?);
        }
        self.edges = Some(edges);
        self.end = end;
        self.luck = Luck::Good;
        if self.bug == Some(Bug::UniqueWithinARun) {
            self.booked.clear();
        }
        Ok(())
    }

    /// The agent is dead. What was not synced is gone.
    pub(crate) fn crash(&mut self) {
        if self.bug == Some(Bug::CommitWithoutSync) {
            let kept = self.entries.len() - self.last_batch;
            self.entries.truncate(kept);
            let last = kept as u64;
            self.booked.retain(|_, seq| *seq <= last);
            self.by_key.retain(|_, seq| *seq <= last);
            self.conflicts.values_mut().for_each(|all| all.retain(|seq| *seq <= last));
            self.last_batch = 0;
        }
    }

    pub(crate) fn append(
        &mut self,
        drafts: Vec<Draft>,
        from_reserve: bool,
    ) -> Result<Vec<Outcome>, DiskError> {
        let has_room = from_reserve && !self.reserve_used;
        if self.full && !has_room {
            return Err(DiskError::Full);
        }
        let luck = std::mem::replace(&mut self.luck, Luck::Good);
        match luck {
            Luck::CrashBefore => return Err(DiskError::Crash),
            Luck::Failure { kept: false } => return Err(DiskError::Failed),
            Luck::Good | Luck::CrashAfter | Luck::Failure { kept: true } => {}
        }
        let mut batch =
            Batch { disk: self, end: self.end.clone(), new: Vec::new(), argv: Vec::new() };
        let mut outcomes = Vec::with_capacity(drafts.len());
        for draft in drafts {
            outcomes.push(batch.take(draft).map_err(DiskError::Chain)?);
        }
        let Batch { end, new, argv, .. } = batch;
        self.commit(end, new, argv);
        self.reserve_used |= from_reserve;
        match luck {
            Luck::CrashAfter => Err(DiskError::Crash),
            Luck::Failure { .. } => Err(DiskError::Failed),
            Luck::Good | Luck::CrashBefore => Ok(outcomes),
        }
    }

    fn commit(&mut self, end: Recovered, new: Vec<New>, argv: Vec<(ArgvPlace, KeptArgv)>) {
        self.last_batch = new.len();
        for New { sealed: Sealed { entry, body, evidence }, key } in new {
            if let (Figures::Settlement(settlement), Some(key)) = (&entry.figures, key) {
                self.booked.insert(key, entry.seq);
                self.by_key.extend(settlement.key().map(|key| (key, entry.seq)));
            }
            if let Figures::Conflict(conflict) = &entry.figures {
                self.conflicts.entry(conflict.of).or_default().push(entry.seq);
            }
            let Entry { seq, evidence: digest, previous, hash, .. } = entry;
            self.entries.push(Bytes { seq, body, evidence, digest, previous, hash });
        }
        self.argv.extend(argv);
        self.end = end;
        if self.bug == Some(Bug::EditedInPlace) && self.entries.len().is_multiple_of(16) {
            let place = self.entries.len() / 2;
            let bytes = &mut self.entries[place];
            let last = bytes.body.len() - 1;
            bytes.body[last] ^= 1;
        }
    }

    /// There is room again.
    pub(crate) const fn make_room(&mut self) {
        (self.full, self.reserve_used) = (false, false);
    }

    pub(crate) fn is_booked(&self, key: &RowKey) -> bool {
        self.by_key.contains_key(key)
    }

    pub(crate) fn argv(&self, place: ArgvPlace) -> Option<KeptArgv> {
        self.argv.get(&place).cloned()
    }

    pub(crate) fn read_figures(&self, seq: u64) -> Result<Entry, ChainError> {
        chain::read(self.entries[seq as usize - 1].kept())
    }

    pub(crate) fn read(&self, seq: u64) -> Result<(Entry, Evidence), ChainError> {
        let bytes = &self.entries[seq as usize - 1];
        let entry = chain::read(bytes.kept())?;
        Ok((entry, read_evidence(seq, bytes.digest, &bytes.evidence)?))
    }
}

impl Settlements for Disk {
    type Error = DiskError;

    fn booked(&self, key: &RowKey) -> Result<Option<u64>, DiskError> {
        Ok(self.by_key.get(key).copied())
    }
}

/// An entry on its way to the disk.
struct New {
    sealed: Sealed,
    /// Its booking key.
    key: Option<Vec<u8>>,
}

/// A transaction.
struct Batch<'a> {
    disk: &'a Disk,
    end: Recovered,
    new: Vec<New>,
    argv: Vec<(ArgvPlace, KeptArgv)>,
}

impl Batch<'_> {
    fn take(&mut self, draft: Draft) -> Result<Outcome, ChainError> {
        let Draft { at, figures, evidence, argv } = draft;
        let key = match &figures {
            Figures::Settlement(settlement) => Some(booking_key(settlement, &evidence).unwrap()),
            _ => None,
        };
        let booked = key.as_ref().and_then(|key| self.booked(key));
        let (Some(of), Evidence::Settlement(again)) = (booked, &evidence) else {
            let seq = self.enter(Draft { at, figures, evidence, argv }, key)?;
            return Ok(Outcome::Entered(seq));
        };
        let Evidence::Settlement(first) = self.evidence(of)? else { return Ok(Outcome::Reoffered) };
        if !contradicts(&first.row, &again.row) {
            return Ok(Outcome::Reoffered);
        }
        if self.knows_conflict(of, &evidence)? {
            return Ok(Outcome::Conflicting { entered: false });
        }
        let Figures::Settlement(settlement) = figures else { return Ok(Outcome::Reoffered) };
        let figures = Figures::Conflict(ConflictFigures { of, read_at: settlement.read_at });
        let evidence = Evidence::Conflict { row: Box::new(again.row.clone()), seen: again.seen };
        self.enter(Draft { at, figures, evidence, argv: None }, None)?;
        Ok(Outcome::Conflicting { entered: true })
    }

    fn booked(&self, key: &[u8]) -> Option<u64> {
        if self.disk.bug == Some(Bug::NoUniqueKey) {
            return None;
        }
        let new = self.new.iter().find(|one| one.key.as_deref() == Some(key));
        self.disk.booked.get(key).copied().or(new.map(|one| one.sealed.entry.seq))
    }

    fn evidence(&self, seq: u64) -> Result<Evidence, ChainError> {
        let new = self.new.iter().find(|one| one.sealed.entry.seq == seq);
        match new {
            Some(one) => read_evidence(seq, one.sealed.entry.evidence, &one.sealed.evidence),
            None => self.disk.read(seq).map(|(_, evidence)| evidence),
        }
    }

    fn knows_conflict(&self, of: u64, again: &Evidence) -> Result<bool, ChainError> {
        let Evidence::Settlement(again) = again else { return Ok(false) };
        for seq in self.disk.conflicts.get(&of).into_iter().flatten() {
            if let Evidence::Conflict { row, .. } = self.disk.read(*seq)?.1
                && *row == again.row
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn enter(&mut self, draft: Draft, key: Option<Vec<u8>>) -> Result<u64, ChainError> {
        self.argv.extend(draft.argv.clone().map(|kept| (kept.place(), kept)));
        if self.disk.bug == Some(Bug::CountedTwice)
            && let Figures::Settlement(settlement) = &draft.figures
            && self.end.head.seq.is_multiple_of(8)
        {
            let balance = self.end.head.booked.entry(settlement.gpu.clone()).or_default();
            *balance = balance.plus(settlement.held);
        }
        let sealed = self.end.seal(draft)?;
        let seq = sealed.entry.seq;
        self.new.push(New { sealed, key });
        Ok(seq)
    }
}
