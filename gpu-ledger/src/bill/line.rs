//! The one-line form of the first version of this idea: what was ever booked, by account, one line a
//! read that settled something.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::Shown;
use crate::escape::printable;
use crate::settlement::{NamedBy, more_accounts};
use crate::unit::{Ms, WallUs};

/// Accounts that the daemon's line names: it is written after every transaction, and users make names.
pub const LOGGED_ACCOUNTS_MAX: usize = 20;

/// Accounts that the daemon keeps a sum of each for; what those that came later held is one sum. Users make names, a
/// job has one of its own, and the daemon runs for months.
pub const LOGGED_NAMES_MAX: usize = 10_000;
/// What that one is called, as on the meters.
const OTHER: &str = "other";

/// A line of a bill: its name, and what gave it that where it is an account.
pub type Named = (String, Option<NamedBy>);

/// What was booked, by account.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    accounts: BTreeMap<Named, u128>,
    /// So many of them have a sum of their own; `None`: all.
    names_max: Option<usize>,
    /// Of those that have none.
    other: u128,
    unattributed: u128,
    disputed: u128,
}

impl Totals {
    /// Those of the daemon's line: of the first [`LOGGED_NAMES_MAX`] accounts each, and of all others together.
    #[must_use]
    pub fn logged() -> Self {
        Self { names_max: Some(LOGGED_NAMES_MAX), ..Self::default() }
    }

    /// A settlement of this account was booked.
    pub fn add(&mut self, account: Named, held: Ms) {
        let is_full = self.names_max.is_some_and(|most| self.accounts.len() >= most);
        let sum = match self.accounts.get_mut(&account) {
            Some(sum) => sum,
            None if is_full => &mut self.other,
            None => self.accounts.entry(account).or_default(),
        };
        *sum = sum.saturating_add(u128::from(held.0));
    }

    /// Settlements that nobody can name were booked.
    pub const fn add_unattributed(&mut self, held_ms: u128) {
        self.unattributed = self.unattributed.saturating_add(held_ms);
    }

    /// Settlements whose milliseconds are in doubt were booked: in the total, on nobody's figure.
    pub const fn add_disputed(&mut self, raw_ms: u128) {
        self.disputed = self.disputed.saturating_add(raw_ms);
    }
}

/// `2026-07-27T19:25:31Z gpu-ledger: ollama 13149789 unattributed 896825 xtts 6748 TOTAL 14053362`,
/// largest first, without a line end. A blank within a name is written `\x20`, so that every word is
/// a name or a number.
#[must_use]
pub fn journal_line(at: WallUs, totals: &Totals) -> String {
    line(at, totals, usize::MAX)
}

/// The same with the largest [`LOGGED_ACCOUNTS_MAX`] accounts alone, and before the total the sum of the others as one
/// word and figure: `(34-more) 1204`. Accounts without a sum of their own are not among those: `other 77`.
#[must_use]
pub fn logged_line(at: WallUs, totals: &Totals) -> String {
    line(at, totals, LOGGED_ACCOUNTS_MAX)
}

fn line(at: WallUs, totals: &Totals, accounts_max: usize) -> String {
    let names = totals.accounts.keys().map(|(name, named_by)| (name.as_str(), *named_by));
    let shown = Shown::of_accounts(names);
    let word = |(name, named_by): &Named| one_word(&shown.called(name, *named_by));
    let largest_first = |(a, more): &(String, u128), (b, less): &(String, u128)| {
        less.cmp(more).then_with(|| a.cmp(b))
    };
    let mut figures: Vec<(String, u128)> =
        totals.accounts.iter().map(|(name, held_ms)| (word(name), *held_ms)).collect();
    figures.sort_by(largest_first);
    let folded = figures.split_off(accounts_max.min(figures.len()));
    // Always there, as the accounts that are known are: it says that there is such a bucket.
    figures.push(("unattributed".to_owned(), totals.unattributed));
    if totals.disputed > 0 {
        figures.push(("disputed".to_owned(), totals.disputed));
    }
    figures.sort_by(largest_first);
    if !folded.is_empty() {
        let sum = folded.iter().fold(0_u128, |sum, (_, held_ms)| sum.saturating_add(*held_ms));
        figures.push((more_accounts(folded.len()), sum));
    }
    if totals.other > 0 {
        figures.push((OTHER.to_owned(), totals.other));
    }
    let total = figures.iter().fold(0_u128, |sum, (_, held_ms)| sum.saturating_add(*held_ms));
    let mut line = format!("{} gpu-ledger:", seconds(at));
    for (name, held_ms) in figures {
        // Writing to a String cannot fail.
        let _ = write!(line, " {name} {held_ms}");
    }
    let _ = write!(line, " TOTAL {total}");
    line
}

/// A name without the blank, at which words are split.
fn one_word(name: &str) -> String {
    printable(name.as_bytes()).to_string().replace(' ', "\\x20")
}

