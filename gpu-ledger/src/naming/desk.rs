//! A shelf, and the thread that fills it.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::QUESTIONS_MAX;
use super::shelf::{Answer, Next, Shelf};
use crate::clock::Clock;
use crate::unit::BootNs;

/// Names of one kind, and who asks for them.
pub(super) struct Desk<K, V> {
    /// `user-names`: the thread's name too.
    name: &'static str,
    state: Mutex<State<K, V>>,
    bell: Condvar,
}

struct State<K, V> {
    shelf: Shelf<K, V>,
    is_closed: bool,
    /// Questions without room were told.
    is_told: bool,
}

impl<K, V> Desk<K, V>
where
    K: Ord + Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    /// With a thread of its own for what may hang. It ends when the desk is closed and the question at hand is
    /// answered, and keeps no process.
    pub(super) fn open(
        name: &'static str,
        known_max: usize,
        clock: &Clock,
        mut answer: impl FnMut(&K) -> Answer<V> + Send + 'static,
    ) -> Arc<Self> {
        let shelf = Shelf::new(known_max, QUESTIONS_MAX);
        let state = Mutex::new(State { shelf, is_closed: false, is_told: false });
        let desk = Arc::new(Self { name, state, bell: Condvar::new() });
        let (clerk, clock) = (Arc::clone(&desk), clock.clone());
        let work = move || {
            while let Some(key) = clerk.next(&clock) {
                let answer = answer(&key);
                clerk.lock().shelf.answered(&key, answer, clock.now().boot);
            }
        };
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            tracing::error!(%error, "nobody asks for {name}: there will be none");
        }
        desk
    }

    /// The name, as far as it is known. Never waits.
    pub(super) fn look(&self, key: &K, now: BootNs) -> Option<V> {
        let mut state = self.lock();
        let value = state.shelf.look(key, now);
        self.see_to(state);
        value
    }

    /// Has all of these asked for that are not known.
    pub(super) fn look_at_all(&self, keys: impl IntoIterator<Item = K>, now: BootNs) {
        // What it takes to make the keys is not done under the lock; for none it is not taken.
        let keys: Vec<K> = keys.into_iter().collect();
        if keys.is_empty() {
            return;
        }
        let mut state = self.lock();
        for key in &keys {
            // Asked for, whatever is known of it now.
            let _ = state.shelf.look(key, now);
        }
        self.see_to(state);
    }

    fn see_to(&self, mut state: MutexGuard<'_, State<K, V>>) {
        if state.shelf.dropped() > 0 && !std::mem::replace(&mut state.is_told, true) {
            let name = self.name;
            tracing::warn!(
                "more than {QUESTIONS_MAX} questions for {name} wait: what has no room is asked when it is needed again"
            );
        }
        if state.shelf.has_questions() {
            self.bell.notify_one();
        }
    }

    /// The next question, once there is one; `None` when the desk is closed.
    fn next(&self, clock: &Clock) -> Option<K> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let now = clock.now().boot;
            state = match state.shelf.next(now) {
                Next::Ask(key) => return Some(key),
                Next::Wait(None) => self.bell.wait(state).unwrap_or_else(PoisonError::into_inner),
                Next::Wait(Some(until)) => {
                    let time = Duration::from_nanos(until.0.saturating_sub(now.0));
                    let woken = self.bell.wait_timeout(state, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl<K, V> Desk<K, V> {
    /// Nothing is asked any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.bell.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> fmt::Debug for Desk<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("name", &self.name).finish_non_exhaustive()
    }
}
