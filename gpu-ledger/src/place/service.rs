//! Which service a unit stands for.

use std::sync::Arc;

use super::path::{is_hex, is_number};
use super::{CONTAINER, Place, Runtime};

/// Services that start what others asked for: what runs in them is not theirs.
#[rustfmt::skip]
const STARTERS: [&str; 32] = [
    // Jobs at a time: cron under its names in Debian, Fedora and Arch; at; anacron.
    "anacron", "atd", "cron", "crond", "cronie", "dcron", "fcron",
    // Logins whose session has no scope of its own (no pam_systemd).
    "console-getty", "container-getty", "getty", "serial-getty", "ssh", "sshd", "sshd-session",
    // A terminal's server, where its tabs have no scopes (older GNOME).
    "gnome-terminal-server",
    // Programs activated by a bus, where that does not ask systemd for them.
    "dbus", "dbus-broker",
    // Daemons of containers, machines and jobs: their own processes, and on hybrid hosts those of their
    // containers.
    "condor", "containerd", "crio", "cri-docker", "docker", "garden", "k3s", "k3s-agent", "kubelet", "nomad", "pbs",
    "pbs_jobs", "podman", "slurmd", "systemd-nspawn",
];

impl Place {
    /// The service that this process ran for, of the user's manager rather than of the system's; `None`
    /// where its unit only says how it was started.
    ///
    /// A service's name is its unit's without `.service`, one for all instances of a template
    /// (`worker@3.service` is `worker`), with systemd's `\xHH` read where that gives text. Scopes stand for
    /// no service: sessions, terminals' tabs, applications of a desktop, containers. Nor do `user@UID.service`,
    /// transient units without a name (`run-u7.service`), applications that a desktop runs as services
    /// (`app-LAUNCHER-ID@RANDOM.service`: systemd, docs/DESKTOP_ENVIRONMENTS.md) or those that start what others
    /// asked for: cron, logins, daemons of containers.
    #[must_use]
    pub fn service(&self) -> Option<Arc<str>> {
        self.user_service().or_else(|| service_of(self.unit.as_deref()?))
    }

    /// The same of the user's manager alone.
    #[must_use]
    pub fn user_service(&self) -> Option<Arc<str>> {
        service_of(self.user_unit.as_deref()?)
    }

    /// Whose manager the user's unit is of, as systemd names its instances: `user@1000`. What a user calls a group of
    /// their session is of that user too.
    #[must_use]
    pub fn user_manager(&self) -> Option<Arc<str>> {
        let unit = self.unit.as_deref().filter(|_| self.user_unit.is_some())?;
        let manager = unit.strip_suffix(".service").filter(|one| one.starts_with("user@"));
        let of_session = || self.owner_uid.map(|uid| format!("user@{uid}").into());
        manager.map(Arc::from).or_else(of_session)
    }
}

impl Place {
    /// Whose the container and the pod are, where they are not the host's own: of a user in the words of
    /// [`Self::user_manager`], of whoever made them in another container in those of that (`lxc web`).
    #[must_use]
    pub fn inner_owner(&self) -> Option<Arc<str>> {
        let system = self
            .within
            .as_ref()
            .map(|one| format!("{} {}", one.runtime.map_or(CONTAINER, Runtime::as_str), one.id));
        let user = self.inner_owner_uid.map(|uid| format!("user@{uid}"));
        match (system, user) {
            (Some(system), Some(user)) => Some(format!("{system} of {user}").into()),
            (system, user) => system.or(user).map(Arc::from),
        }
    }
}

fn service_of(unit: &str) -> Option<Arc<str>> {
    let stem = unit.strip_suffix(".service")?;
    let template = stem.split_once('@').map_or(stem, |(template, _)| template);
    let is_manager = matches!(template, "user" | "user-runtime-dir");
    let is_application = template.starts_with("app-") || template.starts_with("dbus-:");
    if is_manager || is_application || is_transient(template) || STARTERS.contains(&template) {
        return None;
    }
    Some(unescape(template).into())
}

/// The names that systemd-run makes where it is given none: `run-rHEX` and `run-uN`, in newer ones
/// `run-pPID-iNUMBER` (systemd, src/run/run.c).
fn is_transient(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("run-") else { return false };
    let number = |text: &str| is_number(text.as_bytes());
    let random = |text: &str| text.len() == 32 && is_hex(text.as_bytes());
    let of_pid = |text: &str| {
        text.split_once("-i").map_or_else(|| number(text), |(pid, id)| number(pid) && number(id))
    };
    rest.strip_prefix('u').is_some_and(number)
        || rest.strip_prefix('r').is_some_and(random)
        || rest.strip_prefix('p').is_some_and(of_pid)
}

/// A part of a unit's name with `\xHH` read (systemd.unit(5), "String Escaping for Inclusion in Unit Names");
/// as it is where what comes out is no text.
pub(super) fn unescape(escaped: &str) -> String {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = rest.strip_prefix(br"\x").and_then(|digits| digits.get(..2));
        let code = code.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { rest.get(4..).unwrap_or_default() } else { tail };
    }
    let shown = super::path::name(&bytes).map(str::to_owned);
    shown.unwrap_or_else(|| escaped.to_owned())
}
