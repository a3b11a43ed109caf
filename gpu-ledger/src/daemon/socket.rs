//! The daemon's socket: who is who, and what one connection may cost.
//!
//! Every user may connect; what they see and may do the kernel's word on who they are decides
//! (`SO_PEERCRED`), not the file's mode. A connection asks one thing and gets its answer. Every wait has a
//! deadline and every buffer a bound, so that whoever connects can hold up a place here for some seconds,
//! or a reading of the journal for some minutes, and nothing else.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::closing;
use super::places::{Places, is_own};
use super::request::{Call, Peer, Reply, Request, VERSION};
use super::rows;
use crate::billing::WHY_MAX;
use crate::journal::store::{Extent, StateDir};
use crate::unit::WallUs;

/// Mode of the socket: everybody may connect.
const SOCKET_MODE: u32 = 0o666;
/// Bytes of a request.
const REQUEST_MAX: usize = 4_096;
/// How long a client may take to say what it wants, and to take each piece of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the loop may take to answer; giving handles back waits for driver calls.
const ANSWER_PATIENCE: Duration = Duration::from_mins(1);
/// How long a place rests before somebody else than root or the daemon's user has it again: with their few
/// places nobody asks so often that the loop has no time for anything else.
const PLACE_REST: Duration = Duration::from_millis(100);
/// How long a reading waits for a mark that says up to now: a read of every GPU, and a commit.
const FRESHEN_PATIENCE: Duration = Duration::from_secs(3);
/// Requests that wait for the loop.
pub(super) const CALLS_MAX: usize = 16;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Another daemon answers there.
    #[error("{}: another daemon answers there; give each its own with --socket", path.display())]
    Taken {
        /// Where.
        path: PathBuf,
    },
    /// Something that is no socket lies there.
    #[error("{}: no socket of ours; move it away, or name another place with --socket", path.display())]
    Strange {
        /// Where.
        path: PathBuf,
    },
    /// It could not be made.
    #[error("{}: {cause}; make its folder, or name another place with --socket", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// The socket, listening. Dropping it removes it.
pub(super) struct Socket {
    path: PathBuf,
    inode: u64,
}

/// What every connection needs.
#[derive(Clone)]
struct Shared {
    calls: mpsc::Sender<Call>,
    group: Arc<Mutex<String>>,
    dir: StateDir,
    places: Arc<Places>,
}

impl Socket {
    /// Listens, and hands what is asked to the loop.
    pub(super) fn listen(
        path: &Path,
        group: Arc<Mutex<String>>,
        dir: StateDir,
        calls: mpsc::Sender<Call>,
    ) -> Result<Self, SocketError> {
        let failed = |cause| SocketError::Io { path: path.to_path_buf(), cause };
        make_way(path)?;
        let listener = bind_narrow(path).map_err(failed)?;
        let name = group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tell_of_no_group(&name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))
            .map_err(failed)?;
        let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
        let places = Arc::new(Places::default());
        tokio::spawn(serve(listener, Shared { calls, group, dir, places }));
        Ok(Self { path: path.to_path_buf(), inode })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Only our own: another daemon may have taken the place.
        let same = std::fs::symlink_metadata(&self.path).is_ok_and(|now| now.ino() == self.inode);
        if same && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the socket was not removed");
        }
    }
}

/// Removes a socket that nobody listens at any more.
fn make_way(path: &Path) -> Result<(), SocketError> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(SocketError::Io { path: path.to_path_buf(), cause }),
    };
    if !kind.is_socket() {
        return Err(SocketError::Strange { path: path.to_path_buf() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
                .map_err(|cause| SocketError::Io { path: path.to_path_buf(), cause })
        }
        _ => Err(SocketError::Taken { path: path.to_path_buf() }),
    }
}

/// Binds with no right for anybody else. The mask is the whole process's: what other threads make meanwhile is
/// narrower for it, never wider.
fn bind_narrow(path: &Path) -> std::io::Result<UnixListener> {
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound
}

/// A group that is not there has no members, which is worth a word.
pub(super) fn tell_of_no_group(name: &str) {
    match nix::unistd::Group::from_name(name) {
        Ok(Some(_)) => {}
        Ok(None) => tracing::warn!(group = name, "no such group: root and this user alone see all"),
        Err(error) => tracing::warn!(%error, group = name, "the group cannot be looked up"),
    }
}

