//! Attribution: from what is stored of a process to the account that pays.
//!
//! Purpose: one account a settlement, and the labels by which it can be billed otherwise. May touch: nothing;
//! names come from a [`Directory`] that the shell fills, files of rules are read by the shell; `ollama` reads
//! manifests under the folder it is given. May not: see anything of a process that is not stored as well, change
//! a figure, wait for a name, or answer with nothing.

mod labels;
mod ladder;
mod model;
mod ollama;
mod process;
pub mod rules;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use labels::{Dimension, Kind, Label, Labels, Value, label_of};
pub(crate) use ladder::program as name_of;
pub use model::model_of;
pub use ollama::{Blobs, MANIFESTS_MAX, OllamaError};
pub use process::Process;
pub use subject::{AncestorSubject, ContainerNames, Subject, Users};

use self::rules::{RuleSet, Ruled};
use crate::identity::User;
use crate::kernel::LoginUid;
use crate::place::Container;
use crate::settlement::Account;

/// What users and containers are called. Whoever fills it does so beside the join, which never waits.
pub trait Directory: Send + Sync + fmt::Debug {
    /// A user's name; `None` where there is none, or nobody has looked yet.
    fn user(&self, uid: u32) -> Option<Arc<str>>;

    /// What the runtime calls a container; `None` where it was not to be had, or nobody has answered yet.
    fn container(&self, container: &Container) -> Option<Arc<ContainerNames>>;
}

/// Nobody is called anything.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Nameless;

impl Directory for Nameless {
    fn user(&self, _: u32) -> Option<Arc<str>> {
        None
    }

    fn container(&self, _: &Container) -> Option<Arc<ContainerNames>> {
        None
    }
}

/// On whose account, and by what else it can be billed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributed {
    /// The account.
    pub account: Account,
    /// Further lines.
    pub labels: Labels,
}

/// How accounts are made.
#[derive(Clone, Debug)]
pub struct Attributor {
    directory: Arc<dyn Directory>,
    rules: Arc<RuleSet>,
}

impl Default for Attributor {
    fn default() -> Self {
        Self::new(Arc::new(Nameless))
    }
}

impl Attributor {
    /// With these names, and no rules.
    #[must_use]
    pub fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory, rules: Arc::default() }
    }

    /// With these rules instead of those it had.
    #[must_use]
    pub fn with_rules(mut self, rules: &Arc<RuleSet>) -> Self {
        self.rules = Arc::clone(rules);
        self
    }

    /// A user as names.
    #[must_use]
    pub fn users(&self, user: User) -> Users {
        let name = |uid: Option<u32>| self.directory.user(uid?);
        let login = match user.login_uid {
            LoginUid::Set(uid) => Some(uid),
            LoginUid::Unset | LoginUid::Unread => None,
        };
        Users { real: name(user.uid), effective: name(user.euid), login: name(login) }
    }

    /// What the runtime calls a container.
    #[must_use]
    pub fn container(&self, container: &Container) -> Option<Arc<ContainerNames>> {
        self.directory.container(container)
    }

    /// On whose account a process stands.
    #[must_use]
    pub fn attribute(&self, subject: &Subject<'_>) -> Attributed {
        let service = ladder::service(subject);
        let labels = labels::of(subject, &service);
        let account = match self.rules.classify(subject) {
            Some(Ruled { account, rule }) => Account::Ruled { name: account, rule },
            None => Account::Unclassified(service),
        };
        Attributed { account, labels }
    }
}
