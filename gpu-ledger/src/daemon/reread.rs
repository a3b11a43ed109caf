//! The operator's files, read again beside the loop: thousands of rules take seconds to be read, and events, clients
//! and the service manager's watchdog do not wait for them.
//!
//! One reading at a time. Whoever asks during one may have changed a file that is read by then: another reading
//! follows, however often it was asked for.

use tokio::task::{JoinError, JoinHandle};

use super::DaemonOptions;
use super::rules::{self, Found};
use crate::clock::Stamp;
use crate::config::{Config, ConfigError, RulesError};

/// What the files say now.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) config: Config,
    /// The rules that it names.
    pub(super) rules: Result<Found, RulesError>,
}

impl Files {
    /// Reads them; takes as long as it takes.
    pub(super) fn read(options: &DaemonOptions) -> Result<Self, ConfigError> {
        let config = options.config()?;
        let rules = rules::read(&config).map(Found::of);
        Ok(Self { config, rules })
    }
}

/// Readings, one after the other.
#[derive(Debug)]
pub(super) struct Readings<T> {
    under_way: Option<UnderWay<T>>,
}

#[derive(Debug)]
struct UnderWay<T> {
    since: Stamp,
    read: JoinHandle<T>,
    /// It was asked for once more since.
    is_outdated: bool,
}

impl<T> Default for Readings<T> {
    fn default() -> Self {
        Self { under_way: None }
    }
}

impl<T: Send + 'static> Readings<T> {
    /// Begins one on a thread of its own, or remembers that another one is to follow.
    pub(super) fn ask(&mut self, now: Stamp, read: impl FnOnce() -> T + Send + 'static) {
        if let Some(under_way) = &mut self.under_way {
            under_way.is_outdated = true;
            return;
        }
        let read = tokio::task::spawn_blocking(read);
        self.under_way = Some(UnderWay { since: now, read, is_outdated: false });
    }

    /// Since when one is under way.
    pub(super) fn since(&self) -> Option<Stamp> {
        self.under_way.as_ref().map(|under_way| under_way.since)
    }

    /// What the next one found, and whether another is to follow; for ever, where none is under way. May be given up
    /// and asked again.
    pub(super) async fn next(&mut self) -> (Result<T, JoinError>, bool) {
        let Some(under_way) = &mut self.under_way else { return std::future::pending().await };
        let found = (&mut under_way.read).await;
        let is_outdated = under_way.is_outdated;
        self.under_way = None;
        (found, is_outdated)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    /// A reading that is held goes on beside everything else, and whoever asks meanwhile gets one more and no two.
    #[test]
    fn a_reading_that_is_held_holds_up_nothing_and_the_last_file_wins() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (now, mut readings) = (Clock::system().now(), Readings::default());
            let (let_go, held) = mpsc::channel::<&'static str>();
            assert_eq!(readings.since(), None);
            readings.ask(now, move || held.recv().unwrap());
            let mut ticks = 0;
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            while ticks < 20 {
                tokio::select! {
                    _ = tick.tick() => ticks += 1,
                    _ = readings.next() => panic!("it is held"),
                }
                readings.ask(now, || panic!("one is under way"));
                assert_eq!(readings.since(), Some(now));
            }
            let_go.send("the first file").unwrap();
            let (found, is_outdated) = readings.next().await;
            assert_eq!((found.unwrap(), is_outdated), ("the first file", true));
            readings.ask(now, || "the last file");
            let (found, is_outdated) = readings.next().await;
            assert_eq!((found.unwrap(), is_outdated), ("the last file", false));
            assert_eq!(readings.since(), None);
        });
    }

    #[test]
    fn a_reading_that_broke_off_is_told_and_the_next_one_works() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (now, mut readings) = (Clock::system().now(), Readings::default());
            readings.ask(now, || std::panic::resume_unwind(Box::new("broke off")));
            assert!(readings.next().await.0.is_err());
            readings.ask(now, || 1);
            assert_eq!(readings.next().await.0.unwrap(), 1);
        });
    }
}
