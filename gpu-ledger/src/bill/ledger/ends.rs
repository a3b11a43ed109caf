//! Up to when a holder that did not settle held its GPU.

use super::{Ended, Ledger, Opened, Sight};
use crate::journal::entry::OpenKind;
use crate::unit::Span;

impl Ledger {
    /// When it held the GPU, up to its end or to the last answer about that GPU that would have shown it.
    pub(super) fn span_of(&self, seq: u64, opened: &Opened) -> Option<Span> {
        let sight = self.sights.of(opened.whose.gpu);
        let answered = || match opened.kind {
            OpenKind::NoDriverRow => sight.and_then(Sight::answered_ms),
            OpenKind::Row | OpenKind::Masked => sight.and_then(Sight::rows_answered_ms),
        };
        let end_ms = self.end_of(seq, opened).map(|ended| ended.last_seen_ms).or_else(answered)?;
        Span::new(opened.since_ms(), end_ms)
    }

    /// Its end, where it has one. A row that ran when accounting was lost is over, whether it was thrown away or
    /// was final just before: which of the two the driver tells when accounting is on again, and until then there
    /// is no entry about it.
    pub(super) fn end_of(&self, seq: u64, opened: &Opened) -> Option<Ended> {
        let over = || {
            let sight = self.sights.of(opened.whose.gpu)?;
            let over = sight.row_over(seq).filter(|_| opened.kind != OpenKind::NoDriverRow)?;
            let last_seen_ms = over.last_seen_ms.max(opened.first_seen_ms);
            Some(Ended { last_seen_ms, cause: Some(over.cause) })
        };
        opened.ended.or_else(over)
    }
}
