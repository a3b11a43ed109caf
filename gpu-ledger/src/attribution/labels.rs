//! By what else than its account a settlement can be billed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::Subject;
use super::rules::RuleSet;
use crate::argv::redact_word;
use crate::escape::printable_bounded;
use crate::settlement::{Ground, NamedBy};

/// Values by dimension, ascending by the dimension's word.
pub type Labels = Vec<(Arc<str>, Arc<str>)>;

/// Characters of a value that are kept: container ids have 64, image names with their digest some 200.
const VALUE_CHARS_MAX: usize = 256;

/// What a settlement is labelled with. The words are part of the journal's format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Label {
    /// The project of a compose file.
    ComposeProject,
    /// The service of a compose file.
    ComposeService,
    /// The container's whole id, or its name where that is what its group is called.
    Container,
    /// What the runtime calls the container.
    ContainerName,
    /// What gives the account its name without a rule: a [`Ground`].
    Ground,
    /// The container's image.
    Image,
    /// The batch job, `SCHEDULER ID`.
    Job,
    /// [`Kind`].
    Kind,
    /// The login user's name.
    LoginUser,
    /// The model that a runner served.
    Model,
    /// The pod's namespace.
    Namespace,
    /// `unknown` where the path of no control group is known: then no label of place says anything.
    Place,
    /// The pod's name.
    Pod,
    /// The pod's uid.
    PodUid,
    /// SHA-256 of the file of rules that was in force, where one was.
    Rules,
    /// What the account is without a rule.
    Service,
    /// The step of the batch job.
    Step,
    /// The systemd unit: of the user's manager, else of the system's.
    Unit,
    /// The real user's name.
    User,
    /// Whose manager the unit is of, or whose the container is, where it is a user's: `user@1000`; of one that is in
    /// a system container that one: `lxc web`.
    UserManager,
}

impl Label {
    /// Every one, in the order of their words.
    pub const ALL: [Self; 20] = [
        Self::ComposeProject,
        Self::ComposeService,
        Self::Container,
        Self::ContainerName,
        Self::Ground,
        Self::Image,
        Self::Job,
        Self::Kind,
        Self::LoginUser,
        Self::Model,
        Self::Namespace,
        Self::Place,
        Self::Pod,
        Self::PodUid,
        Self::Rules,
        Self::Service,
        Self::Step,
        Self::Unit,
        Self::User,
        Self::UserManager,
    ];

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ComposeProject => "compose_project",
            Self::ComposeService => "compose_service",
            Self::Container => "container",
            Self::ContainerName => "container_name",
            Self::Ground => "ground",
            Self::Image => "image",
            Self::Job => "job",
            Self::Kind => "kind",
            Self::LoginUser => "login_user",
            Self::Model => "model",
            Self::Namespace => "namespace",
            Self::Place => "place",
            Self::Pod => "pod",
            Self::PodUid => "pod_uid",
            Self::Rules => "rules",
            Self::Service => "service",
            Self::Step => "step",
            Self::Unit => "unit",
            Self::User => "user",
            Self::UserManager => "user_manager",
        }
    }
}

/// What a GPU was held for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Kind {
    /// In the driver's list of compute processes, MPS clients among them.
    Compute,
    /// In its list of graphics processes.
    Graphics,
    /// In both.
    Both,
    /// No list was read while it held the GPU.
    #[default]
    Unknown,
}

impl Kind {
    /// Of a process that was seen in these lists.
    #[must_use]
    pub const fn seen(compute: bool, graphics: bool) -> Self {
        match (compute, graphics) {
            (true, true) => Self::Both,
            (true, false) => Self::Compute,
            (false, true) => Self::Graphics,
            (false, false) => Self::Unknown,
        }
    }

    /// Of a process that was seen as both of these.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, kind) | (kind, Self::Unknown) => kind,
            (Self::Compute, Self::Compute) => Self::Compute,
            (Self::Graphics, Self::Graphics) => Self::Graphics,
            _ => Self::Both,
        }
    }

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Graphics => "graphics",
            Self::Both => "both",
            Self::Unknown => "unknown",
        }
    }
}

