//! What is attributed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Kind;
use super::labels::bounded;
use crate::argv::Printed;
use crate::escape::escape_bounded;
use crate::identity::{Program, User};
use crate::kernel::CgroupId;
use crate::place::Place;
use crate::unit::GpuUuid;

/// Everything that attribution may see of a process that held a GPU: exactly what is stored of it.
#[derive(Clone)]
pub struct Subject<'a> {
    /// Which GPU it held.
    pub gpu: &'a GpuUuid,
    /// Where that enumerates; `None` where nobody knows.
    pub gpu_index: Option<u32>,
    /// That GPU's product name; `None` where nobody knows.
    pub gpu_name: Option<&'a str>,
    /// What it held it for.
    pub kind: Kind,
    /// Its program; `None` where nobody knows.
    pub program: Option<&'a Program>,
    /// The file name given to exec, any bytes; empty where it was not had.
    pub exe: &'a [u8],
    /// Its arguments as they are stored, so after redaction; `None` where none are stored, or none were had.
    pub argv: Option<&'a [Vec<u8>]>,
    /// The model that it served, by its arguments or those of one that it descends from; `None` where none of
    /// them names one.
    pub model: Option<&'a Arc<str>>,
    /// Whose process it is, as ids.
    pub user: User,
    /// The same as names.
    pub users: &'a Users,
    /// The paths of the control groups that it was last seen in, one a hierarchy; empty where nobody knows them.
    pub cgroups: &'a [&'a [u8]],
    /// What those mean.
    pub place: &'a Place,
    /// What the runtime calls its container; `None` where it was not to be had, or there is none.
    pub names: Option<&'a ContainerNames>,
    /// Who it descends from, by birth, the nearest first.
    pub ancestors: &'a [AncestorSubject<'a>],
}

/// Without secrets, also where all of the arguments are stored.
impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Subject");
        shown.field("gpu", &self.gpu).field("gpu_index", &self.gpu_index);
        shown.field("gpu_name", &self.gpu_name).field("kind", &self.kind);
        shown.field("program", &self.program).field("exe", &escape_bounded(self.exe, 256));
        shown.field("argv", &self.argv.map(Printed::words)).field("model", &self.model);
        shown.field("user", &self.user).field("users", &self.users);
        shown.field("place", &self.place).field("names", &self.names);
        shown.field("ancestors", &self.ancestors).finish_non_exhaustive()
    }
}

/// One of those that a process descends from.
#[derive(Clone, Debug)]
pub struct AncestorSubject<'a> {
    /// What it ran when the next one was born; `None` where nobody knows.
    pub program: Option<&'a Program>,
}

/// Users by name, as this host called them at the time of the event. `None` where an id has no name or is not
/// known itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Users {
    /// The real user.
    pub real: Option<Arc<str>>,
    /// The effective user.
    pub effective: Option<Arc<str>>,
    /// The login user.
    pub login: Option<Arc<str>>,
}

impl Users {
    /// Of ids, by what each is called.
    #[must_use]
    pub fn called(user: User, name: impl Fn(u32) -> Option<Arc<str>>) -> Self {
        let [real, effective, login] =
            [user.uid, user.euid, user.login_uid.uid()].map(|uid| uid.and_then(&name));
        Self { real, effective, login }
    }
}

/// What a container's runtime calls it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ContainerNames {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its image, as it was asked for.
    pub image: Option<Arc<str>>,
    /// The project of a compose file.
    pub compose_project: Option<Arc<str>>,
    /// The service of a compose file.
    pub compose_service: Option<Arc<str>>,
    /// The pod's name.
    pub pod: Option<Arc<str>>,
    /// The pod's namespace.
    pub namespace: Option<Arc<str>>,
    /// Its labels and its pod's, which go first.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

impl ContainerNames {
    /// The same as they are stored: safe to print, and without secrets.
    #[must_use]
    pub fn safe(self) -> Self {
        let safe = |name: Option<Arc<str>>| name.map(bounded);
        let labels = self.labels.into_iter();
        Self {
            name: safe(self.name),
            image: safe(self.image),
            compose_project: safe(self.compose_project),
            compose_service: safe(self.compose_service),
            pod: safe(self.pod),
            namespace: safe(self.namespace),
            labels: labels.map(|(name, value)| (name, bounded(value))).collect(),
        }
    }
}

/// The path of the last group that a process was seen in, of each hierarchy: v2 first. Empty where one of them is
/// not known: then nobody knows where it ran.
pub fn last_paths<'p>(
    cgroups: impl IntoIterator<Item = (CgroupId, Option<&'p [u8]>)>,
) -> Vec<&'p [u8]> {
    let mut last: BTreeMap<u32, Option<&[u8]>> = BTreeMap::new();
    for (cgroup, path) in cgroups {
        last.insert(cgroup.hierarchy, path);
    }
    last.into_values().collect::<Option<_>>().unwrap_or_default()
}
