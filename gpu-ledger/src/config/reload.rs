//! What a changed file would change.

use super::{Config, KEYS};

/// One key whose value differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The key, with its table.
    pub key: &'static str,
    /// What it was; `None` where it was not set.
    pub from: Option<String>,
    /// What it is; `None` where it is not set.
    pub to: Option<String>,
    /// Whether it takes effect only when the daemon starts anew.
    pub needs_restart: bool,
}

/// A file that was read anew and is right as a whole: a wrong one never becomes a `Reload`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reload {
    /// What is in force from now on: the new values, but of the keys that need a restart the old ones.
    pub in_force: Config,
    /// What the file says.
    pub wanted: Config,
    /// Every key that differs from what is in force, in the order of the documented file.
    pub changes: Vec<Change>,
}

impl Reload {
    /// Compares what is in force with what a file now says.
    #[must_use]
    pub fn of(in_force: &Config, wanted: Config) -> Self {
        let changes = KEYS.iter().filter_map(|key| {
            let (from, to) = ((key.text)(in_force), (key.text)(&wanted));
            let needs_restart = key.needs_restart;
            (from != to).then_some(Change { key: key.path, from, to, needs_restart })
        });
        let changes = changes.collect();
        let mut next = in_force.clone();
        next.rules.clone_from(&wanted.rules);
        next.mark_interval = wanted.mark_interval;
        next.on_loss = wanted.on_loss;
        next.cmdline = wanted.cmdline;
        next.log.clone_from(&wanted.log);
        next.prices.clone_from(&wanted.prices);
        next.metrics.textfile.clone_from(&wanted.metrics.textfile);
        next.metrics.interval = wanted.metrics.interval;
        next.socket.group.clone_from(&wanted.socket.group);
        Self { in_force: next, wanted, changes }
    }

    /// The keys that take effect only when the daemon starts anew.
    pub fn waiting_for_restart(&self) -> impl Iterator<Item = &'static str> {
        self.changes.iter().filter(|change| change.needs_restart).map(|change| change.key)
    }
}
