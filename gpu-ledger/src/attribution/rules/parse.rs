//! From the text of a file to rules: all of its faults, or all of its rules.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::account::Template;
use super::fault::{Collector, Faults};
use super::key::{Field, Key, SYSTEM};
use super::never::{why_never, why_never_begins};
use super::pattern::{BadRegex, Parsed, Pattern};
use super::{
    Condition, FILE_BYTES_MAX, LINE_BYTES_MAX, PATTERNS_MAX, REGEXES_BYTES_MAX, RULES_MAX, Rule,
};
use crate::escape::escape_bounded;
use crate::likeness::nearest;
use crate::settlement::RuleId;

const VALUE: &str = "a text in quotation marks, a number, { prefix = \"…\" }, { suffix = \"…\" }, { regex = '…' }, \
or a list of these";

/// The rules in the bytes of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Rule>, Faults> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // Read up to there, so in the middle of a character.
        Err(error) if bytes.len() > FILE_BYTES_MAX && error.error_len().is_none() => {
            let whole = bytes.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).unwrap_or("")
        }
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let good = std::str::from_utf8(good).unwrap_or("");
            let mut faults = Collector::of(good);
            faults.add(
                good.len(),
                "no UTF-8; save the file as such, and write bytes that are no text as a regex",
            );
            return faults.finish(Vec::new());
        }
    };
    let mut faults = Collector::of(text);
    refuse_size(&mut faults);
    let mut faults = match faults.finish(()) {
        Ok(()) => Collector::of(text),
        Err(faults) => return Err(faults),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        if faults.is_enough() {
            break;
        }
        let at = error.span().map_or(0, |span| span.start);
        // Of a key that stands twice the message does not have the name.
        let key = error.span().filter(|_| error.message() == "duplicate key");
        let key = key.and_then(|span| text.get(span)).map(|key| format!(" `{}`", one_line(key)));
        let key = key.unwrap_or_default();
        faults.add(at, format!("{}{key}; this is no TOML", one_line(error.message())));
    }
    // What follows would tell of the same faults in other words.
    let mut faults = match faults.finish(()) {
        Ok(()) => Collector::of(text),
        Err(faults) => return Err(faults),
    };
    let rules = File { faults: &mut faults, regexes_bytes: 0 }.rules(table.get_ref());
    faults.finish(rules)
}

/// Sizes at which a file is not looked into.
fn refuse_size(faults: &mut Collector<'_>) {
    let text = faults.lines.text();
    let mut at: usize = 0;
    for line in text.split_inclusive('\n') {
        if faults.is_enough() {
            break;
        }
        if line.len() > LINE_BYTES_MAX {
            let length = line.len();
            faults.add(at, format!(
                "a line of {length} bytes; it may have {LINE_BYTES_MAX}: a list goes on over many lines, or make \
                 more rules of it"
            ));
        }
        let end = at.saturating_add(line.len());
        if at <= FILE_BYTES_MAX && end > FILE_BYTES_MAX {
            faults.add(
                at,
                format!("the file is larger than {FILE_BYTES_MAX} bytes, which are used up here"),
            );
        }
        at = end;
    }
}

struct File<'f, 't> {
    faults: &'f mut Collector<'t>,
    /// What is compiled by now takes so much.
    regexes_bytes: usize,
}

/// A condition before its captures are known to be wanted.
struct Draft {
    key: Key,
    at: usize,
    patterns: Vec<DraftPattern>,
}

enum DraftPattern {
    Ready(Pattern),
    /// Where its text begins, and whether that is to the byte.
    Regex(Parsed, TextPlace),
}

/// Where a text stands in the file.
#[derive(Clone, Copy)]
struct TextPlace {
    at: usize,
    /// Whether a byte of the text is a byte of the file: without escapes.
    is_plain: bool,
}

impl TextPlace {
    fn of(file: &str, span: &Range<usize>, text: &str) -> Self {
        let raw = file.get(span.clone()).unwrap_or("");
        let quote: usize = if raw.starts_with("'''") || raw.starts_with("\"\"\"") { 3 } else { 1 };
        let inner = raw.get(quote..raw.len().saturating_sub(quote));
        let is_plain = inner == Some(text);
        Self { at: if is_plain { span.start.saturating_add(quote) } else { span.start }, is_plain }
    }

    const fn byte(self, at: usize) -> usize {
        if self.is_plain { self.at.saturating_add(at) } else { self.at }
    }
}

