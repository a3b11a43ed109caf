//! Who a process is, for whoever must restart it: its program and its systemd unit.

use std::path::Path;

use crate::unit::Pid;

/// What procfs says of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HolderName {
    /// Its `comm`, or why that cannot be read. Safe to print.
    pub(super) program: String,
    /// The unit that it runs in, as systemctl prints it; `None` where it runs in none, or that cannot be read.
    pub(super) unit: Option<String>,
}

/// Reads a process's names. It may be gone.
pub(super) fn name_of(proc_root: &Path, pid: Pid) -> HolderName {
    let folder = proc_root.join(pid.to_string());
    let program = match std::fs::read(folder.join("comm")) {
        Ok(comm) => shown(comm.trim_ascii_end()),
        Err(error) => format!("(no name: {error})"),
    };
    let cgroups = std::fs::read(folder.join("cgroup"));
    let unit = cgroups.ok().and_then(|text| unit_of(&String::from_utf8_lossy(&text)));
    HolderName {
        program,
        unit: unit.map(|unit| crate::escape::printable(unit.as_bytes()).to_string()),
    }
}

/// A process may have written anything there, and the kernel cuts it (`TASK_COMM_LEN`, include/linux/sched.h).
fn shown(comm: &[u8]) -> String {
    const COMM_MAX: usize = 15;
    let redacted = crate::argv::redact(comm, comm.len() >= COMM_MAX);
    crate::escape::escape(redacted.as_deref().unwrap_or(comm)).to_string()
}

/// The innermost service or scope of a `/proc/PID/cgroup`, by the v2 hierarchy or, on hosts of v1,
/// systemd's own.
fn unit_of(cgroups: &str) -> Option<String> {
    let path_of = |begin: &str| {
        cgroups.lines().find_map(|line| {
            line.split_once(':').map(|(_, rest)| rest).and_then(|rest| rest.strip_prefix(begin))
        })
    };
    let paths = [path_of(":"), path_of("name=systemd:")];
    let is_unit = |name: &&str| {
        [".service", ".scope"].iter().any(|kind| name.len() > kind.len() && name.ends_with(kind))
    };
    let mut units = paths.into_iter().flatten().filter_map(|path| path.rsplit('/').find(is_unit));
    let unit = units.next()?;
    Some(String::from_utf8_lossy(&crate::place::without_secrets(unit.as_bytes())).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_unit_is_the_one_to_restart() {
        let unit = |text: &str| unit_of(text);
        assert_eq!(unit("0::/system.slice/ollama.service\n").as_deref(), Some("ollama.service"));
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/xtts.service/sub\n";
        assert_eq!(unit(user).as_deref(), Some("xtts.service"));
        let hybrid =
            "4:memory:/system.slice/a.service\n1:name=systemd:/system.slice/b.service\n0::/\n";
        assert_eq!(unit(hybrid).as_deref(), Some("b.service"));
        let docker = "0::/system.slice/docker-0123.scope\n";
        assert_eq!(unit(docker).as_deref(), Some("docker-0123.scope"));
        for none in ["0::/\n", "", "0::/user.slice\n", "nonsense", "0::/.service"] {
            assert_eq!(unit(none), None, "{none}");
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_name_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let name = name_of(folder.path(), Pid(7));
        assert!(name.program.starts_with("(no name: ") && name.unit.is_none(), "{name:?}");
        let own = folder.path().join("8");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("comm"), b"a\x1b[31m\n").unwrap();
        std::fs::write(own.join("cgroup"), "0::/x/b.service\n").unwrap();
        let name = name_of(folder.path(), Pid(8));
        assert!(!name.program.contains('\x1b'), "{name:?}");
        assert_eq!(name.unit.as_deref(), Some("b.service"));
        std::fs::write(own.join("comm"), b"x --token abcde\n").unwrap();
        assert_eq!(name_of(folder.path(), Pid(8)).program, "x --token [redacted]");
    }
}
