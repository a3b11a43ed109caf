//! What a typed name means: the lines of a bill, and what is explained, by one rule.
//!
//! Words of ours come first, and no line is called like one of them ([`told_apart`]). A name is then what a
//! page, a table or a log shows of one line: as it is, escaped or not, led by a spreadsheet's apostrophe, or cut; or
//! the part of it that its owner knows: the number of a job, a container's name or id, a pod's name.
//!
//! [`told_apart`]: crate::settlement::told_apart

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::BillError;
use super::table::cell_of;
use crate::attribution::{SHORT_ID_DIGITS, id_within, with_short_id};
use crate::calling::listed;
use crate::escape::{printable, unescape};
use crate::place::{Scheduler, container_kinds};
use crate::rendering::CUT;
use crate::settlement::{Ground, NamedBy, unmarked};
use crate::unknown::{DisputeReason, NamelessReason};

/// What a settlement or a line is, beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    /// Why it has no identity.
    pub nameless: Option<NamelessReason>,
    /// Named by a rule; `None` where it is no account's, or where it has no identity.
    pub is_classified: Option<bool>,
    /// Why its milliseconds are in doubt.
    pub dispute: Option<DisputeReason>,
}

/// A word of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    /// `unattributed`; with a reason, `event-lost` or `unattributed (event-lost)`.
    Unattributed(Option<NamelessReason>),
    /// `unclassified`.
    Unclassified,
    /// `disputed`; with a reason, `disputed (clock-step)`.
    Disputed(Option<DisputeReason>),
}

impl Own {
    fn of(word: &str) -> Option<Self> {
        let within = |kind: &str| word.strip_prefix(kind)?.strip_prefix(" (")?.strip_suffix(')');
        let nameless =
            |word: &str| NamelessReason::ALL.iter().copied().find(|reason| reason.as_str() == word);
        match word {
            "unattributed" => return Some(Self::Unattributed(None)),
            "unclassified" => return Some(Self::Unclassified),
            "disputed" => return Some(Self::Disputed(None)),
            _ => {}
        }
        if let Some(reason) = nameless(within("unattributed").unwrap_or(word)) {
            return Some(Self::Unattributed(Some(reason)));
        }
        let reason = within("disputed")?;
        let reason = DisputeReason::ALL.iter().copied().find(|one| one.as_str() == reason)?;
        Some(Self::Disputed(Some(reason)))
    }

    fn holds(self, standing: Standing) -> bool {
        match self {
            Self::Unattributed(None) => standing.nameless.is_some(),
            Self::Unattributed(reason) => standing.nameless == reason,
            Self::Unclassified => standing.is_classified == Some(false),
            Self::Disputed(None) => standing.dispute.is_some(),
            Self::Disputed(reason) => standing.dispute == reason,
        }
    }
}

/// The lines and the kinds of lines that typed names mean. `K` is what tells lines apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Called<K> {
    own: Vec<Own>,
    lines: BTreeSet<K>,
    /// What no line is called.
    unknown: Vec<String>,
}

impl<K: Ord + Clone> Called<K> {
    /// What these names mean among lines of these names, of which one line may have several. What a page shows of a
    /// line stands before what its owner calls it.
    ///
    /// # Errors
    /// [`BillError::SeveralLines`] where one was cut, and several lines begin so.
    pub fn of(words: &[String], names: &[(String, K)]) -> Result<Self, BillError> {
        let mut called = Self { own: Vec::new(), lines: BTreeSet::new(), unknown: Vec::new() };
        for word in words {
            if let Some(own) = Own::of(word) {
                called.own.push(own);
                continue;
            }
            let found = lines(word, names)?;
            if found.is_empty() {
                called.unknown.push(word.clone());
            }
            called.lines.extend(found);
        }
        Ok(called)
    }

    /// Whether a line or a settlement is meant.
    #[must_use]
    pub fn holds(&self, line: &K, standing: Standing) -> bool {
        // What has no identity has no name either.
        (standing.nameless.is_none() && self.lines.contains(line))
            || self.own.iter().any(|own| own.holds(standing))
    }

    /// The names that no line has. Of a word of ours that there is nothing of it is an answer.
    pub(super) fn unmet(&self) -> &[String] {
        &self.unknown
    }
}

