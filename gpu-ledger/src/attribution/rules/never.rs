//! Texts that never stand under a word, whatever runs: a rule that wants one takes nothing, and nobody is told when
//! it does not. Each with what to write instead.

use super::doubt::likely_pattern;
use super::key::{Field, Key, SYSTEM};
use crate::attribution::labels::bounded;
use crate::calling::no_gpu_name;
use crate::escape::escape_bounded;
use crate::place::{Scheduler, container_kinds};

/// Characters shown of a text.
const CHARS_MAX: usize = 120;

/// Why a whole value is never this text, and what to write; `None` where one may be.
pub(super) fn why_never(key: &Key, text: &str) -> Option<String> {
    let Key::Of(field) = key else { return why_not_stored(text) };
    let shown = escape_bounded(text.as_bytes(), CHARS_MAX);
    let two = |first: &str, second: &str| {
        let (before, after) = text.split_once('/')?;
        let (before, after) =
            (escape_bounded(before.as_bytes(), 60), escape_bounded(after.as_bytes(), 60));
        Some(format!(
            "has no slash; write two conditions: {first} = \"{before}\" and {second} = \"{after}\""
        ))
    };
    let why = match field {
        Field::Unit | Field::UserUnit | Field::Slice
            if text.contains(['*', '?']) && !is_any(text, &[".service", ".scope", ".slice"]) =>
        {
            let pattern = likely_pattern(text);
            Some(format!("is taken as it stands, and is no pattern; write {pattern}"))
        }
        Field::Unit | Field::UserUnit if !is_any(text, &[".service", ".scope"]) => Some(format!(
            "is the name of a service or scope with its kind; write \"{shown}.service\", or a prefix or regex"
        )),
        Field::Slice if !is_any(text, &[".slice"]) => {
            Some(format!("is the name of a slice with its kind; write \"{shown}.slice\""))
        }
        Field::Cgroup => why_no_path(text),
        Field::Program | Field::Ancestor if text.starts_with('/') && text.len() > 1 => {
            let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or(text);
            let name = escape_bounded(name.as_bytes(), 60);
            Some(format!("is a name and no path; write \"{name}\", or look at exe"))
        }
        Field::ContainerOf if text != SYSTEM && !is_owner(text) => Some(format!(
            "is \"{SYSTEM}\", \"user@UID\" with the number of a user whose own the container is, or the system \
             container that it is in, as \"lxc 107\""
        )),
        Field::Container if text.starts_with('/') => {
            Some("has no slash before it; leave that out".to_owned())
        }
        Field::Container => {
            let runtimes = container_kinds();
            of_title(text, runtimes)
                .map(|id| format!("is the name or the id alone; write \"{id}\""))
        }
        Field::Pod => two("namespace", "pod").or_else(|| {
            of_title(text, ["pod"].into_iter())
                .map(|uid| format!("is the name or the uid alone; write \"{uid}\""))
        }),
        Field::ComposeProject | Field::ComposeService => two("compose_project", "compose_service"),
        Field::Namespace => two("namespace", "pod"),
        Field::Job => why_no_job(text),
        Field::Scheduler => why_no_scheduler(text),
        Field::Gpu => no_gpu_name(text),
        _ => None,
    };
    let is_name = matches!(
        field,
        Field::User
            | Field::LoginUser
            | Field::Container
            | Field::Image
            | Field::ComposeProject
            | Field::ComposeService
            | Field::Pod
            | Field::Namespace
    );
    why.or_else(|| if is_name { why_not_stored(text) } else { None })
}

/// The same of a text that a value is to begin with.
pub(super) fn why_never_begins(key: &Key, text: &str) -> Option<String> {
    match key {
        Key::Of(Field::Cgroup) => why_no_path(text),
        Key::Of(_) | Key::Label(_) => None,
    }
}

fn is_any(text: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| text.len() > ending.len() && text.ends_with(ending))
}

/// As `Place::inner_owner` writes it: of a user, of a container, or of one that is a user's.
fn is_owner(text: &str) -> bool {
    let is_system = |text: &str| {
        let (word, name) = text.split_once(' ').unwrap_or((text, ""));
        !name.is_empty() && container_kinds().any(|kind| kind == word)
    };
    match text.rsplit_once(" of ") {
        Some((system, user)) => is_system(system) && is_user(user),
        None => is_user(text) || is_system(text),
    }
}

fn is_user(text: &str) -> bool {
    let uid = text.strip_prefix("user@").and_then(|uid| uid.parse::<u32>().ok());
    uid.is_some_and(|uid| text == format!("user@{uid}"))
}

/// What stands behind a word of ours in the name of an account: `docker ID`, `pod UID`.
fn of_title<'w>(text: &str, mut words: impl Iterator<Item = &'w str>) -> Option<String> {
    let (word, rest) = text.split_once(' ')?;
    words.any(|one| one == word).then(|| escape_bounded(rest.as_bytes(), CHARS_MAX))
}

fn why_no_path(text: &str) -> Option<String> {
    let shown = escape_bounded(text.as_bytes(), CHARS_MAX);
    (!text.starts_with('/')).then(|| {
        format!("is a path from the root of its hierarchy, as in /proc/PID/cgroup; write \"/{shown}\", or a regex")
    })
}

fn why_no_job(text: &str) -> Option<String> {
    let is_scheduler = |word: &str| Scheduler::ALL.iter().any(|one| one.as_str() == word);
    match text.split_once(' ') {
        None => is_scheduler(text)
            .then(|| format!("is the job's id; of all jobs of it write: scheduler = \"{text}\"")),
        Some((word, id)) if is_scheduler(word) && !id.is_empty() && !id.contains(' ') => None,
        Some(_) => Some(format!(
            "is the job's id, or what schedules it and the id, as in \"slurm 4711\"; schedulers are {}",
            schedulers()
        )),
    }
}

fn why_no_scheduler(text: &str) -> Option<String> {
    let is_known = Scheduler::ALL.iter().any(|one| one.as_str() == text);
    (!is_known).then(|| format!("is none that is known; they are {}", schedulers()))
}

fn schedulers() -> String {
    Scheduler::ALL.map(Scheduler::as_str).join(", ")
}

/// Names are stored safe to print, bounded, and without what looks like a secret; rules see what is stored.
fn why_not_stored(text: &str) -> Option<String> {
    let stored = bounded(text.into());
    (*stored != *text).then(|| {
        let stored = escape_bounded(stored.as_bytes(), CHARS_MAX);
        format!("is stored as {stored:?}; write that, or a prefix or regex")
    })
}
