//! What a rule can look at, and what of a process stands under each of those words.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::attribution::labels::bounded;
use crate::attribution::ladder::job as job_called;
use crate::attribution::{ContainerNames, Subject};
use crate::escape::{escape_bounded, printable_bounded};
use crate::identity::Program;

/// A word on the left of a condition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Key {
    /// One of the fixed words.
    Of(Field),
    /// `labels.NAME`: a label of the container or pod.
    Label(Arc<str>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(field) => f.pad(field.as_str()),
            Self::Label(name) if is_bare(name) => write!(f, "labels.{name}"),
            Self::Label(name) => write!(f, "labels.{name:?}"),
        }
    }
}

impl Key {
    /// A value of the key, or a part of one, as text: what is escaped already is not escaped again.
    pub(super) fn shown(&self, value: &[u8], chars_max: usize) -> String {
        match self {
            Self::Of(field) if field.is_bytes() => escape_bounded(value, chars_max),
            Self::Of(_) | Self::Label(_) => printable_bounded(value, chars_max),
        }
    }
}

/// Whether TOML takes it as a key without quotation marks.
fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// A fixed word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Field {
    Exe,
    Argv,
    CommandLine,
    Program,
    Model,
    Ancestor,
    User,
    LoginUser,
    Cgroup,
    Unit,
    UserUnit,
    Slice,
    Container,
    ContainerOf,
    Image,
    ComposeProject,
    ComposeService,
    Pod,
    Namespace,
    Job,
    Scheduler,
    Gpu,
}

impl Field {
    pub(super) const ALL: [Self; 22] = [
        Self::Exe,
        Self::Argv,
        Self::CommandLine,
        Self::Program,
        Self::Model,
        Self::Ancestor,
        Self::User,
        Self::LoginUser,
        Self::Cgroup,
        Self::Unit,
        Self::UserUnit,
        Self::Slice,
        Self::Container,
        Self::ContainerOf,
        Self::Image,
        Self::ComposeProject,
        Self::ComposeService,
        Self::Pod,
        Self::Namespace,
        Self::Job,
        Self::Scheduler,
        Self::Gpu,
    ];

    /// The word in the file.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Exe => "exe",
            Self::Argv => "argv",
            Self::CommandLine => "command_line",
            Self::Program => "program",
            Self::Model => "model",
            Self::Ancestor => "ancestor",
            Self::User => "user",
            Self::LoginUser => "login_user",
            Self::Cgroup => "cgroup",
            Self::Unit => "unit",
            Self::UserUnit => "user_unit",
            Self::Slice => "slice",
            Self::Container => "container",
            Self::ContainerOf => "container_of",
            Self::Image => "image",
            Self::ComposeProject => "compose_project",
            Self::ComposeService => "compose_service",
            Self::Pod => "pod",
            Self::Namespace => "namespace",
            Self::Job => "job",
            Self::Scheduler => "scheduler",
            Self::Gpu => "gpu",
        }
    }

    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == word)
    }

    /// Whether it looks at what the maker of a container chose: the name of a user's own is anything that they like.
    pub(super) const fn is_of_container(self) -> bool {
        use Field::{ComposeProject, ComposeService, Container, Image, Namespace, Pod};
        matches!(self, Container | Image | ComposeProject | ComposeService | Pod | Namespace)
    }

    /// Whether it looks at arguments, which need not be stored.
    pub(super) const fn is_of_arguments(self) -> bool {
        matches!(self, Self::Argv | Self::CommandLine)
    }

    /// Whether nothing stands under the word where no arguments are stored. A program is had from the image
    /// ([`Program`]) in every mode, a model from the arguments alone.
    pub(super) const fn needs_arguments(self) -> bool {
        self.is_of_arguments() || matches!(self, Self::Model)
    }

    /// Whether what stands under the word is bytes of a process's own, and no name that was made text before.
    const fn is_bytes(self) -> bool {
        matches!(self, Self::Exe | Self::Argv | Self::CommandLine | Self::Cgroup)
    }

    /// Everything that stands under the word, none of it empty. Nothing where nobody knows.
    pub(super) fn values<'a>(self, subject: &Subject<'a>) -> Vec<Value<'a>> {
        let place = subject.place;
        let values = match self {
            Self::Exe => vec![Some(Cow::Borrowed(subject.exe))],
            Self::Argv => return filled(subject.argv.unwrap_or_default().iter().map(bytes)),
            Self::CommandLine => vec![subject.argv.map(|words| Cow::Owned(words.join(&b' ')))],
            // As they are stored, so escaped: what was booked and what is replayed are then the same.
            Self::Program => vec![subject.program.map(stored)],
            Self::Model => vec![text(subject.model)],
            Self::Ancestor => {
                let programs = subject.ancestors.iter().filter_map(|one| one.program);
                return filled(programs.map(stored));
            }
            Self::User => {
                vec![subject.users.real.as_ref().map(safe), subject.user.uid.map(number)]
            }
            Self::LoginUser => {
                let login = subject.users.login.as_ref().map(safe);
                vec![login, subject.user.login_uid.uid().map(number)]
            }
            Self::Cgroup => return filled(subject.cgroups.iter().map(bytes)),
            Self::Unit => vec![text(place.unit.as_ref())],
            Self::UserUnit => vec![text(place.user_unit.as_ref())],
            Self::Slice => vec![text(place.slice.as_ref())],
            Self::Container => {
                let id = place.container.as_ref().map(|container| &container.id);
                vec![called(subject, |names| names.name.as_ref()), text(id)]
            }
            Self::ContainerOf => {
                let is_in_one = place.container.is_some()
                    || place.pod.is_some()
                    || subject.names.is_some_and(|names| *names != ContainerNames::default());
                let of_system = || Cow::Borrowed(SYSTEM.as_bytes());
                let owner = place.inner_owner().map(|owner| Cow::Owned(owner.as_bytes().to_vec()));
                vec![is_in_one.then(|| owner.unwrap_or_else(of_system))]
            }
            Self::Image => vec![called(subject, |names| names.image.as_ref())],
            Self::ComposeProject => vec![called(subject, |names| names.compose_project.as_ref())],
            Self::ComposeService => vec![called(subject, |names| names.compose_service.as_ref())],
            Self::Pod => {
                let uid = place.pod.as_ref().map(|pod| &pod.uid);
                vec![called(subject, |names| names.pod.as_ref()), text(uid)]
            }
            Self::Namespace => vec![called(subject, |names| names.namespace.as_ref())],
            // As its scheduler calls it, and as its account is called.
            Self::Job => {
                let id = place.job.as_ref().and_then(|job| job.id.as_ref());
                let title = place.job.as_ref().and_then(job_called);
                let title = title.map(|title| Cow::Owned(title.as_bytes().to_vec()));
                vec![text(id), title]
            }
            Self::Scheduler => {
                let word = place.job.as_ref().map(|job| job.scheduler.as_str());
                vec![word.map(|word| Cow::Borrowed(word.as_bytes()))]
            }
            Self::Gpu => vec![
                subject.gpu_index.map(number),
                text(Some(&subject.gpu.0)),
                subject.gpu_name.map(|name| Cow::Borrowed(name.as_bytes())),
            ],
        };
        filled(values.into_iter().flatten())
    }
}

