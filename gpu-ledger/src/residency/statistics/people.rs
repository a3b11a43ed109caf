//! Who the pids of a window were.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::escape::printable;
use crate::residency::events::Event;
use crate::unit::{BootNs, Pid};

/// The most processes that are told apart in an iteration: all others are one line.
pub const PROCESSES_MAX: usize = 1_024;

/// A process: a pid and the moment it started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Person {
    /// Its pid; null: all those beyond [`PROCESSES_MAX`].
    pub pid: Option<Pid>,
    /// When it started, in ns since boot; null where nobody could tell.
    pub start_ns: Option<BootNs>,
    /// Its program; null where nobody could tell.
    pub program: Option<String>,
    /// What the name rests on; null without one.
    pub basis: Option<String>,
    /// When it was first seen.
    #[serde(skip)]
    seen_at: Option<BootNs>,
}

impl Person {
    /// Whether it can be the holder of its pid at `at`: it had started by then.
    fn had_begun(&self, at: BootNs) -> bool {
        self.start_ns.or(self.seen_at).is_none_or(|begun| begun <= at)
    }
}

impl fmt::Display for Person {
    /// `python3 4242@1234.56`: program, pid, and the second since boot in which it started. The name was made safe
    /// when it was written down.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else {
            return f.pad("further processes");
        };
        let program = self.program.as_deref().map_or_else(
            || "UNKNOWN".to_owned(),
            |program| printable(program.as_bytes()).to_string(),
        );
        let start = self.start_ns.map_or_else(
            || "UNKNOWN".to_owned(),
            |start| {
                let ticks = start.ticks();
                format!("{}.{:02}", ticks / 100, ticks % 100)
            },
        );
        f.pad(&format!("{program} {pid}@{start}"))
    }
}

/// Which process.
pub type PersonId = usize;

/// Everybody that the events of an iteration name.
#[derive(Clone, Debug, Default)]
pub struct People {
    all: Vec<Person>,
    by_pid: BTreeMap<Pid, Vec<PersonId>>,
    further: Option<PersonId>,
}

impl People {
    /// From the events of an iteration; those that name nobody are passed over.
    #[must_use]
    pub fn of<'event>(events: impl IntoIterator<Item = &'event Event>) -> Self {
        let mut people = Self::default();
        events.into_iter().for_each(|event| people.note(event));
        people
    }

    /// The next event, in their order.
    pub fn note(&mut self, event: &Event) {
        let Event::Process { at_ns, pid, start_ns, program, basis, .. } = event else { return };
        let person = Person {
            pid: Some(*pid),
            start_ns: *start_ns,
            program: program.clone(),
            basis: basis.clone(),
            seen_at: Some(*at_ns),
        };
        self.meet(person);
    }

    fn meet(&mut self, person: Person) -> PersonId {
        let (Some(pid), true) = (person.pid, self.all.len() < PROCESSES_MAX) else {
            return self.further();
        };
        let known = self.by_pid.entry(pid).or_default();
        // Told again, as after a restart of whoever names them: the same process.
        let again = known.iter().copied().find(|id| {
            person.start_ns.is_some()
                && self.all.get(*id).is_some_and(|other| other.start_ns == person.start_ns)
        });
        if let Some(id) = again {
            return id;
        }
        let id = self.all.len();
        known.push(id);
        self.all.push(person);
        id
    }

    fn further(&mut self) -> PersonId {
        if let Some(id) = self.further {
            return id;
        }
        let id = self.all.len();
        let nobody =
            Person { pid: None, start_ns: None, program: None, basis: None, seen_at: None };
        self.all.push(nobody);
        self.further = Some(id);
        id
    }

    /// Who held `pid` when the driver listed it at `at`: of several, the last to have started by then.
    /// One that no event names is met here.
    pub fn holder(&mut self, pid: Pid, at: BootNs) -> PersonId {
        let known = self.by_pid.get(&pid).map(Vec::as_slice).unwrap_or_default();
        let begun = |id: &&PersonId| self.all.get(**id).is_some_and(|one| one.had_begun(at));
        // A process can have been listed before anybody looked up when it started: then it is the first.
        let found = known.iter().rev().find(begun).or_else(|| known.first()).copied();
        found.unwrap_or_else(|| {
            let pid = Some(pid);
            self.meet(Person { pid, start_ns: None, program: None, basis: None, seen_at: None })
        })
    }

    /// Who it is.
    #[must_use]
    pub fn person(&self, id: PersonId) -> Option<&Person> {
        self.all.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, PROCESSES_MAX, People, Person};
    use crate::unit::{BootNs, Pid};

    fn seen(at: u64, pid: u32, start: Option<u64>, program: &str) -> Event {
        Event::Process {
            at_ns: BootNs(at),
            pid: Pid(pid),
            start_ns: start.map(BootNs),
            program: Some(program.to_owned()),
            basis: Some("procfs".to_owned()),
            uid: None,
        }
    }

    #[test]
    fn a_reused_pid_is_whoever_had_started_when_it_was_listed() {
        let events = [seen(1_000, 7, Some(500), "old"), seen(2_600, 7, Some(2_400), "new")];
        let mut people = People::of(&events);
        let mut at = |at| {
            let id = people.holder(Pid(7), BootNs(at));
            people.person(id).and_then(|person| person.program.clone()).unwrap()
        };
        assert_eq!(at(900), "old");
        // Listed before anybody had looked up who it is: its start tells.
        assert_eq!(at(2_450), "new");
        assert_eq!(at(2_399), "old");
        assert_eq!(at(1), "old");
    }

    #[test]
    fn names_are_those_of_a_pid_and_a_start() {
        let mut people = People::of(&[seen(0, 7, Some(12_345_678_000_000), "py\u{1b}thon")]);
        let known = people.holder(Pid(7), BootNs(u64::MAX));
        let unknown = people.holder(Pid(8), BootNs(1));
        let text = |id| people.person(id).map(Person::to_string).unwrap();
        assert_eq!(text(known), "py\\x1bthon 7@12345.67");
        assert_eq!(text(unknown), "UNKNOWN 8@UNKNOWN");
    }

    #[test]
    fn beyond_the_bound_they_are_one_line() {
        let mut people = People::default();
        let ids: Vec<_> = (0..5_000).map(|pid| people.holder(Pid(pid), BootNs(1))).collect();
        assert_eq!(people.all.len(), PROCESSES_MAX + 1);
        assert_eq!(ids[4_999], PROCESSES_MAX);
        let further = people.person(PROCESSES_MAX).map(Person::to_string);
        assert_eq!(further.as_deref(), Some("further processes"));
    }

    #[test]
    fn one_told_twice_is_one() {
        let people = People::of(&[seen(0, 7, Some(5), "a"), seen(9, 7, Some(5), "a")]);
        assert_eq!(people.all.len(), 1);
    }
}
