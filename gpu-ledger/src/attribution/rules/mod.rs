//! Rules: from a process to the account that pays, as the operator's file says. The first rule that matches wins.
//!
//! Purpose: read the text of such a file whole, or say everything that is wrong with it; then say of any process
//! which rule it falls under, fast, and why. May touch: nothing; the shell reads files. May not: see
//! anything but a [`Subject`], let a bad file be half in force, or take what is not known for empty.
//!
//! # What a rule is
//! `[[rule]]` with an `account` and conditions, all of which must hold. A condition is `KEY = PATTERN`, or a list
//! of patterns, one of which must match. It holds where any value that stands under the key matches: any word of
//! the arguments, any ancestor, a container's name or its id. Nothing stands under a key of which nothing is known,
//! so no condition on it holds, a regular expression that takes everything included.
//!
//! A condition on a container or pod, or on what its runtime says of it, is one on a container of the system, unless
//! the rule says whose: users may call theirs what they like.
//!
//! A text is the whole value. `{ prefix = "…" }` and `{ suffix = "…" }` are its ends. `{ regex = '…' }` matches the
//! whole value too; `.` is any byte, `\w`, `\d` and `\s` are ASCII's, `(?u)` turns to characters. Of a GPU's UUID, and
//! of a container's id (from 12 digits on), the beginning does.
//!
//! `${name}` in an account is what the group `(?P<name>…)` of the rule's one regex with that name took. A regex
//! whose groups the account wants matches only where each of them takes something that is not blank.
//!
//! # How it is fast
//! Every rule is filed under one of its conditions: under the values it takes, or under texts of which one
//! must stand in them. What is filed under a process's values are the only rules that are looked at, in their
//! order. Rules with neither (a regex such as `[a-z]+` alone) are looked at each time.

mod account;
mod doubt;
mod explain;
mod fault;
mod index;
mod key;
mod never;
mod parse;
mod pattern;
mod shadow;
#[cfg(test)]
mod tests;
mod unmatched;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use account::ACCOUNT_CHARS_MAX;
pub use doubt::{DOUBTS_MAX, Doubts};
pub use explain::{Explanation, FAILED_MAX, Failed, Held, Matched};
pub use fault::{FAULTS_LOOKED_MAX, FAULTS_MAX, Fault, Faults, Place};
pub use shadow::{LOOKS_MAX, SHADOWED_MAX, Shadowed, Shadows};
pub use unmatched::{HostGpu, UNMATCHED_MAX, UnmatchedGpu};

use self::account::Template;
use self::index::Index;
use self::key::{Field, Key, Seen};
use self::pattern::Pattern;
use super::Subject;
use crate::argv::CmdlineMode;
use crate::journal::Digest;
use crate::journal::chain::sha256;
use crate::settlement::RuleId;

/// Rules of one file.
pub const RULES_MAX: usize = 20_000;
/// A file of rules is no larger: four hundred bytes a rule.
pub const FILE_BYTES_MAX: usize = 8 << 20;
/// A line of it is no longer.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Memory that all compiled regular expressions of a file may take: three KiB a rule, where a usual one takes two.
pub const REGEXES_BYTES_MAX: usize = 64 << 20;
/// Patterns in one list.
pub const PATTERNS_MAX: usize = 1024;

/// All the rules of one file, ready to be asked.
pub struct RuleSet {
    digest: Digest,
    rules: Vec<Rule>,
    index: Index,
    /// Fixed words that some rule looks at, ascending.
    fields: Vec<Field>,
    /// Labels that some rule looks at, ascending.
    labels: Vec<Arc<str>>,
}

/// One rule.
#[derive(Clone, Debug)]
struct Rule {
    id: RuleId,
    /// The byte and the place at which it begins.
    at: usize,
    place: Place,
    account: Template,
    /// The account, where no capture is in it.
    plain: Option<Arc<str>>,
    /// In the file's order.
    conditions: Vec<Condition>,
    /// The places of the conditions, cheapest first.
    cheapest: Vec<usize>,
}