impl File<'_, '_> {
    fn rules(&mut self, table: &DeTable<'_>) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (name, value) in table {
            if self.faults.is_enough() {
                break;
            }
            let at = name.span().start;
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("rule", DeValue::Array(tables)) => {
                    if let Some(over) = tables.get(RULES_MAX) {
                        let what = format!(
                            "more than {RULES_MAX} rules; one with a list or a regex does for many"
                        );
                        self.faults.add(over.span().start, what);
                    }
                    for (place, one) in tables.iter().take(RULES_MAX).enumerate() {
                        if self.faults.is_enough() || self.regexes_bytes > REGEXES_BYTES_MAX {
                            break;
                        }
                        let id = u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1);
                        match one.get_ref() {
                            DeValue::Table(rule) => {
                                let is_last = place.saturating_add(1) == tables.len();
                                if takes_everything(rule) && !is_last {
                                    let what = "the rule has no condition and leaves nothing for those below it; \
                                                put it last, or give it one";
                                    self.faults.add(one.span().start, what);
                                }
                                rules.extend(self.rule(RuleId(id), rule, one.span().start));
                            }
                            _ => self.faults.add(
                                one.span().start,
                                "no rule; write [[rule]] and its keys below",
                            ),
                        }
                    }
                }
                ("rule", _) => self
                    .faults
                    .add(at, "write [[rule]], with two brackets on either side: rules are a list"),
                (other, _) => {
                    let shown = escape_bounded(other.as_bytes(), 40);
                    self.faults.add(
                        at,
                        format!(
                            "unknown key `{shown}`; a file of rules has [[rule]] and nothing else"
                        ),
                    );
                }
            }
        }
        rules
    }

    fn rule(&mut self, id: RuleId, table: &DeTable<'_>, at: usize) -> Option<Rule> {
        let (mut account, mut drafts) = (None, Vec::new());
        let faults = self.faults.count();
        let mut is_misspelt = false;
        for (name, value) in table {
            if self.faults.is_enough() {
                return None;
            }
            let key_at = name.span().start;
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("account", DeValue::String(text)) => {
                    let place = TextPlace::of(self.faults.lines.text(), &value.span(), text);
                    match Template::parse(text) {
                        Ok(template) => account = Some((template, place)),
                        Err((byte, what)) => {
                            self.faults.add(place.byte(byte), format!("`account`: {what}"));
                            return None;
                        }
                    }
                }
                ("account", _) => {
                    self.faults.add(key_at, "`account` takes a text in quotation marks");
                    return None;
                }
                ("labels", DeValue::Table(labels)) => {
                    for (label, value) in labels {
                        if self.faults.is_enough() {
                            return None;
                        }
                        let key = Key::Label(Arc::from(label.get_ref().as_ref()));
                        drafts.extend(self.condition(key, label.span().start, value));
                    }
                }
                ("labels", _) => {
                    self.faults.add(key_at, "`labels` takes the name of one: labels.app = \"web\", or labels.\"a.b/c\" = \"web\"");
                }
                (word, _) => match Field::of_word(word) {
                    Some(field) => drafts.extend(self.condition(Key::Of(field), key_at, value)),
                    None => is_misspelt |= self.unknown_key(word, key_at) == Some("account"),
                },
            }
        }
        let Some((account, place)) = account else {
            // Which key it has instead was said.
            if is_misspelt {
                return None;
            }
            self.faults.add(at, "the rule has no account; give it one: account = \"…\"");
            return None;
        };
        // Which captures a condition has of which something is wrong nobody knows.
        if self.faults.count() > faults {
            return None;
        }
        drafts.sort_by_key(|draft| draft.at);
        self.make(id, at, (account, place), drafts)
    }

    /// Says the known key that is most like it.
    fn unknown_key(&mut self, word: &str, at: usize) -> Option<&'static str> {
        let known = Field::ALL.map(Field::as_str).into_iter().chain(["account", "labels"]);
        let nearest = nearest(word, known);
        let advice = nearest.map_or_else(
            || "the documented file units/rules.toml has every key".to_owned(),
            |word| format!("did you mean `{word}`?"),
        );
        let shown = escape_bounded(word.as_bytes(), 40);
        self.faults.add(at, format!("unknown key `{shown}`; {advice}"));
        nearest
    }

    fn condition(&mut self, key: Key, at: usize, value: &Spanned<DeValue<'_>>) -> Option<Draft> {
        let single = std::slice::from_ref(value);
        let values = match value.get_ref() {
            DeValue::Array(list) if list.is_empty() => {
                self.faults
                    .add(at, format!("`{key}`: an empty list matches nothing; leave the key out"));
                return None;
            }
            DeValue::Array(list) if list.len() > PATTERNS_MAX => {
                let length = list.len();
                self.faults.add(at, format!("`{key}`: a list of {length}; it may have {PATTERNS_MAX}: make more rules of it"));
                return None;
            }
            DeValue::Array(list) => list.as_ref(),
            _ => single,
        };
        let patterns: Vec<DraftPattern> =
            values.iter().filter_map(|value| self.pattern(&key, value)).collect();
        (patterns.len() == values.len()).then_some(Draft { key, at, patterns })
    }

    fn pattern(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) -> Option<DraftPattern> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) => self.exact(key, text, at),
            DeValue::Integer(number) => {
                if let Ok(whole) = u64::from_str_radix(number.as_str(), number.radix()) {
                    return self.exact(key, &whole.to_string(), at);
                }
                self.faults.add(at, format!("`{key}`: no number of anything; give {VALUE}"));
                None
            }
            DeValue::Table(table) => self.tagged(key, table, at),
            _ => {
                self.faults.add(at, format!("`{key}` does not take this; give {VALUE}"));
                None
            }
        }
    }

    fn exact(&mut self, key: &Key, text: &str, at: usize) -> Option<DraftPattern> {
        if !self.is_filled(key, text, at) {
            return None;
        }
        if let Some(why) = why_never(key, text) {
            self.never(key, text, &why, at);
            return None;
        }
        let bytes = Box::from(text.as_bytes());
        let pattern = match key {
            // As people copy them from elsewhere.
            Key::Of(Field::Gpu) if text.starts_with("GPU-") || text.starts_with("MIG-") => {
                Pattern::Prefix(bytes)
            }
            Key::Of(Field::Container) if is_short_id(text) => Pattern::Prefix(bytes),
            _ => Pattern::Exact(bytes),
        };
        Some(DraftPattern::Ready(pattern))
    }

    /// A text that nothing ever is.
    fn never(&mut self, key: &Key, text: &str, why: &str, at: usize) {
        let shown = escape_bounded(text.as_bytes(), 120);
        self.faults.add(at, format!("`{key}` is never \"{shown}\": it {why}"));
    }

    fn is_filled(&mut self, key: &Key, text: &str, at: usize) -> bool {
        if text.is_empty() {
            self.faults
                .add(at, format!("`{key}`: an empty text matches nothing; leave the key out"));
        }
        !text.is_empty()
    }

    fn tagged(&mut self, key: &Key, table: &DeTable<'_>, at: usize) -> Option<DraftPattern> {
        let mut entries = table.iter();
        let (Some((word, value)), None) = (entries.next(), entries.next()) else {
            self.faults.add(at, format!("`{key}` takes one of them at a time: {VALUE}"));
            return None;
        };
        let DeValue::String(text) = value.get_ref() else {
            self.faults.add(
                value.span().start,
                format!("`{key}`: `{}` takes a text in quotation marks", word.get_ref()),
            );
            return None;
        };
        let text_at = value.span().start;
        if !self.is_filled(key, text, text_at) {
            return None;
        }
        let bytes = || Box::from(text.as_bytes());
        match word.get_ref().as_ref() {
            "prefix" => match why_never_begins(key, text) {
                None => Some(DraftPattern::Ready(Pattern::Prefix(bytes()))),
                Some(why) => {
                    self.never(key, text, &why, text_at);
                    None
                }
            },
            "suffix" => Some(DraftPattern::Ready(Pattern::Suffix(bytes()))),
            "regex" => {
                let place = TextPlace::of(self.faults.lines.text(), &value.span(), text);
                match Parsed::of(text) {
                    Ok(parsed) => Some(DraftPattern::Regex(parsed, place)),
                    Err(bad) => {
                        self.bad_regex(key, place, &bad);
                        None
                    }
                }
            }
            other => {
                let advice = nearest(other, ["prefix", "suffix", "regex"]).map_or_else(
                    || format!("give {VALUE}"),
                    |word| format!("did you mean `{word}`?"),
                );
                let shown = escape_bounded(other.as_bytes(), 40);
                self.faults.add(word.span().start, format!("`{key}`: unknown `{shown}`; {advice}"));
                None
            }
        }
    }

    /// Refuses the one with which all of them are too large.
    fn count_regex(&mut self, key: &Key, place: TextPlace, bytes: usize) {
        self.regexes_bytes = self.regexes_bytes.saturating_add(bytes);
        if self.regexes_bytes > REGEXES_BYTES_MAX {
            let what = format!(
                "`{key}`: with this one the file's regular expressions take more than {REGEXES_BYTES_MAX} bytes \
                 when they are compiled; count less with {{n}}, or write texts, prefix and suffix instead; what \
                 comes after it was not looked at"
            );
            self.faults.add(place.at, what);
        }
    }

    fn bad_regex(&mut self, key: &Key, place: TextPlace, bad: &BadRegex) {
        let what = one_line(&bad.what);
        self.faults.add(place.byte(bad.at), format!("`{key}`: bad regular expression: {what}"));
    }

    /// Gives every capture that the account wants to the one condition that has it.
    fn make(
        &mut self,
        id: RuleId,
        at: usize,
        (account, account_place): (Template, TextPlace),
        drafts: Vec<Draft>,
    ) -> Option<Rule> {
        let mut uses: Vec<Vec<Arc<str>>> = vec![Vec::new(); drafts.len()];
        let mut is_good = true;
        for name in account.captures() {
            let having = |draft: &&Draft| draft.patterns.iter().any(|one| one.has(&name));
            let holders: Vec<&Draft> = drafts.iter().filter(having).collect();
            let name_at = account_place.byte(account.place_of(&name));
            let wrong = match holders.as_slice() {
                [] => Some(format!(
                    "`account`: no condition of this rule has a capture `{name}`; write (?P<{name}>…) in a regex"
                )),
                [one] if one.patterns.iter().all(|pattern| pattern.has(&name)) => {
                    let owners =
                        drafts.iter().zip(&mut uses).filter(|(draft, _)| draft.at == one.at);
                    owners.for_each(|(_, uses)| uses.push(Arc::clone(&name)));
                    None
                }
                [one] => Some(format!(
                    "`account`: not all that `{}` takes has a capture `{name}`; make a rule of each",
                    one.key
                )),
                [one, other, ..] => Some(format!(
                    "`account`: both `{}` and `{}` have a capture `{name}`; call one of them otherwise",
                    one.key, other.key
                )),
            };
            if let Some(what) = wrong {
                self.faults.add(name_at, what);
                is_good = false;
            }
        }
        for name in account.bare_dollars() {
            if drafts.iter().any(|draft| draft.patterns.iter().any(|one| one.has(name))) {
                let at = account_place.byte(account.place_of_bare(name));
                let what = format!(
                    "`account`: `${name}` stands for itself; what (?P<{name}>…) took is ${{{name}}}"
                );
                self.faults.add(at, what);
                is_good = false;
            }
        }
        let mut conditions = Vec::new();
        for (draft, uses) in drafts.into_iter().zip(uses) {
            let mut patterns = Vec::new();
            for pattern in draft.patterns {
                match pattern {
                    DraftPattern::Ready(pattern) => patterns.push(pattern),
                    // Of what is over the bound the first is told, and nothing after it is compiled.
                    DraftPattern::Regex(..) if self.regexes_bytes > REGEXES_BYTES_MAX => {}
                    DraftPattern::Regex(parsed, place) => match parsed.compile(&uses) {
                        Ok(one) => {
                            self.count_regex(&draft.key, place, one.bytes());
                            patterns.push(Pattern::Regex(Box::new(one)));
                        }
                        Err(bad) => {
                            self.bad_regex(&draft.key, place, &bad);
                            is_good = false;
                        }
                    },
                }
            }
            let place = self.faults.lines.place(draft.at);
            conditions.push(Condition { key: draft.key, place, patterns, uses, is_implied: false });
        }
        conditions.extend(whose(&conditions));
        is_good.then(|| Rule::of(id, at, self.faults.lines.place(at), account, conditions))
    }
}

