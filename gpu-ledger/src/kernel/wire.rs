//! Bytes of one ring record to a typed [`Event`]. Pure and total: any bytes give an event or a
//! named error. Text in the event is a slice of the record's one copy. A member that a flag calls
//! unknown is never looked at.

use std::mem::{offset_of, size_of};

use bytes::Bytes;
use gpu_ledger_ebpf::{
    ARGV_MAX, CGROUP_PATH_MAX, CGROUPS, Cgroup, CgroupHead, ExecHead, ExitRecord, FILENAME_MAX,
    ForkRecord, Header, NO_LOGIN_UID, Subject as WireSubject, TouchRecord, WIRE_VERSION, flag,
    kind,
};

use super::{
    Argv, ArgvState, CgroupId, CgroupMade, DeviceTouch, Event, Exec, Exit, Fork, LoginUid,
    ProcessKey, Subject,
};
use crate::unit::{BootNs, Pid};

/// Why bytes are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// Too few bytes for what must be there.
    #[error("record of {length} bytes ends before byte {needed}")]
    Short {
        /// Bytes there are.
        length: usize,
        /// Bytes it needs.
        needed: usize,
    },
    /// Made by another version of the object.
    #[error("record of wire version {found}, this program reads {WIRE_VERSION}")]
    Version {
        /// What it says.
        found: u16,
    },
    /// No such kind.
    #[error("record of unknown kind {found}")]
    Kind {
        /// What it says.
        found: u16,
    },
    /// The header's length is not the record's.
    #[error("record says it has {said} bytes, but has {length}")]
    Length {
        /// Bytes there are.
        length: usize,
        /// Bytes it says.
        said: u32,
    },
    /// Flags that this version does not have, that its kind cannot carry, or that contradict
    /// each other.
    #[error("record carries flags {flags:#x}, which its kind cannot have")]
    Flags {
        /// All of its flags.
        flags: u32,
    },
    /// A text's length is past its bound, or disagrees with its flags.
    #[error("record's {field} of {length} bytes contradicts its bound or its flags")]
    Text {
        /// Which.
        field: &'static str,
        /// Bytes it says.
        length: u32,
    },
    /// A field has a value that no kernel gives it.
    #[error("record's {field} is {value}")]
    Value {
        /// Which.
        field: &'static str,
        /// What it says.
        value: u64,
    },
}

/// What every record says before its kind matters: enough to count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// One of [`kind`].
    pub kind: u16,
    /// Number on its CPU.
    pub seq: u64,
    /// When.
    pub at: BootNs,
    /// The CPU.
    pub cpu: u32,
    flags: u32,
}

impl RecordHead {
    /// What `read` reads, unless a flag says that nobody knows.
    fn unless<T>(
        &self,
        unknown: u32,
        read: impl FnOnce() -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.flags & unknown == 0 { read().map(Some) } else { Ok(None) }
    }

    /// A text of kernel memory, unless it could not be read: then none of it is there.
    fn text(&self, text: Bytes) -> Result<Option<Bytes>, WireError> {
        match self.flags & flag::TEXT_FAULTED != 0 {
            false => Ok(Some(text)),
            true if text.is_empty() => Ok(None),
            true => Err(WireError::Flags { flags: self.flags }),
        }
    }
}

#[cfg(test)]
impl RecordHead {
    pub(super) const fn new(kind: u16, cpu: u32, seq: u64, at: BootNs) -> Self {
        Self { kind, seq, at, cpu, flags: 0 }
    }
}

/// Reads the header of a record.
pub fn parse_head(record: &[u8]) -> Result<RecordHead, WireError> {
    let version = u16_at(record, offset_of!(Header, version))?;
    if version != WIRE_VERSION {
        return Err(WireError::Version { found: version });
    }
    let said = u32_at(record, offset_of!(Header, length))?;
    if usize::try_from(said) != Ok(record.len()) {
        return Err(WireError::Length { length: record.len(), said });
    }
    let kind = u16_at(record, offset_of!(Header, kind))?;
    let possible = flag::of_kind(kind).ok_or(WireError::Kind { found: kind })?;
    let flags = u32_at(record, offset_of!(Header, flags))?;
    if flags & !possible != 0 {
        return Err(WireError::Flags { flags });
    }
    Ok(RecordHead {
        kind,
        seq: u64_at(record, offset_of!(Header, seq))?,
        at: BootNs(u64_at(record, offset_of!(Header, at_ns))?),
        cpu: u32_at(record, offset_of!(Header, cpu))?,
        flags,
    })
}

