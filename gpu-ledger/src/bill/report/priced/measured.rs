//! How much of everything there is in one stretch of the period: quantities, before they meet a price.

use std::collections::BTreeMap;

use super::asleep::Asleep;
use super::divided::{Presence, shares};
use super::{State, Unpriced};
use crate::bill::intervals::union;
use crate::bill::ledger::{Cut, CutBooks};
use crate::bill::on_gpu::by_process;
use crate::bill::report::evidence::Sampled;
use crate::bill::{
    AccountStatement, Bill, BillError, By, GpuLine, LineKey, LineName, Parts, SharePolicy,
};
use crate::memory::ByteMs;
use crate::unit::{Ms, Span};
use crate::unknown::NamelessReason;

/// Whose: names, as the lines of two stretches have different places.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Who {
    Line(LineName),
    Reason(NamelessReason),
    /// Nobody's.
    Gpu,
}

/// One quantity of each meter.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// The GPU's place.
    pub(super) gpu: usize,
    pub(super) who: Who,
    pub(super) state: State,
    /// `None` where a part of it was slept, and nobody can say how much.
    pub(super) held: Option<Ms>,
    pub(super) alone: Option<Ms>,
    /// The range, of what is settled; `None` where nothing was sampled.
    pub(super) busy: Option<(Ms, Ms)>,
    /// Of memory; `None` of everything else.
    pub(super) memory: Option<Memory>,
}

/// Memory held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Memory {
    Known(ByteMs),
    Unknown { why: Unpriced, ms: Ms },
}

/// How the bill is made.
pub(super) struct How<'a> {
    pub(super) by: By,
    pub(super) share: SharePolicy,
    /// What each line weighs on each GPU over the whole period.
    pub(super) weights: &'a BTreeMap<(usize, Who), u64>,
}

/// Whose a line is.
pub(super) fn who(cut: &Cut<'_>, line: LineKey) -> Who {
    match (line.reason, cut.line(line)) {
        (Some(reason), _) => Who::Reason(reason),
        (None, Some(name)) => Who::Line(name.clone()),
        // Every line has its name.
        (None, None) => Who::Gpu,
    }
}

/// Measures one stretch.
pub(super) fn measured(
    cut: &Cut<'_>,
    bill: &Bill<LineKey>,
    how: &How<'_>,
) -> Result<Vec<Measured>, BillError> {
    let mut all = Vec::new();
    for (gpu, line) in bill.gpus.iter().enumerate() {
        of_gpu(cut, bill.period, (gpu, line), how, &mut all)?;
        memory_of(cut, gpu, &mut all);
    }
    // What has no start has no interval: it is where it was read, as long as the driver said.
    for line in &bill.unattributed {
        let gpu = bill.gpus.iter().position(|of_gpu| of_gpu.gpu == line.gpu);
        if let (Some(gpu), NamelessReason::NoStartTime) = (gpu, line.reason) {
            let (who, state) = (Who::Reason(line.reason), State::Unattributed);
            let (held, alone, busy) = (Some(line.held), Some(Ms::ZERO), None);
            all.push(Measured { gpu, who, state, held, alone, busy, memory: None });
        }
    }
    Ok(all)
}

fn of_gpu(
    cut: &Cut<'_>,
    period: Span,
    (gpu, line): (usize, &GpuLine<LineKey>),
    how: &How<'_>,
    all: &mut Vec<Measured>,
) -> Result<(), BillError> {
    let (Some(of_cut), Some(books)) = (cut.gpus.get(gpu), cut.books.get(gpu)) else {
        return Ok(());
    };
    let mut sampled: BTreeMap<LineKey, Sampled> = BTreeMap::new();
    let mut slept: BTreeMap<LineKey, Asleep> = BTreeMap::new();
    for (place, row) in books.settlements.iter().enumerate() {
        if let Some(held) = row.held_of(period) {
            let parts = line.settlements.get(place).copied().flatten();
            sampled.entry(row.line).or_default().add(&row, held);
            slept.entry(row.line).or_default().add(&row, held, parts, period);
        }
    }
    let divided = if how.share == SharePolicy::None {
        None
    } else {
        let lines = line.statement.accounts.iter().map(|of| of.account);
        let weights = lines
            .filter_map(|line| Some((line, *how.weights.get(&(gpu, who(cut, line)))?)))
            .collect();
        Some(shares(period, books, how.share, &weights)?)
    };
    let on_gpu = (how.by == By::Gpu).then(|| by_process(period, books));
    for of in &line.statement.accounts {
        let (settled, open) = parts(of);
        let held = |parts: Parts, as_what| match &divided {
            None => Some(parts.held()),
            Some(shares) => parts
                .alone
                .checked_add(parts.uncovered)?
                .checked_add(shares.get(of.account, as_what)),
        };
        let overflow = BillError::Overflow { what: "held time" };
        let of_process = on_gpu.filter(|_| of.account.reason.is_none());
        let alone = of_process.unwrap_or((settled.alone, open.alone));
        let state = if of.account.reason.is_some() { State::Unattributed } else { State::Settled };
        let slept = slept.get(&of.account).copied().unwrap_or_default();
        let (union, is_divided) = (settled.held(), divided.is_some());
        let priced = held(settled, Presence::Settled).ok_or(overflow.clone())?;
        all.push(Measured {
            gpu,
            who: who(cut, of.account),
            state,
            held: slept.held(union, priced, is_divided),
            alone: slept.alone(union, alone.0),
            busy: sampled.get(&of.account).and_then(Sampled::busy),
            memory: None,
        });
        // What an open row sleeps is said when it settles.
        let held = Some(held(open, Presence::Open).ok_or(overflow)?);
        let (who, state, alone) = (who(cut, of.account), State::Open, Some(alone.1));
        all.push(Measured { gpu, who, state, held, alone, busy: None, memory: None });
    }
    let nobodys = nobodys(period, books, line, of_cut.unread);
    let (unbilled, undivided) =
        divided.map_or((Ms::ZERO, Ms::ZERO), |shares| (shares.unbilled, shares.undivided));
    for (state, held) in [
        (State::Free, line.statement.free),
        (State::Uncovered, nobodys.unseen),
        (State::Unbilled, Ms(unbilled.0.saturating_add(nobodys.unbilled.0))),
        (State::Undivided, undivided),
    ] {
        let (held, alone, busy) = (Some(held), Some(Ms::ZERO), None);
        all.push(Measured { gpu, who: Who::Gpu, state, held, alone, busy, memory: None });
    }
    Ok(())
}

