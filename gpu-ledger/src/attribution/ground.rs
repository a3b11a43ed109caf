//! On what ground a process is called what it is without a rule, and what would have named it otherwise.

use std::sync::Arc;

use serde::Serialize;

use super::{Subject, ladder};
use crate::escape::escape_bounded;
use crate::place::{Container, Place};
use crate::settlement::Ground;

/// Characters shown of a value.
const VALUE_CHARS_MAX: usize = 256;

/// What decided by it: the value that was looked at. Safe to print.
fn value(ground: Ground, subject: &Subject<'_>, account: &str) -> String {
    let place = subject.place;
    let value = match ground {
        Ground::Job => place.job.as_ref().map(|job| {
            let step = job.step.as_ref().map_or(String::new(), |step| format!(" step {step}"));
            format!("{account}{step}")
        }),
        Ground::Pod => place.pod.as_ref().map(|pod| of_user(place, &format!("uid {}", pod.uid))),
        Ground::Container => {
            place.container.as_ref().map(|one| of_user(place, &container(subject, one)))
        }
        Ground::Unit => unit(place),
        Ground::Scheduler => ladder::scheduler(subject).map(|one| format!("started by {one}")),
        Ground::Desktop | Ground::Program => Some(ladder::program(subject.program).to_string()),
    };
    escape_bounded(value.as_deref().unwrap_or(account).as_bytes(), VALUE_CHARS_MAX)
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
        value: value(ground, subject, &account),
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
