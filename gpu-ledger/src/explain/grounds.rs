//! On what ground a settlement stands on its account, and which rules were near to taking it.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::attribution::rules::{Failed, Held, RuleSet};
use crate::attribution::{Grounded, Label, Process, grounds, label_of};
use crate::journal::entry::SettlementFigures;
use crate::settlement::{Account, Ground, RuleId};

/// The rules that are at hand when somebody asks.
#[derive(Clone, Debug)]
pub struct RulesAtHand {
    /// Where they are from; `None` where there is no file.
    pub file: Option<PathBuf>,
    /// They themselves.
    pub set: Arc<RuleSet>,
}

/// Why nothing further is known of the rules that were in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RulesLack {
    /// The file that is at hand could not be read, which was said.
    Unread,
    /// There is no file of rules here.
    NoFile,
    /// The file that is at hand is another.
    OtherFile,
    /// No rules were in force, and a file is at hand.
    NoneInForce,
    /// The file is at hand; what it would be asked about is not.
    NoEvidence,
}

/// Rules told of that nearly took a settlement; further ones are counted.
pub const NEAR_MAX: usize = 5;

/// What rules had to say of a settlement.
#[derive(Clone, Debug, Serialize)]
pub struct Ruling {
    /// SHA-256 of the file that was in force; where none was, of no bytes.
    pub sha256: String,
    /// Where that file is now; null where nothing further is known.
    pub file: Option<PathBuf>,
    /// Why nothing is; null where it is.
    pub unknown_because: Option<RulesLack>,
    /// The line at which the rule begins that took it; null where none did, or it holds no more by what is stored.
    pub line: Option<usize>,
    /// That rule's conditions, in the file's order.
    pub held: Vec<Held>,
    /// Rules before it that one condition alone kept from taking it, at most [`NEAR_MAX`].
    pub near: Vec<Near>,
    /// How many other rules before it did not.
    pub near_more: usize,
}

/// A rule that did not take a settlement.
#[derive(Clone, Debug, Serialize)]
pub struct Near {
    /// Which.
    pub rule: RuleId,
    /// The line at which it begins.
    pub line: usize,
    /// The account it would have made, as it is written.
    pub account: String,
    /// How many of its conditions hold.
    pub holds: usize,
    /// Of how many.
    pub conditions: usize,
    /// The condition that does not hold.
    pub key: String,
    /// What that wants.
    pub wants: String,
    /// What stands there, escaped and bounded; empty where nothing is known.
    pub seen: Vec<String>,
    /// It would hold, but for a capture that took nothing.
    pub capture_is_empty: bool,
}

/// What has a name for it without a rule, the one that decided first. Nothing where what is stored gives it
/// another name than it was booked with.
pub(super) fn grounds_of(figures: &SettlementFigures, process: &Process) -> Vec<Grounded> {
    let mut grounds = process.see(grounds);
    let Some(booked) = label_of(&figures.labels, Label::Service) else { return grounds };
    match grounds.first_mut() {
        Some(first) if first.account == *booked => grounds,
        // Which of the programs below it is the command is only told by what they were when they ran.
        Some(first) if first.ground == Ground::Scheduler => {
            first.account = Arc::clone(booked);
            grounds
        }
        _ => Vec::new(),
    }
}

/// What the rules that were in force had to say of it.
pub(super) fn ruling(
    figures: &SettlementFigures,
    process: Option<&Process>,
    at_hand: Option<&RulesAtHand>,
) -> Option<Ruling> {
    let in_force = label_of(&figures.labels, Label::Rules);
    let sha256 = match in_force {
        Some(sha256) => sha256.to_string(),
        None => RuleSet::default().digest().to_string(),
    };
    let taken = match figures.account {
        Account::Ruled { rule, .. } => Some(rule),
        Account::Unclassified { .. } | Account::Unattributed(_) => None,
    };
    let unknown = |why| {
        let unknown_because = Some(why);
        Some(Ruling {
            sha256: sha256.clone(),
            file: None,
            unknown_because,
            line: None,
            held: Vec::new(),
            near: Vec::new(),
            near_more: 0,
        })
    };
    if in_force.is_none() {
        let is_at_hand = at_hand.is_some_and(|rules| rules.file.is_some() && !rules.set.is_empty());
        let is_named = figures.account.unattributed().is_none();
        return if is_at_hand && is_named { unknown(RulesLack::NoneInForce) } else { None };
    }
    let Some(rules) = at_hand else { return unknown(RulesLack::Unread) };
    // Rules that took something are of a file.
    let Some(file) = &rules.file else { return unknown(RulesLack::NoFile) };
    if rules.set.digest().to_string() != sha256 {
        return unknown(RulesLack::OtherFile);
    }
    let Some(process) = process else { return unknown(RulesLack::NoEvidence) };
    let told = process.see(|subject| rules.set.explain(subject));
    let others = [(&told.failed, told.failed_more), (&told.undecided, told.undecided_more)];
    let counts = others.iter().map(|(told, more)| told.len().saturating_add(*more));
    let all: usize = counts.fold(0, usize::saturating_add);
    let nearly = others.iter().flat_map(|(told, _)| told.iter()).filter(|one| is_near(one));
    let near: Vec<Near> = nearly.take(NEAR_MAX).map(Near::of).collect();
    let near_more = all.saturating_sub(near.len());
    let matched = told.matched.filter(|matched| Some(matched.rule) == taken);
    let line = matched.as_ref().map(|matched| matched.line);
    let held = matched.map_or_else(Vec::new, |matched| matched.held);
    let (file, unknown_because) = (Some(file.clone()), None);
    Some(Ruling { sha256, file, unknown_because, line, held, near, near_more })
}

/// Whether one condition alone kept it, and something else held of it.
const fn is_near(failed: &Failed) -> bool {
    let unmet = failed.conditions.saturating_sub(failed.holds);
    (unmet == 1 && failed.holds > 0) || failed.capture_is_empty
}

impl Near {
    fn of(failed: &Failed) -> Self {
        Self {
            rule: failed.rule,
            line: failed.line,
            account: failed.account.clone(),
            key: failed.key.clone(),
            wants: failed.wants.clone(),
            seen: failed.seen.clone(),
            holds: failed.holds,
            conditions: failed.conditions,
            capture_is_empty: failed.capture_is_empty,
        }
    }
}
