//! How near the driver came to evicting a row that nobody had read.
//!
//! The driver keeps 128 dead rows for good, one a pid, and evicts the oldest for every further one
//! (open-gpu-kernel-modules 595.45.04, `gpu_acct.c`): a full store is the usual state of a busy host, and no
//! danger. What matters is how many of its rows were not read yet, since those are younger than all others:
//! they begin to go when there are 128 of them.

use crate::accounting::harvest::DEAD_ROWS_MAX;
use crate::unit::BootNs;

/// What came closest counts for this long at least, and no longer than twice that: longer than scrapers
/// leave between two looks.
pub const MARGIN_WINDOW_NS: u64 = 60_000_000_000;

/// The margin of one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Margin {
    /// Beginning of the window that is under way; `None` before the first list.
    since: Option<BootNs>,
    /// Most unread rows in a list of this window, and of the one before.
    most: usize,
    most_before: usize,
}

impl Margin {
    /// A list showed so many dead rows that had not been read before it.
    pub(super) fn take(&mut self, at: BootNs, unread: usize) {
        let age = self.since.and_then(|since| at.since(since));
        match (self.since, age) {
            (Some(_), Some(age)) if age < MARGIN_WINDOW_NS => self.most = self.most.max(unread),
            (Some(_), None) => self.most = self.most.max(unread),
            (_, age) => {
                let is_next = age.is_some_and(|age| age < 2 * MARGIN_WINDOW_NS);
                self.most_before = if is_next { self.most } else { 0 };
                (self.since, self.most) = (Some(at), unread);
            }
        }
    }

    /// Rows that the driver could still have taken when it came closest, where `died_since` may have left rows
    /// since the last list; `None` before one.
    pub(super) fn rows(&self, died_since: u64) -> Option<u64> {
        self.since?;
        let died_since = usize::try_from(died_since).unwrap_or(usize::MAX);
        let unread = self.most.max(self.most_before).max(died_since);
        u64::try_from(DEAD_ROWS_MAX.saturating_sub(unread)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> BootNs {
        BootNs(second * 1_000_000_000)
    }

    #[test]
    fn a_full_store_that_is_read_leaves_all_the_room_there_is() {
        let mut margin = Margin::default();
        assert_eq!(margin.rows(0), None, "nothing was read yet");
        for second in 0..300 {
            margin.take(at(second), 0);
        }
        assert_eq!(margin.rows(0), Some(128));
    }

    #[test]
    fn what_came_closest_counts_for_a_minute_and_then_no_more() {
        let mut margin = Margin::default();
        margin.take(at(0), 3);
        margin.take(at(10), 100);
        margin.take(at(20), 1);
        assert_eq!(margin.rows(0), Some(28));
        margin.take(at(61), 2);
        assert_eq!(margin.rows(0), Some(28));
        margin.take(at(122), 2);
        assert_eq!(margin.rows(0), Some(126));
        margin.take(at(900), 0);
        assert_eq!(margin.rows(0), Some(128));
    }

    #[test]
    fn who_died_since_the_last_list_is_not_read_either() {
        let mut margin = Margin::default();
        margin.take(at(0), 3);
        assert_eq!(margin.rows(2), Some(125));
        assert_eq!(margin.rows(90), Some(38));
        assert_eq!(margin.rows(u64::MAX), Some(0));
    }
}
