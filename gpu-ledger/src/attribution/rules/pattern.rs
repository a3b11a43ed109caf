//! What stands on the right of a condition: a text, the beginning or end of one, or a regular expression.

use std::fmt;
use std::sync::Arc;

use regex_automata::nfa::thompson::backtrack::BoundedBacktracker;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{BuildError, Compiler, Config, WhichCaptures};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind, Look};
use regex_syntax::{Parser, ParserBuilder};

/// Memory that one compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 256 << 10;
/// Texts of which one must stand in whatever a regular expression matches: with more of them they tell little.
const LITERALS_MAX: usize = 16;
/// Such lists of texts that are known of one regular expression, the longest texts first.
const LISTS_MAX: usize = 8;

/// Bytes that an automaton reads while two texts are compared, or thereabouts.
const COVERED_BYTES: usize = 64;

/// Texts of which one stands in every value that matches.
type Texts = Vec<Box<[u8]>>;

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
    /// Of the one automaton, which takes some two KiB: the quick engine, …
    quick: BoundedBacktracker,
    /// … and the one for values that are too long for it.
    patient: PikeVM,
    /// Groups whose texts are asked for, and that must hold something.
    groups: Vec<usize>,
    /// Of each list one text stands in everything that it matches.
    literals: Vec<Texts>,
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
        let literals = literals(&self.hir);
        // Anchored as a tree: in a text, a comment at its end would swallow what follows it.
        let edges = (Hir::look(Look::Start), Hir::look(Look::End));
        let anchored = Hir::concat(vec![edges.0, self.hir, edges.1]);
        let captures = if groups.is_empty() { WhichCaptures::Implicit } else { WhichCaptures::All };
        let config = Config::new()
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .which_captures(captures)
            .utf8(false);
        let wrong = |error: BuildError| BadRegex {
            at: 0,
            what: match error.size_limit() {
                Some(_) => format!(
                    "it is too large: compiled it takes more than {REGEX_BYTES_MAX} bytes; count less with \
                     {{n}}, or make more rules of it"
                ),
                None => error.to_string(),
            },
        };
        let automaton = Compiler::new().configure(config).build_from_hir(&anchored);
        let automaton = automaton.map_err(wrong)?;
        let quick = BoundedBacktracker::new_from_nfa(automaton.clone()).map_err(wrong)?;
        let patient = PikeVM::new_from_nfa(automaton).map_err(wrong)?;
        Ok(Expression { text: self.text, quick, patient, groups, literals })
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
            Self::Regex(one) if one.groups.is_empty() => one.is_match(value),
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
            Self::Regex(one) => one.is_match(value),
            Self::Exact(_) | Self::Prefix(_) | Self::Suffix(_) => self.matches(value),
        }
    }

    /// Of each list one must be a value, or stand in it, for it to match. Empty where none is known.
    pub(super) fn anchors(&self) -> Vec<Vec<Anchor>> {
        match self {
            Self::Exact(text) => vec![vec![Anchor::Exact(text.clone())]],
            Self::Prefix(text) | Self::Suffix(text) => vec![vec![Anchor::Literal(text.clone())]],
            Self::Regex(one) => {
                let anchors = |texts: &Texts| texts.iter().cloned().map(Anchor::Literal).collect();
                one.literals.iter().map(anchors).collect()
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

    /// How much it takes to ask whether [`Self::covers`] this one, in the least of such questions.
    pub(super) const fn covered_cost(&self) -> usize {
        match self {
            Self::Exact(text) => text.len().saturating_div(COVERED_BYTES).saturating_add(1),
            Self::Prefix(_) | Self::Suffix(_) | Self::Regex(_) => 1,
        }
    }

    /// Whether it takes more than a comparison.
    pub(super) const fn is_costly(&self) -> bool {
        matches!(self, Self::Regex(_))
    }

    /// Texts in which an anchor stands of every pattern that [`Self::covers`] this one and has any.
    pub(super) fn samples(&self) -> Vec<&[u8]> {
        match self {
            Self::Exact(text) | Self::Prefix(text) | Self::Suffix(text) => vec![text],
            Self::Regex(one) => {
                one.literals.iter().filter_map(|texts| texts.first()).map(AsRef::as_ref).collect()
            }
        }
    }
}

impl Expression {
    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let literals = self.literals.iter().flatten().map(|text| text.len());
        literals.fold(self.patient.get_nfa().memory_usage(), usize::saturating_add)
    }

    fn is_match(&self, value: &[u8]) -> bool {
        self.search(value, &mut [])
    }

    fn captures(&self, value: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut slots = vec![None; self.patient.get_nfa().group_info().slot_len()];
        if !self.search(value, &mut slots) {
            return None;
        }
        let edge = |slot: usize| slots.get(slot).copied().flatten().map(NonMaxUsize::get);
        let group = |group: &usize| {
            // Of the only pattern, the two edges of a group stand beside each other.
            let first = group.checked_mul(2)?;
            let text = value.get(edge(first)?..edge(first.checked_add(1)?)?)?;
            // A blank is no name either.
            (!text.trim_ascii().is_empty()).then(|| text.to_vec())
        };
        self.groups.iter().map(group).collect()
    }

    /// In time that grows with the value's length and no faster, whatever it is.
    fn search(&self, value: &[u8], slots: &mut [Option<NonMaxUsize>]) -> bool {
        let input = Input::new(value).anchored(Anchored::Yes);
        let mut cache = self.quick.create_cache();
        if let Ok(found) = self.quick.try_search_slots(&mut cache, &input, slots) {
            return found.is_some();
        }
        let mut cache = self.patient.create_cache();
        self.patient.search_slots(&mut cache, &input, slots).is_some()
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

/// Lists of texts, of each of which one stands in everything that the tree matches.
fn literals(hir: &Hir) -> Vec<Texts> {
    match hir.kind() {
        HirKind::Literal(text) if !text.0.is_empty() => vec![vec![text.0.clone()]],
        HirKind::Capture(group) => literals(&group.sub),
        HirKind::Repetition(repeated) if repeated.min > 0 => literals(&repeated.sub),
        HirKind::Concat(parts) => {
            let mut lists: Vec<Texts> = parts.iter().flat_map(literals).collect();
            lists.sort_by_key(|texts| std::cmp::Reverse(shortest(texts)));
            lists.truncate(LISTS_MAX);
            lists
        }
        HirKind::Alternation(branches) => {
            let longest = |hir: &Hir| literals(hir).into_iter().max_by_key(shortest);
            let of_branches: Option<Vec<Texts>> = branches.iter().map(longest).collect();
            let texts: Texts = of_branches.into_iter().flatten().flatten().collect();
            if texts.is_empty() || texts.len() > LITERALS_MAX { Vec::new() } else { vec![texts] }
        }
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_) => Vec::new(),
    }
}

fn shortest(texts: &Texts) -> Option<usize> {
    texts.iter().map(|text| text.len()).min()
}
