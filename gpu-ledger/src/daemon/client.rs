//! Asking a daemon: one line there, one line back, or the many of a reading.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::request::VERSION;
use super::stream::{End, EntryLine, Line, StreamError};
use crate::billing::Why;
use crate::journal::chain::sha256;
use crate::journal::store::Extent;
use crate::journal::{Digest, Entry};
use crate::unit::WallUs;

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(75);
/// Bytes of one line of an answer.
const LINE_MAX: u64 = 64 << 20;

/// Why a daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nobody listens there.
    #[error(
        "no daemon answers at {}: {cause}; start it (`systemctl start gpu-ledger`), or name its \
         socket with --socket", path.display()
    )]
    Absent {
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It is there, and this user may not go there.
    #[error(
        "{} is not open to this user: its folder must let everybody in (mode 0755), as the unit makes it",
        path.display()
    )]
    Denied {
        /// Where.
        path: PathBuf,
    },
    /// It went away, or answers what is no answer.
    #[error("the daemon at {} gave no answer: {what}; see its log", path.display())]
    Broken {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Its answer broke off.
    #[error(
        "the daemon at {} broke off after {entries} entries: nothing of them is used; ask again, and \
         see its log", path.display()
    )]
    Cut {
        /// Where.
        path: PathBuf,
        /// Entries that came.
        entries: u64,
    },
    /// What it sent is not what it must be.
    #[error("the daemon at {} sent what cannot be used: {cause}", path.display())]
    Stream {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        cause: Box<StreamError>,
    },
    /// It said no.
    #[error("{0}")]
    Refused(String),
}

/// A daemon's socket.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    path: PathBuf,
    patience: Duration,
}

