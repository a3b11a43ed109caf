//! Files that entries name, and periods whose bill a client wants to be fixed: looked at before they are entered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::request::{Reply, VERSION};
use crate::billing::JournalFiles;
use crate::journal::Digest;
use crate::journal::canon;
use crate::journal::entry::ClosedPeriod;
use crate::journal::store::{Files, StateDir};

/// Documents of one closing at most.
const DOCUMENTS_MAX: usize = 16;
/// Bytes of each of its names at most.
const NAME_MAX: usize = 128;

/// A file that entries name, in base64; null where it is not here.
pub(super) fn file(dir: &StateDir, sha256: &str) -> Reply {
    let digest = Digest::of_hex(sha256).ok_or("a digest has 64 hex digits")?;
    let files = Files::of_reader(dir).map_err(|error| error.to_string())?;
    let read = files.map(|files| files.read(digest)).transpose();
    let bytes = read.map_err(|error| error.to_string())?.flatten();
    let bytes = bytes.map(|bytes| STANDARD.encode(bytes));
    Ok(serde_json::json!({ "version": VERSION, "file": bytes }))
}

/// What a client wants to be entered, where it is of this journal and everything that it names is on the disk.
pub(super) fn look(dir: &StateDir, closed: &str, hash: &str) -> Result<Box<ClosedPeriod>, String> {
    let bytes = STANDARD.decode(closed).map_err(|error| error.to_string())?;
    let closed: ClosedPeriod = canon::decode(&bytes).map_err(|error| error.to_string())?;
    let names = [&closed.name, &closed.zone, &closed.by, &closed.share, &closed.version];
    let words = closed.documents.iter().map(|(word, _)| word);
    if names.into_iter().chain(words).any(|name| name.len() > NAME_MAX) {
        return Err(format!("a name in it has more than {NAME_MAX} bytes"));
    }
    if closed.documents.len() > DOCUMENTS_MAX || closed.documents.is_empty() {
        return Err(format!("a closing has 1 to {DOCUMENTS_MAX} documents"));
    }
    if closed.from >= closed.to {
        return Err("the period ends before it begins".to_owned());
    }
    let journal = JournalFiles::open_beside_writer(dir).map_err(|error| error.to_string())?;
    let through = journal.entry(closed.through).map_err(|error| error.to_string())?;
    if through.is_none_or(|entry| entry.hash.to_string() != hash) {
        return Err("it is of another journal than this daemon's".to_owned());
    }
    if journal.root_at(closed.through).root() != Some(closed.tree) {
        return Err("the root of the tree that it names is not that of its entries".to_owned());
    }
    let files = Files::of_reader(dir).map_err(|error| error.to_string())?;
    let digests = closed.documents.iter().map(|(_, digest)| *digest).chain(closed.prices);
    for digest in digests {
        let read = files.as_ref().map(|files| files.read(digest)).transpose();
        if read.map_err(|error| error.to_string())?.flatten().is_none() {
            return Err(format!("file {digest} that it names is not beside the journal"));
        }
    }
    Ok(Box::new(closed))
}