/// The labels of a subject. `service`: its account without a rule, and what names that; `rules`: those in force.
pub(super) fn of(
    subject: &Subject<'_>,
    (ground, service): (Ground, &str),
    rules: &RuleSet,
) -> Labels {
    let place = subject.place;
    let called = |pick: fn(&super::ContainerNames) -> &Option<Arc<str>>| {
        subject.names.and_then(|names| pick(names).clone())
    };
    let job = place.job.as_ref();
    let of_id = super::ladder::without_name(place);
    let all = [
        (Label::ComposeProject, called(|names| &names.compose_project)),
        (Label::ComposeService, called(|names| &names.compose_service)),
        (Label::Container, place.container.as_ref().map(|one| Arc::clone(&one.id))),
        (Label::ContainerName, called(|names| &names.name)),
        (Label::Ground, Some(ground.as_str().into())),
        (Label::Image, called(|names| &names.image)),
        (Label::Job, job.and_then(super::ladder::job)),
        (Label::Kind, Some(subject.kind.as_str().into())),
        (Label::LoginUser, subject.users.login.clone()),
        (Label::Model, subject.model.cloned()),
        (Label::Namespace, called(|names| &names.namespace)),
        (Label::Place, subject.cgroups.is_empty().then(|| UNKNOWN.into())),
        (Label::Pod, called(|names| &names.pod)),
        (Label::PodUid, place.pod.as_ref().map(|pod| Arc::clone(&pod.uid))),
        (Label::Rules, (!rules.is_empty()).then(|| rules.digest().to_string().into())),
        (Label::Service, Some(service.into())),
        (Label::Step, job.and_then(|job| job.step.clone())),
        (Label::Unit, place.user_unit.clone().or_else(|| place.unit.clone())),
        (Label::User, subject.users.real.clone()),
        (Label::UserManager, place.user_manager().or_else(|| place.inner_owner())),
    ];
    let known = all.into_iter().filter_map(|(label, value)| Some((label, value?)));
    let known = known.map(|(label, value)| {
        // Ids are no secrets, and a digest may look like one.
        let is_safe = match label {
            Label::Rules => true,
            Label::Container => is_id(&value),
            Label::Service => of_id.as_ref() == Some(&value),
            _ => false,
        };
        (label.as_str().into(), if is_safe { value } else { bounded(value) })
    });
    // What a rule looked at is stored with what it decided.
    let looked_at = rules.labels().filter_map(|name| {
        let value = subject.names?.labels.get(name)?;
        Some((format!("{OF_RUNTIME}{name}").into(), bounded(Arc::clone(value))))
    });
    let mut labels: Labels = known.chain(looked_at).collect();
    labels.sort_unstable();
    labels
}

/// What stands before the name of a label that the runtime has of the container or pod.
const OF_RUNTIME: &str = "labels.";

/// The labels of the container or pod, as far as they are stored.
#[must_use]
pub fn labels_of_names(labels: &[(Arc<str>, Arc<str>)]) -> BTreeMap<Arc<str>, Arc<str>> {
    let own = labels.iter().filter_map(|(word, value)| {
        Some((word.strip_prefix(OF_RUNTIME)?.into(), Arc::clone(value)))
    });
    own.collect()
}

/// A name that is made by those who are billed, safe to print, and without a secret.
pub(in crate::attribution) fn bounded(value: Arc<str>) -> Arc<str> {
    let value = match redact_word(value.as_bytes()) {
        Cow::Borrowed(_) => value,
        Cow::Owned(safe) => String::from_utf8_lossy(&safe).into(),
    };
    let plain = value.len() <= VALUE_CHARS_MAX && !value.chars().any(crate::escape::is_unprintable);
    if plain { value } else { printable_bounded(value.as_bytes(), VALUE_CHARS_MAX).into() }
}

/// A value that is not known.
const UNKNOWN: &str = "unknown";

/// One label of a settlement.
#[must_use]
pub fn label_of(labels: &[(Arc<str>, Arc<str>)], label: Label) -> Option<&Arc<str>> {
    labels.iter().find(|(word, _)| **word == *label.as_str()).map(|(_, value)| value)
}

/// A dimension of place that a bill can be made by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dimension {
    /// By systemd unit.
    Unit,
    /// By container.
    Container,
    /// By pod.
    Pod,
    /// By namespace.
    Namespace,
    /// By batch job.
    Job,
    /// By what accounts are without rules.
    Service,
    /// By what a GPU was held for.
    Kind,
    /// By the model that was served.
    Model,
}

impl Dimension {
    /// Every one, in the order of the help text.
    pub const ALL: [Self; 8] = [
        Self::Service,
        Self::Unit,
        Self::Container,
        Self::Pod,
        Self::Namespace,
        Self::Job,
        Self::Kind,
        Self::Model,
    ];

