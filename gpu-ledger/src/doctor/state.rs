//! The journal's folder: what it lies on, who can write it, how much fits.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{statfs, statvfs};
use serde_json::Value;

use super::{Area, Check, Status};
use crate::clock::Clock;
use crate::config::{Config, RULES_DEFAULT, Rules, RulesError};
use crate::daemon::{Client, ClientError};
use crate::naming::{AskError, Question, ask};
use crate::unit::Ms;

/// Below this a day of a busy host does not fit, nor the room that a full disk is told from.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// How long a daemon may take to say how it is.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Below this somebody should look.
const FREE_BYTES_LOW: u64 = 1 << 30;

/// What a file system means for a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ground {
    /// A local disk.
    Firm,
    /// Shared between hosts: SQLite's write-ahead log needs memory that all its readers share, and locks
    /// that hold (sqlite.org/wal.html).
    Network(&'static str),
    /// Gone with the machine's or the container's next start.
    Fleeting(&'static str),
    /// Anything may be behind it.
    Foreign(&'static str),
}

/// By the magic numbers of statfs(2) (`include/uapi/linux/magic.h` and the file systems' own sources).
const fn ground_of(magic: i64) -> Ground {
    match magic & 0xffff_ffff {
        0x6969 => Ground::Network("NFS"),
        0x0bd0_0bd0 => Ground::Network("Lustre"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Ground::Network("SMB"),
        0x00c3_6400 => Ground::Network("Ceph"),
        0x4750_4653 => Ground::Network("GPFS"),
        0x5346_414f | 0x6b41_4653 => Ground::Network("AFS"),
        0x0102_1997 => Ground::Network("9P"),
        0x1983_0326 => Ground::Network("BeeGFS"),
        0x0102_1994 => Ground::Fleeting("tmpfs"),
        0x8584_58f6 => Ground::Fleeting("ramfs"),
        0x794c_7630 => Ground::Fleeting("overlayfs"),
        0x6573_5546 => Ground::Foreign("FUSE"),
        _ => Ground::Firm,
    }
}

/// Everything about the folder. Nothing is made in it.
pub(super) fn checks(state_dir: &Path) -> Vec<Check> {
    let mut checks = vec![folder(state_dir)];
    match nearest_existing(state_dir) {
        Ok(place) => {
            checks.push(file_system(&place));
            checks.push(free_space(&place));
        }
        Err(check) => checks.push(*check),
    }
    checks
}

/// Whether a daemon answers at this socket, which journal it writes, and which rules it goes by.
pub(super) fn daemon(config: &Config) -> Vec<Check> {
    let asked = Client::at(&config.socket.path).with_patience(ANSWER_PATIENCE).status();
    let rules = match &asked {
        Ok(status) => rules_in_force(status),
        Err(_) => rules_of(config),
    };
    let checkpoints = asked.as_ref().ok().map(checkpoints);
    let mut checks = vec![answering(&config.socket.path, asked), rules];
    checks.extend(checkpoints);
    checks
}

/// Whether the journal's tree is signed, and whether anybody out of reach of this host's root has that.
fn checkpoints(status: &Value) -> Check {
    let check = "checkpoints";
    let text = |path: &str| status.pointer(path).and_then(Value::as_str);
    let number = |path: &str| status.pointer(path).and_then(Value::as_u64);
    let amiss = |status, cause: String| Check::new(Area::State, check, status, cause);
    if let Some(why) = text("/checkpoint/refused") {
        return amiss(Status::Missing, format!("nothing is signed: {why}"))
            .with_remedy("see what was changed: gpu-ledger journal check");
    }
    if let Some(why) = text("/checkpoint/unknown") {
        return amiss(Status::Unknown, format!("nothing is signed: {why}"))
            .with_remedy("see its log: journalctl -u gpu-ledger");
    }
    let key = text("/checkpoint/key_id").unwrap_or("unknown");
    let uncovered = number("/checkpoint/uncovered");
    let (Some(size), Some(uncovered)) = (number("/checkpoint/size"), uncovered) else {
        return amiss(Status::Unknown, format!("none was signed yet by key {key}"))
            .with_remedy("wait a minute; see its log: journalctl -u gpu-ledger");
    };
    let age =
        number("/checkpoint/age_ms").map_or_else(|| "unknown".to_owned(), |ms| Ms(ms).to_string());
    let found = format!("key {key} signed {size} entries {age} ago, {uncovered} came since");
    let is_on = |name: &str| {
        let of = |part: &str| status.pointer(&format!("/checkpoint/anchors/{name}/{part}"));
        of("on").and_then(Value::as_bool) == Some(true) && of("lack") == Some(&Value::Null)
    };
    let on: Vec<&str> = [("syslog", "the system's log"), ("file", "the file of checkpoints")]
        .into_iter()
        .filter(|(name, _)| is_on(name))
        .map(|(_, words)| words)
        .collect();
    if on.is_empty() {
        let cause = format!(
            "{found}; no outside anchor is on, so this host's root can rewrite all of it unseen"
        );
        return amiss(Status::Warn, cause).with_remedy(
            "run a system log, or name audit.checkpoint_file; and keep copies of checkpoints elsewhere",
        );
    }
    Check::ok(Area::State, check, format!("{found}; they go to {}", on.join(" and ")))
}

/// The rules that a daemon goes by, and whether it refused others.
fn rules_in_force(status: &Value) -> Check {
    let check = "rules";
    let text = |path: &str| status.pointer(path).and_then(Value::as_str);
    let number = |path: &str| status.pointer(path).and_then(Value::as_u64);
    let Some(since) = text("/rules/since") else {
        let cause = "the daemon that answers is of another release and does not tell its rules";
        return Check::new(Area::State, check, Status::Unknown, cause)
            .with_remedy("systemctl restart gpu-ledger");
    };
    let count = number("/rules/rules").map_or_else(String::new, |count| count.to_string());
    let found = match text("/rules/path") {
        Some(path) => format!("{count} of {path} in force since {since}"),
        None => format!("none in force since {since}: accounts go by where a process ran"),
    };
    let amiss = |cause: String| Check::new(Area::State, check, Status::Warn, cause);
    if let Some(at) = text("/reload_refused/at") {
        let why = text("/reload_refused/error").unwrap_or("why is told to root and its group");
        let cause = format!("{found}; the reload of {at} was refused: {why}");
        // What the files say is not in force, which a status says with its exit status too.
        return Check::new(Area::State, check, Status::Missing, cause)
            .with_remedy("correct the file, then: systemctl reload gpu-ledger");
    }
    let listed = status.pointer("/rules/shadowed").and_then(Value::as_array).map_or(0, Vec::len);
    let more = number("/rules/shadowed_more").unwrap_or(u64::MAX);
    match u64::try_from(listed).unwrap_or(u64::MAX).saturating_add(more) {
        0 => Check::ok(Area::State, check, found),
        never => amiss(format!("{found}; {never} of them never match"))
            .with_remedy("see which: gpu-ledger rules check"),
    }
}

/// The rules that the next daemon would go by.
fn rules_of(config: &Config) -> Check {
    let check = "rules";
    let read = Rules::read_or_default(config.rules.as_deref());
    match read.and_then(|rules| rules.fit(config.cmdline)) {
        Ok(Rules { path: None, .. }) => {
            let found = format!("none: there is no {RULES_DEFAULT}");
            Check::ok(Area::State, check, found)
        }
        Ok(Rules { path: Some(path), set, .. }) => {
            let found = format!("{} in {}", set.len(), path.display());
            let shadows = set.shadows();
            match shadows.count() {
                0 => Check::ok(Area::State, check, found),
                never => {
                    let cause = format!("{found}; {never} of them never match");
                    Check::new(Area::State, check, Status::Warn, cause)
                        .with_remedy("see which: gpu-ledger rules check")
                }
            }
        }
        Err(RulesError::Read { path, cause, .. })
            if cause.kind() == ErrorKind::PermissionDenied =>
        {
            unseen(check, &path, cause)
        }
        Err(error) => Check::new(Area::State, check, Status::Missing, error.to_string())
            .with_remedy("correct the file: the daemon does not start with it"),
    }
}

fn answering(socket: &Path, asked: Result<Value, ClientError>) -> Check {
    let (check, place) = ("daemon", socket.display());
    let amiss = |status, cause: String| Check::new(Area::State, check, status, cause);
    match asked {
        Ok(status) => {
            let word = |path: &str| match status.pointer(path) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => "(not told)".to_owned(),
                Some(other) => other.to_string(),
            };
            let found = format!(
                "process {} answers at {place}, version {}; it writes {}",
                word("/daemon/pid"),
                word("/daemon/version"),
                word("/journal/state_dir")
            );
            Check::ok(Area::State, check, found)
        }
        Err(ClientError::Absent { cause, .. }) => {
            amiss(Status::Warn, format!("no daemon answers at {place}: {cause}"))
                .with_remedy("systemctl start gpu-ledger; `gpu-ledger trace` needs none")
        }
        Err(error @ ClientError::Denied { .. }) => amiss(Status::Warn, error.to_string())
            .with_remedy("open its folder to every user, as the unit does: chmod 0755"),
        Err(error) => amiss(Status::Unknown, error.to_string())
            .with_remedy("see its log: journalctl -u gpu-ledger"),
    }
}

/// Whether names of containers are to be had: asked about one that no runtime has, so that only the way is tried.
pub(super) fn names(socket: Option<&Path>, clock: &Clock) -> Check {
    let check = "container-names";
    let Some(socket) = socket else {
        let found = "names_socket is \"\": containers go by their ids";
        return Check::ok(Area::State, check, found);
    };
    let place = socket.display();
    let amiss = |status, cause: String| Check::new(Area::State, check, status, cause);
    let ids = "containers go by their ids";
    match ask(socket, &Question::about_nobody(), clock) {
        Ok(_) => Check::ok(Area::State, check, format!("names of containers are told at {place}")),
        Err(AskError::Absent { cause, .. }) => amiss(
            Status::Warn,
            format!("nobody answers at {place} ({cause}): {ids}"),
        )
        .with_remedy(
            "systemctl enable --now gpu-ledger-names.socket; or names_socket = \"\" for no names",
        ),
        Err(AskError::Denied { .. }) => {
            let cause = format!("{place} is open to root and the group gpu-ledger alone");
            amiss(Status::Warn, cause).with_remedy("run it as root to see whether it answers")
        }
        Err(AskError::Broken { what, .. }) => {
            amiss(Status::Warn, format!("no answer at {place} ({what}): {ids}"))
                .with_remedy("see its log: journalctl -u 'gpu-ledger-names@*'")
        }
    }
}

fn unseen(check: &'static str, path: &Path, error: impl std::fmt::Display) -> Check {
    let cause = format!("{}: {error}", path.display());
    Check::new(Area::State, check, Status::Unknown, cause)
        .with_remedy("run it as root or as the daemon's user")
}

fn folder(path: &Path) -> Check {
    let check = "state-dir";
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let cause = format!("{} does not exist yet", path.display());
            return Check::new(Area::State, check, Status::Warn, cause).with_remedy(format!(
                "the daemon's unit makes it; without the unit: install -d -m 0700 -o gpu-ledger \
                     -g gpu-ledger {}",
                path.display()
            ));
        }
        Err(error) => return unseen(check, path, error),
    };
    let amiss = |status, cause: String, remedy: String| {
        Check::new(Area::State, check, status, cause).with_remedy(remedy)
    };
    let name = path.display();
    if !found.is_dir() {
        return amiss(
            Status::Missing,
            format!("{name} is no folder"),
            "name a folder with --state-dir, or state_dir in the configuration".to_owned(),
        );
    }
    if let Some(parent) = path.parent()
        && let Ok(above) = std::fs::metadata(parent)
        && above.mode() & 0o1002 == 0o0002
    {
        return amiss(
            Status::Missing,
            format!("anybody can replace {name}: {} is open to all", parent.display()),
            format!("chmod o-w {}", parent.display()),
        );
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return amiss(
            Status::Missing,
            format!("others than its owner can write to {name} (mode {mode:04o})"),
            format!("chmod 0700 {name}"),
        );
    }
    if mode & 0o055 != 0 {
        return amiss(
            Status::Warn,
            format!("others than its owner can look into {name} (mode {mode:04o})"),
            format!("chmod 0700 {name}"),
        );
    }
    Check::ok(Area::State, check, format!("{name}, mode {mode:04o}, uid {}", found.uid()))
}

