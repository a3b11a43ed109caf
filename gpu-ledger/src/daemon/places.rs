//! How many places at the socket there are, and how many of them one user can take.
//!
//! Everybody may connect. So whoever is not trusted (root, the daemon's own user, and of readings the
//! group) shares places with the others, has few of them, and never those that are kept for the trusted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::request::Peer;

/// Connections at one time; more are closed at once.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Of those, how many all users but root and the daemon's own may hold together, …
const CONNECTIONS_SHARED_MAX: usize = 48;
/// … and each of them alone.
pub(super) const CONNECTIONS_OF_USER_MAX: usize = 16;
/// Readings of the journal by those who see all, …
const READINGS_TRUSTED_MAX: usize = 2;
/// … by all others together, …
const READINGS_SHARED_MAX: usize = 2;
/// … and by each of those alone.
const READINGS_OF_USER_MAX: usize = 1;

/// Held for as long as a place is taken.
pub(super) type Place = Vec<OwnedSemaphorePermit>;

/// Places that each user has a number of.
#[derive(Debug)]
struct ByUser {
    of_user_max: usize,
    users: Mutex<BTreeMap<u32, Arc<Semaphore>>>,
}

impl ByUser {
    const fn new(of_user_max: usize) -> Self {
        Self { of_user_max, users: Mutex::new(BTreeMap::new()) }
    }

    fn of(&self, uid: u32) -> Arc<Semaphore> {
        // Whoever panicked left a map that is whole.
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        // A place that is held, or waited for, holds its user's: so there are no more than connections.
        users.retain(|_, places| Arc::strong_count(places) > 1);
        let places = users.entry(uid).or_insert_with(|| Arc::new(Semaphore::new(self.of_user_max)));
        Arc::clone(places)
    }
}

/// Every place there is.
#[derive(Debug)]
pub(super) struct Places {
    connections: Arc<Semaphore>,
    connections_shared: Arc<Semaphore>,
    connections_of: ByUser,
    readings_trusted: Arc<Semaphore>,
    readings_shared: Arc<Semaphore>,
    readings_of: ByUser,
}

impl Default for Places {
    fn default() -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Self {
            connections: semaphore(CONNECTIONS_MAX),
            connections_shared: semaphore(CONNECTIONS_SHARED_MAX),
            connections_of: ByUser::new(CONNECTIONS_OF_USER_MAX),
            readings_trusted: semaphore(READINGS_TRUSTED_MAX),
            readings_shared: semaphore(READINGS_SHARED_MAX),
            readings_of: ByUser::new(READINGS_OF_USER_MAX),
        }
    }
}

impl Places {
    /// A place for a connection of this user; none where there is none left for them.
    pub(super) fn connection(&self, uid: u32) -> Option<Place> {
        let mut place = Vec::with_capacity(3);
        if !is_own(uid) {
            place.push(self.connections_of.of(uid).try_acquire_owned().ok()?);
            place.push(Arc::clone(&self.connections_shared).try_acquire_owned().ok()?);
        }
        place.push(Arc::clone(&self.connections).try_acquire_owned().ok()?);
        Some(place)
    }

    /// A place to read the journal from; none where none became free in time.
    pub(super) async fn reading(&self, peer: Peer, patience: Duration) -> Option<Place> {
        let taken = async {
            if peer.sees_all {
                return Some(vec![Arc::clone(&self.readings_trusted).acquire_owned().await.ok()?]);
            }
            let own = self.readings_of.of(peer.uid).acquire_owned().await.ok()?;
            let shared = Arc::clone(&self.readings_shared).acquire_owned().await.ok()?;
            Some(vec![own, shared])
        };
        timeout(patience, taken).await.ok()?
    }
}

/// Root and the daemon's own user.
pub(super) fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(number: u32) -> u32 {
        // Nobody whom a test may run as.
        3_000_000_000 + number
    }

    #[test]
    fn one_user_takes_few_places_all_of_them_some_and_root_always_has_one() {
        let places = Places::default();
        let taken: Vec<Place> = (0..99).filter_map(|_| places.connection(stranger(1))).collect();
        assert_eq!(taken.len(), CONNECTIONS_OF_USER_MAX);
        let others: Vec<Place> =
            (2..99).filter_map(|number| places.connection(stranger(number))).collect();
        assert_eq!(taken.len() + others.len(), CONNECTIONS_SHARED_MAX);
        let own: Vec<Place> = (0..99).filter_map(|_| places.connection(0)).collect();
        assert_eq!(own.len(), CONNECTIONS_MAX - CONNECTIONS_SHARED_MAX);
        drop(taken);
        assert!(places.connection(stranger(1)).is_some(), "what is given back is there again");
        assert!(places.connections_of.users.lock().unwrap().len() < 99);
    }

    #[test]
    fn a_stranger_reads_once_at_a_time_and_waits_for_no_place_of_the_trusted() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let places = Places::default();
            let peer = |uid, sees_all| Peer { uid, sees_all };
            let soon = Duration::from_millis(10);
            let first = places.reading(peer(stranger(1), false), soon).await;
            assert!(first.is_some());
            assert!(places.reading(peer(stranger(1), false), soon).await.is_none());
            let second = places.reading(peer(stranger(2), false), soon).await;
            assert!(second.is_some());
            assert!(places.reading(peer(stranger(3), false), soon).await.is_none());
            assert!(places.reading(peer(stranger(4), true), soon).await.is_some());
            drop(first);
            assert!(places.reading(peer(stranger(3), false), soon).await.is_some());
        });
    }
}
