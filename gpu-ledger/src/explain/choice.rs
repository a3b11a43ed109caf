//! Which settlements are meant, by the words that people have for them.

use std::sync::Arc;

use super::ExplainError;
use crate::attribution::{
    Dimension, Label, Labels, SHORT_ID_DIGITS, Value, label_of, with_short_id,
};
use crate::escape::printable;
use crate::journal::entry::{OpenFigures, SettlementFigures};
use crate::settlement::{Account, SettlementId};
use crate::unit::Pid;

/// The line of what nobody can name.
const UNATTRIBUTED: &str = "unattributed";
/// Digits of the largest number there is.
const NUMBER_DIGITS_MAX: usize = 20;

/// Which settlements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The one of this id, the beginning of one, this pid, or this number in the journal.
    Id(IdWord),
    /// Those with this label.
    Labelled(Label, String),
    /// Those of this account.
    Account(String),
}

/// A word that can be a settlement's id, or mean one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdWord {
    text: String,
    number: Option<u64>,
}

/// How surely a settlement is the one that is meant, ascending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Closeness {
    /// Its id begins so.
    Beginning,
    /// Its pid, or its number in the journal.
    Number,
    /// It is what was asked for.
    Named,
}

/// What a settlement, or one that is to be, can be chosen by.
#[derive(Clone, Copy)]
pub(super) struct Choosable<'f> {
    /// Number of its entry.
    pub(super) seq: u64,
    /// Whose; a stand-in where it is another user's.
    pub(super) pid: Pid,
    /// Its account.
    pub(super) account: &'f Account,
    /// Its labels.
    pub(super) labels: &'f Labels,
}

impl<'f> Choosable<'f> {
    pub(super) const fn settled(seq: u64, figures: &'f SettlementFigures) -> Self {
        Self { seq, pid: figures.pid, account: &figures.account, labels: &figures.labels }
    }

    pub(super) const fn open(seq: u64, figures: &'f OpenFigures) -> Self {
        Self { seq, pid: figures.pid, account: &figures.account, labels: &figures.labels }
    }
}

impl IdWord {
    /// # Errors
    /// [`ExplainError::NoId`] for what no id begins like.
    pub fn parse(word: &str) -> Result<Self, ExplainError> {
        let text = word.to_ascii_lowercase();
        let is_number = text.len() <= NUMBER_DIGITS_MAX && is_of(&text, |it| it.is_ascii_digit());
        if word.is_empty() || !(is_number || begins_an_id(&text)) {
            return Err(ExplainError::NoId { word: printable(word.as_bytes()).to_string() });
        }
        let number = is_number.then(|| text.parse().ok()).flatten();
        Ok(Self { text, number })
    }

    /// Whether another one has its pid, or its start.
    pub(super) fn is_near(&self, id: &SettlementId) -> bool {
        let parts = |text: &'_ str| {
            let mut parts = text.splitn(3, '-').skip(1).map(str::to_owned);
            (parts.next(), parts.next())
        };
        let ((pid, start), (of_pid, of_start)) = (parts(&self.text), parts(id.as_str()));
        (pid.is_some() && pid == of_pid)
            || (start.is_some() && start == of_start && of_start.as_deref() != Some("none"))
    }
}

fn is_of(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(allowed)
}

/// `GPU-pid-start` as [`SettlementId`] has it, whole or cut off anywhere.
fn begins_an_id(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (gpu, pid, start) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let is_whole = pid.is_some();
    let is_number = |text: &str| is_of(text, |it| it.is_ascii_digit());
    is_of(gpu, |it| it.is_ascii_hexdigit())
        && (gpu.len() == 8 || (!is_whole && !gpu.is_empty() && gpu.len() < 8))
        && pid.is_none_or(|pid| is_number(pid) && (!pid.is_empty() || start.is_none()))
        && start.is_none_or(|start| is_number(start) || "none".starts_with(start))
}

impl Choice {
    /// By an id, or what stands for one.
    ///
    /// # Errors
    /// Those of [`IdWord::parse`].
    pub fn id(word: &str) -> Result<Self, ExplainError> {
        IdWord::parse(word).map(Self::Id)
    }

    /// By a label.
    ///
    /// # Errors
    /// [`ExplainError::Empty`] without a name.
    pub fn labelled(label: Label, name: String) -> Result<Self, ExplainError> {
        let option = option_of(label);
        if name.trim().is_empty() {
            return Err(ExplainError::Empty { option });
        }
        Ok(Self::Labelled(label, name))
    }

    /// By an account's name.
    ///
    /// # Errors
    /// [`ExplainError::Empty`] without a name.
    pub fn account(name: String) -> Result<Self, ExplainError> {
        if name.trim().is_empty() {
            return Err(ExplainError::Empty { option: "account" });
        }
        Ok(Self::Account(name))
    }

