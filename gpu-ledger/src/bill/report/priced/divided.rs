//! Shared time as the policy divides it, told apart by what is booked of it.

use std::collections::BTreeMap;

use crate::bill::ledger::CutBooks;
use crate::bill::statement::stated;
use crate::bill::{BillError, Divided, Holding, Kind, Line, LineKey, SharePolicy, divide};
use crate::unit::{Ms, Span};
use crate::unknown::NamelessReason;

/// What a line's presence on a GPU counts as; where it is there in several ways, the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Presence {
    Settled,
    Open,
    /// In dispute, or without a driver row: it shares, and is not billed.
    Unbilled,
}

impl Presence {
    const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Settled => Self::Settled,
            Kind::Open => Self::Open,
            Kind::Disputed | Kind::NoDriverRow => Self::Unbilled,
        }
    }
}

/// A line, and in which way it is present.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Present {
    line: LineKey,
    as_what: Presence,
}

impl Line for Present {
    fn unattributed(&self) -> Option<NamelessReason> {
        self.line.reason
    }
}

/// What each line got of one GPU's shared time. Time that only holders shared who are never billed is left out.
pub(super) struct Shares {
    of: BTreeMap<Present, Ms>,
    /// What those got who are never billed.
    pub(super) unbilled: Ms,
    /// What nobody got.
    pub(super) undivided: Ms,
}

impl Shares {
    /// What a line got in one way.
    pub(super) fn get(&self, line: LineKey, as_what: Presence) -> Ms {
        self.of.get(&Present { line, as_what }).copied().unwrap_or(Ms::ZERO)
    }
}

/// Divides the shared time of a GPU. `weights` are the lines' over the whole bill.
pub(super) fn shares(
    period: Span,
    books: &CutBooks<'_>,
    policy: SharePolicy,
    weights: &BTreeMap<LineKey, u64>,
) -> Result<Shares, BillError> {
    let presence = |place| {
        let Holding { span, pid, account: line, kind } = books.holding(place)?;
        let account = Present { line, as_what: Presence::of(kind) };
        Some(Holding { span, pid, account, kind })
    };
    let swept = stated(period, books.len(), presence, &books.uncovered, &mut |_, _| {})?;
    // A line that is there in two ways at once is one sharer.
    let mut sets: BTreeMap<Vec<Present>, Ms> = BTreeMap::new();
    for (set, shared) in swept.shared_between {
        let mut lines: BTreeMap<LineKey, Presence> = BTreeMap::new();
        for Present { line, as_what } in set {
            let present = lines.entry(line).or_insert(as_what);
            *present = as_what.min(*present);
        }
        let is_billed = lines.values().any(|as_what| *as_what != Presence::Unbilled);
        if lines.len() > 1 && is_billed {
            let set = lines.into_iter().map(|(line, as_what)| Present { line, as_what });
            let sum = sets.entry(set.collect()).or_insert(Ms::ZERO);
            *sum = add(*sum, shared)?;
        }
    }
    let present = sets.keys().flatten();
    let weights =
        present.filter_map(|present| Some((*present, *weights.get(&present.line)?))).collect();
    let Divided { shares: of, undivided } = divide(&sets, policy, &weights)?;
    let unbilled = of.iter().filter(|(present, _)| present.as_what == Presence::Unbilled);
    let unbilled = unbilled.map(|(_, share)| *share).try_fold(Ms::ZERO, add)?;
    Ok(Shares { of, unbilled, undivided })
}

fn add(a: Ms, b: Ms) -> Result<Ms, BillError> {
    a.checked_add(b).ok_or(BillError::Overflow { what: "shared time" })
}
