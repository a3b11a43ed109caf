//! What a client asks, and who it is.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::oneshot;

use crate::journal::entry::ClosedPeriod;
use crate::unit::GpuUuid;

/// The version of the requests and answers.
pub(crate) const VERSION: u32 = 1;

/// One request: a JSON object on a line.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum Request {
    /// How everything is.
    Status,
    /// What holds a GPU now.
    Live,
    /// The entries that bear on a period of wall-clock milliseconds.
    Rows {
        /// From.
        from_ms: u64,
        /// Up to, exclusive.
        to_ms: u64,
        /// Of settlements that this client may see also with what they rest on.
        #[serde(default)]
        why: bool,
        /// None up to this number.
        #[serde(default)]
        after: u64,
        /// As the journal stood when this entry was its last.
        #[serde(default)]
        head: Option<u64>,
    },
    /// Number of the last entry that was learnt at a moment or before it.
    HeadAt {
        /// Microseconds since 1970.
        at_us: u64,
    },
    /// One entry.
    Entry {
        /// Its number.
        seq: u64,
    },
    /// What settlements rest on, by the numbers of their entries.
    Why {
        /// At most [`crate::billing::WHY_MAX`].
        of: Vec<u64>,
    },
    /// Have it entered up to when everything was seen, before somebody reads up to this moment. Asked by
    /// the socket alone.
    #[serde(skip)]
    Freshen {
        /// Up to when the reading goes.
        to_ms: u64,
    },
    /// Give handles back.
    Release {
        /// Of one GPU; of all where none is named.
        #[serde(default)]
        gpu: Option<GpuUuid>,
        /// For so long.
        #[serde(default)]
        for_ms: Option<u64>,
        /// Take them up again at once.
        #[serde(default)]
        end: bool,
    },
    /// Tell a file that entries name.
    File {
        /// Its digest, in hex.
        sha256: String,
    },
    /// Fix a period's bill.
    Close {
        /// Canonical bytes of what is to be entered, in base64.
        closed: String,
        /// Hash of the last entry that the bill is made of, in hex: whose journal is meant.
        hash: String,
    },
    /// Enter it. Asked by the socket alone.
    #[serde(skip)]
    Enter {
        /// What was looked at.
        closed: Box<ClosedPeriod>,
    },
    /// Delete texts of arguments.
    Redact {
        /// Their commitments, in hex; at most [`REDACT_MAX`].
        commitments: Vec<String>,
    },
    /// Let another key sign checkpoints.
    RotateKey {
        /// Nobody has the one before any more.
        #[serde(default)]
        lost: bool,
    },
    /// Remember this moment.
    Mark {
        /// Under these words.
        note: String,
    },
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why a line is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// It is no JSON object of that form.
    #[error("no request: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Of another version.
    #[error("version {0} is not spoken here; this daemon speaks {VERSION}")]
    Version(u32),
}

impl Request {
    pub(super) fn parse(line: &[u8]) -> Result<Self, RequestError> {
        let Versioned { version } = serde_json::from_slice(line)?;
        if version != VERSION {
            return Err(RequestError::Version(version));
        }
        Ok(serde_json::from_slice(line)?)
    }

    /// Whether only those may ask it who see everything.
    pub(super) const fn is_privileged(&self) -> bool {
        matches!(
            self,
            Self::Release { .. }
                | Self::Mark { .. }
                | Self::Redact { .. }
                | Self::RotateKey { .. }
                | Self::Close { .. }
                | Self::File { .. }
        )
    }
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    /// The effective user when it connected, as the kernel says.
    pub(super) uid: u32,
    /// Root, the daemon's own user, or a member of the group.
    pub(super) sees_all: bool,
}

impl Peer {
    /// Whether a line of this user is shown as it is.
    pub(super) fn sees(self, uid: Option<u32>) -> bool {
        self.sees_all || uid == Some(self.uid)
    }
}

/// The account of what a client must not see.
pub(super) const OTHER_USERS: &str = "other users";
/// How long handles are given back where nobody says.
pub(crate) const RELEASE_DEFAULT: Duration = Duration::from_mins(10);
/// The longest time that they are.
pub(crate) const RELEASE_MAX: Duration = Duration::from_hours(24);
/// Texts that are deleted with one request: those of a line have room for so many.
pub(crate) const REDACT_MAX: usize = 32;
/// Bytes of a note.
pub(crate) const NOTE_MAX: usize = 512;

/// What the loop answers: a JSON object, or why not.
pub(super) type Reply = Result<serde_json::Value, String>;

/// A request on its way to the loop.
pub(super) struct Call {
    pub(super) request: Request,
    pub(super) peer: Peer,
    pub(super) reply: oneshot::Sender<Reply>,
}