impl DraftPattern {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Ready(_) => false,
            Self::Regex(parsed, _) => parsed.names.iter().any(|(one, _)| **one == *name),
        }
    }
}

/// The condition that a rule on containers has where it says nothing of whose.
fn whose(conditions: &[Condition]) -> Option<Condition> {
    let whose = Key::Of(Field::ContainerOf);
    let of_container = conditions.iter().find(|condition| match &condition.key {
        Key::Of(field) => field.is_of_container(),
        Key::Label(_) => true,
    })?;
    let says = conditions.iter().any(|condition| condition.key == whose);
    (!says).then(|| Condition {
        key: whose,
        place: of_container.place,
        patterns: vec![Pattern::Exact(SYSTEM.as_bytes().into())],
        uses: Vec::new(),
        is_implied: true,
    })
}

/// Whether a rule has an account and no condition. Told by its keys alone: what is wrong with other rules of the file
/// does not hide it.
fn takes_everything(rule: &DeTable<'_>) -> bool {
    let is_condition =
        |value: &DeValue<'_>| !matches!(value, DeValue::Table(labels) if labels.is_empty());
    let mut keys = rule.iter().map(|(name, value)| (name.get_ref().as_ref(), value.get_ref()));
    let has_account = rule.iter().any(|(name, _)| name.get_ref() == "account");
    has_account
        && keys.all(|(word, value)| word == "account" || (word == "labels" && !is_condition(value)))
}

/// The beginning of a container's id, as its runtime shows it.
fn is_short_id(text: &str) -> bool {
    (12..=64).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn one_line(text: &str) -> String {
    escape_bounded(text.trim().replace('\n', ", ").as_bytes(), 300)
}