/// The lines that a name means; none where no line is called so.
fn lines<K: Ord + Clone>(word: &str, names: &[(String, K)]) -> Result<BTreeSet<K>, BillError> {
    let by = |is: &dyn Fn(&str) -> bool| -> Vec<&(String, K)> {
        names.iter().filter(|(name, _)| is(name)).collect()
    };
    let of = |found: Vec<&(String, K)>| -> BTreeSet<K> {
        found.into_iter().map(|(_, line)| line.clone()).collect()
    };
    let exact = by(&|name| name == word);
    // A table shows another one so: it could be either.
    let in_table = by(&|name| word.starts_with('\'') && name != word && cell_of(name) == word);
    if !exact.is_empty() && in_table.is_empty() {
        return Ok(of(exact));
    }
    if !exact.is_empty() {
        return several(word, &[exact, in_table].concat());
    }
    // As another form shows it, or as the bytes that it was made of.
    let bare = |text: &str| unescape(text).trim_ascii().to_vec();
    let (own, unquoted) = (bare(word), word.strip_prefix('\'').map(bare));
    let mut found = by(&|name| {
        let name_bytes = bare(name);
        (name_bytes == own && !own.is_empty())
            || is_short(name, word)
            || (unquoted.as_ref() == Some(&name_bytes) && cell_of(name).starts_with('\''))
    });
    if let (true, Some(begin)) = (found.is_empty(), word.trim().strip_suffix(CUT)) {
        found = by(&|name| !begin.is_empty() && is_cut(name, begin));
    }
    if found.is_empty() && !word.is_empty() {
        // What a program or a rule is called has no parts: it only looks like a job, a container or a pod.
        let whole: BTreeSet<&K> = names
            .iter()
            .filter(|(name, _)| unmarked(name).is_some_and(|(_, by)| !has_parts(by)))
            .map(|(_, line)| line)
            .collect();
        let is = |(name, line): &&(String, K)| !whole.contains(line) && is_part(name, word);
        found = names.iter().filter(is).collect();
    }
    let lines = of(found.clone());
    if lines.len() > 1 { several(word, &found) } else { Ok(lines) }
}

fn several<T, K: Ord>(word: &str, found: &[&(String, K)]) -> Result<T, BillError> {
    // Of one that has several names the last, which is the whole one.
    let names: BTreeMap<&K, &str> =
        found.iter().map(|(name, line)| (line, name.as_str())).collect();
    Err(BillError::SeveralLines {
        name: printable(word.as_bytes()).to_string(),
        known: listed(names.into_values().map(|name| printable(name.as_bytes()).to_string())),
    })
}

/// Whether a page that cuts the name shows this of it.
fn is_cut(name: &str, begin: &str) -> bool {
    // Blanks at a name's ends are not to be seen there.
    let name = name.trim_start();
    let same = name.bytes().zip(begin.bytes()).take_while(|(a, b)| a == b).count();
    let kept = id_within(name).and_then(|id| same.checked_sub(id.start));
    let kept = kept.filter(|kept| *kept >= SHORT_ID_DIGITS);
    // With its id cut too, and its end after that.
    let short = kept.map_or(Cow::Borrowed(name), |kept| with_short_id(name, kept));
    [name, &short].into_iter().any(|form| {
        form.starts_with(begin) || printable(form.as_bytes()).to_string().starts_with(begin)
    })
}

/// Whether a word is what its owner calls what stands under a name: `4711` of `slurm 4711`, `web` and the id of
/// `web (3f2a9c0d1e4b…)` and of `docker 3f2a9c0d1e4b…`, `train-0` of `lab/train-0`.
fn is_part(name: &str, word: &str) -> bool {
    let name = unmarked(name).map_or(name, |(title, _)| title);
    let behind =
        Scheduler::ALL.iter().map(|scheduler| scheduler.as_str()).chain(container_kinds()).any(
            |kind| name.strip_prefix(kind).and_then(|rest| rest.strip_prefix(' ')) == Some(word),
        );
    // What stands behind a unit's name is whose manager it is of.
    let of_container = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    let of_container = of_container.filter(|(_, id)| !is_owner(id));
    let id = id_within(name).and_then(|id| name.get(id));
    behind
        || of_container.is_some_and(|(name, id)| name == word || id == word)
        || id.is_some_and(|id| word.len() >= SHORT_ID_DIGITS && id.starts_with(word))
        || name.rsplit_once('/').is_some_and(|(_, pod)| pod == word)
}

