//! Who: every process's lifetime, from its birth to its end.
//!
//! Purpose: a state machine over kernel events, seeded from procfs, that keeps which program a pid
//! was at any moment. May touch: procfs and cgroupfs, in `procfs.rs` and `cgroup.rs`, under a root
//! that is a parameter. May not: know a GPU row, or take a pid alone as a key.
//! Invariants: applying an event twice changes nothing; a lifetime is forgotten only where no row can
//! still name it, any other eviction is counted.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::kernel::{Argv, CgroupId, ProcessKey};
use crate::unit::BootNs;

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

/// Whose a process is, as ids; names are looked up by those who print them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Real user id.
    pub uid: u32,
    /// Effective user id.
    pub euid: u32,
    /// Login user id, where one was set.
    pub login_uid: Option<u32>,
}

/// The end of a lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// When the first exit event said so, or the moment it was found gone.
    pub at: BootNs,
    /// Its wait status; `None` where the exit itself was not seen.
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
    /// Its images, oldest first, never empty; bounded, `images_forgotten` counts the oldest cut off.
    pub images: Vec<Image>,
    /// Images cut off at the front.
    pub images_forgotten: u64,
    /// Control groups it was seen in, first to last.
    pub cgroups: Vec<CgroupId>,
    /// The moment it was first seen to open an NVIDIA device, where touches are watched.
    pub touched: Option<BootNs>,
    /// Its end, once there is one.
    pub ended: Option<Ended>,
}

impl Lifetime {
    /// The image in force at `at`; the first one for moments before it (a row may begin within the
    /// clock's error of the birth).
    #[must_use]
    pub fn image_at(&self, at: BootNs) -> Option<&Image> {
        let in_force = self.images.iter().rev().find(|image| image.since <= at);
        in_force.or_else(|| self.images.first())
    }
}
