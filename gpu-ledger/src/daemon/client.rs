//! Asking a daemon: one line there, one line back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(75);
/// Bytes of an answer.
const ANSWER_MAX: u64 = 64 << 20;

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
    /// It is there, and only root and its group may ask it.
    #[error("{} is not open to this user: become root, or join the daemon's group", path.display())]
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
    /// It said no.
    #[error("{0}")]
    Refused(String),
}

/// A daemon's socket.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    path: PathBuf,
}

impl Client {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    /// Asks one thing.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, ClientError> {
        let path = self.path.clone();
        let mut stream = UnixStream::connect(&path).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::PermissionDenied => ClientError::Denied { path: path.clone() },
            _ => ClientError::Absent { path: path.clone(), cause },
        })?;
        let broken = |what: String| ClientError::Broken { path: path.clone(), what };
        let failed = |error: std::io::Error| broken(error.to_string());
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut line).map_err(failed)?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| broken(error.to_string()))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(why) => Err(ClientError::Refused(why.to_owned())),
            None => Ok(answer),
        }
    }
}