async fn serve(listener: UnixListener, shared: Shared) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // With every place of this user taken it is closed at once.
                let Ok(credentials) = stream.peer_cred() else { continue };
                let Some(place) = shared.places.connection(credentials.uid()) else { continue };
                let shared = shared.clone();
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, shared).await {
                        tracing::debug!(%error, "a client was given up");
                    }
                    if !is_own(credentials.uid()) {
                        tokio::time::sleep(PLACE_REST).await;
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, say: others give theirs back.
                tracing::warn!(%error, "no client can be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, shared: Shared) -> std::io::Result<()> {
    let credentials = stream.peer_cred()?;
    let line = timeout(PATIENCE, read_line(&stream)).await??;
    let request = match line.map(|line| Request::parse(&line)) {
        None => return refuse(&stream, "the request is too long").await,
        Some(Err(error)) => return refuse(&stream, &error.to_string()).await,
        Some(Ok(request)) => request,
    };
    let group = shared.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (uid, gid) = (credentials.uid(), credentials.gid());
    // A lookup of users may go over a network.
    let named = group.clone();
    let sees_all = tokio::task::spawn_blocking(move || sees_all(uid, gid, &named));
    let sees_all = timeout(PATIENCE, sees_all).await?.unwrap_or(false);
    let peer = Peer { uid, sees_all };
    if request.is_privileged() && !peer.sees_all {
        return refuse(&stream, &may_not(&group)).await;
    }
    if let Request::Rows { from_ms, to_ms, why, after, head } = request {
        let Some(place) = shared.places.reading(peer, PATIENCE).await else {
            return refuse(&stream, "the journal is being read for others; ask again").await;
        };
        // Where the loop has no time for it, the bill says up to when the last mark speaks.
        if head.is_none() {
            let _ = ask(&shared, Request::Freshen { to_ms }, peer, FRESHEN_PATIENCE).await;
        }
        let extent = Extent { after, head };
        let wanted = rows::Wanted { period: (from_ms, to_ms), extent, why };
        return rows::send(&stream, &shared.dir, wanted, peer, (place, PATIENCE)).await;
    }
    let answer = match request {
        Request::Why { of } if of.len() > WHY_MAX => {
            Err(format!("of {} settlements at once; ask for {WHY_MAX} at most", of.len()))
        }
        Request::Why { of } => read_for(&shared, peer, move |dir| rows::why(dir, &of, peer)).await,
        Request::HeadAt { at_us } => {
            read_for(&shared, peer, move |dir| rows::head_at(dir, WallUs(at_us))).await
        }
        Request::Entry { seq } => {
            read_for(&shared, peer, move |dir| rows::entry(dir, seq, peer)).await
        }
        Request::File { sha256 } => {
            read_for(&shared, peer, move |dir| closing::file(dir, &sha256)).await
        }
        Request::Close { closed, hash } => {
            let looked = read_for(&shared, peer, move |dir| closing::look(dir, &closed, &hash));
            match looked.await {
                Ok(closed) => ask(&shared, Request::Enter { closed }, peer, ANSWER_PATIENCE).await,
                Err(why) => Err(why),
            }
        }
        request => ask(&shared, request, peer, ANSWER_PATIENCE).await,
    };
    match answer {
        Ok(answer) => send(&stream, &answer).await,
        Err(why) => refuse(&stream, &why).await,
    }
}

/// What is read of the journal in one piece, by a thread of its own.
async fn read_for<T: Send + 'static>(
    shared: &Shared,
    peer: Peer,
    read: impl FnOnce(&StateDir) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let Some(place) = shared.places.reading(peer, PATIENCE).await else {
        return Err("the journal is being read for others; ask again".to_owned());
    };
    let dir = shared.dir.clone();
    let read = tokio::task::spawn_blocking(move || {
        let told = read(&dir);
        drop(place);
        told
    });
    read.await.unwrap_or_else(|error| Err(format!("the journal was not read: {error}")))
}

/// What a client is told that may not do what it asks for.
fn may_not(group: &str) -> String {
    format!(
        "only root and members of the daemon's group ({group}) may do that: run it under sudo, or as root: \
         usermod -aG {group} USER, and log in again"
    )
}

/// Asks the loop.
async fn ask(shared: &Shared, request: Request, peer: Peer, patience: Duration) -> Reply {
    let (reply, answered) = oneshot::channel();
    let call = Call { request, peer, reply };
    if shared.calls.try_send(call).is_err() {
        return Err("too many ask at once; ask again".to_owned());
    }
    match timeout(patience, answered).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => Err("the daemon ends".to_owned()),
        Err(_) => Err("the daemon had no time for it; ask again, and see its log".to_owned()),
    }
}

/// One line; `None` where it is too long. What ends without a line end is a line.
async fn read_line(stream: &UnixStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut piece = [0; 512];
    loop {
        let length = read_some(stream, &mut piece).await?;
        let came = piece.get(..length).unwrap_or(&[]);
        if let Some(end) = came.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(came.get(..end).unwrap_or(&[]));
            return Ok((line.len() <= REQUEST_MAX).then_some(line));
        }
        line.extend_from_slice(came);
        if line.len() > REQUEST_MAX {
            return Ok(None);
        }
        if length == 0 {
            return Ok(Some(line));
        }
    }
}

async fn refuse(stream: &UnixStream, why: &str) -> std::io::Result<()> {
    send(stream, &serde_json::json!({ "version": VERSION, "error": why })).await
}

async fn send(stream: &UnixStream, answer: &serde_json::Value) -> std::io::Result<()> {
    let mut line = answer.to_string();
    line.push('\n');
    timeout(PATIENCE, write_all(stream, line.as_bytes())).await??;
    Ok(())
}

async fn read_some(stream: &UnixStream, piece: &mut [u8]) -> std::io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(piece) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

pub(super) async fn write_all(stream: &UnixStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or(&[]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Root, the daemon's own user, and members of the group.
fn sees_all(uid: u32, gid: u32, group: &str) -> bool {
    if is_own(uid) {
        return true;
    }
    let Ok(Some(group)) = nix::unistd::Group::from_name(group) else { return false };
    if gid == group.gid.as_raw() {
        return true;
    }
    let Ok(Some(user)) = nix::unistd::User::from_uid(uid.into()) else { return false };
    user.gid == group.gid || group.mem.contains(&user.name)
}
