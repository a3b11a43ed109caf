//! What records: its binary, kernel and clocks, and whether an acceptance run has passed with them.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

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

/// `adjtimex(2)`, read alone: whether the kernel is told by a time service how far off it is.
fn clock_sync() -> ClockSync {
    let unknown = ClockSync { state: ClockSyncState::Unknown, est_error_ms: None };
    // Written by systemd-timesyncd and chrony's wait service where one keeps the clock; without either the
    // kernel alone knows, and says it to a call that no safe library has.
    match Path::new("/run/systemd/timesync/synchronized").try_exists() {
        Ok(true) => ClockSync { state: ClockSyncState::Synchronized, est_error_ms: None::<Length> },
        _ => unknown,
    }
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
    use super::Verifications;

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
