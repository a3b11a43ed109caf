//! The entries of a period, streamed by a thread with a reader of its own.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::request::{OTHER_USERS, Peer, VERSION};
use super::socket::write_all;
use crate::journal::canon;
use crate::journal::entry::{Change, Correction, Entry, Figures, OpenFigures};
use crate::journal::store::{Reader, StateDir, StoreError};
use crate::settlement::Account;
use crate::unit::Pid;

/// Lines that wait for the client.
const LINES_MAX: usize = 64;

/// Sends every entry that bears on the period, a line each, and one last line that says that this was all.
/// Nothing may be used before that last line.
pub(super) async fn send(
    stream: &UnixStream,
    dir: &StateDir,
    period: (u64, u64),
    peer: Peer,
    patience: Duration,
) -> std::io::Result<()> {
    let (lines, mut coming) = mpsc::channel::<String>(LINES_MAX);
    let dir = dir.clone();
    std::thread::Builder::new().name("journal-reader".to_owned()).spawn(move || {
        let last = match read(&dir, period, peer, &lines) {
            Ok(last) => last,
            Err(error) => json!({ "version": VERSION, "error": error.to_string() }).to_string(),
        };
        // The client may have gone.
        let _ = lines.blocking_send(last);
    })?;
    while let Some(mut line) = coming.recv().await {
        line.push('\n');
        timeout(patience, write_all(stream, line.as_bytes())).await??;
    }
    Ok(())
}

fn read(
    dir: &StateDir,
    (from_ms, to_ms): (u64, u64),
    peer: Peer,
    lines: &mpsc::Sender<String>,
) -> Result<String, StoreError> {
    let reader = Reader::open_beside_writer(dir)?;
    let mut failed = None;
    let read = reader.period(from_ms, to_ms, |entry| {
        // Nobody takes them any more, or one could not be written down: nothing further is sent.
        if failed.is_none() && !lines.is_closed() {
            match line(entry, peer) {
                Ok(line) => drop(lines.blocking_send(line)),
                Err(error) => failed = Some(error),
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let mut unresolved = Vec::new();
    for (seq, open) in read.end.unresolved {
        let open = seen_by(peer, open);
        unresolved.push(json!({ "seq": seq, "open": STANDARD.encode(canon::encode(&open)?) }));
    }
    let booked = read.end.head.booked.iter().filter(|_| peer.sees_all).map(
        |(gpu, sum)| json!({ "gpu": gpu, "count": sum.count, "held_ms": sum.held_ms.to_string() }),
    );
    let booked: Vec<_> = booked.collect();
    Ok(json!({
        "version": VERSION,
        "end": {
            "seq": read.end.head.seq,
            "hash": read.end.head.hash.to_string(),
            "booked": booked,
            "unresolved": unresolved,
            "base": read.base,
            "visited": read.visited,
            "sees_all": peer.sees_all,
        },
    })
    .to_string())
}

/// An entry's line: its number, and the canonical bytes of its moment and figures.
fn line(entry: Entry, peer: Peer) -> Result<String, canon::CanonError> {
    let figures = match entry.figures {
        Figures::Settlement(mut settlement) if !peer.sees(settlement.uid) => {
            settlement.account = Account::Unclassified(OTHER_USERS.into());
            (settlement.program, settlement.uid, settlement.pid) = (None, None, Pid(0));
            settlement.labels.clear();
            Figures::Settlement(settlement)
        }
        Figures::Open(open) => Figures::Open(Box::new(seen_by(peer, *open))),
        Figures::Correction(Correction { of, change: Change::Account(_) }) if !peer.sees_all => {
            let account = Account::Unclassified(OTHER_USERS.into());
            Figures::Correction(Correction { of, change: Change::Account(account) })
        }
        Figures::Mark(mut mark) if !peer.sees_all => {
            mark.note = None;
            Figures::Mark(mark)
        }
        figures => figures,
    };
    let body = canon::encode(&(entry.at, figures))?;
    Ok(json!({ "seq": entry.seq, "body": STANDARD.encode(body) }).to_string())
}

fn seen_by(peer: Peer, mut open: OpenFigures) -> OpenFigures {
    if !peer.sees(open.uid) {
        open.account = Account::Unclassified(OTHER_USERS.into());
        (open.program, open.uid, open.pid) = (None, None, Pid(0));
        open.labels.clear();
    }
    open
}