    /// The words of it: `job 4711`.
    pub(super) fn words(&self) -> String {
        let (what, name) = match self {
            Self::Id(word) => return word.text.clone(),
            Self::Account(name) => ("account", name),
            Self::Labelled(label, name) => (option_of(*label), name),
        };
        format!("{what} {}", printable(name.as_bytes()))
    }

    /// Whether it is this one, and how surely.
    pub(super) fn holds(&self, one: Choosable<'_>, id: &SettlementId) -> Option<Closeness> {
        // Whose it is the reader may not see, so it is nobody's whom he can name.
        if one.pid.is_alias() {
            return None;
        }
        match self {
            Self::Id(IdWord { text, number }) => {
                if id.as_str().eq_ignore_ascii_case(text) {
                    Some(Closeness::Named)
                } else if number.is_some_and(|it| it == one.seq || it == u64::from(one.pid.0)) {
                    Some(Closeness::Number)
                } else {
                    let begins = id.as_str().get(..text.len());
                    let begins = begins.is_some_and(|it| it.eq_ignore_ascii_case(text));
                    begins.then_some(Closeness::Beginning)
                }
            }
            Self::Account(name) => {
                // The word alone is all of them, for whatever reason.
                let is_any = name == UNATTRIBUTED && one.account.unattributed().is_some();
                let is = one.account.title() == *name || one.account.to_string() == *name || is_any;
                is.then_some(Closeness::Named)
            }
            Self::Labelled(label, name) => {
                is_labelled(one.labels, *label, name).then_some(Closeness::Named)
            }
        }
    }

    /// The id of the container of these labels, where the word is only how that begins.
    pub(super) fn container_begun<'l>(&self, labels: &'l Labels) -> Option<&'l Arc<str>> {
        let Self::Labelled(Label::Container, word) = self else { return None };
        let begin = word.split(' ').next_back().unwrap_or(word);
        let id = label_of(labels, Label::Container)?;
        (id.len() > begin.len() && id.starts_with(begin)).then_some(id)
    }

    /// What it could have been chosen by instead, as a person would type it; nothing for an id.
    pub(super) fn names(&self, one: Choosable<'_>) -> Vec<String> {
        let of = |label| label_of(one.labels, label).map(ToString::to_string);
        match self {
            Self::Id(_) => Vec::new(),
            Self::Account(_) => vec![one.account.title()],
            Self::Labelled(Label::Container, _) => {
                let short =
                    of(Label::Container).map(|id| with_short_id(&id, SHORT_ID_DIGITS).into_owned());
                [of(Label::ContainerName), short].into_iter().flatten().collect()
            }
            Self::Labelled(Label::PodUid, _) => {
                [shown(one.labels, Label::PodUid), of(Label::PodUid)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Self::Labelled(label, _) => of(*label).into_iter().collect(),
        }
    }
}

/// The option that chooses by it.
const fn option_of(label: Label) -> &'static str {
    match label {
        Label::PodUid => "pod",
        other => other.as_str(),
    }
}

/// What a bill by it calls it.
fn shown(labels: &Labels, label: Label) -> Option<String> {
    let dimension = match label {
        Label::Job => Dimension::Job,
        Label::PodUid => Dimension::Pod,
        Label::Container => Dimension::Container,
        Label::Unit => Dimension::Unit,
        _ => return None,
    };
    match dimension.value(labels) {
        Value::Is(value) => Some(value.to_string()),
        Value::None | Value::Unknown => None,
    }
}

fn is_labelled(labels: &Labels, label: Label, value: &str) -> bool {
    let of = |label| label_of(labels, label);
    let is = |own: &Arc<str>| match label {
        // As people write it: without the scheduler, the namespace, the rest of an id.
        Label::Job => **own == *value || own.split(' ').next_back() == Some(value),
        // `docker 3f2a9c0d1e4b` is how a bill has it.
        Label::Container => {
            let id = value.split(' ').next_back().unwrap_or(value);
            own.starts_with(id) && id.len() >= SHORT_ID_DIGITS || **own == *id
        }
        // `ollama.service (user@1000)`, or of whoever's manager.
        Label::Unit => {
            let named = of(Label::UserManager).and_then(|manager| {
                value.strip_suffix(')')?.strip_suffix(&**manager)?.strip_suffix(" (")
            });
            let unit = named.unwrap_or(value);
            **own == *unit || own.strip_suffix(".service") == Some(unit)
        }
        _ => **own == *value,
    };
    let by_name = match label {
        Label::Container => of(Label::ContainerName),
        Label::PodUid => of(Label::Pod),
        _ => None,
    };
    of(label).is_some_and(is)
        || by_name.is_some_and(|own| **own == *value)
        || shown(labels, label)
            .is_some_and(|own| own == value || with_short_id(&own, SHORT_ID_DIGITS) == value)
}
