//! What stands on the right of a condition: a text, the beginning or end of one, or a regular expression.

use std::fmt;
use std::sync::Arc;

use regex_automata::meta::{Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::hir::{Hir, HirKind, Look};
use regex_syntax::{Parser, ParserBuilder};

/// Memory that one compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 256 << 10;
/// Memory for the fast way to its captures; where it needs more there is none.
const ONEPASS_BYTES_MAX: usize = 64 << 10;
/// Texts of which one must stand in whatever a regular expression matches: with more of them they tell little.
const LITERALS_MAX: usize = 16;

/// One pattern.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// The whole value.
    Exact(Box<[u8]>),
    /// The beginning of the value.
    Prefix(Box<[u8]>),
    /// The end of the value.
    Suffix(Box<[u8]>),
    /// The whole value, as a regular expression.
    Regex(Box<Expression>),
}

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    /// As it was written.
    text: Arc<str>,
    regex: Regex,
    /// Groups whose texts are asked for, and that must hold something.
    groups: Vec<usize>,
    /// One of these stands in everything that it matches; `None` where no such texts are known.
    literals: Option<Vec<Box<[u8]>>>,
}

/// Why a text is no regular expression: at which byte of it, and what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BadRegex {
    pub(super) at: usize,
    pub(super) what: String,
}

/// A regular expression that was read and not yet compiled.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    text: Arc<str>,
    hir: Hir,
    /// Groups by name.
    pub(super) names: Vec<(Arc<str>, usize)>,
}

fn parser() -> Parser {
    // Values are bytes of strangers: `.` is any of them, and one that is no text hides nothing.
    ParserBuilder::new().unicode(false).utf8(false).dot_matches_new_line(true).build()
}

impl Parsed {
    pub(super) fn of(text: &str) -> Result<Self, BadRegex> {
        let hir = parser().parse(text).map_err(|error| match error {
            regex_syntax::Error::Parse(error) => {
                BadRegex { at: error.span().start.offset, what: error.kind().to_string() }
            }
            regex_syntax::Error::Translate(error) => {
                BadRegex { at: error.span().start.offset, what: error.kind().to_string() }
            }
            other => BadRegex { at: 0, what: other.to_string().replace('\n', " ") },
        })?;
        let properties = hir.properties();
        let is_empty_only = properties.maximum_len() == Some(0);
        if properties.minimum_len().is_none() || is_empty_only {
            let what = "it matches no value: none is empty".to_owned();
            return Err(BadRegex { at: 0, what });
        }
        let mut names = Vec::new();
        name_groups(&hir, &mut names);
        Ok(Self { text: text.into(), hir, names })
    }

    /// Compiled, so that the groups of these names are had.
    pub(super) fn compile(self, used: &[Arc<str>]) -> Result<Expression, BadRegex> {
        let group = |name: &Arc<str>| self.names.iter().find(|(one, _)| one == name);
        let groups: Vec<usize> = used.iter().filter_map(group).map(|(_, group)| *group).collect();
        let literals = literals(&self.hir).filter(|texts| texts.iter().all(|t| !t.is_empty()));
        // Anchored as a tree: in a text, a comment at its end would swallow what follows it.
        let edges = (Hir::look(Look::Start), Hir::look(Look::End));
        let anchored = Hir::concat(vec![edges.0, self.hir, edges.1]);
        let captures = if groups.is_empty() { WhichCaptures::None } else { WhichCaptures::All };
        let config = Config::new()
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .onepass_size_limit(Some(ONEPASS_BYTES_MAX))
            .which_captures(captures)
            .utf8_empty(false);
        let regex = Regex::builder().configure(config).build_from_hir(&anchored);
        let regex = regex.map_err(|error| BadRegex {
            at: 0,
            what: match error.size_limit() {
                Some(_) => format!(
                    "it is too large: compiled it takes more than {REGEX_BYTES_MAX} bytes; count less with \
                     {{n}}, or make more rules of it"
                ),
                None => error.to_string(),
            },
        })?;
        Ok(Expression { text: self.text, regex, groups, literals })
    }
}

/// A text that was found, or texts of which one must be there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Anchor {
    /// The value is this.
    Exact(Box<[u8]>),
    /// The value has this in it.
    Literal(Box<[u8]>),
}

