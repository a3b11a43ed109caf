//! What a reader did not ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::assemble::{UNATTRIBUTED, placed};
use super::lifetimes::{Class, Classes};
use super::priced::{State, totals};
use super::{Ask, LeftOut, Report};
use crate::bill::ledger::Cut;
use crate::bill::{Bill, BillError, Called, LineKey, Standing};
use crate::journal::entry::OpenKind;
use crate::settlement::marked;
use crate::unit::{Ms, Span};
use crate::unknown::DisputeReason;

/// Everything that there is to leave out of.
pub(super) struct Whole<'a> {
    pub(super) cut: &'a Cut<'a>,
    pub(super) bill: &'a Bill<LineKey>,
    /// What this system calls users, by the real user id.
    pub(super) users: &'a BTreeMap<u32, String>,
}

impl Whole<'_> {
    /// What a line is called, its name for people first.
    fn words(&self, line: LineKey) -> Vec<String> {
        if line.reason.is_some() {
            return vec![UNATTRIBUTED.to_owned()];
        }
        let Some(name) = self.cut.line(line) else { return Vec::new() };
        let mut words = vec![name.text.to_string()];
        words.extend(name.named_by.map(|named_by| marked(&name.text, named_by)));
        if let Some(uid) = name.uid {
            words.push(uid.to_string());
            if let Some(user) = self.users.get(&uid) {
                words.push(user.clone());
                words.insert(0, format!("{user} ({uid})"));
            }
        }
        words
    }

    /// How the time of the lines that are shown spreads over spans short and long.
    fn classes(&self, period: Span, is_shown: impl Fn(LineKey) -> bool) -> Classes {
        let mut classes = Classes::new();
        for ((gpu, books), line) in self.cut.gpus.iter().zip(&self.cut.books).zip(&self.bill.gpus) {
            for row in books.settlements.iter().filter(|row| is_shown(row.line)) {
                if let Some(held) = row.held_of(period) {
                    classes.add(Class::of_settled(row.placing().held), held);
                }
            }
            for (holder, parts) in placed(gpu, line) {
                let is_open = !holder.is_over && holder.kind != OpenKind::NoDriverRow;
                let class = if is_open { Class::Open } else { Class::NoDriverRow };
                if let Some(parts) = parts.filter(|_| is_shown(holder.line)) {
                    classes.add(class, parts.held());
                }
            }
        }
        classes
    }
}

/// What was asked for and is not there: of one host that is an error, and of several it may be another's.
#[derive(Clone, Default, Debug)]
pub(super) struct Unmet {
    /// The names that no line has.
    pub(super) words: Vec<String>,
    /// What the lines are called for people.
    pub(super) known: Vec<String>,
}

/// Leaves the lines of other names out, and says what they were.
pub(super) fn filter(
    report: &mut Report,
    ask: &Ask,
    whole: &Whole<'_>,
) -> Result<Unmet, BillError> {
    if ask.accounts.is_empty() && ask.gpus.is_empty() {
        return Ok(Unmet::default());
    }
    let lines = lines(report);
    let identified = lines.iter().filter(|line| line.reason.is_none());
    let names: Vec<(String, LineKey)> = identified
        .flat_map(|line| whole.words(*line).into_iter().map(|word| (word, *line)))
        .collect();
    let called = Called::of(&ask.accounts, &names)?;
    let standing = |line: LineKey, dispute| Standing {
        nameless: line.reason,
        is_classified: whole.cut.line(line).and_then(|name| name.is_classified),
        dispute,
    };
    let mut unmet = Unmet { words: called.unmet().to_vec(), known: Vec::new() };
    if !ask.accounts.is_empty() {
        let titles = lines.iter().filter_map(|line| whole.words(*line).into_iter().next());
        unmet.known = titles.collect();
    }
    let is_meant = |line: LineKey, dispute| {
        ask.accounts.is_empty() || called.holds(&line, standing(line, dispute))
    };
    let is_wanted = |line: LineKey| is_meant(line, None);
    let accounts = extracted(&mut report.accounts, |line| is_wanted(line.line));
    let nameless =
        extracted(&mut report.unattributed, |line| is_wanted(LineKey::nameless(line.reason)));
    let disputed = extracted(&mut report.disputed, |line| is_meant(line.line, Some(line.reason)));
    let open = extracted(&mut report.open, |row| is_wanted(row.line));
    let rowless = extracted(&mut report.no_driver_row, |one| is_wanted(one.line));
    report.memory.lines.retain(|line| is_wanted(line.line));
    if let Some(processes) = &mut report.memory.processes {
        processes.retain(|one| is_wanted(one.line));
    }
    if let Some(settlements) = &mut report.settlements {
        settlements.retain(|one| is_meant(one.line, one.dispute));
    }
    if let (Some(priced), false) = (&mut report.priced, ask.accounts.is_empty()) {
        priced.lines.retain(|of| {
            // What is in dispute for several reasons is one line.
            let reasons = DisputeReason::ALL.iter().copied();
            let mut reasons = reasons.filter(|_| of.state == State::Disputed);
            let of_line = |line| is_wanted(line) || reasons.any(|why| is_meant(line, Some(why)));
            of.line.is_some_and(of_line)
        });
        totals(priced)?;
    }
    if !ask.accounts.is_empty() {
        report.lifetime_classes = whole.classes(whole.bill.period, is_wanted).lines();
    }
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
    let (settlements, span_ms_total) = shown(report);
    report.left_out = Some(LeftOut {
        gpus: number(whole.cut.gpus_left_out),
        accounts: number(accounts.len()),
        settlements: report.settlements_total.saturating_sub(settlements),
        span_ms_total: report.span_ms_total.saturating_sub(span_ms_total),
        unattributed: sum(&mut nameless.iter().map(|line| line.count)),
        disputed: sum(&mut disputed.iter().map(|line| line.count)),
        open: number(open.len()),
        open_ms: Ms(sum(&mut open.iter().filter_map(|row| row.accrued_ms).map(|ms| ms.0))),
        no_driver_row: number(rowless.len()),
    });
    Ok(unmet)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Takes out what is not wanted, and returns it.
fn extracted<T>(list: &mut Vec<T>, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
    list.extract_if(.., |one| !is_wanted(one)).collect()
}

/// Every line that something on it stands on.
fn lines(report: &Report) -> BTreeSet<LineKey> {
    let accounts = report.accounts.iter().map(|line| line.line);
    let disputed = report.disputed.iter().map(|line| line.line);
    let open = report.open.iter().map(|row| row.line);
    let rowless = report.no_driver_row.iter().map(|one| one.line);
    let nameless = report.unattributed.iter().map(|line| LineKey::nameless(line.reason));
    let memory = report.memory.lines.iter().map(|line| line.line);
    let nameless = nameless.chain(memory);
    accounts.chain(disputed).chain(open).chain(rowless).chain(nameless).collect()
}

/// Settlements on the lines, and their milliseconds.
pub(super) fn shown(report: &Report) -> (u64, u128) {
    let accounts =
        report.accounts.iter().map(|line| (line.settlements, line.span_ms_total.0.into()));
    let nameless = report.unattributed.iter().map(|line| (line.count, line.span_ms_total.0.into()));
    let disputed = report.disputed.iter().map(|line| (line.count, line.raw_ms));
    accounts.chain(nameless).chain(disputed).fold(
        (0, 0),
        |(count, ms): (u64, u128), (more, held)| {
            (count.saturating_add(more), ms.saturating_add(held))
        },
    )
}
