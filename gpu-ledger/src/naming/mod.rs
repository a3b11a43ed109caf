//! What users and containers are called: asked beside the join, remembered, never waited for.
//!
//! Purpose: a [`Directory`] that knows. Users are asked of the system's own lookup (NSS), which may hang in a
//! network; containers of a helper that runs as root and is started for each question, since the daemon may read no
//! runtime's files: each on a thread of its own, ahead of the need, as soon as a process of a user or
//! the group of a container is seen. May touch: NSS, the helper's socket, in the helper (and in a trace of root's)
//! the files of runtimes. May not: have anybody wait; ask a runtime; let a name that could not be had cost
//! more than the name; grow without a bound.
//!
//! ```text
//! observer ─ meet ─► shelf ─► thread ─► NSS · helper ─► files of Docker, Podman, containerd, CRI-O
//! host ─ user, container ─┘ (what is there, at once)
//! ```

mod answer;
mod asked;
mod client;
mod desk;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod helper;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

pub use answer::{ANSWER_BYTES_MAX, VERSION};
pub use asked::{QUESTION_BYTES_MAX, Question, QuestionError};
pub use client::{AskError, DEADLINE, SOCKET_DEFAULT, ask};
pub use files::{Files, FilesError};
pub use helper::{Outcome, answer_to, serve};
pub use shelf::{ABSENT_NS, FRESH_NS, SOON_NS, UNFOUND_NS};

use self::desk::Desk;
use self::shelf::Answer;
use crate::attribution::{Blobs, ContainerNames, Directory};
use crate::clock::Clock;
use crate::identity::{CgroupPaths, Snapshot, User};
use crate::kernel::{Event, LoginUid, Subject};
use crate::place::Place;

/// Where the package of ollama keeps its models (ollama's install.sh: the home of its user).
pub const OLLAMA_MODELS_DEFAULT: &str = "/usr/share/ollama/.ollama/models";
/// Names of users that are remembered.
pub const USERS_MAX: usize = 4_096;
/// Names of containers that are remembered: some hundred bytes each, 12 KiB where somebody wills it so.
pub const CONTAINERS_MAX: usize = 2_048;
/// Questions of each kind that wait.
pub const QUESTIONS_MAX: usize = 1_024;
/// The helper is asked no more often than this: systemd takes a socket for run wild that it has to start more
/// than 200 programs for in 2 s, from version 254 on 150 (systemd.socket(5), `TriggerLimitBurst=`,
/// `PollLimitBurst=`).
const PACE: std::time::Duration = std::time::Duration::from_millis(20);

/// Who knows what containers are called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Nobody: containers go by their ids.
    Nobody,
    /// The helper, at this socket.
    Helper(PathBuf),
    /// The files of the runtimes, which root alone can read.
    Files,
}

/// Names, as far as they are known.
#[derive(Debug)]
pub struct Naming {
    clock: Clock,
    users: Arc<Desk<u32, Arc<str>>>,
    /// `None` where nobody knows.
    containers: Option<Arc<Desk<Question, Arc<ContainerNames>>>>,
    /// What ollama calls its blobs; `None` where nobody looks.
    models: Option<Arc<Desk<(), Arc<Blobs>>>>,
}

impl Naming {
    /// Begins to ask.
    #[must_use]
    pub fn start(clock: Clock, source: Source) -> Self {
        let users = |uid: &u32| user_name(*uid);
        match source {
            Source::Nobody => Self::asking(clock, users, None::<fn(&Question) -> _>),
            Source::Files => {
                let files = Files::below(std::path::Path::new("/"));
                let look = move |question: &Question| of_files(&files, question);
                Self::asking(clock, users, Some(look))
            }
            Source::Helper(socket) => {
                let asks = AsksHelper { socket, clock: clock.clone(), is_absent: false };
                let mut asks = asks;
                Self::asking(clock, users, Some(move |question: &Question| asks.ask(question)))
            }
        }
    }

    /// Asks these.
    fn asking(
        clock: Clock,
        user: impl FnMut(&u32) -> Answer<Arc<str>> + Send + 'static,
        container: Option<impl FnMut(&Question) -> Answer<Arc<ContainerNames>> + Send + 'static>,
    ) -> Self {
        let users = Desk::open("user-names", USERS_MAX, &clock, user);
        let containers = container
            .map(|container| Desk::open("container-names", CONTAINERS_MAX, &clock, container));
        Self { clock, users, containers, models: None }
    }

    /// Reads what ollama calls its blobs, too, where it keeps its models (`OLLAMA_MODELS`).
    #[must_use]
    pub fn with_models(mut self, folder: PathBuf) -> Self {
        let read = move |(): &()| match Blobs::read(&folder) {
            Ok(blobs) => Answer::Found(Arc::new(blobs)),
            // Most hosts have none.
            Err(error) => {
                tracing::debug!("models of ollama go by their blobs: {error}");
                Answer::Absent
            }
        };
        self.models = Some(Desk::open("ollama-models", 1, &self.clock, read));
        // Ahead of the need.
        drop(self.blobs());
        self
    }