/// Whether the owner of what stands under a name calls it by a part of that.
const fn has_parts(named_by: NamedBy) -> bool {
    matches!(
        named_by,
        NamedBy::Unknown | NamedBy::Ground(Ground::Job | Ground::Pod | Ground::Container)
    )
}

/// Whether what stands behind a name is whose it is, as [`Place::inner_owner`] has it.
///
/// [`Place::inner_owner`]: crate::place::Place::inner_owner
fn is_owner(text: &str) -> bool {
    let is_named = |rest: &str| rest.starts_with(' ');
    text.starts_with("user@")
        || container_kinds().any(|kind| text.strip_prefix(kind).is_some_and(is_named))
}

/// Whether a word is the name with the id of a container in it cut, as runtimes and pages show it.
fn is_short(name: &str, word: &str) -> bool {
    let Some(id) = id_within(name) else { return false };
    let kept = id.len().checked_sub(name.len().saturating_sub(word.len()));
    let kept = kept.filter(|kept| (SHORT_ID_DIGITS..id.len()).contains(kept));
    kept.is_some_and(|kept| with_short_id(name, kept) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<(String, usize)> {
        let names = [
            "ollama",
            r"C:\models",
            r"a\x1bb",
            "train-llama",
            "train-llm",
            "=sum",
            "a b",
            " led by one",
        ];
        names.map(str::to_owned).into_iter().zip(0..).collect()
    }

    fn meant(word: &str) -> Result<Vec<usize>, String> {
        let called = Called::of(&[word.to_owned()], &names());
        called.map(|called| called.lines.into_iter().collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_what_any_form_shows_of_it_or_the_bytes_that_it_was_made_of() {
        for (word, line) in [
            ("ollama", 0),
            (r"C:\models", 1),
            (r"C:\\models", 1),
            (r"a\x1bb", 2),
            ("a\u{1b}b", 2),
            ("train-lla…", 3),
            ("=sum", 5),
            ("'=sum", 5),
            (r"a\x20b", 6),
            (" ollama ", 0),
            (" led…", 7),
            ("led…", 7),
        ] {
            assert_eq!(meant(word), Ok(vec![line]), "{word}");
        }
        let ids = ["3f2a9c0d1e4baaaa", "3f2a9c0d1e4bbbbb"]
            .map(|begin| (format!("docker {begin}{}", "0".repeat(48)), begin));
        let by_id = |word: &str| lines(word, &ids);
        assert_eq!(by_id("docker 3f2a9c0d1e4bb"), Ok(BTreeSet::from(["3f2a9c0d1e4bbbbb"])));
        assert_eq!(by_id(&ids[0].0), Ok(BTreeSet::from(["3f2a9c0d1e4baaaa"])));
        assert!(by_id("docker 3f2a9c0d1e4b").unwrap_err().to_string().contains("4baaaa"));
        assert_eq!(by_id("docker 3f2a9c0d1e4"), Ok(BTreeSet::new()));
        let beside = [("3f2a9c0d1e4b", "a"), ("3f2a9c0d1e4c", "b")].map(|(begin, at)| {
            (format!("xtts ({begin}{}) of \u{202e}{at}lab", "0".repeat(52)), at)
        });
        for (word, meant) in [
            ("xtts (3f2a9c0d1e4b) o…", vec!["a"]),
            ("xtts (3f2a9c0d1e4c00…", vec!["b"]),
            ("xtts (3f2a9c0d1e4d) o…", vec![]),
            ("xtts (3f2a9c0d1e4c) of \\xe2\\x80\\xaebl…", vec!["b"]),
            // Fewer digits than a page shows.
            ("xtts (3f2a9c0d1e4) o…", vec![]),
        ] {
            assert_eq!(lines(word, &beside), Ok(meant.into_iter().collect()), "{word}");
        }
        for word in ["olla", "'ollama", "", "…", "nosuch…"] {
            assert_eq!(meant(word), Ok(Vec::new()), "{word}");
        }
        assert_eq!(
            meant("train-ll…").unwrap_err(),
            "several lines of this bill are called train-ll…: train-llama, train-llm; give the whole \
             name of one, as --format json has it"
        );
    }

    #[test]
    fn a_job_a_container_and_a_pod_are_called_as_their_owners_call_them() {
        let id = format!("3f2a9c0d1e4b{}", "0".repeat(52));
        let names = [
            "slurm 4711".to_owned(),
            "web2 (web2)".to_owned(),
            format!("xtts ({id})"),
            "lab/train-0".to_owned(),
            "ollama (user@1000)".to_owned(),
            "docker 08af949a38747bd1 (lxc 107)".to_owned(),
            "lxc db".to_owned(),
            "pbs 9".to_owned(),
            "htcondor 9".to_owned(),
            "train-1".to_owned(),
            "lab/train-1".to_owned(),
        ];
        let names: Vec<(String, usize)> = names.into_iter().zip(0..).collect();
        for (word, line) in [
            ("4711", 0),
            ("slurm 4711", 0),
            ("web2", 1),
            ("xtts", 2),
            ("3f2a9c0d1e4b", 2),
            (&*id, 2),
            ("train-0", 3),
            ("db", 6),
            // A whole name goes before a part of another one.
            ("train-1", 9),
        ] {
            assert_eq!(lines(word, &names), Ok(BTreeSet::from([line])), "{word}");
        }
        // A digit fewer than runtimes show, what is not its own, what is part of a part.
        for word in [
            "3f2a9c0d1e4",
            "ollama",
            "user@1000",
            "lxc 107",
            "docker 08af949a38747bd1",
            "471",
            "slurm",
            "lab",
            "train",
            "",
        ] {
            assert_eq!(lines(word, &names), Ok(BTreeSet::new()), "{word}");
        }
        let several = lines("9", &names).unwrap_err().to_string();
        assert!(several.contains("are called 9: pbs 9, htcondor 9; give the whole"), "{several}");
        // A program that is called like a job is none.
        let names = [
            ("slurm 4711", 0),
            ("slurm 4711 (job)", 0),
            ("slurm 4711", 1),
            ("slurm 4711 (program)", 1),
        ];
        let names = names.map(|(name, line)| (name.to_owned(), line));
        assert_eq!(lines("4711", &names), Ok(BTreeSet::from([0])));
        assert_eq!(lines("slurm 4711 (program)", &names), Ok(BTreeSet::from([1])));
        assert_eq!(lines("slurm 4711", &names), Ok(BTreeSet::from([0, 1])));
        // What was typed and what there is stand there as they can be typed.
        let names = [(r"slurm \xff".to_owned(), 0), (r"pbs \xff".to_owned(), 1)];
        let several = lines(r"\xff", &names).unwrap_err().to_string();
        assert!(several.contains(r"called \xff: slurm \xff, pbs \xff;"), "{several}");
    }

    #[test]
    fn a_cell_of_a_table_that_is_another_lines_name_means_neither() {
        let names = ["=x", "'=x", "''=x"].map(str::to_owned);
        let names: Vec<(String, usize)> = names.into_iter().zip(0..).collect();
        for cell in ["'=x", "''=x"] {
            let said = lines(cell, &names).unwrap_err().to_string();
            let begin = format!("several lines of this bill are called {cell}: ");
            assert!(said.starts_with(&begin), "{said}");
        }
        assert_eq!(lines("=x", &names), Ok(BTreeSet::from([0])));
        assert_eq!(lines("'''=x", &names), Ok(BTreeSet::from([2])));
    }

    #[test]
    fn words_of_ours_mean_what_a_line_is_and_not_what_it_is_called() {
        let lost = NamelessReason::EventLost;
        let nameless = Standing { nameless: Some(lost), ..Standing::default() };
        let program = Standing { is_classified: Some(false), ..Standing::default() };
        let ruled = Standing { is_classified: Some(true), ..Standing::default() };
        let stepped = Standing { dispute: Some(DisputeReason::ClockStep), ..ruled };
        let all = [nameless, program, ruled, stepped];
        for (word, held) in [
            ("unattributed", [true, false, false, false]),
            ("event-lost", [true, false, false, false]),
            ("unattributed (event-lost)", [true, false, false, false]),
            ("agent-down", [false; 4]),
            ("unclassified", [false, true, false, false]),
            ("disputed", [false, false, false, true]),
            ("disputed (clock-step)", [false, false, false, true]),
            ("disputed (conflict)", [false; 4]),
            ("\"unattributed\"", [false; 4]),
        ] {
            let called = Called::of(&[word.to_owned()], &names()).unwrap();
            assert_eq!(all.map(|one| called.holds(&0, one)), held, "{word}");
        }
        // Whatever stands there, a line without an identity has no name.
        let called = Called::of(&["ollama".to_owned()], &names()).unwrap();
        assert!(called.holds(&0, program) && !called.holds(&0, nameless));
    }
}
