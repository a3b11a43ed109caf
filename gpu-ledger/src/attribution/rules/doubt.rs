//! Texts that hardly anything is ever called: a command line where a name is looked at, a shell's pattern, a capture
//! without its brackets. Nothing forbids a file to be called so, hence no faults; each with what to write instead.

use super::fault::Fault;
use super::key::{Field, Key};
use super::pattern::Pattern;
use super::{Rule, RuleSet};
use crate::escape::{escape_bounded, is_unprintable};
use crate::identity::is_name_of_family;

/// Doubts told of one file; further ones are counted.
pub const DOUBTS_MAX: usize = 100;
/// Characters shown of a text.
const CHARS_MAX: usize = 60;

/// What is hardly meant as it is written, in the file's order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Doubts {
    /// The first [`DOUBTS_MAX`] of them.
    pub doubts: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

impl Doubts {
    fn add(&mut self, (line, column): (usize, usize), what: String) {
        if self.doubts.len() < DOUBTS_MAX {
            self.doubts.push(Fault { line, column, what });
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

impl RuleSet {
    /// What is hardly meant as it is written. `is_user`: whether this host has a user of that name; `true` where that
    /// is not known.
    #[must_use]
    pub fn doubts(&self, is_user: impl Fn(&str) -> bool) -> Doubts {
        let mut doubts = Doubts::default();
        for rule in &self.rules {
            if let Some(what) = dollar(rule) {
                doubts.add((rule.place.line, rule.place.column), what);
            }
            for condition in &rule.conditions {
                let Key::Of(field) = condition.key else { continue };
                let place = (condition.place.line, condition.place.column);
                for pattern in &condition.patterns {
                    let Pattern::Exact(text) = pattern else { continue };
                    let Ok(text) = std::str::from_utf8(text) else { continue };
                    if let Some(why) = why_hardly(field, text, &is_user) {
                        let shown = escape_bounded(text.as_bytes(), CHARS_MAX);
                        doubts.add(
                            place,
                            format!(
                                "`{field}` is hardly ever \"{shown}\": {why}",
                                field = field.as_str()
                            ),
                        );
                    }
                }
            }
        }
        doubts
    }
}

fn why_hardly(field: Field, text: &str, is_user: &impl Fn(&str) -> bool) -> Option<String> {
    use Field::{Ancestor, Argv, CommandLine, Exe, Job, LoginUser, Model, Program, User};
    match field {
        // Anything may stand there, and `4711[*]` is a job.
        Argv | CommandLine | Model | Job => None,
        _ if text.contains(['*', '?']) => {
            let pattern = likely_pattern(text);
            Some(format!("it is taken as it stands and is no pattern; write {pattern}"))
        }
        Program | Ancestor => {
            let (first, rest) = text.split_once(' ')?;
            // `python -c`, `bun dev`: programs have such names where an interpreter runs no file.
            if first.is_empty() || rest.is_empty() || is_name_of_family(first) {
                return None;
            }
            let first = escape_bounded(first.as_bytes(), CHARS_MAX);
            let too = if field == Program {
                ", and look at the rest with argv"
            } else {
                "; arguments of ancestors are not looked at"
            };
            Some(format!("it is a program's name without arguments; write \"{first}\"{too}"))
        }
        Exe if text.contains(" -") => {
            Some("it is a file's name without arguments; look at those with argv".to_owned())
        }
        User | LoginUser if !text.bytes().all(|b| b.is_ascii_digit()) && !is_user(text) => {
            Some("this host has no such user now; look at its spelling".to_owned())
        }
        _ => None,
    }
}

/// What a shell's pattern is as one of ours.
pub(super) fn likely_pattern(text: &str) -> String {
    let shown = |text: &str| escape_bounded(text.as_bytes(), CHARS_MAX);
    // As it is to be written between single quotes: without a second backslash.
    let regex = |text: &str| {
        let text = text.chars().take(CHARS_MAX).filter(|c| !is_unprintable(*c));
        format!("{{ regex = '{}' }}", text.collect::<String>())
    };
    let is_text = |text: &str| !text.is_empty() && !text.contains(['*', '?']);
    if text.contains(".*") || text.contains(".?") {
        return regex(text);
    }
    if let Some(before) = text.strip_suffix('*').filter(|before| is_text(before)) {
        return format!("{{ prefix = \"{}\" }}", shown(before));
    }
    if let Some(after) = text.strip_prefix('*').filter(|after| is_text(after)) {
        return format!("{{ suffix = \"{}\" }}", shown(after));
    }
    regex(&regex_syntax::escape(text).replace("\\*", ".*").replace("\\?", "."))
}

/// A capture without its brackets, in an account that has none of that name. Where a regex has it, it is a fault.
fn dollar(rule: &Rule) -> Option<String> {
    let name = rule.account.bare_dollars().next()?;
    let name = escape_bounded(name.as_bytes(), CHARS_MAX);
    Some(format!(
        "`account` has `${name}` in it as it stands; a capture is ${{{name}}}, and (?P<{name}>…) in a regex"
    ))
}
