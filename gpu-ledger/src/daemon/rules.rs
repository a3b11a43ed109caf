//! The rules in force: read at the start, and again when somebody asks for it; and what came of the asking.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::Daemon;
use super::request::Peer;
use super::status::rfc3339;
use crate::argv::CmdlineMode;
use crate::attribution::Attributor;
use crate::attribution::rules::{HostGpu, Shadowed, Shadows};
use crate::clock::Stamp;
use crate::config::{Config, RULES_DEFAULT, Rules, RulesError};
use crate::host::GpuRows;
use crate::journal::store::{Files, StateDir};
use crate::metrics::RulesMeters;
use crate::naming::Naming;
use crate::observer::Observer;
use crate::observer::heap::give_back;

/// Rules that never match, shown in the log and in a status; `rules check` has all.
const SHADOWED_SHOWN_MAX: usize = 10;
/// Characters of why a reload was refused.
const REFUSED_CHARS_MAX: usize = 2_000;

/// What accounts are made by from here on.
pub(super) struct InForce {
    pub(super) rules: Rules,
    /// Has them, and what users and containers are called.
    pub(super) attributor: Attributor,
    /// Since when this run goes by them.
    since: Stamp,
    /// Those of them that never match.
    shadows: Shadows,
    /// Whether their file lies beside the journal, whose entries name it.
    is_kept: bool,
}

impl InForce {
    /// What a host begins with.
    pub(super) fn at_start(
        found: Found,
        names: Arc<Naming>,
        cmdline: CmdlineMode,
        observer: &mut Observer,
    ) -> Self {
        found.tell();
        let Found { rules, shadows } = found;
        let attributor = Attributor::new(names).with_rules(&rules.set).with_cmdline(cmdline);
        observer.host_mut().attribute_by(attributor.clone());
        let since = observer.host().coverage().end;
        Self { rules, attributor, since, shadows, is_kept: false }
    }
}

/// Rules that were read, and which of them never match.
#[derive(Debug)]
pub(super) struct Found {
    rules: Rules,
    shadows: Shadows,
}

impl Found {
    /// Takes its time, where there are many.
    pub(super) fn of(rules: Rules) -> Self {
        let shadows = rules.set.shadows();
        Self { rules, shadows }
    }

    /// Says which rules are in force, and which of them never match.
    fn tell(&self) {
        let Self { rules, shadows } = self;
        let (count, sha256) = (rules.set.len(), rules.set.digest());
        let Some(path) = &rules.path else {
            return tracing::info!("no rules: there is no {RULES_DEFAULT}");
        };
        let path = path.display();
        tracing::info!(%path, count, %sha256, "rules in force");
        let (told, more) = shown(shadows);
        for Shadowed { rule, line, by, by_line } in told {
            tracing::warn!(
                "{path}:{line}: rule {} never matches: rule {} (line {by_line}) takes everything that it would; put \
                 it before that one, or leave it out",
                rule.0,
                by.0
            );
        }
        if more > 0 {
            tracing::warn!("{path}: {more} more rules never match: gpu-ledger rules check");
        }
        if shadows.unlooked > 0 {
            let unlooked = shadows.unlooked;
            tracing::warn!(
                "{path}: of {unlooked} rules it is not known whether they ever match: gpu-ledger rules check"
            );
        }
    }
}

/// What came of the reloads that somebody asked for.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    taken: u64,
    refused: u64,
    /// Of the last one, where it was refused.
    standing: Option<Refused>,
}

/// What reading the rules again came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reread {
    /// Others are in force.
    Changed,
    /// The same are.
    Same,
    /// The same are, since those that were read are wrong.
    Refused,
}

/// A reload that was refused.
#[derive(Clone, Debug)]
struct Refused {
    at: Stamp,
    why: String,
}

/// The rules in force, as a status has them.
#[derive(Serialize, Debug)]
pub(crate) struct RulesStatus {
    /// Null where there is no file, and so no rule.
    path: Option<String>,
    sha256: String,
    rules: usize,
    since: String,
    /// The first that never match.
    shadowed: Vec<Shadowed>,
    shadowed_more: usize,
}

/// That the last reload was refused, as a status has it.
#[derive(Serialize, Debug)]
pub(crate) struct RefusedStatus {
    at: String,
    /// Null for whoever does not see all: the operator's files may be in it.
    error: Option<String>,
}

/// Reads the rules that the configuration names.
pub(super) fn read(config: &Config) -> Result<Rules, RulesError> {
    Rules::read_or_default(config.rules.as_deref())?.fit(config.cmdline)
}

impl Daemon {
    /// Takes the rules that the configuration names. Wrong ones, and a `cmdline` that stores none of what they look
    /// at, change nothing: both stay in force together, and so does what the configuration said of them.
    pub(super) fn reload_rules(
        &mut self,
        wanted: &mut Config,
        read: Result<Found, RulesError>,
    ) -> Reread {
        match read {
            Ok(found) => {
                let reread = self.take_rules(found, wanted.cmdline);
                self.reloads.taken = self.reloads.taken.saturating_add(1);
                self.reloads.standing = None;
                reread
            }
            Err(error) => {
                self.tell_of_refused_rules(wanted, &error);
                self.refuse(&error);
                wanted.rules.clone_from(&self.config.rules);
                wanted.cmdline = self.config.cmdline;
                Reread::Refused
            }
        }
    }

