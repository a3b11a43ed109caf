//! Attribution: from what is stored of a process to the account that pays.
//!
//! Purpose: one account a settlement, and the labels by which it can be billed otherwise. May touch: nothing;
//! names come from a [`Directory`] that the shell fills, files of rules are read by the shell; `ollama` reads
//! manifests under the folder it is given. May not: see anything of a process that is not stored as well, change
//! a figure, wait for a name, or answer with nothing.

mod ground;
mod labels;
mod ladder;
mod model;
mod ollama;
mod process;
pub mod rules;
mod subject;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use ground::{Grounded, grounds};
pub use labels::{
    Dimension, Kind, Label, Labels, SHORT_ID_DIGITS, Value, id_within, label_of, labels_of_names,
    with_short_id,
};
pub(crate) use ladder::program as name_of;
pub use model::model_of;
pub use ollama::{Blobs, MANIFESTS_MAX, OllamaError};
pub use process::Process;
pub use subject::{AncestorSubject, ContainerNames, Subject, Users, last_paths};

use self::rules::{RuleSet, Ruled};
use crate::argv::{CmdlineMode, redact_word, stored, stored_file};
use crate::identity::{Program, User, argv_words};
use crate::journal::Digest;
use crate::kernel::Argv;
use crate::place::Place;
use crate::settlement::Account;

/// What users and containers are called. Whoever fills it does so beside the join, which never waits.
pub trait Directory: Send + Sync + fmt::Debug {
    /// A user's name; `None` where there is none, or nobody has looked yet.
    fn user(&self, uid: u32) -> Option<Arc<str>>;

    /// What the runtime calls the container of a place; `None` where it was not to be had, nobody has answered
    /// yet, or there is none. Whose the place is says whose runtime may tell.
    fn container(&self, place: &Place) -> Option<Arc<ContainerNames>>;

    /// What ollama calls its blobs, as far as that was to be had.
    fn blobs(&self) -> Arc<Blobs> {
        Arc::default()
    }
}

/// Nobody is called anything.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Nameless;

impl Directory for Nameless {
    fn user(&self, _: u32) -> Option<Arc<str>> {
        None
    }

    fn container(&self, _: &Place) -> Option<Arc<ContainerNames>> {
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
    /// How much of command lines is stored, and so seen.
    cmdline: CmdlineMode,
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
        Self { directory, rules: Arc::default(), cmdline: CmdlineMode::default() }
    }

    /// With these rules instead of those it had.
    #[must_use]
    pub fn with_rules(mut self, rules: &Arc<RuleSet>) -> Self {
        self.rules = Arc::clone(rules);
        self
    }

    /// SHA-256 of the file of its rules; `None` where there is none.
    #[must_use]
    pub fn rules_file(&self) -> Option<Digest> {
        self.rules.file()
    }

    /// With so much of command lines stored instead of as much as it was.
    #[must_use]
    pub const fn with_cmdline(mut self, cmdline: CmdlineMode) -> Self {
        self.cmdline = cmdline;
        self
    }

    /// The words of captured arguments, as they are stored; `None` where none are, or none were captured.
    #[must_use]
    pub fn words(&self, argv: &Argv) -> Option<Vec<Vec<u8>>> {
        if argv.bytes.is_empty() {
            return None;
        }
        let bytes = stored(argv, self.cmdline).bytes?;
        let argv = Argv { bytes, true_length: argv.true_length, state: argv.state };
        Some(argv_words(&argv).into_iter().map(<[u8]>::to_vec).collect())
    }

    /// The file name given to exec, as it is stored; empty where none is, or none was had.
    #[must_use]
    pub fn file<'f>(&self, name: &'f [u8]) -> Cow<'f, [u8]> {
        stored_file(name, self.cmdline)
    }

    /// The model that a program served by its arguments, whose other words are not looked at again; `None` where
    /// they name none, and where none of them may be stored.
    #[must_use]
    pub fn model(&self, program: Option<&Program>, argv: &Argv) -> Option<Arc<str>> {
        match self.cmdline {
            CmdlineMode::None | CmdlineMode::Exe => None,
            CmdlineMode::Redacted | CmdlineMode::Full => {
                let words: Vec<Vec<u8>> =
                    argv_words(argv).into_iter().map(<[u8]>::to_vec).collect();
                let model =
                    model_of(program.map(Program::as_bytes), &words, &self.directory.blobs())?;
                let safe = redact_word(model.as_bytes());
                Some(String::from_utf8_lossy(&safe).into())
            }
        }
    }

    /// A user as names.
    #[must_use]
    pub fn users(&self, user: User) -> Users {
        Users::called(user, |uid| self.directory.user(uid))
    }

    /// What the runtime calls the container of a place.
    #[must_use]
    pub fn container(&self, place: &Place) -> Option<Arc<ContainerNames>> {
        self.directory.container(place)
    }

    /// On whose account a process stands.
    #[must_use]
    pub fn attribute(&self, subject: &Subject<'_>) -> Attributed {
        let (ground, service) = ladder::service(subject);
        let labels = labels::of(subject, (ground, &service), &self.rules);
        let account = match self.rules.classify(subject) {
            Some(Ruled { account, rule }) => Account::Ruled { name: account, rule },
            None => Account::by(ground, service),
        };
        Attributed { account, labels }
    }
}