/// RFC 3339 in UTC, whole seconds.
fn seconds(at: WallUs) -> String {
    let seconds = i64::try_from(at.0 / 1_000_000).unwrap_or(i64::MAX);
    match Timestamp::from_second(seconds) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => format!("{} us since 1970", at.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settlement::Ground;

    const AT: WallUs = WallUs(1_785_180_331_900_000);

    #[test]
    fn the_line_is_that_of_the_first_version() {
        let mut totals = Totals::default();
        let program = |name: &str| (name.to_owned(), Some(NamedBy::Ground(Ground::Program)));
        totals.add(program("xtts"), Ms(6_748));
        totals.add(program("ollama"), Ms(13_149_000));
        totals.add(program("ollama"), Ms(789));
        totals.add_unattributed(896_825);
        assert_eq!(
            journal_line(AT, &totals),
            "2026-07-27T19:25:31Z gpu-ledger: ollama 13149789 unattributed 896825 xtts 6748 \
             TOTAL 14053362"
        );
    }

    #[test]
    fn nothing_booked_is_a_line_too_and_a_dispute_is_in_the_total() {
        let mut totals = Totals::default();
        assert!(journal_line(AT, &totals).ends_with("gpu-ledger: unattributed 0 TOTAL 0"));
        totals.add_disputed(5);
        assert!(journal_line(AT, &totals).ends_with(" disputed 5 unattributed 0 TOTAL 5"));
    }

    #[test]
    fn the_daemons_line_is_as_short_with_all_accounts_of_all_time_and_its_total_the_same() {
        let mut totals = Totals::default();
        totals.add_disputed(3);
        for number in 1..=u64::try_from(LOGGED_ACCOUNTS_MAX).unwrap() {
            totals.add((format!("job {number:03}"), None), Ms(1_000 - number));
        }
        assert_eq!(logged_line(AT, &totals), journal_line(AT, &totals));
        for number in 21..=110 {
            totals.add((format!("job {number:03}"), None), Ms(1_000 - number));
        }
        let (whole, logged) = (journal_line(AT, &totals), logged_line(AT, &totals));
        let (named, rest) = logged.split_once(" disputed 3 unattributed 0 ").unwrap();
        assert_eq!(named.matches(r"job\x20").count(), LOGGED_ACCOUNTS_MAX);
        assert!(named.ends_with(r" job\x20020 980") && whole.starts_with(named), "{logged}");
        let folded: u64 = (21..=110).map(|number| 1_000 - number).sum();
        let (_, total) = whole.split_once(" TOTAL ").unwrap();
        assert_eq!(rest, format!("(90-more) {folded} TOTAL {total}"));
    }

    #[test]
    fn names_without_end_take_bounded_room_and_no_sum_is_wrong() {
        let mut totals = Totals::logged();
        let names = LOGGED_NAMES_MAX + 500;
        for name in 0..names {
            totals.add((format!("job {name:06}"), None), Ms(2));
            totals.add(("\"other\"".to_owned(), None), Ms(1));
        }
        // Whoever has a sum keeps it.
        totals.add(("job 000003".to_owned(), None), Ms(1_000));
        assert_eq!((totals.accounts.len(), totals.other), (LOGGED_NAMES_MAX, 2 * 501));
        let line = logged_line(AT, &totals);
        assert!(line.contains(&format!(" \"other\" {names} job\\x20000003 1002 ")), "{line}");
        let more = LOGGED_NAMES_MAX - LOGGED_ACCOUNTS_MAX;
        let total = 3 * names + 1_000;
        let end = format!(" ({more}-more) {} other 1002 TOTAL {total}", 2 * more);
        assert!(line.ends_with(&end), "{line}");
        // A bill has every one.
        let mut whole = Totals::default();
        (0..names).for_each(|name| whole.add((name.to_string(), None), Ms(1)));
        assert_eq!(whole.accounts.len(), names);
    }

    #[test]
    fn a_strangers_name_stays_one_word_on_one_line() {
        let mut totals = Totals::default();
        totals.add(("python train.py\n\u{1b}[2J".to_owned(), None), Ms(1));
        let line = journal_line(AT, &totals);
        assert!(line.contains(" python\\x20train.py\\x0a\\x1b[2J 1 "), "{line}");
        assert_eq!(one_word("a\u{a0}b\u{3000}c d"), r"a\xc2\xa0b\xe3\x80\x80c\x20d");
    }

    #[test]
    fn accounts_that_are_called_alike_stand_apart() {
        let mut totals = Totals::default();
        let by = |by| ("ollama".to_owned(), Some(by));
        totals.add(by(NamedBy::Ground(Ground::Unit)), Ms(5));
        totals.add(by(NamedBy::Ground(Ground::Program)), Ms(3));
        totals.add(by(NamedBy::Rule), Ms(1));
        let line = journal_line(AT, &totals);
        let alike = r" ollama\x20(unit) 5 ollama\x20(program) 3 ollama\x20(rule) 1 ";
        assert!(line.contains(alike), "{line}");
    }
}
