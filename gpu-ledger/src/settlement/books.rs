//! Sum in = sum out, asserted at both ends, and the running balance of each GPU.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Settlement, SettlementError, settle};
use crate::accounting::FinalRow;
use crate::unit::{GpuUuid, Ms};

/// What was ever booked of one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Balance {
    /// Settlements.
    pub count: u64,
    /// Their milliseconds, disputed ones included as the driver gave them. Wide, because a wrapped
    /// `time` is close to 2⁶⁴ ms and two of them must not make the books unreadable.
    pub held_ms: u128,
}

impl Balance {
    /// One settlement more.
    #[must_use]
    pub fn plus(self, held: Ms) -> Self {
        // 2⁶⁴ rows of 2⁶⁴ ms fit into 128 bits.
        Self {
            count: self.count.saturating_add(1),
            held_ms: self.held_ms.saturating_add(u128::from(held.0)),
        }
    }
}

/// The cumulative figures of every GPU: what went in as rows, and what came out as settlements.
#[derive(Clone, Default, Debug)]
pub struct Books {
    rows: BTreeMap<GpuUuid, Balance>,
    settlements: BTreeMap<GpuUuid, Balance>,
}

impl Books {
    /// Enters a row and the settlement made of it, and returns its GPU's cumulative figures, which
    /// belong into the settlement's entry.
    ///
    /// # Errors
    /// [`SettlementError::Unbalanced`] where the settlement is not of that row; nothing is entered then.
    pub fn book(
        &mut self,
        row: &FinalRow,
        settlement: &Settlement,
    ) -> Result<Balance, SettlementError> {
        let rows = self.balance_of_rows(&row.row.gpu).plus(row.row.held);
        let settled = self.balance(&settlement.row.gpu).plus(settlement.row.held);
        if row.row.gpu != settlement.row.gpu || rows != settled {
            return Err(SettlementError::Unbalanced {
                gpu: row.row.gpu.clone(),
                rows: rows.count,
                rows_held_ms: rows.held_ms,
                settlements: settled.count,
                settled_held_ms: settled.held_ms,
            });
        }
        self.rows.insert(row.row.gpu.clone(), rows);
        self.settlements.insert(row.row.gpu.clone(), settled);
        Ok(settled)
    }

    /// What was booked of one GPU so far: nothing where it was never heard of.
    #[must_use]
    pub fn balance(&self, gpu: &GpuUuid) -> Balance {
        self.settlements.get(gpu).copied().unwrap_or_default()
    }

    /// What was booked, by GPU.
    #[must_use]
    pub fn balances(&self) -> &BTreeMap<GpuUuid, Balance> {
        &self.settlements
    }

    fn balance_of_rows(&self, gpu: &GpuUuid) -> Balance {
        self.rows.get(gpu).copied().unwrap_or_default()
    }
}

/// Settles and books every row of one harvest, in the order given.
///
/// # Errors
/// Those of [`settle()`] and [`Books::book`], and [`SettlementError::Twice`] where two rows have one key.
/// Books that were given are then not changed.
pub fn settle_all<'a>(
    rows: &[FinalRow],
    mut evidence_of: impl FnMut(&FinalRow) -> Evidence<'a>,
    books: &mut Books,
) -> Result<Vec<Settlement>, SettlementError> {
    let mut entered = books.clone();
    let mut keys = BTreeSet::new();
    let mut settlements = Vec::with_capacity(rows.len());
    for row in rows {
        let settlement = settle(row, &evidence_of(row))?;
        if settlement.key().is_some_and(|key| !keys.insert(key)) {
            return Err(SettlementError::Twice { id: settlement.id });
        }
        entered.book(row, &settlement)?;
        settlements.push(settlement);
    }
    *books = entered;
    Ok(settlements)
}