/// The folder, or the one in which it will be.
fn nearest_existing(path: &Path) -> Result<PathBuf, Box<Check>> {
    for place in path.ancestors() {
        match std::fs::metadata(place) {
            Ok(_) => return Ok(place.to_path_buf()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Box::new(unseen("file-system", place, error))),
        }
    }
    Err(Box::new(unseen("file-system", path, "no such path")))
}

fn file_system(place: &Path) -> Check {
    match statfs(place) {
        Ok(found) => of_ground(ground_of(found.f_type), place),
        Err(error) => unseen("file-system", place, error),
    }
}

fn of_ground(ground: Ground, place: &Path) -> Check {
    let check = "file-system";
    let name = place.display();
    let remedy =
        "name a folder on a local disk with --state-dir, or state_dir in the configuration";
    let amiss = |status, cause| Check::new(Area::State, check, status, cause).with_remedy(remedy);
    match ground {
        Ground::Firm => Check::ok(Area::State, check, format!("{name} is on a local disk")),
        Ground::Network(what) => amiss(
            Status::Missing,
            format!(
                "{name} is on {what}: the journal's locks do not hold there, and the daemon refuses it"
            ),
        ),
        Ground::Fleeting(what) => {
            let gone = "what is booked is gone with the next start";
            amiss(Status::Warn, format!("{name} is on {what}: {gone}"))
        }
        Ground::Foreign(what) => {
            amiss(Status::Warn, format!("{name} is on {what}: whether locks hold is not known"))
        }
    }
}