    /// Sees to it that whoever these events are about has a name by the time it is needed. Groups are told before
    /// any process is in them, processes before they can open anything.
    pub fn meet(&self, events: &[Event]) {
        let mut users = BTreeSet::new();
        let mut last = None;
        let mut groups = Vec::new();
        for event in events {
            match event {
                Event::Fork(fork) => meet_user(&mut users, &mut last, &fork.subject),
                Event::Exec(exec) => meet_user(&mut users, &mut last, &exec.subject),
                // An exit tells of nobody new; the opener of a device was born or seen before.
                Event::Exit(_) | Event::DeviceTouch(_) => {}
                Event::CgroupMade(made) => groups.extend(made.path.as_deref()),
            }
        }
        self.look_ahead(users, groups);
    }

    /// The same of the groups that there are.
    pub fn meet_groups(&self, paths: &CgroupPaths) {
        self.look_ahead(BTreeSet::new(), paths.iter().map(|(_, path)| path));
    }

    /// The same of those that live.
    pub fn meet_living(&self, snapshot: &Snapshot) {
        let mut users = BTreeSet::new();
        let mut groups = BTreeSet::new();
        for process in &snapshot.processes {
            let User { uid, euid, login_uid } = process.user;
            users.extend([uid, euid, login_uid.uid()].into_iter().flatten());
            groups.extend(process.cgroups.iter().map(|(_, path)| path.as_ref()));
        }
        self.look_ahead(users, groups);
    }

    fn look_ahead<'p>(&self, users: BTreeSet<u32>, groups: impl IntoIterator<Item = &'p [u8]>) {
        let now = self.clock.now().boot;
        self.users.look_at_all(users, now);
        let Some(containers) = &self.containers else { return };
        let questions = groups.into_iter().map(|path| Question::about(&Place::of([path])));
        containers.look_at_all(questions.flatten(), now);
    }
}

impl Directory for Naming {
    fn user(&self, uid: u32) -> Option<Arc<str>> {
        self.users.look(&uid, self.clock.now().boot)
    }

    fn container(&self, place: &Place) -> Option<Arc<ContainerNames>> {
        // The host's runtimes know nothing of what another system's made.
        let container = place.container.as_ref().filter(|_| place.within.is_none())?;
        if let Some(names) = asked::named_by_its_group(container.runtime, &container.id) {
            return Some(Arc::new(names));
        }
        let question = Question::about(place)?;
        self.containers.as_ref()?.look(&question, self.clock.now().boot)
    }

    fn blobs(&self) -> Arc<Blobs> {
        let known = self.models.as_ref().and_then(|desk| desk.look(&(), self.clock.now().boot));
        // Of one that is in no manifest the digest stands, as where there is no manifest.
        known.unwrap_or_default()
    }
}

impl Drop for Naming {
    fn drop(&mut self) {
        self.users.close();
        if let Some(containers) = &self.containers {
            containers.close();
        }
        if let Some(models) = &self.models {
            models.close();
        }
    }
}

/// Most processes are their parent's user's.
fn meet_user(
    users: &mut BTreeSet<u32>,
    last: &mut Option<(Option<u32>, Option<u32>, LoginUid)>,
    subject: &Subject,
) {
    let these = (subject.uid, subject.euid, subject.login_uid);
    if last.replace(these) == Some(these) {
        return;
    }
    users.extend([subject.uid, subject.euid, subject.login_uid.uid()].into_iter().flatten());
}

/// The system's own lookup, which may go over a network.
fn user_name(uid: u32) -> Answer<Arc<str>> {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => Answer::Found(user.name.into()),
        Ok(None) => Answer::Unfound,
        Err(error) => {
            tracing::debug!(%error, uid, "the user cannot be looked up");
            Answer::Unfound
        }
    }
}

/// Where a user's home is, by the same.
#[must_use]
pub fn home_of(uid: u32) -> Option<PathBuf> {
    nix::unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.dir)
}

fn of_files(files: &Files, question: &Question) -> Answer<Arc<ContainerNames>> {
    match files.names_of(question, home_of) {
        Ok(Some(names)) => Answer::Found(Arc::new(names)),
        Ok(None) => Answer::Unfound,
        Err(error) => {
            tracing::debug!("no names for {question}: {error}");
            Answer::Unfound
        }
    }
}

/// Asks the helper, at its pace.
struct AsksHelper {
    socket: PathBuf,
    clock: Clock,
    /// As it was told last.
    is_absent: bool,
}

impl AsksHelper {
    fn ask(&mut self, question: &Question) -> Answer<Arc<ContainerNames>> {
        let asked = ask(&self.socket, question, &self.clock);
        let was_absent = std::mem::replace(
            &mut self.is_absent,
            matches!(asked, Err(AskError::Absent { .. } | AskError::Denied { .. })),
        );
        let answer = match asked {
            Ok(Some(names)) => Answer::Found(Arc::new(names)),
            Ok(None) => Answer::Unfound,
            Err(error @ (AskError::Absent { .. } | AskError::Denied { .. })) => {
                // No lack of what was asked for: whoever wants names sets the helper up.
                if !was_absent {
                    tracing::info!("containers go by their ids: {error}");
                }
                Answer::Absent
            }
            Err(error @ AskError::Broken { .. }) => {
                tracing::debug!("no names for {question}: {error}");
                Answer::Unfound
            }
        };
        if was_absent && !self.is_absent {
            tracing::info!("the helper that tells names of containers answers again");
        }
        std::thread::sleep(PACE);
        answer
    }
}
