//! Names of one container, from the files that its runtime keeps.
//!
//! Files are all that is read: no runtime is started, asked or waited for. What lies in a user's home is written
//! by that user, so there nothing but their own plain files is read, and no link is followed; a container
//! that runs under a user's manager is looked for in that user's home alone, or anybody could make a group with
//! the id of somebody else's container and go by its name.

mod bolt;
mod containerd;
mod docker;
mod oci;
mod podman;
mod reading;
#[cfg(test)]
mod tests;
mod wal;

use std::path::{Path, PathBuf};

use self::reading::Folder;
use super::answer::Told;
use super::asked::{Question, named_by_its_group};
use crate::attribution::ContainerNames;
use crate::place::Runtime;

/// Why files tell nothing.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// One cannot be read.
    #[error("cannot read {}: {cause}; run it as root", path.display())]
    Unread {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// One is not read.
    #[error("{} is not read: {why}", path.display())]
    Refused {
        /// Which.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// One is written all the time.
    #[error("{} is being written, and was so however often it was read", path.display())]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// One is not what its runtime writes. Nothing of it is shown.
    #[error("{} does not have the form that its runtime gives it", path.display())]
    Form {
        /// Which.
        path: PathBuf,
    },
}

/// The runtimes' files.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

/// Where a runtime keeps what it knows.
enum Home {
    /// At these places, relative to the root.
    System,
    /// In this folder of this user.
    Of(Folder),
    /// In the home of a user who has none.
    Nowhere,
}

impl Files {
    /// Below a root: `/` on a host.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// What a container is called; `None` where no runtime knows it. `home_of` says where a user's home is.
    ///
    /// # Errors
    /// Where what would tell cannot be read, and nothing else tells.
    pub fn names_of(
        &self,
        question: &Question,
        home_of: impl FnOnce(u32) -> Option<PathBuf>,
    ) -> Result<Option<ContainerNames>, FilesError> {
        let id = question.id().into();
        if let Some(names) = named_by_its_group(question.runtime(), &id) {
            return Ok(Some(names));
        }
        let home = self.home(question.owner(), home_of)?;
        // The likeliest first; where the runtime is not told, it is the kubelet's.
        let every = [Runtime::Containerd, Runtime::CriO, Runtime::Docker, Runtime::Podman];
        let one = question.runtime().map(|runtime| [runtime]);
        let runtimes: &[Runtime] = one.as_ref().map_or(&every, |one| one);
        let told = first(runtimes, |runtime| match runtime {
            Runtime::Docker => docker::tell(self, &home, question),
            Runtime::Podman => podman::tell(self, &home, question),
            Runtime::Containerd => containerd::tell(self, &home, question),
            Runtime::CriO => oci::tell_crio(self, &home, question),
            Runtime::Lxc | Runtime::Nspawn | Runtime::Nomad => Ok(None),
        })?;
        Ok(told.map(Told::bounded))
    }

    fn home(
        &self,
        owner: Option<u32>,
        home_of: impl FnOnce(u32) -> Option<PathBuf>,
    ) -> Result<Home, FilesError> {
        let Some(owner) = owner else { return Ok(Home::System) };
        let Some(path) = home_of(owner) else { return Ok(Home::Nowhere) };
        let folder = Folder::open(&self.at(&path))?;
        Ok(folder.map_or(Home::Nowhere, |folder| Home::Of(folder.owned_by(owner))))
    }

    /// A folder of the system's; links on the way are its administrator's.
    fn folder(&self, path: &str) -> Result<Option<Folder>, FilesError> {
        Folder::open(&self.at(Path::new(path)))
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The folders of a runtime whose administrator may have named another one, that one first.
    fn configured_folders(
        &self,
        home: &Home,
        configured: impl FnOnce(&Self) -> Result<Option<String>, FilesError>,
        system: &[&str],
        of_user: &str,
    ) -> Result<Vec<Folder>, FilesError> {
        let named = match home {
            Home::System => configured(self)?,
            Home::Of(_) | Home::Nowhere => None,
        };
        let system: Vec<&str> =
            named.as_deref().into_iter().chain(system.iter().copied()).collect();
        self.folders(home, &system, Some(of_user))
    }

    /// The folders at these places of the system's, or at this one of the user's; first what is there.
    fn folders(
        &self,
        home: &Home,
        system: &[&str],
        of_user: Option<&str>,
    ) -> Result<Vec<Folder>, FilesError> {
        let found = match (home, of_user) {
            (Home::System, _) => {
                system.iter().map(|path| self.folder(path)).collect::<Result<Vec<_>, _>>()?
            }
            (Home::Of(folder), Some(below)) => vec![folder.folder(below)?],
            (Home::Of(_), None) | (Home::Nowhere, _) => Vec::new(),
        };
        Ok(found.into_iter().flatten().collect())
    }
}

/// The first of these that tells; where none does, the first error of those that failed. One that is being written
/// would tell, and what another has in its place would stand for minutes: then nothing is told yet.
fn first<T: Copy>(
    places: &[T],
    mut tell: impl FnMut(T) -> Result<Option<Told>, FilesError>,
) -> Result<Option<Told>, FilesError> {
    let mut failed = Ok(None);
    for place in places {
        match tell(*place) {
            // A file without any name keeps nobody from another that has one.
            Ok(Some(told)) if told != Told::default() => return Ok(Some(told)),
            Err(busy @ FilesError::Busy { .. }) => return Err(busy),
            Err(error) if failed.is_ok() => failed = Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    failed
}

/// Whether what was found where an id's own things lie says that it is of that id: a folder that was copied, or whose
/// container was set up anew, has another's. What says nothing of it (an older form) is taken.
fn is_of(stored: Option<&str>, id: &str) -> bool {
    stored.is_none_or(|stored| stored == id)
}