    /// The word on the command line and in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Namespace => "namespace",
            Self::Job => "job",
            Self::Service => "service",
            Self::Kind => "kind",
            Self::Model => "model",
        }
    }

    /// What a settlement with these labels stands under.
    #[must_use]
    pub fn value(self, labels: &[(Arc<str>, Arc<str>)]) -> Value {
        let of = |label| label_of(labels, label).cloned();
        // Every settlement with a name has one, since there are labels.
        if of(Label::Service).is_none() {
            return Value::Unknown;
        }
        let manager = label_of(labels, Label::UserManager).map(|manager| &**manager);
        let of_user = |name: &Arc<str>| super::ladder::of_manager(name, manager);
        let is_placed = of(Label::Place).is_none();
        let or_none = |value: Option<Arc<str>>| match value {
            Some(value) => Value::Is(value),
            None if is_placed => Value::None,
            None => Value::Unknown,
        };
        match self {
            Self::Service => of(Label::Service).map_or(Value::Unknown, Value::Is),
            Self::Kind => match of(Label::Kind) {
                Some(kind) if &*kind != UNKNOWN => Value::Is(kind),
                _ => Value::Unknown,
            },
            // Arguments that were not captured or are not stored name none either.
            Self::Model => of(Label::Model).map_or(Value::None, Value::Is),
            Self::Unit => or_none(of(Label::Unit).map(|unit| of_user(&unit))),
            Self::Job => or_none(of(Label::Job)),
            Self::Container => or_none(of(Label::Container).map(|id| {
                let called = of(Label::ContainerName);
                of_user(&called.map_or_else(|| id.clone(), |name| format!("{name} ({id})").into()))
            })),
            Self::Pod => or_none(of(Label::PodUid).map(|uid| {
                let called = pod_called(of(Label::Namespace).as_ref(), of(Label::Pod).as_ref());
                of_user(&called.unwrap_or(uid))
            })),
            Self::Namespace => match (of(Label::Namespace), of(Label::PodUid)) {
                // What the pod's namespace is called was not to be had.
                (None, Some(_)) => Value::Unknown,
                (namespace, _) => or_none(namespace),
            },
        }
    }
}

impl Dimension {
    /// What names what a settlement with these labels stands under; `None` where that is of one kind alone.
    #[must_use]
    pub fn named_by(self, labels: &[(Arc<str>, Arc<str>)]) -> Option<NamedBy> {
        let ground = || label_of(labels, Label::Ground).and_then(|word| Ground::of(word));
        (self == Self::Service).then(|| ground().map_or(NamedBy::Unknown, NamedBy::Ground))
    }
}

/// `lab/train-0`; `None` where its name was not to be had.
pub(super) fn pod_called(namespace: Option<&Arc<str>>, pod: Option<&Arc<str>>) -> Option<Arc<str>> {
    match (namespace, pod) {
        (Some(namespace), Some(pod)) => Some(format!("{namespace}/{pod}").into()),
        (None, Some(pod)) => Some(Arc::clone(pod)),
        (_, None) => None,
    }
}

/// Digits of a container's id.
const ID_DIGITS: usize = 64;
/// Digits of a container's id as runtimes show it: as few as tell containers apart, most of the time.
pub const SHORT_ID_DIGITS: usize = 12;

/// Whether it is the whole id of a container.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where the whole id of a container stands in a name, if one does.
#[must_use]
pub fn id_within(name: &str) -> Option<Range<usize>> {
    let mut from: usize = 0;
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()) {
        let to = from.checked_add(word.len())?;
        if is_id(word) {
            return Some(from..to);
        }
        // What parts words is a character of any length.
        let parting = name.get(to..)?.chars().next().map_or(0, char::len_utf8);
        from = to.checked_add(parting)?;
    }
    None
}

/// A name with the id in it, if there is one, cut to so many digits.
#[must_use]
pub fn with_short_id(name: &str, digits: usize) -> Cow<'_, str> {
    let cut = || {
        let id = id_within(name)?;
        let kept = name.get(id.start..id.end)?.get(..digits)?;
        Some(format!("{}{kept}{}", name.get(..id.start)?, name.get(id.end..)?))
    };
    cut().map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Under what a settlement stands in one dimension.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// This.
    Is(Arc<str>),
    /// It is known to be under nothing.
    None,
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
