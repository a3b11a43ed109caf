//! Where a journal is read: its files, or the daemon that writes it for whoever may not open them.

use super::Usage;
use super::place::Place;
use crate::billing::{JournalFiles, JournalSocket, Source};
use crate::daemon::ClientError;
use crate::journal::store::{StateDir, StoreError};

/// Neither the files nor the daemon could be asked.
#[derive(Debug, thiserror::Error)]
#[error("{files}; and {daemon}")]
struct NoSource {
    files: StoreError,
    daemon: ClientError,
}

/// Reads the journal of a place. `command` is what would be typed to ask the daemon by name.
///
/// # Errors
/// Where neither can be read; those of `read`.
pub(super) fn with_source<T>(
    place: &Place,
    command: &str,
    read: impl FnOnce(&mut dyn Source) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if place.names_socket() && place.names_state_dir() {
        let what = "--socket asks a daemon for its own journal; leave --state-dir out beside it";
        return Err(Usage(what.to_owned()).into());
    }
    if place.names_socket() {
        return read(&mut JournalSocket::at(&place.socket()?));
    }
    let files = match JournalFiles::open(&StateDir::at(place.state_dir()?)) {
        Ok(mut files) => return read(&mut files),
        Err(error) if error.is_denied() => error,
        Err(error) => return Err(error.into()),
    };
    let socket = place.socket()?;
    if place.names_state_dir() {
        // Whose daemon answers there is not known: it may write another journal.
        return Err(anyhow::anyhow!(
            "{files}; ask the daemon that writes it: gpu-ledger {command} --socket {}",
            socket.display()
        ));
    }
    read(&mut JournalSocket::at(&socket)).map_err(|error| match error.downcast::<ClientError>() {
        Ok(daemon @ (ClientError::Absent { .. } | ClientError::Denied { .. })) => {
            NoSource { files, daemon }.into()
        }
        Ok(daemon) => daemon.into(),
        Err(error) => error,
    })
}
