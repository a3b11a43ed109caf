//! A daemon as a bill's source: it reads its journal for whoever may not open the files.
//!
//! Who sees all is sent every entry with its seal, and proves here that its bytes are those that were
//! sealed and that entries follow each other; that none was left out is the daemon's word. Who does not
//! is sent other users' rows without their names, and can prove nothing of them.

use std::path::Path;

use super::Source;
use crate::bill::BillError;
use crate::bill::ledger::Ledger;
use crate::bill::report::{Head, Outside, Proven, Reading, Through};
use crate::daemon::{Client, ClientError, End, StreamError};
use crate::journal::{ChainError, Digest};
use crate::unit::Span;

/// The journal of the daemon that answers at a socket.
#[derive(Debug)]
pub struct JournalSocket {
    client: Client,
    end: Option<End>,
}

/// What can go wrong with a line.
#[derive(Debug, thiserror::Error)]
enum RowsError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Bill(#[from] BillError),
}

/// That entries follow each other, as far as neighbours were sent.
#[derive(Debug, Default)]
struct Links {
    last: Option<(u64, Digest)>,
    any_unproven: bool,
}

impl Links {
    fn follow(&mut self, entry: &crate::journal::Entry, proven: bool) -> Result<(), StreamError> {
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
}

impl Source for JournalSocket {
    fn read(&mut self, period: Span, ledger: &mut Ledger) -> anyhow::Result<Head> {
        let unusable = |cause| ClientError::Stream {
            path: self.client.path().to_path_buf(),
            cause: Box::new(cause),
        };
        let mut links = Links::default();
        let end = self.client.rows((period.from_ms(), period.to_ms()), |entry, proven| {
            links.follow(&entry, proven).map_err(unusable)?;
            ledger.take(&entry)?;
            Ok::<(), RowsError>(())
        });
        // Whoever looks for the cause looks for these.
        let end = end.map_err(|error| match error {
            RowsError::Client(error) => anyhow::Error::new(error),
            RowsError::Bill(error) => anyhow::Error::new(error),
        })?;
        // Who sees all is sent seals, and nothing without one.
        if end.sees_all && links.any_unproven {
            return Err(unusable(StreamError::Unsealed { seq: end.seq }).into());
        }
        let recovered = end.recovered().map_err(unusable)?;
        let head = Head { seq: recovered.head.seq, hash: recovered.head.hash };
        links.end(head.seq, head.hash).map_err(unusable)?;
        ledger.finish(&recovered)?;
        self.end = Some(end);
        Ok(head)
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
