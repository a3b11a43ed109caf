//! A daemon as a bill's source: it reads its journal for whoever may not open the files.
//!
//! Who sees all is sent every entry with its seal, and proves here that its bytes are those that were
//! sealed and that entries follow each other; that none was left out is the daemon's word. Who does not
//! is sent other users' rows without their names, and can prove nothing of them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Source, TakeWhy, Why};
use crate::bill::ledger::Ledger;
use crate::bill::report::{Head, Outside, Proven, Reading, Through, Tree};
use crate::daemon::{Client, ClientError, End, StreamError};
use crate::journal::chain::Recovered;
use crate::journal::store::Extent;
use crate::journal::{ChainError, Digest, Entry};
use crate::unit::{Span, WallUs};

/// Why the root of the tree is not known.
const NOT_TOLD: &str = "the daemon does not tell it";

/// The journal of the daemon that answers at a socket.
#[derive(Debug)]
pub struct JournalSocket {
    client: Client,
    end: Option<End>,
}

/// That entries follow each other, as far as neighbours were sent.
#[derive(Debug, Default)]
struct Links {
    last: Option<(u64, Digest)>,
    any_unproven: bool,
}

impl Links {
    fn follow(&mut self, entry: &Entry, proven: bool) -> Result<(), StreamError> {
        self.any_unproven |= !proven;
        if !proven {
            return Ok(());
        }
        if let Some((seq, hash)) = self.last
            && seq.checked_add(1) == Some(entry.seq)
            && hash != entry.previous
        {
            return Err(ChainError::Previous { seq: entry.seq }.into());
        }
        self.last = Some((entry.seq, entry.hash));
        Ok(())
    }

    /// The stream ends at the journal's head, which what is after the last mark always does.
    fn end(&self, seq: u64, hash: Digest) -> Result<(), StreamError> {
        match self.last {
            Some((last, of_last)) if last > seq || (last == seq && of_last != hash) => {
                Err(StreamError::End)
            }
            _ => Ok(()),
        }
    }
}

impl JournalSocket {
    /// Of the daemon at this socket. Nothing is asked yet.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { client: Client::at(path), end: None }
    }

    /// Hands over every entry, proven as far as this reader can, and returns where the journal ends.
    fn entries(
        &mut self,
        period: Span,
        (extent, with_why): (Extent, bool),
        take: TakeWhy<'_>,
    ) -> anyhow::Result<Recovered> {
        let unusable = |cause| ClientError::Stream {
            path: self.client.path().to_path_buf(),
            cause: Box::new(cause),
        };
        let mut links = Links::default();
        let period = (period.from_ms(), period.to_ms());
        // Whoever looks for the cause of an error finds that of the client, or of `take`.
        let end = self.client.rows((period, extent), with_why, |entry, proven, why| {
            links.follow(&entry, proven).map_err(unusable)?;
            take(&entry, why)
        })?;
        // Who sees all is sent seals, and nothing without one.
        if end.sees_all && links.any_unproven {
            return Err(unusable(StreamError::Unsealed { seq: end.seq }).into());
        }
        let recovered = end.recovered().map_err(unusable)?;
        // A daemon of before heads could be named tells of the end there is.
        if extent.head.is_some_and(|head| head != recovered.head.seq) {
            return Err(unusable(StreamError::End).into());
        }
        links.end(recovered.head.seq, recovered.head.hash).map_err(unusable)?;
        self.end = Some(end);
        Ok(recovered)
    }
}

impl Source for JournalSocket {
    fn read(&mut self, period: Span, extent: Extent, ledger: &mut Ledger) -> anyhow::Result<Head> {
        let asked = (extent, false);
        let recovered = self.entries(period, asked, &mut |entry, _| Ok(ledger.take(entry)?))?;
        ledger.finish(&recovered)?;
        let tree =
            self.end.as_ref().and_then(End::tree).map_or(Tree::Unknown(NOT_TOLD), Tree::Root);
        Ok(Head { seq: recovered.head.seq, hash: recovered.head.hash, tree })
    }

    fn head_at(&mut self, moment: WallUs) -> anyhow::Result<Option<u64>> {
        Ok(self.client.head_at(moment)?)
    }

    fn file(&mut self, digest: Digest) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(self.client.file(digest)?)
    }

    fn entry(&mut self, seq: u64) -> anyhow::Result<Option<Entry>> {
        Ok(self.client.entry(seq)?)
    }

    fn visit_with_why(&mut self, period: Span, take: TakeWhy<'_>) -> anyhow::Result<Recovered> {
        self.entries(period, (Extent::default(), true), take)
    }

    fn visit_entries(
        &mut self,
        period: Span,
        extent: Extent,
        take: &mut dyn FnMut(&Entry),
    ) -> anyhow::Result<Recovered> {
        self.entries(period, (extent, false), &mut |entry, _| {
            take(entry);
            Ok(())
        })
    }

    fn why_of(&mut self, of: &[(u64, Digest)]) -> anyhow::Result<BTreeMap<u64, Why>> {
        let visited: BTreeMap<u64, Digest> = of.iter().copied().collect();
        let seqs: Vec<u64> = visited.keys().copied().collect();
        let mut told = BTreeMap::new();
        for (entry, why) in self.client.why(&seqs)? {
            let seq = entry.seq;
            // The very entry, sealed where that one was.
            if visited.get(&seq) != Some(&entry.hash) {
                let (path, cause) = (self.client.path().to_path_buf(), StreamError::Other { seq });
                return Err(ClientError::Stream { path, cause: Box::new(cause) }.into());
            }
            told.insert(seq, why);
        }
        Ok(told)
    }

    fn outside(&mut self, _: &Ledger) -> anyhow::Result<Outside> {
        let Some(end) = self.end.take() else {
            anyhow::bail!("nothing was read yet; this is a bug, please report it");
        };
        let reading = Reading {
            through: Through::Daemon,
            proven: if end.sees_all { Proven::Entries } else { Proven::Nothing },
            only_uid: (!end.sees_all).then_some(end.uid),
            witnessed: end.witnessed,
        };
        Ok(Outside {
            driver: end.driver,
            driver_version: end.driver_version,
            missing: end.missing,
            born_ms: end.born_ms,
            reading,
            ..Outside::default()
        })
    }
}
