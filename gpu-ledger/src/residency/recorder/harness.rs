//! What records: its binary, kernel and clocks, and whether an acceptance run has passed with them.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::adjtimex::{self, Kept};
use crate::residency::files::{ClockSync, ClockSyncState, sha256_file};
use crate::residency::moment::Length;

/// What stands behind a recording. `None` is what the host did not say.
#[derive(Clone, Debug)]
pub struct Harness {
    /// Which boot.
    pub boot_id: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// SHA-256 of this binary.
    pub binary_sha256: Option<String>,
    /// Whether somebody keeps the wall clock right.
    pub clock_sync: ClockSync,
    /// Other recorders that run now: each adds to the driver's load.
    pub other_recorders: Option<u64>,
}

impl Harness {
    /// Of this process on this host.
    #[must_use]
    pub fn of_this() -> Self {
        let trimmed = |path: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned())
        };
        Self {
            boot_id: trimmed("/proc/sys/kernel/random/boot_id"),
            kernel: trimmed("/proc/sys/kernel/osrelease"),
            binary_sha256: sha256_file(Path::new("/proc/self/exe")).ok(),
            clock_sync: clock_sync(),
            other_recorders: other_recorders(),
        }
    }
}

/// Where chronyd keeps its sockets and its pid while it runs (chrony.conf(5): `bindcmdaddress`, `pidfile`).
const CHRONY: &str = "/run/chrony";

fn clock_sync() -> ClockSync {
    clock_sync_of(adjtimex::kept().ok(), Path::new(CHRONY).is_dir())
}

/// What the kernel knows, whichever service keeps the clock. Without `rtcsync` chronyd keeps it and tells
/// the kernel nothing (chrony.conf(5)), so beside chronyd "not synchronized" is no answer.
fn clock_sync_of(kept: Option<Kept>, runs_chrony: bool) -> ClockSync {
    let state = match kept {
        Some(Kept { is_synchronized: true, .. }) => ClockSyncState::Synchronized,
        Some(_) if !runs_chrony => ClockSyncState::Unsynchronized,
        _ => ClockSyncState::Unknown,
    };
    let is_kept = state == ClockSyncState::Synchronized;
    let error = kept.filter(|_| is_kept).and_then(|kept| kept.est_error_us);
    ClockSync { state, est_error_ms: error.map(|us| Length(us.saturating_mul(1_000))) }
}

/// Processes whose words say that they record: `gpu-ledger residency record …`.
fn other_recorders() -> Option<u64> {
    // Mounted with hidepid, procfs shows other users' processes to nobody: then they cannot be counted.
    std::fs::read("/proc/1/cmdline").ok()?;
    let own = std::process::id().to_string();
    let mut count: u64 = 0;
    for entry in std::fs::read_dir("/proc").ok()? {
        let name = entry.ok()?.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            continue;
        };
        if pid == own {
            continue;
        }
        // One that ends meanwhile is none.
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        let is_ours = program.ends_with(b"gpu-ledger");
        let rest: Vec<&[u8]> = words.collect();
        let records = rest.windows(2).any(|pair| matches!(pair, [b"residency", b"record"]));
        count = count.saturating_add(u64::from(is_ours && records));
    }
    Some(count)
}

/// Acceptance runs that passed, each an empty file named by what it stands for.
#[derive(Clone, Debug)]
pub struct Verifications(Option<PathBuf>);

impl Verifications {
    /// Those of a folder; `None`: none are kept.
    #[must_use]
    pub const fn at(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// Whether one has passed.
    #[must_use]
    pub fn holds(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|folder| folder.join(id).is_file())
    }

    /// Remembers one.
    pub fn add(&self, id: &str) -> io::Result<()> {
        let Some(folder) = &self.0 else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        options.open(folder.join(id))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockSync, ClockSyncState, Kept, Length, Verifications, clock_sync_of};

    #[test]
    fn the_kernel_says_who_keeps_the_clock_unless_chrony_keeps_it_silently() {
        let kept = |is_synchronized, est_error_us| Some(Kept { is_synchronized, est_error_us });
        let told = |state, est_error_ms| ClockSync { state, est_error_ms };
        let off = Some(Length(1_234_000));
        for (kept, runs_chrony, expected) in [
            (kept(true, Some(1_234)), false, told(ClockSyncState::Synchronized, off)),
            (kept(true, Some(1_234)), true, told(ClockSyncState::Synchronized, off)),
            (kept(true, None), false, told(ClockSyncState::Synchronized, None)),
            (kept(false, Some(16_000_000)), false, told(ClockSyncState::Unsynchronized, None)),
            (kept(false, Some(16_000_000)), true, told(ClockSyncState::Unknown, None)),
            (None, false, told(ClockSyncState::Unknown, None)),
        ] {
            assert_eq!(clock_sync_of(kept, runs_chrony), expected, "{kept:?} {runs_chrony}");
        }
        // Asked of this kernel, which never refuses to answer a plain process.
        assert!(crate::adjtimex::kept().is_ok());
    }

    #[test]
    fn a_pass_is_remembered_under_its_id_alone() {
        let folder = tempfile::tempdir().unwrap();
        let verifications = Verifications::at(Some(folder.path().join("verifications")));
        assert!(!verifications.holds("a"));
        verifications.add("a").unwrap();
        verifications.add("a").unwrap();
        assert!(verifications.holds("a") && !verifications.holds("b"));
        let none = Verifications::at(None);
        none.add("a").unwrap();
        assert!(!none.holds("a"));
    }
}
