//! The rules in force: read at the start, and again when somebody asks for it.

use super::Daemon;
use crate::config::{Config, RULES_DEFAULT, Rules};

impl Daemon {
    /// Reads the rules that the configuration names. Wrong ones change nothing: the old ones stay in force, and
    /// so does what the configuration said of them.
    pub(super) fn reload_rules(&mut self, wanted: &mut Config) {
        match Rules::read_or_default(wanted.rules.as_deref()) {
            Ok(rules) => {
                if rules.set.digest() != self.rules.set.digest() {
                    tell_of(&rules);
                } else if rules.path.is_some() {
                    tracing::info!("the rules were read again: nothing in them changed");
                }
                self.take_rules(rules);
            }
            Err(error) => {
                tracing::error!("the rules stay as they were: {error}");
                wanted.rules.clone_from(&self.config.rules);
            }
        }
    }

    /// Puts rules in force: what is settled from here on falls under them.
    pub(super) fn take_rules(&mut self, rules: Rules) {
        self.attributor = self.attributor.clone().with_rules(&rules.set);
        self.observer.host_mut().attribute_by(self.attributor.clone());
        self.rules = rules;
    }
}

/// Says which rules are in force.
pub(super) fn tell_of(rules: &Rules) {
    let (count, sha256) = (rules.set.len(), rules.set.digest());
    match &rules.path {
        Some(path) => tracing::info!(path = %path.display(), count, %sha256, "rules in force"),
        None => tracing::info!("no rules: there is no {RULES_DEFAULT}"),
    }
}
