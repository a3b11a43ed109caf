//! Starting the user's command: as the user who asked, with nothing of ours.
//!
//! The command is started through this same binary (`__launch`), which becomes it: groups, user and
//! capabilities can then be given up between fork and exec without code in a forked child. The
//! statuses are those of env(1): 126 where it cannot be run, 127 where it is not found.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::argv::redact_word;
use crate::escape::escape;
use nix::unistd::{Uid, User, initgroups, setgid, setuid};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set};

/// The hidden word that makes this binary a launcher.
pub const LAUNCH_WORD: &str = "__launch";
/// The hidden word that makes it the known child of the start-up self-test.
pub const PROBE_WORD: &str = "__probe";

/// Exit status: found, but cannot be run (env(1)).
const STATUS_CANNOT_RUN: u8 = 126;
/// Exit status: not found (env(1)).
const STATUS_NOT_FOUND: u8 = 127;
/// Exit status: this product failed before the command ran (env(1)).
pub const STATUS_FAILED_BEFORE: u8 = 125;

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launcher itself could not be started.
    #[error("{program}: cannot be started through /proc/self/exe ({cause}); is /proc mounted?")]
    Launcher {
        /// The user's command.
        program: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The user that sudo names does not exist.
    #[error("user id {uid} (SUDO_UID) is not known here; give --as-root to run as root")]
    NoSuchUser {
        /// The id.
        uid: u32,
    },
}

/// Programs that this process has started: all of them, since there is no other door.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// How many programs this process has started.
#[must_use]
pub fn started() -> u64 {
    STARTED.load(Ordering::Acquire)
}

/// Starts `argv`, as `user` where one is given, with `environment` added to its own. The caller's stdin,
/// stdout and stderr are its own.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the product starts a program: the user's own"
)]
pub fn start(
    argv: &[OsString],
    user: Option<&User>,
    environment: &[(&str, OsString)],
) -> Result<Child, LaunchError> {
    let mut command = Command::new("/proc/self/exe");
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.arg0("gpu-ledger").arg(LAUNCH_WORD);
    match user {
        Some(user) => {
            command.arg(user.uid.to_string());
            command.env("HOME", &user.dir).env("SHELL", &user.shell);
            command.env("USER", &user.name).env("LOGNAME", &user.name);
        }
        None => {
            command.arg("-");
        }
    }
    let program =
        argv.first().map(|word| escape(&redact_word(word.as_encoded_bytes())).to_string());
    let child = command
        .args(argv)
        .spawn()
        .map_err(|cause| LaunchError::Launcher { program: program.unwrap_or_default(), cause })?;
    STARTED.fetch_add(1, Ordering::AcqRel);
    Ok(child)
}

/// The user behind sudo, from the value of `SUDO_UID`; `None` where sudo was used by root itself.
pub fn user_behind_sudo(uid: u32) -> Result<Option<User>, LaunchError> {
    if uid == 0 {
        return Ok(None);
    }
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => Ok(Some(user)),
        Ok(None) | Err(_) => Err(LaunchError::NoSuchUser { uid }),
    }
}

/// The launcher's own main: `__launch UID|- PROGRAM [ARGUMENT…]`. Returns only where exec failed.
#[must_use]
pub fn become_command(arguments: &[OsString]) -> ExitCode {
    let Some((user, [program, rest @ ..])) = arguments.split_first() else {
        complain("the launcher is for gpu-ledger's own use");
        return ExitCode::from(STATUS_FAILED_BEFORE);
    };
    if let Err(error) = give_up_privileges(user) {
        complain(&error.to_string());
        return ExitCode::from(STATUS_FAILED_BEFORE);
    }
    let error = exec(program, rest);
    // The user's own bytes, but the terminal may be another's: a log, a pager. A whole command in quotes is no command,
    // and may hold a secret.
    let shown = redact_word(program.as_encoded_bytes());
    let shown = escape(&shown);
    if error.kind() == std::io::ErrorKind::NotFound {
        complain(&format!("{shown}: no such command; check the name and PATH"));
        return ExitCode::from(STATUS_NOT_FOUND);
    }
    complain(&format!("{shown}: cannot be run: {error}"));
    ExitCode::from(STATUS_CANNOT_RUN)
}

#[expect(clippy::disallowed_methods, reason = "this process becomes the user's command")]
fn exec(program: &OsString, rest: &[OsString]) -> std::io::Error {
    Command::new(program).args(rest).exec()
}

fn give_up_privileges(user: &OsString) -> anyhow::Result<()> {
    if user != "-" {
        let uid: u32 = user.to_string_lossy().parse()?;
        let known = User::from_uid(Uid::from_raw(uid))?;
        let user = known.ok_or(LaunchError::NoSuchUser { uid })?;
        let name = std::ffi::CString::new(user.name)?;
        initgroups(&name, user.gid)?;
        setgid(user.gid)?;
        setuid(user.uid)?;
    }
    // Ambient capabilities (a unit's, or capsh's) would otherwise be handed on by exec.
    clear_ambient_capability_set()?;
    if !Uid::effective().is_root() {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)?;
    }
    Ok(())
}

/// The launcher has no report to put its complaint in: stderr is the command's own by now.
fn complain(text: &str) {
    // Nothing can be done where even stderr is closed.
    let _ = writeln!(std::io::stderr(), "gpu-ledger: {text}");
}
