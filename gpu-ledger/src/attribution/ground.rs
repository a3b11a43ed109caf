//! On what ground a process is called what it is without a rule, and what would have named it otherwise.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::{Subject, ladder};
use crate::escape::escape_bounded;
use crate::place::{Container, Place};

/// Characters shown of a value.
const VALUE_CHARS_MAX: usize = 256;

/// What names an account where no rule does, in the order in which it decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// The batch job.
    Job,
    /// The pod.
    Pod,
    /// The container.
    Container,
    /// Its program is part of a desktop.
    Desktop,
    /// The systemd unit.
    Unit,
    /// The command that a scheduler (cron, at) started.
    Scheduler,
    /// Its program.
    Program,
}

impl Ground {
    /// Every one, in the order in which they decide.
    pub const ALL: [Self; 7] = [
        Self::Job,
        Self::Pod,
        Self::Container,
        Self::Desktop,
        Self::Unit,
        Self::Scheduler,
        Self::Program,
    ];

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Desktop => "desktop",
            Self::Unit => "unit",
            Self::Scheduler => "scheduler",
            Self::Program => "program",
        }
    }

    /// What decided by it: the value that was looked at. Safe to print.
    fn value(self, subject: &Subject<'_>, account: &str) -> String {
        let place = subject.place;
        let value = match self {
            Self::Job => place.job.as_ref().map(|job| {
                let step = job.step.as_ref().map_or(String::new(), |step| format!(" step {step}"));
                format!("{account}{step}")
            }),
            Self::Pod => place.pod.as_ref().map(|pod| of_user(place, &format!("uid {}", pod.uid))),
            Self::Container => {
                place.container.as_ref().map(|one| of_user(place, &container(subject, one)))
            }
            Self::Unit => unit(place),
            Self::Scheduler => ladder::scheduler(subject).map(|one| format!("started by {one}")),
            Self::Desktop | Self::Program => Some(ladder::program(subject.program).to_string()),
        };
        escape_bounded(value.as_deref().unwrap_or(account).as_bytes(), VALUE_CHARS_MAX)
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One ground that has a name for a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Grounded {
    /// Which.
    pub ground: Ground,
    /// What was looked at, safe to print.
    pub value: String,
    /// The account that it makes.
    pub account: Arc<str>,
}

/// Every ground that has a name for a process, the one that decides first; the program is always the last.
#[must_use]
pub fn grounds(subject: &Subject<'_>) -> Vec<Grounded> {
    let rungs = ladder::rungs(subject).into_iter();
    let grounded = rungs.map(|(ground, account)| Grounded {
        ground,
        value: ground.value(subject, &account),
        account,
    });
    grounded.collect()
}

/// Whatever its runtime calls it, and its id.
fn container(subject: &Subject<'_>, container: &Container) -> String {
    let runtime = container.runtime.map_or("", |runtime| runtime.as_str());
    let names = subject.names;
    let compose = names.and_then(|names| names.compose_service.as_deref());
    let name = names.and_then(|names| names.name.as_deref());
    let id = format!("{runtime} {}", container.id);
    match (compose, name) {
        (Some(service), _) => format!("compose service {service}, {}", id.trim_start()),
        (None, Some(name)) => format!("named {name}, {}", id.trim_start()),
        (None, None) => id.trim_start().to_owned(),
    }
}

/// What is a user's own, with whose it is.
fn of_user(place: &Place, what: &str) -> String {
    place.inner_owner().map_or_else(|| what.to_owned(), |owner| format!("{what} of {owner}"))
}

/// The unit that stands for a service: of the user's manager, else of the system's.
fn unit(place: &Place) -> Option<String> {
    match (place.user_service(), &place.user_unit, place.user_manager()) {
        (Some(_), Some(unit), Some(manager)) => Some(format!("{unit} of {manager}")),
        (Some(_), Some(unit), None) => Some(format!("{unit} of a user's manager")),
        _ => place.unit.as_ref().map(ToString::to_string),
    }
}
