//! A process as it is attributed, put together from what somebody typed, procfs shows, or a journal has.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{AncestorSubject, ContainerNames, Kind, Subject, Users};
use crate::identity::{Program, User};
use crate::kernel::LoginUid;
use crate::place::Place;
use crate::unit::GpuUuid;

/// What a [`Subject`] borrows, owned.
#[derive(Clone)]
pub struct Process {
    /// The GPU that it holds; an empty text where nobody knows.
    pub gpu: GpuUuid,
    /// Where that enumerates.
    pub gpu_index: Option<u32>,
    /// Its product name.
    pub gpu_name: Option<String>,
    /// What it holds it for.
    pub kind: Kind,
    /// Its program.
    pub program: Option<Program>,
    /// The file name given to exec; empty where it was not had.
    pub exe: Bytes,
    /// Its arguments; `None` where none are stored.
    pub argv: Option<Vec<Vec<u8>>>,
    /// The model that it served.
    pub model: Option<Arc<str>>,
    /// Whose it is.
    pub user: User,
    /// The same as names.
    pub users: Users,
    /// The paths of its control groups.
    pub cgroups: Vec<Bytes>,
    /// What those mean.
    pub place: Place,
    /// What its container is called.
    pub names: Option<ContainerNames>,
    /// The programs of those that it descends from, the nearest first.
    pub ancestors: Vec<Option<Program>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.see(|subject| subject.fmt(f))
    }
}

impl Default for Process {
    /// Of which nothing is known.
    fn default() -> Self {
        Self {
            gpu: GpuUuid("".into()),
            gpu_index: None,
            gpu_name: None,
            kind: Kind::Unknown,
            program: None,
            exe: Bytes::new(),
            argv: None,
            model: None,
            user: User { uid: None, euid: None, login_uid: LoginUid::Unread },
            users: Users::default(),
            cgroups: Vec::new(),
            place: Place::default(),
            names: None,
            ancestors: Vec::new(),
        }
    }
}

impl Process {
    /// Shows it as attribution sees it.
    pub fn see<T>(&self, see: impl FnOnce(&Subject<'_>) -> T) -> T {
        let cgroups: Vec<&[u8]> = self.cgroups.iter().map(AsRef::as_ref).collect();
        let ancestors: Vec<AncestorSubject<'_>> =
            self.ancestors.iter().map(|one| AncestorSubject { program: one.as_ref() }).collect();
        see(&Subject {
            gpu: &self.gpu,
            gpu_index: self.gpu_index,
            gpu_name: self.gpu_name.as_deref(),
            kind: self.kind,
            program: self.program.as_ref(),
            exe: &self.exe,
            argv: self.argv.as_deref(),
            model: self.model.as_ref(),
            user: self.user,
            users: &self.users,
            cgroups: &cgroups,
            place: &self.place,
            names: self.names.as_ref(),
            ancestors: &ancestors,
        })
    }
}
