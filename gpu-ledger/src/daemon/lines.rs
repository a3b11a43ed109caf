//! The one-line form: what was ever booked, by account, one line a transaction that booked something.

use std::io::Write as _;
use std::sync::mpsc;

use super::writer::Booked;
use crate::bill::{Totals, journal_line};
use crate::clock::Stamp;
use crate::journal::Figures;
use crate::journal::entry::SettlementFigures;
use crate::journal::store::{Reader, StateDir, StoreError};
use crate::unknown::DisputeReason;

/// Transactions that may wait while the journal's own sums are read at the start.
const WAITING_MAX: usize = 4_096;

/// Starts the thread that writes them to stderr. `until`: number of the last entry before this run.
pub(super) fn start(
    dir: StateDir,
    until: u64,
) -> std::io::Result<mpsc::SyncSender<(Stamp, Vec<Booked>)>> {
    let (sender, receiver) = mpsc::sync_channel::<(Stamp, Vec<Booked>)>(WAITING_MAX);
    let thread = std::thread::Builder::new().name("journal-line".to_owned());
    thread.spawn(move || {
        let mut totals = match sums(&dir, until) {
            Ok(totals) => totals,
            Err(error) => {
                tracing::warn!(%error, "no lines of what was booked: the sums so far cannot be read");
                return;
            }
        };
        while let Ok((at, booked)) = receiver.recv() {
            for one in booked {
                add(&mut totals, &one);
            }
            let line = journal_line(at.wall, &totals);
            // Nobody may read it.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    })?;
    Ok(sender)
}

fn sums(dir: &StateDir, until: u64) -> Result<Totals, StoreError> {
    let mut totals = Totals::default();
    Reader::open_beside_writer(dir)?.period(0, u64::MAX, |entry| {
        if let Figures::Settlement(settlement) = &entry.figures
            && entry.seq <= until
        {
            add(&mut totals, &Booked::of(settlement));
        }
    })?;
    Ok(totals)
}

impl Booked {
    pub(super) fn of(settlement: &SettlementFigures) -> Self {
        let SettlementFigures { account, held, dispute, .. } = settlement;
        Self { account: account.clone(), held: *held, dispute: *dispute }
    }
}

fn add(totals: &mut Totals, booked: &Booked) {
    let held_ms = u128::from(booked.held.0);
    match (booked.dispute, booked.account.unattributed()) {
        (Some(DisputeReason::ClockStep | DisputeReason::Conflict), _) => {
            totals.add_disputed(held_ms);
        }
        (None, Some(_)) => totals.add_unattributed(held_ms),
        (None, None) => totals.add(&booked.account.to_string(), booked.held),
    }
}