/// One condition.
#[derive(Clone, Debug)]
struct Condition {
    key: Key,
    place: Place,
    patterns: Vec<Pattern>,
    /// Captures that the account wants of it; every pattern has all of them.
    uses: Vec<Arc<str>>,
    /// It is not written: [`Field::ContainerOf`] of a rule that looks at containers and says nothing of whose.
    is_implied: bool,
}

/// On whose account a process stands, by a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ruled {
    /// The account.
    pub account: Arc<str>,
    /// The rule that says so.
    pub rule: RuleId,
}

impl RuleSet {
    /// The rules in the bytes of a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Faults> {
        let rules = parse::parse(bytes)?;
        let keys = rules.iter().flat_map(|rule| &rule.conditions).map(|condition| &condition.key);
        let fields: BTreeSet<Field> = keys
            .filter_map(|key| match key {
                Key::Of(field) => Some(*field),
                Key::Label(_) => None,
            })
            .collect();
        let keys = rules.iter().flat_map(|rule| &rule.conditions).map(|condition| &condition.key);
        let labels: BTreeSet<Arc<str>> = keys
            .filter_map(|key| match key {
                Key::Label(name) => Some(Arc::clone(name)),
                Key::Of(_) => None,
            })
            .collect();
        let index = Index::of(&rules);
        let (fields, labels) = (fields.into_iter().collect(), labels.into_iter().collect());
        Ok(Self { digest: sha256(bytes), rules, index, fields, labels })
    }

    /// The SHA-256 of the file; without one, of no bytes.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The SHA-256 of the file; `None` without one. An empty file says as much.
    #[must_use]
    pub fn file(&self) -> Option<Digest> {
        (self.digest != sha256(b"")).then_some(self.digest)
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The account of a process by the first rule that matches; `None` where none does.
    #[must_use]
    pub fn classify(&self, subject: &Subject<'_>) -> Option<Ruled> {
        if self.rules.is_empty() {
            return None;
        }
        let seen = Seen::of(subject, &self.fields, &self.labels);
        let mut candidates = self.index.candidates(&seen);
        candidates.find_map(|place| self.rules.get(place)?.ruled(&seen))
    }

    /// The line at which a rule begins.
    #[must_use]
    pub fn place_of(&self, rule: RuleId) -> Option<Place> {
        let at = usize::try_from(rule.0).ok()?.checked_sub(1)?;
        self.rules.get(at).map(|rule| rule.place)
    }

    /// Whether some rule looks at the words of arguments.
    #[must_use]
    pub fn looks_at_argv(&self) -> bool {
        self.fields.iter().any(|field| field.is_of_arguments())
    }

    /// Whether some rule looks at file names, which a settlement has only where some of command lines was stored when
    /// it was booked.
    #[must_use]
    pub fn looks_at_exe(&self) -> bool {
        self.fields.contains(&Field::Exe)
    }

    /// Whether some rule looks at models, which arguments name. A settlement has its model where enough of them was
    /// stored when it was booked.
    #[must_use]
    pub fn uses_model(&self) -> bool {
        self.fields.contains(&Field::Model)
    }

    /// Labels of containers and pods that some rule looks at, ascending.
    pub fn labels(&self) -> impl Iterator<Item = &Arc<str>> {
        self.labels.iter()
    }

    /// Refuses rules that look at arguments, or at what only arguments say, where this mode stores none: they could
    /// never match, since rules see exactly what is stored.
    ///
    /// # Errors
    /// Every such condition.
    pub fn fits(&self, mode: CmdlineMode) -> Result<(), Faults> {
        if matches!(mode, CmdlineMode::Redacted | CmdlineMode::Full) {
            return Ok(());
        }
        let conditions =
            self.rules.iter().flat_map(|rule| rule.conditions.iter().map(|one| (rule.id, one)));
        let mut unmet = conditions.filter_map(|(rule, condition)| match condition.key {
            // Where nothing of command lines is stored no file name is either.
            Key::Of(field)
                if field.needs_arguments()
                    || (field == Field::Exe && mode == CmdlineMode::None) =>
            {
                Some(not_stored(rule, field, condition.place, mode))
            }
            Key::Of(_) | Key::Label(_) => None,
        });
        let faults: Vec<Fault> = unmet.by_ref().take(FAULTS_MAX).collect();
        if faults.is_empty() {
            return Ok(());
        }
        Err(Faults { faults, more: unmet.count(), is_cut: false })
    }
}