/// Memory held: what is known of each line, and for how long nothing is and why. Of the GPU itself, for how long nobody's
/// is known.
fn memory_of(cut: &Cut<'_>, gpu: usize, all: &mut Vec<Measured>) {
    let Some(of_cut) = cut.gpus.get(gpu) else { return };
    let mut push = |who: &Who, memory| {
        let state =
            if matches!(memory, Memory::Known(_)) { State::Sampled } else { State::Unsampled };
        let (held, alone, busy, who) = (None, None, None, who.clone());
        all.push(Measured { gpu, who, state, held, alone, busy, memory: Some(memory) });
    };
    let memory = &of_cut.memory;
    for (line, of) in &memory.lines {
        let who = who(cut, *line);
        if of.held.known_ms > 0 {
            push(&who, Memory::Known(of.held.memory));
        }
        for (why, ms) in [
            (Unpriced::MemoryVoid, of.void_ms),
            (Unpriced::MemoryCut, of.cut_ms),
            (Unpriced::MemoryUnsaid, of.held.unsaid_ms),
        ] {
            if ms > 0 {
                push(&who, Memory::Unknown { why, ms: Ms(ms) });
            }
        }
    }
    let beyond = memory.beyond.map_or(0, |beyond| beyond.held.listed_ms());
    for (why, ms) in [
        (Unpriced::NoSamples, memory.uncovered),
        (Unpriced::MemoryVoid, memory.void),
        (Unpriced::MemoryCut, memory.cut),
        (Unpriced::MemoryPending, memory.pending),
        // Whose it is has no line.
        (Unpriced::MemoryUnsaid, Ms(beyond)),
    ] {
        if ms > Ms::ZERO {
            push(&Who::Gpu, Memory::Unknown { why, ms });
        }
    }
}

/// Time that is on nobody's line.
struct Nobodys {
    /// It was not seen, and nobody is known to have held the GPU: what a holder is known of is on the line of that
    /// holder. What the next read will tell of is left out.
    unseen: Ms,
    /// Only those held it who are never billed.
    unbilled: Ms,
}

fn nobodys(
    period: Span,
    books: &CutBooks<'_>,
    line: &GpuLine<LineKey>,
    unread: Option<Span>,
) -> Nobodys {
    let spans = || books.holdings().map(|one| one.span);
    let billed = books.holdings().filter(|one| one.kind.accrues()).map(|one| one.span);
    let held = union(period, spans());
    let less = |all: Ms, part: Ms| Ms(all.0.saturating_sub(part.0));
    let unread = unread.map_or(Ms::ZERO, |tail| less(tail.length(), union(tail, spans())));
    Nobodys {
        unseen: less(less(less(period.length(), held), line.statement.free), unread),
        unbilled: less(held, union(period, billed)),
    }
}

/// What of an account is settled, and what its open rows would add by settling.
fn parts(of: &AccountStatement<LineKey>) -> (Parts, Parts) {
    let less = |all: Ms, settled: Ms| Ms(all.0.saturating_sub(settled.0));
    let open = Parts {
        alone: less(of.settled_or_open.alone, of.settled.alone),
        shared: less(of.settled_or_open.shared, of.settled.shared),
        uncovered: less(of.settled_or_open.uncovered, of.settled.uncovered),
    };
    (of.settled, open)
}