    /// Everything about it in one line: what stays, what was refused, why, and what to do.
    fn tell_of_refused_rules(&self, wanted: &Config, error: &RulesError) {
        let rules = &self.in_force.rules;
        let file = |path: Option<&Path>| path.map(|path| path.display().to_string());
        let refused_cmdline =
            (wanted.cmdline != self.config.cmdline).then(|| wanted.cmdline.as_str());
        tracing::error!(
            in_force = file(rules.path.as_deref()).unwrap_or_else(|| "no rules".to_owned()),
            count = rules.set.len(),
            sha256 = %rules.set.digest(),
            cmdline = self.config.cmdline.as_str(),
            refused_rules = file(wanted.rules.as_deref().or_else(|| Some(Path::new(RULES_DEFAULT)))),
            refused_cmdline,
            "the rules stay as they were, and `cmdline` too: {error}; correct it until `gpu-ledger rules check` \
             finds nothing, and reload again"
        );
    }

    /// Remembers that a reload was refused, and why.
    pub(super) fn refuse(&mut self, why: &dyn Display) {
        self.reloads.refused = self.reloads.refused.saturating_add(1);
        let why = why.to_string().chars().take(REFUSED_CHARS_MAX).collect();
        self.reloads.standing = Some(Refused { at: self.clock.now(), why });
    }

    /// Puts rules in force: what is settled from here on falls under them.
    fn take_rules(&mut self, found: Found, cmdline: CmdlineMode) -> Reread {
        let (old, rules) = (&self.in_force, &found.rules);
        let is_same = rules.set.digest() == old.rules.set.digest() && rules.path == old.rules.path;
        let since = if is_same {
            if rules.path.is_some() {
                tracing::info!("the rules were read again: nothing in them changed");
            }
            old.since
        } else {
            found.tell();
            self.clock.now()
        };
        let Found { rules, shadows } = found;
        let attributor = self.in_force.attributor.clone();
        let attributor = attributor.with_rules(&rules.set).with_cmdline(cmdline);
        self.observer.host_mut().attribute_by(attributor.clone());
        let is_kept = is_same && self.in_force.is_kept;
        self.in_force = InForce { rules, attributor, since, shadows, is_kept };
        self.keep_rules();
        self.tell_unmatched_gpus();
        // The tree of a file takes several times as much as its rules.
        give_back();
        if is_same { Reread::Same } else { Reread::Changed }
    }

    /// Keeps the file of rules beside the journal, before anything that was attributed by it is entered. Where that
    /// fails it is tried again with the next mark: an entry says which rules it goes by in any case.
    pub(super) fn keep_rules(&mut self) {
        let InForce { rules, is_kept, .. } = &mut self.in_force;
        if *is_kept || rules.set.file().is_none() {
            return;
        }
        let dir = StateDir::at(&self.config.state_dir);
        match Files::of_writer(&dir).and_then(|files| files.keep(&rules.bytes)) {
            Ok(_) => {
                *is_kept = true;
                rules.bytes = Bytes::new();
            }
            Err(error) => tracing::error!(
                sha256 = %rules.set.digest(),
                "the rules in force are not kept beside the journal, so nobody can replay what they say: {error}"
            ),
        }
    }

    /// Says which rules no GPU of this host can fall under, once its GPUs are known.
    pub(super) fn tell_unmatched_gpus(&self) {
        let gpus: Vec<HostGpu<'_>> =
            self.observer.host().gpus().values().map(GpuRows::for_rules).collect();
        if gpus.is_empty() {
            return;
        }
        for unmatched in self.in_force.rules.set.unmatched_gpus(&gpus) {
            tracing::warn!("rules: {unmatched}");
        }
    }

    /// The rules in force, for a status.
    pub(super) fn rules_status(&self) -> RulesStatus {
        let InForce { rules, since, shadows, .. } = &self.in_force;
        let (shadowed, shadowed_more) = shown(shadows);
        RulesStatus {
            path: rules.path.as_ref().map(|path| path.display().to_string()),
            sha256: rules.set.digest().to_string(),
            rules: rules.set.len(),
            since: rfc3339(since.wall),
            shadowed: shadowed.to_vec(),
            shadowed_more,
        }
    }

    /// That the last reload was refused, for a status.
    pub(super) fn refused_status(&self, peer: Peer) -> Option<RefusedStatus> {
        self.reloads.standing.as_ref().map(|refused| RefusedStatus {
            at: rfc3339(refused.at.wall),
            error: peer.sees_all.then(|| refused.why.clone()),
        })
    }

    /// The same for the meters.
    pub(super) fn rules_meters(&self) -> RulesMeters {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let InForce { rules, shadows, .. } = &self.in_force;
        RulesMeters {
            rules: count(rules.set.len()),
            shadowed: count(shadows.count()),
            reloads_taken: self.reloads.taken,
            reloads_refused: self.reloads.refused,
            is_refused: self.reloads.standing.is_some(),
        }
    }
}

/// As many rules that never match as are shown, and how many more there are.
fn shown(shadows: &Shadows) -> (&[Shadowed], usize) {
    let all = &shadows.shadowed;
    let shown = all.get(..SHADOWED_SHOWN_MAX).unwrap_or(all);
    (shown, all.len().saturating_sub(shown.len()).saturating_add(shadows.more))
}