impl Client {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf(), patience: PATIENCE }
    }

    /// Waits no longer than this for each piece of an answer.
    pub(crate) const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How the daemon is.
    pub(crate) fn status(&self) -> Result<Value, ClientError> {
        let mut answer = self.ask(&json!({ "version": VERSION, "request": "status" }))?;
        Ok(answer.get_mut("status").map_or(Value::Null, Value::take))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks one thing.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, ClientError> {
        let mut stream = self.connect(request)?;
        let mut line = Vec::new();
        self.line(&mut stream, &mut line)?;
        let answer: Value = serde_json::from_slice(&line).map_err(|error| self.broken(&error))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(why) => Err(ClientError::Refused(why.to_owned())),
            None => Ok(answer),
        }
    }

    /// Asks for the entries that bear on a period of wall-clock milliseconds, `with_why` for what settlements
    /// rest on as well. What `take` was given is worth nothing unless this returns the end.
    pub(crate) fn rows<E: From<ClientError>>(
        &self,
        ((from_ms, to_ms), Extent { after, head }): ((u64, u64), Extent),
        with_why: bool,
        mut take: impl FnMut(Entry, bool, Option<Why>) -> Result<(), E>,
    ) -> Result<End, E> {
        let request = json!({
            "version": VERSION, "request": "rows", "from_ms": from_ms, "to_ms": to_ms, "why": with_why,
            "after": after, "head": head,
        });
        let mut stream = self.connect(&request)?;
        let (mut bytes, mut entries) = (Vec::new(), 0_u64);
        loop {
            bytes.clear();
            self.line(&mut stream, &mut bytes)?;
            if bytes.pop() != Some(b'\n') {
                return Err(ClientError::Cut { path: self.path.clone(), entries }.into());
            }
            let line: Line = serde_json::from_slice(&bytes).map_err(|error| self.broken(&error))?;
            match line {
                Line { error: Some(why), .. } => return Err(ClientError::Refused(why).into()),
                Line { end: Some(end), .. } if end.sent == entries => return Ok(end),
                Line { end: Some(end), .. } => {
                    let cause = StreamError::Count { sent: end.sent, taken: entries };
                    return Err(self.unusable(cause).into());
                }
                Line { entry: Some(line), .. } => {
                    entries = entries.saturating_add(1);
                    let (entry, proven) = line.entry().map_err(|cause| self.unusable(cause))?;
                    let why = line.why(&entry, proven).map_err(|cause| self.unusable(cause))?;
                    take(entry, proven, why)?;
                }
                Line { .. } => {
                    let what = "a line of it is neither an entry nor its end".to_owned();
                    return Err(ClientError::Broken { path: self.path.clone(), what }.into());
                }
            }
        }
    }

    /// Number of the last entry that was learnt at a moment or before it.
    pub(crate) fn head_at(&self, moment: WallUs) -> Result<Option<u64>, ClientError> {
        let request = json!({ "version": VERSION, "request": "head-at", "at_us": moment.0 });
        let answer = self.ask(&request)?;
        let head = answer.get("head").cloned().unwrap_or_default();
        serde_json::from_value(head).map_err(|error| self.broken(&error))
    }

    /// One entry by its number, as far as this reader may see it.
    pub(crate) fn entry(&self, seq: u64) -> Result<Option<Entry>, ClientError> {
        let mut answer =
            self.ask(&json!({ "version": VERSION, "request": "entry", "seq": seq }))?;
        let line = answer.get_mut("entry").map_or(Value::Null, Value::take);
        let line: Option<EntryLine> =
            serde_json::from_value(line).map_err(|error| self.broken(&error))?;
        let Some(line) = line else { return Ok(None) };
        let (entry, _) = line.entry().map_err(|cause| self.unusable(cause))?;
        if entry.seq == seq {
            Ok(Some(entry))
        } else {
            Err(self.unusable(StreamError::Other { seq }))
        }
    }

    /// A file that entries name; `None` where it is not there.
    pub(crate) fn file(&self, digest: Digest) -> Result<Option<Vec<u8>>, ClientError> {
        let request =
            json!({ "version": VERSION, "request": "file", "sha256": digest.to_string() });
        let answer = self.ask(&request)?;
        let Some(text) = answer.get("file").and_then(Value::as_str) else { return Ok(None) };
        let bytes = STANDARD.decode(text).map_err(|error| self.broken(&error))?;
        if sha256(&bytes) == digest {
            return Ok(Some(bytes));
        }
        let what = format!("what it sent is not the file {digest}");
        Err(ClientError::Broken { path: self.path.clone(), what })
    }

    /// Has a period's bill fixed. `hash`: of the last entry that it is made of.
    pub(crate) fn close(&self, closed: &[u8], hash: Digest) -> Result<(), ClientError> {
        let (closed, hash) = (STANDARD.encode(closed), hash.to_string());
        let request =
            json!({ "version": VERSION, "request": "close", "closed": closed, "hash": hash });
        self.ask(&request).map(drop)
    }

    /// Asks what settlements rest on, by their numbers. Those that this reader may not see are left out.
    pub(crate) fn why(&self, of: &[u64]) -> Result<Vec<(Entry, Why)>, ClientError> {
        let request = json!({ "version": VERSION, "request": "why", "of": of });
        let mut answer = self.ask(&request)?;
        let lines = answer.get_mut("why").map_or(Value::Null, Value::take);
        let lines: Vec<EntryLine> =
            serde_json::from_value(lines).map_err(|error| self.broken(&error))?;
        let read = lines.iter().map(|line| {
            let (entry, proven) = line.entry()?;
            let why = line.why(&entry, proven)?;
            Ok(why.map(|why| (entry, why)))
        });
        let read: Result<Vec<_>, StreamError> = read.filter_map(Result::transpose).collect();
        read.map_err(|cause| self.unusable(cause))
    }

    fn connect(&self, request: &Value) -> Result<BufReader<UnixStream>, ClientError> {
        let path = &self.path;
        let mut stream = UnixStream::connect(path).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::PermissionDenied => ClientError::Denied { path: path.clone() },
            _ => ClientError::Absent { path: path.clone(), cause },
        })?;
        let failed = |error: std::io::Error| self.broken(&error);
        stream.set_read_timeout(Some(self.patience)).map_err(failed)?;
        stream.set_write_timeout(Some(self.patience)).map_err(failed)?;
        stream.write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
        Ok(BufReader::new(stream))
    }

    /// One line, with its end where it has one.
    fn line(
        &self,
        stream: &mut BufReader<UnixStream>,
        line: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let read = stream.take(LINE_MAX).read_until(b'\n', line);
        read.map(drop).map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &dyn std::error::Error) -> ClientError {
        ClientError::Broken { path: self.path.clone(), what: error.to_string() }
    }

    fn unusable(&self, cause: StreamError) -> ClientError {
        ClientError::Stream { path: self.path.clone(), cause: Box::new(cause) }
    }
}
