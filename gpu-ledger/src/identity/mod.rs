//! Who: every process's lifetime, from its birth to its end.
//!
//! Purpose: a state machine over kernel events, seeded from procfs, that keeps which program a pid
//! was at any moment. May touch: procfs and cgroupfs, in `procfs.rs` and `cgroup.rs`, under a root
//! that is a parameter. May not: know a GPU row, or take a pid alone as a key.
//! Invariants: applying an event twice changes nothing; a lifetime is forgotten only where no row can
//! still name it, any other eviction is counted.

mod cgroup;
mod lifetimes;
mod procfs;
mod program;

pub use cgroup::{CGROUP_NAMES_MAX, CgroupMounts, CgroupPaths, CgroupScan};
#[cfg(test)]
pub(crate) use lifetimes::tests as made;
pub use lifetimes::{Applied, EvictedLately, ForgetProof, IMAGES_MAX, Lifetimes, Limits, Seeded};
pub use procfs::{ARGV_KEPT_MAX, Procfs, SeenProcess, Snapshot};
pub use program::{Program, ProgramKind, argv_cut_word, argv_words, is_name_of_family};

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::kernel::{Argv, CgroupId, LoginUid, ProcessKey};
use crate::unit::BootNs;
use crate::unknown::NamelessReason;

/// Why procfs or cgroupfs could not be read. A process that ends while it is read is no error.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file that must be there could not be read.
    #[error("cannot read {path}: {cause}; run on the host's /proc with the right to read it")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A file of procfs does not have the form that its manual page gives it.
    #[error("{path} has no {field}; is it a procfs of Linux?")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The part that is missing.
        field: &'static str,
    },
}

/// What an identity rests on, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Basis {
    /// The exec event of the very image.
    Exec,
    /// The fork event; the image is the parent's.
    Fork,
    /// Read from procfs while it lived.
    Procfs,
    /// Remembered in the journal from before a restart.
    Journal,
}

impl Basis {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Fork => "fork",
            Self::Procfs => "procfs",
            Self::Journal => "journal",
        }
    }
}

impl Serialize for Basis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What a process ran from one exec to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// From when on (of a first image, the process's start).
    pub since: BootNs,
    /// What it rests on. An image inherited over fork is shared with the parent's and says `Fork`.
    pub basis: Basis,
    /// What was executed.
    pub content: Arc<ImageContent>,
    /// Real, effective and login user when it began.
    pub user: User,
}

/// The part of an image that a forked child shares with its parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageContent {
    /// Its arguments, any bytes.
    pub argv: Argv,
    /// The file name given to exec, or procfs' `exe` link; any bytes, empty where neither was had.
    pub filename: bytes::Bytes,
    /// Device and inode of the executable, where known.
    pub exe: Option<(u64, u64)>,
}

/// Whose a process is, as ids; names are looked up by those who print them. `None` where the kernel
/// programs could not read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Real user id.
    pub uid: Option<u32>,
    /// Effective user id.
    pub euid: Option<u32>,
    /// Login user id.
    pub login_uid: LoginUid,
}

/// The end of a lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// When the first exit event said so, or the moment it was found gone.
    pub at: BootNs,
    /// Whether the exit itself was seen; else it is inferred.
    pub is_seen: bool,
    /// Its wait status; `None` where the exit was not seen, or its status could not be read.
    pub wait_status: Option<u32>,
}

/// One process from birth to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lifetime {
    /// Its identity within this boot. From procfs the start is known to the tick only
    /// (`start_is_exact` false) and floored to it.
    pub key: ProcessKey,
    /// Whether `key.start` is exact to the nanosecond.
    pub start_is_exact: bool,
    /// Who it was born under; an orphan keeps this parent. `None` where nobody saw.
    pub parent: Option<ProcessKey>,
    /// Its images, oldest first. Empty where nobody saw what it ran: the child of a process whose
    /// own image is not known inherits nothing. At most `IMAGES_MAX`.
    pub images: Vec<Image>,
    /// Images cut out behind the first one; where they were in force is in `image_gaps`.
    pub images_forgotten: u64,
    /// Stretches in which it may have borne an image that is not in `images`.
    pub image_gaps: Vec<ImageGap>,
    /// Control groups it was seen in, first to last.
    pub cgroups: Vec<CgroupId>,
    /// How many of these, the first ones, it had been in when it was where it was to work: when it first opened an
    /// NVIDIA device, else at its last exec. Whoever starts a process moves it until then. 0 where that was not seen.
    pub cgroups_stood: usize,
    /// The moment it was first seen to open an NVIDIA device, where touches are watched.
    pub touched: Option<BootNs>,
    /// Its end, once there is one.
    pub ended: Option<Ended>,
}

/// A stretch of a lifetime whose image is not certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageGap {
    /// First moment in doubt.
    pub from: BootNs,
    /// First moment that is certain again; `None` while that has not come.
    pub to: Option<BootNs>,
    /// `event-lost` (an exec may have been among the lost) or `identity-evicted` (cut off).
    pub reason: NamelessReason,
}

impl ImageGap {
    /// Whether `at` lies in it.
    #[must_use]
    pub fn contains(&self, at: BootNs) -> bool {
        self.from <= at && self.to.is_none_or(|to| at < to)
    }
}

impl Lifetime {
    /// The image in force at `at`. Moments before the birth count as the birth (a row may begin
    /// within the clock's error of it). `None` where that is not known: before the first image that
    /// was seen, or in an [`ImageGap`], which has the reason.
    #[must_use]
    pub fn image_at(&self, at: BootNs) -> Option<&Image> {
        let at = at.max(self.key.start);
        if self.image_gap_at(at).is_some() {
            return None;
        }
        self.images.iter().rev().find(|image| image.since <= at)
    }

    /// The stretch in doubt that `at` lies in.
    #[must_use]
    pub fn image_gap_at(&self, at: BootNs) -> Option<&ImageGap> {
        let at = at.max(self.key.start);
        self.image_gaps.iter().find(|gap| gap.contains(at))
    }

    /// Whether it was alive at `at`, its first moment included and its last one too.
    #[must_use]
    pub fn lived_at(&self, at: BootNs) -> bool {
        self.key.start <= at && self.ended.is_none_or(|ended| at <= ended.at)
    }
}