/// Reads a whole record.
pub fn parse(record: &Bytes) -> Result<Event, WireError> {
    let head = parse_head(record)?;
    match head.kind {
        kind::FORK => {
            exact(record, size_of::<ForkRecord>())?;
            let subject = subject(record, head, offset_of!(ForkRecord, subject))?;
            Ok(Event::Fork(Fork { subject }))
        }
        kind::EXIT => {
            exact(record, size_of::<ExitRecord>())?;
            Ok(Event::Exit(Exit {
                subject: subject(record, head, offset_of!(ExitRecord, subject))?,
                wait_status: head.unless(flag::WAIT_STATUS_UNKNOWN, || {
                    u32_at(record, offset_of!(ExitRecord, wait_status))
                })?,
            }))
        }
        kind::DEVICE_TOUCH => {
            exact(record, size_of::<TouchRecord>())?;
            Ok(Event::DeviceTouch(DeviceTouch {
                subject: subject(record, head, offset_of!(TouchRecord, subject))?,
                major: u32_at(record, offset_of!(TouchRecord, major))?,
                minor: u32_at(record, offset_of!(TouchRecord, minor))?,
            }))
        }
        kind::EXEC => exec(record, head).map(Event::Exec),
        kind::CGROUP_MADE => cgroup_made(record, head).map(Event::CgroupMade),
        found => Err(WireError::Kind { found }),
    }
}

fn exec(record: &Bytes, head: RecordHead) -> Result<Exec, WireError> {
    let name_length = u32_at(record, offset_of!(ExecHead, filename_length))?;
    let argv_length = u32_at(record, offset_of!(ExecHead, argv_length))?;
    let filename = text(record, "file name", size_of::<ExecHead>(), name_length, FILENAME_MAX)?;
    let filename = head.text(filename)?.unwrap_or_default();
    let argv_start = size_of::<ExecHead>().saturating_add(filename.len());
    let bytes = text(record, "argv", argv_start, argv_length, ARGV_MAX)?;
    exact(record, argv_start.saturating_add(bytes.len()))?;
    let true_length = head.unless(flag::ARGV_PLACE_UNKNOWN, || {
        u64_at(record, offset_of!(ExecHead, argv_true_length))
    })?;
    let argv =
        Argv { state: argv_state(head.flags, argv_length, true_length)?, bytes, true_length };
    let exe = head.unless(flag::EXECUTABLE_UNKNOWN, || {
        let device = u32_at(record, offset_of!(ExecHead, exe_device))?;
        Ok((u64::from(device), u64_at(record, offset_of!(ExecHead, exe_inode))?))
    })?;
    let subject = subject(record, head, offset_of!(ExecHead, subject))?;
    Ok(Exec { subject, argv, filename, exe })
}

/// What the flags say, if the lengths agree with it.
fn argv_state(flags: u32, length: u32, true_length: Option<u64>) -> Result<ArgvState, WireError> {
    let bytes = u64::from(length);
    let (state, agrees) = match (flags & flag::OF_ARGV, true_length) {
        (0, Some(whole)) => (ArgvState::Whole, bytes == whole),
        (flag::ARGV_TRUNCATED, Some(whole)) => (ArgvState::Truncated, bytes < whole),
        (flag::ARGV_SHED, Some(_)) => (ArgvState::Shed, bytes == 0),
        (flag::ARGV_FAULTED, Some(_)) | (flag::ARGV_PLACE_UNKNOWN, None) => {
            (ArgvState::Unreadable, bytes == 0)
        }
        _ => return Err(WireError::Flags { flags }),
    };
    if agrees { Ok(state) } else { Err(WireError::Text { field: "argv", length }) }
}

fn cgroup_made(record: &Bytes, head: RecordHead) -> Result<CgroupMade, WireError> {
    let length = u32_at(record, offset_of!(CgroupHead, path_length))?;
    let path = text(record, "cgroup path", size_of::<CgroupHead>(), length, CGROUP_PATH_MAX)?;
    exact(record, size_of::<CgroupHead>().saturating_add(path.len()))?;
    let missing = WireError::Value { field: "cgroup", value: 0 };
    Ok(CgroupMade {
        cgroup: cgroup(record, offset_of!(CgroupHead, cgroup))?.ok_or(missing)?,
        path: head.text(path)?,
        at: head.at,
        cpu: head.cpu,
        seq: head.seq,
    })
}