impl Pattern {
    /// Whether a value matches, every group that is asked for holding something.
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => **text == *value,
            Self::Prefix(text) => value.starts_with(text),
            Self::Suffix(text) => value.ends_with(text),
            Self::Regex(one) if one.groups.is_empty() => one.regex.is_match(value),
            Self::Regex(one) => one.captures(value).is_some(),
        }
    }

    /// The texts of the groups that are asked for, where the value matches.
    pub(super) fn captures(&self, value: &[u8]) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::Regex(one) => one.captures(value),
            Self::Exact(_) | Self::Prefix(_) | Self::Suffix(_) => {
                self.matches(value).then(Vec::new)
            }
        }
    }

    /// Whether a value would match if no group had to hold anything.
    pub(super) fn matches_without_groups(&self, value: &[u8]) -> bool {
        match self {
            Self::Regex(one) => one.regex.is_match(value),
            Self::Exact(_) | Self::Prefix(_) | Self::Suffix(_) => self.matches(value),
        }
    }

    /// Texts of which one must be a value, or stand in it, for it to match. `None` where none are known.
    pub(super) fn anchors(&self) -> Option<Vec<Anchor>> {
        match self {
            Self::Exact(text) => Some(vec![Anchor::Exact(text.clone())]),
            Self::Prefix(text) | Self::Suffix(text) => Some(vec![Anchor::Literal(text.clone())]),
            Self::Regex(one) => {
                let texts = one.literals.as_ref()?;
                Some(texts.iter().cloned().map(Anchor::Literal).collect())
            }
        }
    }

    /// Whether every value that `other` matches is known to match this one as well. `false` where that is not
    /// known.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(text)) => self.matches(text),
            (Self::Prefix(own), Self::Prefix(text)) => text.starts_with(own),
            (Self::Suffix(own), Self::Suffix(text)) => text.ends_with(own),
            // What must hold something here must do so there too.
            (Self::Regex(own), Self::Regex(one)) => {
                own.text == one.text && own.groups.iter().all(|group| one.groups.contains(group))
            }
            _ => false,
        }
    }

    /// Whether it takes more than a comparison.
    pub(super) const fn is_costly(&self) -> bool {
        matches!(self, Self::Regex(_))
    }

    /// A value, or a part of each value, that it matches. `None` where there is none to be had cheaply.
    pub(super) fn sample(&self) -> Option<&[u8]> {
        match self {
            Self::Exact(text) | Self::Prefix(text) | Self::Suffix(text) => Some(text),
            Self::Regex(one) => one.literals.as_ref()?.first().map(AsRef::as_ref),
        }
    }
}

impl Expression {
    fn captures(&self, value: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut captures = self.regex.create_captures();
        self.regex.captures(value, &mut captures);
        if !captures.is_match() {
            return None;
        }
        let group = |group: &usize| {
            let text = value.get(captures.get_group(*group)?.range())?;
            // A blank is no name either.
            (!text.trim_ascii().is_empty()).then(|| text.to_vec())
        };
        self.groups.iter().map(group).collect()
    }
}

impl fmt::Display for Pattern {
    /// As it is written in the file, or might have been.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = match self {
            Self::Exact(text) => return write!(f, "{:?}", lossless(text)),
            Self::Prefix(text) => ("prefix", lossless(text)),
            Self::Suffix(text) => ("suffix", lossless(text)),
            Self::Regex(one) => return write!(f, "regex '{}'", one.text),
        };
        write!(f, "{word} {text:?}")
    }
}

/// It came out of a text file.
fn lossless(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or("")
}

/// The named groups of a tree.
fn name_groups(hir: &Hir, names: &mut Vec<(Arc<str>, usize)>) {
    match hir.kind() {
        HirKind::Capture(group) => {
            if let (Some(name), Ok(index)) = (&group.name, usize::try_from(group.index)) {
                names.push((Arc::from(&**name), index));
            }
            name_groups(&group.sub, names);
        }
        HirKind::Repetition(repeated) => name_groups(&repeated.sub, names),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            for part in parts {
                name_groups(part, names);
            }
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

/// Texts of which one stands in everything that the tree matches: those that tell most.
fn literals(hir: &Hir) -> Option<Vec<Box<[u8]>>> {
    match hir.kind() {
        HirKind::Literal(text) => Some(vec![text.0.clone()]),
        HirKind::Capture(group) => literals(&group.sub),
        HirKind::Repetition(repeated) if repeated.min > 0 => literals(&repeated.sub),
        HirKind::Concat(parts) => {
            let of_parts = parts.iter().filter_map(literals);
            let shortest = |texts: &Vec<Box<[u8]>>| texts.iter().map(|text| text.len()).min();
            of_parts.max_by_key(|texts| (shortest(texts), std::cmp::Reverse(texts.len())))
        }
        HirKind::Alternation(branches) => {
            let of_branches: Option<Vec<_>> = branches.iter().map(literals).collect();
            let texts: Vec<Box<[u8]>> = of_branches?.into_iter().flatten().collect();
            (texts.len() <= LITERALS_MAX).then_some(texts)
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}