fn free_space(place: &Path) -> Check {
    let found = match statvfs(place) {
        Ok(found) => found,
        Err(error) => return unseen("free-space", place, error),
    };
    of_free(found.f_bavail.saturating_mul(found.f_frsize), place)
}

fn of_free(bytes: u64, place: &Path) -> Check {
    let check = "free-space";
    let free = format!("{} free at {}", crate::unit::Bytes(bytes), place.display());
    let status = match bytes {
        ..FREE_BYTES_MIN => Status::Missing,
        FREE_BYTES_MIN..FREE_BYTES_LOW => Status::Warn,
        _ => return Check::ok(Area::State, check, free),
    };
    Check::new(Area::State, check, status, free).with_remedy(
        "make room, or archive the old journal: without room settlements become a gap (disk-full)",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn shared_file_systems_are_refused_and_fleeting_ones_warned_of() {
        let status = |magic| of_ground(ground_of(magic), Path::new("/x")).status;
        assert_eq!(status(0x6969), Status::Missing);
        assert_eq!(status(0x0bd0_0bd0), Status::Missing);
        // As a signed 32-bit word would be widened.
        assert_eq!(status(i64::from(0xff53_4d42_u32.cast_signed())), Status::Missing);
        assert_eq!(status(0x0102_1994), Status::Warn);
        assert_eq!(status(0x6573_5546), Status::Warn);
        for firm in [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1] {
            assert_eq!(status(firm), Status::Ok, "{firm:x}");
        }
    }

    #[test]
    fn rules_that_were_refused_are_missing_and_the_exit_status_says_so() {
        let status = |refused: Value| {
            serde_json::json!({
                "rules": { "path": "/r.toml", "rules": 2, "since": "s", "shadowed": [], "shadowed_more": 0 },
                "reload_refused": refused,
            })
        };
        let of = |refused: Value| rules_in_force(&status(refused));
        assert_eq!(of(Value::Null).status, Status::Ok);
        for why in [serde_json::json!("/r.toml:1:1: x"), Value::Null] {
            let refused = of(serde_json::json!({ "at": "2026-11-30T00:00:00.000Z", "error": why }));
            assert_eq!(refused.status, Status::Missing, "{refused:?}");
            assert!(
                refused.remedy.is_some() && refused.cause.contains("was refused"),
                "{refused:?}"
            );
            let counts = super::super::count(&[refused]);
            assert_eq!(counts.missing, 1);
        }
    }

    #[test]
    fn room_is_judged_in_three_steps() {
        let status = |bytes| of_free(bytes, Path::new("/x")).status;
        assert_eq!(status(FREE_BYTES_MIN - 1), Status::Missing);
        assert_eq!(status(FREE_BYTES_MIN), Status::Warn);
        assert_eq!(status(FREE_BYTES_LOW), Status::Ok);
    }

    #[test]
    fn a_folder_that_others_can_write_is_no_place_for_a_journal() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("state");
        assert_eq!(folder(&path).status, Status::Warn);
        std::fs::create_dir(&path).unwrap();
        let at = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            folder(&path).status
        };
        assert_eq!(at(0o777), Status::Missing);
        assert_eq!(at(0o770), Status::Missing);
        assert_eq!(at(0o755), Status::Warn);
        assert_eq!(at(0o700), Status::Ok);
        std::fs::set_permissions(top.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(folder(&path).status, Status::Missing);
        std::fs::write(top.path().join("file"), "").unwrap();
        std::fs::set_permissions(top.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(folder(&top.path().join("file")).status, Status::Missing);
    }
}