/// One value: any bytes.
pub(super) type Value<'a> = Cow<'a, [u8]>;

fn filled<'a>(values: impl Iterator<Item = Value<'a>>) -> Vec<Value<'a>> {
    values.filter(|value| !value.is_empty()).collect()
}

/// One of the names that a runtime gave.
fn called<'a>(
    subject: &Subject<'a>,
    name: impl Fn(&'a ContainerNames) -> Option<&'a Arc<str>>,
) -> Option<Value<'a>> {
    name(subject.names?).map(safe)
}

/// What stands under `container_of` where no user's manager has the container.
pub(super) const SYSTEM: &str = "system";

/// A text of a stranger's as it is stored, so that a capture takes no more than what is.
fn safe(text: &Arc<str>) -> Value<'_> {
    let stored = bounded(Arc::clone(text));
    if Arc::ptr_eq(&stored, text) {
        return Cow::Borrowed(text.as_bytes());
    }
    Cow::Owned(stored.as_bytes().to_vec())
}

fn stored(program: &Program) -> Value<'static> {
    Cow::Owned(program.to_string().into_bytes())
}

fn bytes<B: AsRef<[u8]> + ?Sized>(bytes: &B) -> Value<'_> {
    Cow::Borrowed(bytes.as_ref())
}

fn text(text: Option<&Arc<str>>) -> Option<Value<'_>> {
    text.map(|text| Cow::Borrowed(text.as_bytes()))
}

fn number(number: u32) -> Value<'static> {
    Cow::Owned(number.to_string().into_bytes())
}

/// The values of one process under the words that some rule looks at.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    fields: Vec<(Field, Vec<Value<'a>>)>,
    labels: Vec<(&'a str, [Value<'a>; 1])>,
}

impl<'a> Seen<'a> {
    /// `fields` and `labels` ascending: those that some rule looks at.
    pub(super) fn of(subject: &Subject<'a>, fields: &[Field], labels: &[Arc<str>]) -> Self {
        let own = subject.names.map(|names| &names.labels).into_iter().flatten();
        // A map's order is the one that is searched in.
        let labels =
            own.filter(|(name, value)| !value.is_empty() && labels.binary_search(name).is_ok());
        Self {
            fields: fields.iter().map(|field| (*field, field.values(subject))).collect(),
            labels: labels.map(|(name, value)| (&**name, [safe(value)])).collect(),
        }
    }

    /// What stands under a word; nothing where nobody knows.
    pub(super) fn values(&self, key: &Key) -> &[Value<'a>] {
        match key {
            Key::Of(field) => {
                let found = self.fields.iter().find(|(one, _)| one == field);
                found.map_or(&[], |(_, values)| values)
            }
            Key::Label(name) => {
                let at = self.labels.binary_search_by(|(one, _)| (*one).cmp(name));
                at.ok().and_then(|at| self.labels.get(at)).map_or(&[], |(_, value)| value)
            }
        }
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (Field, &[Value<'a>])> {
        self.fields.iter().map(|(field, values)| (*field, values.as_slice()))
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = (&'a str, &[Value<'a>])> {
        self.labels.iter().map(|(name, value)| (*name, value.as_slice()))
    }
}
