//! What an account is called where no rule says: the batch job, else the pod, else the container, else the
//! desktop, the service, what a scheduler of commands started, and at last the program.

use std::sync::Arc;

use super::labels::{bounded, is_id, pod_called};
use super::{ContainerNames, Subject};
use crate::identity::{Program, ProgramKind};
use crate::place::{CONTAINER, Container, DESKTOP, Job, Place, Runtime, desktop_program};
use crate::settlement::Ground;

/// Programs that start what others scheduled: Debian's cron and anacron, cronie, systemd-cron, at, BusyBox.
const SCHEDULERS: [&[u8]; 7] =
    [b"cron", b"crond", b"CRON", b"anacron", b"atd", b"fcron", b"busybox-crond"];

/// Names a process by one ground, bounded; `None` where that has no name for it.
type Rung = fn(&Subject<'_>) -> Option<Arc<str>>;

/// In the order in which they decide. The program is below them all.
const LADDER: [(Ground, Rung); 6] = [
    (Ground::Job, |subject| subject.place.job.as_ref().and_then(job).map(bounded)),
    (Ground::Pod, |subject| pod(subject).map(bounded)),
    (Ground::Container, container),
    (Ground::Desktop, desktop),
    (Ground::Unit, |subject| unit(subject).filter(|_| !subject.place.is_desktop()).map(bounded)),
    (Ground::Scheduler, |subject| scheduled(subject).map(bounded)),
];

/// The account's name, and what gives it.
pub(super) fn service(subject: &Subject<'_>) -> (Ground, Arc<str>) {
    let found = LADDER.iter().find_map(|(ground, rung)| Some((*ground, rung(subject)?)));
    found.unwrap_or_else(|| (Ground::Program, program(subject.program)))
}

/// Every ground that has a name for it, the one that decides first.
pub(super) fn rungs(subject: &Subject<'_>) -> Vec<(Ground, Arc<str>)> {
    let found = LADDER.iter().filter_map(|(ground, rung)| Some((*ground, rung(subject)?)));
    found.chain([(Ground::Program, program(subject.program))]).collect()
}

/// The program of the scheduler that started it, where one did.
pub(super) fn scheduler(subject: &Subject<'_>) -> Option<Arc<str>> {
    let ancestors = subject.ancestors.iter().filter_map(|one| one.program);
    let mut schedulers = ancestors.filter(|one| SCHEDULERS.contains(&one.as_bytes()));
    schedulers.next().map(|one| program(Some(one)))
}

/// `slurm 1234`: the numbers of two schedulers are not those of one.
pub(super) fn job(job: &Job) -> Option<Arc<str>> {
    let id = job.id.as_ref()?;
    Some(format!("{} {id}", job.scheduler.as_str()).into())
}

fn pod(subject: &Subject<'_>) -> Option<Arc<str>> {
    let pod = subject.place.pod.as_ref()?;
    let named =
        subject.names.and_then(|names| pod_called(names.namespace.as_ref(), names.pod.as_ref()));
    let pod = named.unwrap_or_else(|| format!("pod {}", pod.uid).into());
    Some(of_manager(&pod, subject.place.inner_owner().as_deref()))
}

fn container(subject: &Subject<'_>) -> Option<Arc<str>> {
    let container = subject.place.container.as_ref()?;
    let of_compose = |names: &ContainerNames| match (&names.compose_project, &names.compose_service)
    {
        (Some(project), Some(service)) if project == service => Some(Arc::clone(service)),
        (Some(project), Some(service)) => Some(format!("{project}/{service}").into()),
        (None, Some(service)) => Some(Arc::clone(service)),
        (_, None) => None,
    };
    let named = subject.names.and_then(|names| of_compose(names).or_else(|| names.name.clone()));
    let named = named.map_or_else(|| by_id(container), bounded);
    // What a user runs is not what the system runs under the same name or id.
    Some(of_manager(&named, subject.place.inner_owner().as_deref()))
}

/// What the account of its container is, where that has no name.
pub(super) fn without_name(place: &Place) -> Option<Arc<str>> {
    Some(of_manager(&by_id(place.container.as_ref()?), place.inner_owner().as_deref()))
}

/// `docker ID`, with the whole id: a bill cuts it as far as that tells its lines apart.
fn by_id(container: &Container) -> Arc<str> {
    let runtime = container.runtime.map_or(CONTAINER, Runtime::as_str);
    let name: Arc<str> = format!("{runtime} {}", container.id).into();
    // An id is no secret, and looks like one. In its place some have a name.
    if is_id(&container.id) { name } else { bounded(name) }
}

/// The service. What a user's manager runs is not what the system's runs under the same name.
fn unit(subject: &Subject<'_>) -> Option<Arc<str>> {
    let place = subject.place;
    let of_user =
        place.user_service().map(|service| of_manager(&service, place.user_manager().as_deref()));
    of_user.or_else(|| place.service())
}

/// `ollama (user@1000)`: the name of a user's unit or container, and whose manager it is of, as systemd names that.
pub(super) fn of_manager(name: &Arc<str>, manager: Option<&str>) -> Arc<str> {
    manager.map_or_else(|| Arc::clone(name), |manager| format!("{name} ({manager})").into())
}

/// All of the desktop is one line. What it started without a scope of its own runs in its unit and is not it.
fn desktop(subject: &Subject<'_>) -> Option<Arc<str>> {
    let is_part = subject.program.is_some_and(|one| desktop_program(one.as_bytes()));
    is_part.then(|| DESKTOP.into())
}

/// The command that a scheduler started, whatever that then ran: the outermost program below it that is no
/// mere shell.
fn scheduled(subject: &Subject<'_>) -> Option<Arc<str>> {
    let is_scheduler =
        |program: Option<&Program>| program.is_some_and(|one| SCHEDULERS.contains(&one.as_bytes()));
    let below = subject.ancestors.iter().position(|one| is_scheduler(one.program))?;
    let started = subject.ancestors.get(..below)?.iter().rev().map(|one| one.program);
    let started = started.chain([subject.program]);
    let says_what = |one: &&Program| {
        use ProgramKind::{Executable, Module, Script, Title};
        matches!(one.kind(), Executable | Script | Module | Title)
    };
    started.flatten().find(says_what).map(|own| program(Some(own)))
}

/// The program's name, as an account's.
pub(crate) fn program(program: Option<&Program>) -> Arc<str> {
    match program {
        Some(program) => program.to_string().into(),
        // Its identity is known, but neither its arguments nor its file name were captured.
        None => "(name not captured)".into(),
    }
}