fn not_stored(rule: RuleId, field: Field, place: Place, mode: CmdlineMode) -> Fault {
    let (rule, key) = (rule.0, field.as_str());
    let stores = match field {
        Field::Exe => "no file names",
        Field::Model => "no arguments, which alone name it",
        _ => "no arguments",
    };
    let instead = if mode == CmdlineMode::None { "program" } else { "exe, program" };
    let what = format!(
        "rule {rule} looks at `{key}`, and `cmdline = \"{mode}\"` stores {stores}; look at {instead} or \
         ancestor instead, or choose a mode that stores them"
    );
    Fault { line: place.line, column: place.column, what }
}

impl Default for RuleSet {
    /// No rules: as an empty file.
    fn default() -> Self {
        Self {
            digest: sha256(b""),
            rules: Vec::new(),
            index: Index::of(&[]),
            fields: Vec::new(),
            labels: Vec::new(),
        }
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleSet({} rules, {})", self.rules.len(), self.digest)
    }
}

impl Rule {
    fn of(
        id: RuleId,
        at: usize,
        place: Place,
        account: Template,
        conditions: Vec<Condition>,
    ) -> Self {
        let mut cheapest: Vec<usize> = (0..conditions.len()).collect();
        cheapest.sort_by_key(|at| conditions.get(*at).is_some_and(Condition::is_costly));
        let plain = account.plain().map(Arc::from);
        Self { id, at, place, account, plain, conditions, cheapest }
    }

    /// The account, where every condition holds.
    fn ruled(&self, seen: &Seen<'_>) -> Option<Ruled> {
        let mut cheapest = self.cheapest.iter().filter_map(|at| self.conditions.get(*at));
        if let Some(plain) = &self.plain {
            let holds = cheapest.all(|condition| condition.holds(seen));
            return holds.then(|| Ruled { account: Arc::clone(plain), rule: self.id });
        }
        let mut captures = Vec::new();
        for condition in cheapest {
            let found = condition.find(seen)?;
            // What the name has no place for is cut where the name is.
            let taken = found.captures.iter().map(|bytes| condition.key.shown(bytes, usize::MAX));
            captures.extend(condition.uses.iter().cloned().zip(taken));
        }
        Some(Ruled { account: self.account.fill(&captures), rule: self.id })
    }
}

/// What made a condition hold.
struct Found<'s> {
    value: &'s [u8],
    pattern: &'s Pattern,
    captures: Vec<Vec<u8>>,
}

impl Condition {
    fn holds(&self, seen: &Seen<'_>) -> bool {
        let values = seen.values(&self.key);
        values.iter().any(|value| self.patterns.iter().any(|pattern| pattern.matches(value)))
    }

    /// The first value that matches, by the first pattern that it does.
    fn find<'s>(&'s self, seen: &'s Seen<'_>) -> Option<Found<'s>> {
        seen.values(&self.key).iter().find_map(|value| {
            self.patterns.iter().find_map(|pattern| {
                let captures = pattern.captures(value)?;
                Some(Found { value, pattern, captures })
            })
        })
    }

    fn is_costly(&self) -> bool {
        self.patterns.iter().any(Pattern::is_costly)
    }
}