fn subject(record: &[u8], head: RecordHead, start: usize) -> Result<Subject, WireError> {
    let field = |offset: usize| start.saturating_add(offset);
    let id = |offset: usize| u32_at(record, field(offset));
    let key = |tgid, start_ns| {
        let start = BootNs(u64_at(record, field(start_ns))?);
        Ok::<_, WireError>(ProcessKey { pid: Pid(id(tgid)?), start })
    };
    let own = key(offset_of!(WireSubject, tgid), offset_of!(WireSubject, start_ns))?;
    // The programs lose such a record instead of sending it.
    if own.pid == Pid(0) {
        return Err(WireError::Value { field: "tgid", value: 0 });
    }
    let login_uid =
        head.unless(flag::LOGIN_UID_UNKNOWN, || id(offset_of!(WireSubject, login_uid)))?;
    Ok(Subject {
        key: own,
        parent: head.unless(flag::PARENT_UNKNOWN, || {
            key(offset_of!(WireSubject, parent_tgid), offset_of!(WireSubject, parent_start_ns))
        })?,
        uid: head.unless(flag::USER_UNKNOWN, || id(offset_of!(WireSubject, uid)))?,
        euid: head.unless(flag::USER_UNKNOWN, || id(offset_of!(WireSubject, euid)))?,
        login_uid: match login_uid {
            None => LoginUid::Unread,
            Some(NO_LOGIN_UID) => LoginUid::Unset,
            Some(uid) => LoginUid::Set(uid),
        },
        cgroups: head.unless(flag::CGROUPS_UNKNOWN, || {
            cgroups(record, field(offset_of!(WireSubject, cgroups)))
        })?,
        at: head.at,
        cpu: head.cpu,
        seq: head.seq,
    })
}

fn cgroups(record: &[u8], start: usize) -> Result<Vec<CgroupId>, WireError> {
    let mut found: Vec<CgroupId> = Vec::with_capacity(CGROUPS);
    for place in 0..CGROUPS {
        let at = start.saturating_add(place.saturating_mul(size_of::<Cgroup>()));
        // One v1 hierarchy may carry several controllers.
        if let Some(group) = cgroup(record, at)?.filter(|group| !found.contains(group)) {
            found.push(group);
        }
    }
    Ok(found)
}

fn cgroup(record: &[u8], start: usize) -> Result<Option<CgroupId>, WireError> {
    let id = u64_at(record, start.saturating_add(offset_of!(Cgroup, id)))?;
    let hierarchy = u32_at(record, start.saturating_add(offset_of!(Cgroup, hierarchy)))?;
    match u32_at(record, start.saturating_add(offset_of!(Cgroup, present)))? {
        0 => Ok(None),
        1 => Ok(Some(CgroupId { hierarchy, id })),
        other => Err(WireError::Value { field: "cgroup's presence", value: other.into() }),
    }
}

/// `length` bytes from `start`: a slice that shares the record's memory.
fn text(
    record: &Bytes,
    field: &'static str,
    start: usize,
    length: u32,
    max: usize,
) -> Result<Bytes, WireError> {
    let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= max);
    let end = start.saturating_add(bytes.ok_or(WireError::Text { field, length })?);
    if end > record.len() {
        return Err(WireError::Short { length: record.len(), needed: end });
    }
    Ok(record.slice(start..end))
}

/// A record of a size that its kind determines.
fn exact(record: &[u8], needed: usize) -> Result<(), WireError> {
    match record.len().cmp(&needed) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(WireError::Short { length: record.len(), needed }),
        std::cmp::Ordering::Greater => Err(WireError::Length {
            length: record.len(),
            said: u32::try_from(needed).unwrap_or(u32::MAX),
        }),
    }
}

fn u16_at(record: &[u8], at: usize) -> Result<u16, WireError> {
    array(record, at).map(u16::from_le_bytes)
}

fn u32_at(record: &[u8], at: usize) -> Result<u32, WireError> {
    array(record, at).map(u32::from_le_bytes)
}

fn u64_at(record: &[u8], at: usize) -> Result<u64, WireError> {
    array(record, at).map(u64::from_le_bytes)
}

fn array<const N: usize>(record: &[u8], at: usize) -> Result<[u8; N], WireError> {
    let rest = record.get(at..).unwrap_or(&[]);
    let needed = at.saturating_add(N);
    rest.first_chunk::<N>().copied().ok_or(WireError::Short { length: record.len(), needed })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
