//! The rules in force: read at the start, and again when somebody asks for it.

use std::sync::Arc;

use super::Daemon;
use crate::argv::CmdlineMode;
use crate::attribution::Attributor;
use crate::attribution::rules::HostGpu;
use crate::config::{Config, RULES_DEFAULT, Rules, RulesError};
use crate::host::GpuRows;
use crate::naming::Naming;
use crate::observer::Observer;
use crate::observer::heap::give_back;

/// What accounts are made by from here on.
pub(super) struct InForce {
    pub(super) rules: Rules,
    /// Has them, and what users and containers are called.
    pub(super) attributor: Attributor,
}

impl InForce {
    /// What a host begins with.
    pub(super) fn at_start(
        rules: Rules,
        names: Arc<Naming>,
        cmdline: CmdlineMode,
        observer: &mut Observer,
    ) -> Self {
        let attributor = Attributor::new(names).with_rules(&rules.set).with_cmdline(cmdline);
        observer.host_mut().attribute_by(attributor.clone());
        Self { rules, attributor }
    }
}

/// Reads the rules that the configuration names.
pub(super) fn read(config: &Config) -> Result<Rules, RulesError> {
    let rules = Rules::read_or_default(config.rules.as_deref())?;
    rules.fit(config.cmdline).inspect(tell_of)
}

impl Daemon {
    /// Reads the rules that the configuration names. Wrong ones change nothing: the old ones stay in force, and
    /// so does what the configuration said of them.
    pub(super) fn reload_rules(&mut self, wanted: &mut Config) {
        let read = Rules::read_or_default(wanted.rules.as_deref());
        match read.and_then(|rules| rules.fit(wanted.cmdline)) {
            Ok(rules) => {
                if rules.set.digest() != self.in_force.rules.set.digest() {
                    tell_of(&rules);
                } else if rules.path.is_some() {
                    tracing::info!("the rules were read again: nothing in them changed");
                }
                self.take_rules(rules, wanted.cmdline);
            }
            Err(error) => {
                tracing::error!("the rules stay as they were: {error}");
                wanted.rules.clone_from(&self.config.rules);
                // The old rules, too, must see what they look at.
                if let Err(error) = self.in_force.rules.clone().fit(wanted.cmdline) {
                    tracing::error!("`cmdline` stays as it was: {error}");
                    wanted.cmdline = self.config.cmdline;
                }
                self.take_rules(self.in_force.rules.clone(), wanted.cmdline);
            }
        }
    }

    /// Puts rules in force: what is settled from here on falls under them.
    fn take_rules(&mut self, rules: Rules, cmdline: CmdlineMode) {
        let attributor = self.in_force.attributor.clone();
        let attributor = attributor.with_rules(&rules.set).with_cmdline(cmdline);
        self.observer.host_mut().attribute_by(attributor.clone());
        self.in_force = InForce { rules, attributor };
        self.tell_unmatched_gpus();
        // The tree of a file takes several times as much as its rules.
        give_back();
    }
}

impl Daemon {
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
}

/// Says which rules are in force.
fn tell_of(rules: &Rules) {
    let (count, sha256) = (rules.set.len(), rules.set.digest());
    if let Some(path) = &rules.path {
        tracing::info!(path = %path.display(), count, %sha256, "rules in force");
    } else {
        tracing::info!("no rules: there is no {RULES_DEFAULT}");
    }
}
