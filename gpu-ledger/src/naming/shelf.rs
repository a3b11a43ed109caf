//! What was answered, what is to be asked, and when to ask again. Pure.

use std::collections::{BTreeMap, VecDeque};

use crate::unit::BootNs;

/// A name is asked for again after this long, when somebody needs it; the old one stays until then. So a changed
/// passwd entry or a renamed container is noticed.
pub const FRESH_NS: u64 = 600_000_000_000;
/// After no name was found, or its source did not answer.
pub const UNFOUND_NS: u64 = 30_000_000_000;
/// After there was nobody to ask.
pub const ABSENT_NS: u64 = 300_000_000_000;
/// What was not found the first time is asked for once more after this long, unasked: its group may have been
/// made before its name was written, and whoever needs the name may come but once.
pub const SOON_NS: u64 = 2_000_000_000;

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer<V> {
    /// This is its name.
    Found(V),
    /// It has none, or whoever knows did not say.
    Unfound,
    /// There is nobody to ask.
    Absent,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next<K> {
    /// Ask about this.
    Ask(K),
    /// Nothing, until then.
    Wait(Option<BootNs>),
}

/// Names of one kind.
#[derive(Debug)]
pub(super) struct Shelf<K, V> {
    known: BTreeMap<K, Known<V>>,
    /// In the order in which they were first asked for.
    order: VecDeque<K>,
    known_max: usize,
    asked: VecDeque<K>,
    asked_max: usize,
    /// Asked once more, with the moment; the moments ascend.
    soon: VecDeque<(BootNs, K)>,
    /// There was nobody to ask, and until then nobody is looked for.
    absent_until: Option<BootNs>,
    dropped: u64,
}

#[derive(Debug)]
struct Known<V> {
    value: Option<V>,
    /// In `asked` or `soon`, or being asked.
    is_asked: bool,
    /// It was asked for once more already.
    is_repeated: bool,
    again: BootNs,
}

impl<K: Ord + Clone, V: Clone> Shelf<K, V> {
    /// With room for so many names, and so many questions that wait.
    pub(super) const fn new(known_max: usize, asked_max: usize) -> Self {
        Self {
            known: BTreeMap::new(),
            order: VecDeque::new(),
            known_max,
            asked: VecDeque::new(),
            asked_max,
            soon: VecDeque::new(),
            absent_until: None,
            dropped: 0,
        }
    }

    /// The name, as far as it is known; what is not, or not of late, will be asked.
    pub(super) fn look(&mut self, key: &K, now: BootNs) -> Option<V> {
        if let Some(known) = self.known.get_mut(key) {
            let value = known.value.clone();
            if !known.is_asked && known.again <= now {
                self.ask(key, now);
            }
            return value;
        }
        self.order.push_back(key.clone());
        let new = Known { value: None, is_asked: false, is_repeated: false, again: now };
        self.known.insert(key.clone(), new);
        if self.known.len() > self.known_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.ask(key, now);
        None
    }

    fn ask(&mut self, key: &K, now: BootNs) {
        let Some(known) = self.known.get_mut(key) else { return };
        if let Some(until) = self.absent_until.filter(|until| now < *until) {
            known.again = until;
        } else if self.asked.len() >= self.asked_max {
            // It is asked for when it is needed again.
            self.dropped = self.dropped.saturating_add(1);
        } else {
            known.is_asked = true;
            self.asked.push_back(key.clone());
        }
    }

    /// Whether a question waits.
    pub(super) fn has_questions(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Questions for which there was no room.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The next question, or how long there is none.
    pub(super) fn next(&mut self, now: BootNs) -> Next<K> {
        if let Some(key) = self.asked.pop_front() {
            return Next::Ask(key);
        }
        match self.soon.front() {
            Some((due, _)) if *due > now => Next::Wait(Some(*due)),
            Some(_) => self.soon.pop_front().map_or(Next::Wait(None), |(_, key)| Next::Ask(key)),
            None => Next::Wait(None),
        }
    }

    /// Takes an answer in. A name that is not found any more stays as it was found last.
    pub(super) fn answered(&mut self, key: &K, answer: Answer<V>, now: BootNs) {
        if matches!(answer, Answer::Absent) {
            self.nobody_answers(now);
        } else {
            self.absent_until = None;
        }
        let soon_max = self.asked_max;
        // It may have gone to make room.
        let Some(known) = self.known.get_mut(key) else { return };
        known.is_asked = false;
        match answer {
            Answer::Found(value) => {
                known.value = Some(value);
                known.again = now.plus_ns(FRESH_NS);
            }
            Answer::Unfound => {
                known.again = now.plus_ns(UNFOUND_NS);
                let is_first = !std::mem::replace(&mut known.is_repeated, true);
                if is_first && known.value.is_none() && self.soon.len() < soon_max {
                    known.is_asked = true;
                    self.soon.push_back((now.plus_ns(SOON_NS), key.clone()));
                }
            }
            Answer::Absent => known.again = now.plus_ns(ABSENT_NS),
        }
    }

    fn nobody_answers(&mut self, now: BootNs) {
        let until = now.plus_ns(ABSENT_NS);
        self.absent_until = Some(until);
        let waiting = self.asked.drain(..).chain(self.soon.drain(..).map(|(_, key)| key));
        for key in waiting {
            if let Some(known) = self.known.get_mut(&key) {
                (known.is_asked, known.again) = (false, until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootNs {
        BootNs(seconds * 1_000_000_000)
    }

    fn shelf() -> Shelf<u32, &'static str> {
        Shelf::new(3, 2)
    }

    #[test]
    fn a_name_is_asked_for_once_and_kept() {
        let mut shelf = shelf();
        assert_eq!(shelf.look(&1, at(0)), None);
        assert_eq!(shelf.look(&1, at(0)), None);
        assert_eq!(shelf.next(at(0)), Next::Ask(1));
        // While it is being asked it is not asked again.
        assert_eq!(shelf.look(&1, at(1)), None);
        assert_eq!(shelf.next(at(1)), Next::Wait(None));
        shelf.answered(&1, Answer::Found("ann"), at(1));
        assert_eq!(shelf.look(&1, at(2)), Some("ann"));
        assert_eq!(shelf.next(at(2)), Next::Wait(None));
    }

    #[test]
    fn a_name_that_changed_is_noticed_and_the_old_one_stays_until_then() {
        let mut shelf = shelf();
        shelf.look(&1, at(0));
        shelf.next(at(0));
        shelf.answered(&1, Answer::Found("ann"), at(0));
        assert_eq!(shelf.look(&1, at(599)), Some("ann"));
        assert_eq!(shelf.next(at(599)), Next::Wait(None));
        assert_eq!(shelf.look(&1, at(600)), Some("ann"));
        assert_eq!(shelf.next(at(600)), Next::Ask(1));
        shelf.answered(&1, Answer::Found("bob"), at(601));
        assert_eq!(shelf.look(&1, at(601)), Some("bob"));
        // Its source has gone, or has forgotten it: that makes nobody nameless.
        for (answer, until) in [(Answer::Unfound, 1_231), (Answer::Absent, 1_531)] {
            shelf.look(&1, at(until - 30));
            shelf.next(at(until - 30));
            shelf.answered(&1, answer, at(until - 30));
            assert_eq!(shelf.look(&1, at(until - 20)), Some("bob"));
            assert_eq!(shelf.next(at(until - 20)), Next::Wait(None), "{until}");
        }
    }

    #[test]
    fn what_was_not_found_is_asked_for_once_more_soon_and_then_when_it_is_needed() {
        let mut shelf = shelf();
        shelf.look(&1, at(0));
        shelf.next(at(0));
        shelf.answered(&1, Answer::Unfound, at(0));
        assert_eq!(shelf.next(at(1)), Next::Wait(Some(at(2))));
        assert_eq!(shelf.next(at(2)), Next::Ask(1));
        shelf.answered(&1, Answer::Unfound, at(2));
        assert_eq!(shelf.next(at(31)), Next::Wait(None));
        assert_eq!(shelf.look(&1, at(31)), None);
        assert_eq!(shelf.next(at(31)), Next::Wait(None));
        assert_eq!(shelf.look(&1, at(32)), None);
        assert_eq!(shelf.next(at(32)), Next::Ask(1));
        shelf.answered(&1, Answer::Found("ann"), at(32));
        assert_eq!(shelf.look(&1, at(33)), Some("ann"));
    }

    #[test]
    fn where_nobody_answers_nobody_is_asked_for_a_while() {
        let mut shelf = shelf();
        for key in 1..=2 {
            shelf.look(&key, at(0));
        }
        assert_eq!(shelf.next(at(0)), Next::Ask(1));
        shelf.answered(&1, Answer::Absent, at(0));
        assert_eq!(shelf.next(at(0)), Next::Wait(None));
        for key in 1..=3 {
            assert_eq!(shelf.look(&key, at(299)), None);
        }
        assert_eq!(shelf.next(at(299)), Next::Wait(None));
        for key in 1..=2 {
            shelf.look(&key, at(300));
        }
        assert_eq!(shelf.next(at(300)), Next::Ask(1));
        shelf.answered(&1, Answer::Found("ann"), at(300));
        assert_eq!(shelf.next(at(300)), Next::Ask(2));
    }

    #[test]
    fn the_oldest_is_forgotten_first_and_a_full_queue_is_counted() {
        let mut shelf = shelf();
        for key in 1..=3 {
            shelf.look(&key, at(0));
        }
        // The queue has room for two.
        assert_eq!((shelf.dropped(), shelf.known.len()), (1, 3));
        for key in 1..=2 {
            assert_eq!(shelf.next(at(0)), Next::Ask(key));
            shelf.answered(&key, Answer::Found("name"), at(0));
        }
        // Needed again, it is asked for.
        shelf.look(&3, at(1));
        assert_eq!(shelf.next(at(1)), Next::Ask(3));
        shelf.look(&4, at(1));
        assert_eq!((shelf.known.len(), shelf.order.len()), (3, 3));
        assert_eq!(shelf.look(&2, at(1)), Some("name"));
        // An answer for what went meanwhile harms nothing.
        shelf.answered(&1, Answer::Found("late"), at(1));
        assert!(!shelf.known.contains_key(&1));
        assert_eq!(shelf.look(&1, at(1)), None);
        for key in 0..10_000 {
            shelf.look(&key, at(2));
            shelf.answered(&key, Answer::Unfound, at(2));
        }
        assert_eq!((shelf.known.len(), shelf.order.len()), (3, 3));
        assert!(shelf.asked.len() <= 2 && shelf.soon.len() <= 2);
    }
}
