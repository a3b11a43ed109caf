//! A journal's files as a bill's source: the journal itself, and the archives that lie beside it.

use std::collections::BTreeMap;

use super::{Source, TakeWhy, Why};
use crate::bill::BillError;
use crate::bill::ledger::Ledger;
use crate::bill::report::{Head, Outside, Proven, Reading, Through, Tree as Root};
use crate::journal::Digest;
use crate::journal::chain::Recovered;
use crate::journal::entry::{ArgvPlace, Entry, Evidence, Figures, KeptArgv, Moment};
use crate::journal::store::{
    Extent, Files, PeriodRead, RawEntry, Reader, StateDir, StoreError, Tree, archives_of,
};
use crate::unit::{Span, WallUs};

/// The journal of one state directory.
#[derive(Debug)]
pub struct JournalFiles {
    dir: StateDir,
    journal: Reader,
    /// Archives, oldest first, each continued by the next and the last one by the journal.
    archives: Vec<Reader>,
    /// Number of the last entry that was archived and is not here.
    missing: u64,
    /// Whether something outside of the database says where it ends; `None` before it was read.
    witnessed: Option<bool>,
}

impl JournalFiles {
    /// Opens the journal of a directory, and its archives there.
    ///
    /// # Errors
    /// Those of [`Reader::open`]; a directory that cannot be listed.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Self::with(Reader::open(dir)?, dir)
    }

    /// As [`Self::open`], within the process that writes the journal.
    pub(crate) fn open_beside_writer(dir: &StateDir) -> Result<Self, StoreError> {
        Self::with(Reader::open_beside_writer(dir)?, dir)
    }

    fn with(journal: Reader, dir: &StateDir) -> Result<Self, StoreError> {
        let (archives, missing) = archives_of(dir, journal.journal(), journal.base())?;
        Ok(Self { dir: dir.clone(), journal, archives, missing, witnessed: None })
    }

    /// Gives `take` every entry that bears on the period, as [`Reader::period_within`] does: worth nothing before
    /// this returns.
    pub(crate) fn visit(
        &self,
        period: (u64, u64),
        extent: Extent,
        take: &mut dyn FnMut(&Entry),
    ) -> Result<PeriodRead, StoreError> {
        let Extent { after, head } = extent;
        for (archive, last) in self.archives.iter().zip(self.lasts()) {
            if after >= last {
                continue;
            }
            if let Some(head) = head
                && head <= last
            {
                // What follows the head is proven all the same.
                self.journal.end()?;
                return archive.period_within(period, Extent { after, head: Some(head) }, take);
            }
            archive.period_within(period, Extent { after, head: None }, &mut *take)?;
        }
        self.journal.period_within(period, extent, take)
    }

    /// Number of the last entry of each archive: where the next begins, or the journal.
    fn lasts(&self) -> impl Iterator<Item = u64> {
        let next = self.archives.iter().skip(1).map(Reader::base);
        next.chain([self.journal.base()])
    }

    /// Number of the last entry that was learnt at a moment or before it; `None` where none here was.
    pub(crate) fn last_learnt_by(&self, moment: WallUs) -> Result<Option<u64>, StoreError> {
        for reader in [&self.journal].into_iter().chain(self.archives.iter().rev()) {
            if let Some(seq) = reader.last_learnt_by(moment)? {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }

    /// The Merkle tree over all entries, as of now.
    ///
    /// # Errors
    /// Those of the database; [`StoreError::TreeUnknown`].
    pub fn tree(&self) -> Result<Tree<'_>, StoreError> {
        self.journal.tree(&self.archives)
    }

    /// Number of the last entry that was archived and is not here.
    pub(crate) const fn missing(&self) -> u64 {
        self.missing
    }

    /// Root of the tree over the entries up to this one.
    pub(crate) fn root_at(&self, size: u64) -> Root {
        match self.tree().and_then(|mut tree| tree.root_at(size)) {
            Ok(root) => Root::Root(root),
            Err(error) => {
                tracing::debug!(size, %error, "the root of the tree is not known");
                Root::Unknown(
                    "entries that it is made of were archived, and no archive beside the journal has them",
                )
            }
        }
    }

    fn head(&self, end: &Recovered) -> Head {
        let (seq, hash) = (end.head.seq, end.head.hash);
        Head { seq, hash, tree: self.root_at(seq) }
    }

    /// One entry; `None` where it is not here.
    pub(crate) fn entry(&self, seq: u64) -> Result<Option<Entry>, StoreError> {
        self.reader_of(seq).entry(seq)
    }

    /// Whose an entry is; `None` where nobody knows, or where it is not here.
    pub(crate) fn uid_of(&self, seq: u64) -> Result<Option<u32>, StoreError> {
        Ok(self.entry(seq)?.and_then(|entry| match entry.figures {
            Figures::Settlement(settlement) => settlement.uid,
            Figures::Open(open) => open.uid,
            _ => None,
        }))
    }

    /// The kind and version of the driver that was asked, by the numbers of epochs: the last one's, and
    /// `simulated` where any of them was.
    pub(crate) fn driver(
        &self,
        epochs: impl Iterator<Item = u64>,
    ) -> Result<(Option<String>, Option<String>), StoreError> {
        let mut epochs: Vec<u64> = epochs.collect();
        epochs.sort_unstable();
        let (mut kind, mut version) = (None, None);
        for seq in epochs {
            if let Some(Evidence::Epoch(said)) = self.reader_of(seq).evidence(seq)? {
                if kind.as_deref() != Some("simulated") {
                    kind = Some(said.kind.to_string());
                }
                version = said.version.as_ref().map(ToString::to_string);
            }
        }
        Ok((kind, version))
    }

    /// When the processes behind open entries began, as far as their evidence says, in ms since 1970.
    pub(crate) fn born_ms(
        &self,
        holders: impl Iterator<Item = u64>,
    ) -> Result<BTreeMap<u64, u64>, StoreError> {
        let mut born = BTreeMap::new();
        for seq in holders {
            let reader = self.reader_of(seq);
            if let (Some(entry), Some(Evidence::Open(open))) =
                (reader.entry(seq)?, reader.evidence(seq)?)
                && let Some(identity) = open.identity
                && identity.boot == entry.at.boot
                && let Some(born_ms) = wall_ms(entry.at, identity.key.start.0)
            {
                born.insert(seq, born_ms);
            }
        }
        Ok(born)
    }

    /// What an entry rests on, and when it was made; `None` where it is not here.
    pub(crate) fn evidence(&self, seq: u64) -> Result<Option<(Moment, Evidence)>, StoreError> {
        let reader = self.reader_of(seq);
        Ok(reader.entry(seq)?.map(|entry| entry.at).zip(reader.evidence(seq)?))
    }

    /// Arguments by where they are kept; `None` where they are not stored, or not any more.
    pub(crate) fn argv(&self, place: ArgvPlace) -> Result<Option<KeptArgv>, StoreError> {
        for reader in self.archives.iter().chain([&self.journal]) {
            if let Some(kept) = reader.argv(place)? {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// Sixteen bytes that this journal and all its archives have in common.
    pub(crate) fn journal_id(&self) -> &[u8] {
        self.journal.journal()
    }

    /// The end of the journal as of now.
    pub(crate) fn end(&self) -> Result<Recovered, StoreError> {
        self.journal.end()
    }

    /// What a follower knows after entry `seq`: what was booked up to there, and what was open.
    pub(crate) fn recovered_at(&self, seq: u64) -> Result<Recovered, StoreError> {
        // Each part knows the end of the one before it.
        self.reader_of(seq.saturating_add(1)).recovered_at(seq)
    }

    /// Gives `visit` the entries of these numbers as they are kept, with what they rest on, each proven to be what it was
    /// sealed as and to follow the one before it.
    pub(crate) fn raw<E: From<StoreError>>(
        &self,
        (first, last): (u64, u64),
        visit: &mut dyn FnMut(RawEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = first;
        while next <= last {
            let reader = self.reader_of(next);
            // Up to where the next part begins.
            let bases = self.archives.iter().map(Reader::base).chain([self.journal.base()]);
            let ends = bases.filter(|base| *base >= next).min().unwrap_or(u64::MAX);
            reader.raw_entries((next, ends.min(last)), visit)?;
            next = ends.min(last).saturating_add(1);
        }
        Ok(())
    }

    /// Whoever has the entry of this number.
    fn reader_of(&self, seq: u64) -> &Reader {
        if seq > self.journal.base() {
            return &self.journal;
        }
        let mut newest_first = self.archives.iter().rev();
        newest_first.find(|archive| archive.base() < seq).unwrap_or(&self.journal)
    }
}

impl Source for JournalFiles {
    fn read(&mut self, period: Span, extent: Extent, ledger: &mut Ledger) -> anyhow::Result<Head> {
        let mut refused: Result<(), BillError> = Ok(());
        let read = self.visit((period.from_ms(), period.to_ms()), extent, &mut |entry| {
            if refused.is_ok() {
                refused = ledger.take(entry);
            }
        })?;
        refused?;
        ledger.finish(&read.end)?;
        self.witnessed = read.witnessed;
        Ok(self.head(&read.end))
    }

    fn head_at(&mut self, moment: WallUs) -> anyhow::Result<Option<u64>> {
        Ok(self.last_learnt_by(moment)?)
    }

    fn file(&mut self, digest: Digest) -> anyhow::Result<Option<Vec<u8>>> {
        let files = Files::of_reader(&self.dir)?;
        Ok(files.map(|files| files.read(digest)).transpose()?.flatten())
    }

    fn entry(&mut self, seq: u64) -> anyhow::Result<Option<Entry>> {
        Ok(Self::entry(self, seq)?)
    }

    fn visit_with_why(&mut self, period: Span, take: TakeWhy<'_>) -> anyhow::Result<Recovered> {
        let mut went: anyhow::Result<()> = Ok(());
        let whole = Extent::default();
        let read = self.visit((period.from_ms(), period.to_ms()), whole, &mut |entry| {
            if went.is_err() {
                return;
            }
            let why = match &entry.figures {
                Figures::Settlement(_) => self.why(entry.seq),
                _ => Ok(None),
            };
            went = why.map_err(anyhow::Error::from).and_then(|why| take(entry, why));
        })?;
        went?;
        self.witnessed = read.witnessed;
        Ok(read.end)
    }

    fn visit_entries(
        &mut self,
        period: Span,
        extent: Extent,
        take: &mut dyn FnMut(&Entry),
    ) -> anyhow::Result<Recovered> {
        let read = self.visit((period.from_ms(), period.to_ms()), extent, take)?;
        self.witnessed = read.witnessed;
        Ok(read.end)
    }

    fn why_of(&mut self, of: &[(u64, Digest)]) -> anyhow::Result<BTreeMap<u64, Why>> {
        let mut told = BTreeMap::new();
        for (seq, _) in of {
            if let Some(why) = self.why(*seq)? {
                told.insert(*seq, why);
            }
        }
        Ok(told)
    }

    fn outside(&mut self, ledger: &Ledger) -> anyhow::Result<Outside> {
        let (driver, driver_version) = self.driver(ledger.epochs().into_iter())?;
        let born_ms = self.born_ms(ledger.rowless().into_iter())?;
        let reading = Reading {
            through: Through::Files,
            proven: Proven::Journal,
            only_uid: None,
            witnessed: self.witnessed != Some(false),
        };
        let missing = self.missing;
        Ok(Outside { driver, driver_version, missing, born_ms, reading, ..Outside::default() })
    }
}

/// A moment of the boot clock on the wall clock of a moment of the same boot, in ms since 1970.
pub(crate) fn wall_ms(at: Moment, boot_ns: u64) -> Option<u64> {
    let before_us = at.stamp.boot.0.checked_sub(boot_ns)? / 1_000;
    Some(at.stamp.wall.0.checked_sub(before_us)? / 1_000)
}
