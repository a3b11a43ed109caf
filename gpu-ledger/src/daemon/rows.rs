//! The entries of a period, streamed by a thread with a reader of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::fold::Fold;
use super::request::{Peer, Reply, VERSION};
use super::socket::write_all;
use super::stream::{Beside, End, EntryLine, Line};
use crate::billing::JournalFiles;
use crate::journal::canon::CanonError;
use crate::journal::entry::{Entry, EpochEdge, Figures, OpenKind};
use crate::journal::store::{Extent, StateDir, StoreError};
use crate::unit::{GpuUuid, WallUs};

/// Lines that wait for the client.
const LINES_MAX: usize = 64;
/// A reading keeps the write-ahead log from being written back: no client draws it out for longer.
const READING_TIME_MAX: Duration = Duration::from_mins(2);

/// Why the stream ends early.
#[derive(Debug, thiserror::Error)]
enum RowsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Canon(#[from] CanonError),
    #[error("a line cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Entries that bear on these milliseconds.
    pub(super) period: (u64, u64),
    /// Of this part of the journal.
    pub(super) extent: Extent,
    /// Settlements with what they rest on.
    pub(super) why: bool,
}

/// Sends every entry that bears on the period, a line each, and one last line that says that this was all.
/// Nothing may be used before that last line. `place`: given back when the journal is closed again.
pub(super) async fn send(
    stream: &UnixStream,
    dir: &StateDir,
    wanted: Wanted,
    peer: Peer,
    (place, patience): (Vec<OwnedSemaphorePermit>, Duration),
) -> std::io::Result<()> {
    let (lines, mut coming) = mpsc::channel::<String>(LINES_MAX);
    let dir = dir.clone();
    std::thread::Builder::new().name("journal-reader".to_owned()).spawn(move || {
        let last = match read(&dir, wanted, peer, &lines) {
            Ok(last) => last,
            Err(error) => {
                serde_json::json!({ "version": VERSION, "error": error.to_string() }).to_string()
            }
        };
        // The client may have gone.
        let _ = lines.blocking_send(last);
        drop(place);
    })?;
    let all = async {
        while let Some(mut line) = coming.recv().await {
            line.push('\n');
            timeout(patience, write_all(stream, line.as_bytes())).await??;
        }
        Ok(())
    };
    timeout(READING_TIME_MAX, all).await?
}

fn read(
    dir: &StateDir,
    wanted: Wanted,
    peer: Peer,
    lines: &mpsc::Sender<String>,
) -> Result<String, RowsError> {
    let journal = JournalFiles::open_beside_writer(dir)?;
    let fold = Fold::new(peer);
    let mut sending = Sending { why: wanted.why, ..Sending::default() };
    let read = journal.visit(wanted.period, wanted.extent, &mut |entry| {
        // Nobody takes them any more, or one could not be written down: nothing further is sent.
        if sending.failed.is_none() && !lines.is_closed() {
            match sending.line(entry, &fold, peer, &journal) {
                Ok(line) => drop(lines.blocking_send(line)),
                Err(error) => sending.failed = Some(error),
            }
        }
    })?;
    if let Some(error) = sending.failed {
        return Err(error);
    }
    for (seq, open) in &read.end.unresolved {
        if open.kind == OpenKind::NoDriverRow && peer.sees(open.uid) {
            sending.rowless.insert(*seq);
        }
    }
    let (driver, driver_version) = journal.driver(sending.epochs.values().copied())?;
    let beside = Beside {
        sent: sending.sent,
        missing: journal.missing(),
        witnessed: read.witnessed != Some(false),
        sees_all: peer.sees_all,
        uid: peer.uid,
        driver,
        driver_version,
        tree: journal.root_at(read.end.head.seq).root(),
        born_ms: journal.born_ms(sending.rowless.iter().copied())?,
    };
    let unresolved = read.end.unresolved.iter().map(|(seq, open)| (*seq, fold.open(open.clone())));
    let end = End::of(&read.end, unresolved, beside)?;
    let line = Line { version: Some(VERSION), end: Some(end), ..Line::default() };
    Ok(serde_json::to_string(&line)?)
}

/// What settlements rest on, as far as this client may see them: an answer in one piece.
pub(super) fn why(dir: &StateDir, of: &[u64], peer: Peer) -> Reply {
    let lines = || -> Result<Vec<EntryLine>, RowsError> {
        let journal = JournalFiles::open_beside_writer(dir)?;
        let mut lines = Vec::new();
        for seq in of {
            if let Some(entry) = journal.entry(*seq)?
                && let Figures::Settlement(settlement) = &entry.figures
                && peer.sees(settlement.uid)
                && let Some(why) = journal.why(*seq)?
            {
                lines.push(EntryLine::of(&entry, peer.sees_all)?.with(&why)?);
            }
        }
        Ok(lines)
    };
    let lines = lines().map_err(|error| error.to_string())?;
    Ok(serde_json::json!({ "version": VERSION, "why": lines }))
}

/// Number of the last entry that was learnt at a moment or before it.
pub(super) fn head_at(dir: &StateDir, moment: WallUs) -> Reply {
    let found = JournalFiles::open_beside_writer(dir)
        .and_then(|journal| journal.last_learnt_by(moment))
        .map_err(|error| error.to_string())?;
    Ok(serde_json::json!({ "version": VERSION, "head": found }))
}

/// One entry, as this client may see it.
pub(super) fn entry(dir: &StateDir, seq: u64, peer: Peer) -> Reply {
    let line = || -> Result<Option<EntryLine>, RowsError> {
        let journal = JournalFiles::open_beside_writer(dir)?;
        let Some(entry) = journal.entry(seq)? else { return Ok(None) };
        let entry = Fold::new(peer).entry(entry, |of| journal.uid_of(of))?;
        Ok(Some(EntryLine::of(&entry, peer.sees_all)?))
    };
    let line = line().map_err(|error| error.to_string())?;
    Ok(serde_json::json!({ "version": VERSION, "entry": line }))
}

/// What is remembered of the entries on their way.
#[derive(Default)]
struct Sending {
    why: bool,
    sent: u64,
    /// Number of each GPU's last epoch: its evidence says which driver was asked.
    epochs: BTreeMap<GpuUuid, u64>,
    /// Numbers of holders without a row: their evidence says how old they are.
    rowless: BTreeSet<u64>,
    failed: Option<RowsError>,
}

impl Sending {
    fn line(
        &mut self,
        entry: &Entry,
        fold: &Fold,
        peer: Peer,
        journal: &JournalFiles,
    ) -> Result<String, RowsError> {
        match &entry.figures {
            Figures::Epoch(epoch) if matches!(epoch.edge, EpochEdge::Began { .. }) => {
                self.epochs.insert(epoch.gpu.clone(), entry.seq);
            }
            Figures::Open(open) if open.kind == OpenKind::NoDriverRow && peer.sees(open.uid) => {
                self.rowless.insert(entry.seq);
            }
            _ => {}
        }
        let why = match &entry.figures {
            Figures::Settlement(settlement) if self.why && peer.sees(settlement.uid) => {
                journal.why(entry.seq)?
            }
            _ => None,
        };
        let entry = fold.entry(entry.clone(), |of| journal.uid_of(of))?;
        let entry = EntryLine::of(&entry, peer.sees_all)?;
        let entry = Some(match why {
            Some(why) => entry.with(&why)?,
            None => entry,
        });
        self.sent = self.sent.saturating_add(1);
        Ok(serde_json::to_string(&Line { entry, ..Line::default() })?)
    }
}
