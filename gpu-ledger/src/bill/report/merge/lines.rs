//! The lines of several hosts as those of one bill.

use std::collections::{BTreeMap, BTreeSet};

use super::Part;
use crate::bill::report::Account;
use crate::bill::report::assemble::largest_first;
use crate::bill::{BillError, By, LineKey, LineName};
use crate::memory::ByteMs;
use crate::unit::Ms;

/// What makes a line one on all hosts: its name, and of a user what the host calls them.
type Name = (LineName, Option<String>);

/// The rank of every line among those of all hosts.
pub(super) struct Ranks(BTreeMap<Name, u32>);

impl Ranks {
    pub(super) fn of(parts: &[Part]) -> Self {
        let names: BTreeSet<Name> = parts.iter().flat_map(names_of).collect();
        Self(names.into_iter().zip(0_u32..).collect())
    }

    /// The names of the lines.
    pub(super) fn names(&self) -> Vec<LineName> {
        self.0.keys().map(|(name, _)| name.clone()).collect()
    }

    /// Moves everything of one host to these lines.
    pub(super) fn apply(&self, part: &mut Part) {
        let names: Vec<Name> = names_of(part).collect();
        let rank = |key: LineKey| {
            let name = names.get(usize::try_from(key.rank).ok()?)?;
            Some((*self.0.get(name)?, &name.0.text))
        };
        let moved = |key: &mut LineKey| {
            if let (None, Some((rank, _))) = (key.reason, rank(*key)) {
                key.rank = rank;
            }
        };
        // Of those that are called as their line is, that name as well.
        let renamed = |key: &mut LineKey, name: &mut String| {
            if let (None, Some((rank, text))) = (key.reason, rank(*key)) {
                key.rank = rank;
                text.as_ref().clone_into(name);
            }
        };
        let report = &mut part.report;
        report.accounts.iter_mut().for_each(|one| renamed(&mut one.line, &mut one.account));
        report.disputed.iter_mut().for_each(|one| renamed(&mut one.line, &mut one.account));
        let memory = &mut report.memory;
        memory.lines.iter_mut().for_each(|one| renamed(&mut one.line, &mut one.account));
        memory.processes.iter_mut().flatten().for_each(|one| moved(&mut one.line));
        report.open.iter_mut().for_each(|one| moved(&mut one.line));
        report.no_driver_row.iter_mut().for_each(|one| moved(&mut one.line));
        report.settlements.iter_mut().flatten().for_each(|one| moved(&mut one.line));
        let priced = report.priced.iter_mut().flat_map(|priced| &mut priced.lines);
        for one in priced {
            let Some(line) = &mut one.line else { continue };
            if let (Some(account), Some(title)) = (&mut one.account, &mut one.title) {
                // A user is called by more than the line's name.
                if account == title {
                    renamed(&mut line.clone(), title);
                }
                renamed(line, account);
            }
        }
    }
}

/// The names of the lines of one host, by rank.
fn names_of(part: &Part) -> impl Iterator<Item = Name> {
    let host = part.report.host.as_deref().unwrap_or("unknown host");
    let is_by_gpu = part.report.by == By::Gpu.as_str();
    part.lines.iter().map(move |name| {
        let mut name = name.clone();
        if is_by_gpu {
            name.text = format!("{host}: {}", name.text).into();
        }
        let user = name.uid.and_then(|uid| part.users.get(&uid)).cloned();
        (name, user)
    })
}

/// One line for each name. `is_memory_told`: of every GPU's memory the size of what is unknown is known.
pub(super) fn accounts(all: Vec<Account>, is_memory_told: bool) -> Result<Vec<Account>, BillError> {
    let mut lines: BTreeMap<LineKey, Account> = BTreeMap::new();
    for more in all {
        match lines.get_mut(&more.line) {
            None => {
                lines.insert(more.line, more);
            }
            Some(sum) => add(sum, &more)?,
        }
    }
    let mut lines: Vec<Account> = lines.into_values().collect();
    if !is_memory_told {
        for line in &mut lines {
            line.memory_unknown_ms = None;
        }
    }
    lines.sort_by(largest_first);
    Ok(lines)
}

fn add(sum: &mut Account, more: &Account) -> Result<(), BillError> {
    sum.busy_ms_high = high(sum, more);
    sum.busy_ms_low = either(sum.busy_ms_low, more.busy_ms_low);
    sum.max_memory_bytes = match (sum.settlements, more.settlements) {
        (_, 0) => sum.max_memory_bytes,
        (0, _) => more.max_memory_bytes,
        // A single unknown among them makes the largest unknown too.
        _ => sum.max_memory_bytes.zip(more.max_memory_bytes).map(|(one, other)| one.max(other)),
    };
    sum.settlements = sum.settlements.saturating_add(more.settlements);
    for (sum, more) in [
        (&mut sum.held_ms, more.held_ms),
        (&mut sum.alone_ms, more.alone_ms),
        (&mut sum.shared_ms, more.shared_ms),
        (&mut sum.uncovered_ms, more.uncovered_ms),
        (&mut sum.span_ms_total, more.span_ms_total),
        (&mut sum.open_ms, more.open_ms),
        (&mut sum.open_uncovered_ms, more.open_uncovered_ms),
        (&mut sum.settled_or_open_ms, more.settled_or_open_ms),
        (&mut sum.no_driver_row_ms, more.no_driver_row_ms),
        (&mut sum.busy_unsampled_ms, more.busy_unsampled_ms),
    ] {
        *sum = sum.checked_add(more).ok_or(BillError::Overflow { what: "held time" })?;
    }
    sum.share_ms = either(sum.share_ms, more.share_ms);
    sum.memory_unknown_ms = either(sum.memory_unknown_ms, more.memory_unknown_ms);
    let known = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u128>().ok());
    let memory = [&sum.memory_held_byte_ms, &more.memory_held_byte_ms].map(known);
    let memory = memory.into_iter().flatten().map(ByteMs).reduce(ByteMs::plus);
    sum.memory_held_gib_s = memory.map(|held| held.to_string());
    sum.memory_held_byte_ms = memory.map(|held| held.0.to_string());
    Ok(())
}

/// The upper end of both busy ranges: what was not sampled may have been busy throughout. `None` where nothing was
/// sampled.
fn high(one: &Account, other: &Account) -> Option<Ms> {
    one.busy_ms_high.or(other.busy_ms_high)?;
    let most = |line: &Account| line.busy_ms_high.unwrap_or(line.busy_unsampled_ms).0;
    Some(Ms(most(one).saturating_add(most(other))))
}

/// The sum of what is known.
fn either(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Ms(one.0.saturating_add(other.0))),
        (one, other) => one.or(other),
    }
}
