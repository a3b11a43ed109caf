//! The held counters of the run before, gone on from: its page in the text file says how far they had
//! counted, and the journal what happened since.
//!
//! Whatever stood in the page is a scraper's history, so none of it may fall; and what the journal says must stay
//! what the counters add up to. So each GPU goes on from the very moment and the very entry that the page
//! ends with. Of a reboot in between only the page is known: entries of another boot lie on clocks that are gone,
//! and what was held between the last page and that boot's end is in no counter.

use super::tally::{Booked, Tally, boot_of};
use crate::accounting::RowKey;
use crate::clock::Stamp;
use crate::config::Config;
use crate::journal::draft::Earlier;
use crate::journal::entry::{BootId, Entry, Figures};
use crate::journal::store::{Reader, StateDir, StoreError};
use crate::metrics::held::AccountLabel;
use crate::metrics::{HeldPage, textfile};
use crate::unit::BootNs;

/// Entries that may have been made since the page was. With more, the daemon ran without a text file for long,
/// and the page is nobody's history any more.
const ENTRIES_MAX: u64 = 65_536;

/// How long before the page's counters ended an entry may have been learnt that is about time after that.
const LEARNT_BEFORE_NS: u64 = 5_000_000_000;

/// What the counters go on from.
#[derive(Debug)]
pub(super) struct ResumedMeters {
    page: HeldPage,
    open: Vec<OpenRow>,
    /// In order.
    booked: Vec<Later>,
}

/// A row that is open now.
#[derive(Clone, Debug)]
struct OpenRow {
    /// Number of its entry.
    seq: u64,
    key: RowKey,
    label: AccountLabel,
    from: BootNs,
}

/// A settlement that says something of time that the page did not count.
#[derive(Clone, Debug)]
struct Later {
    seq: u64,
    /// Number of the open entry that it replaced.
    opened: Option<u64>,
    booked: Booked,
}

/// Why the counters begin anew.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResumedError {
    /// The page knows entries that the journal has not.
    #[error(
        "the text file counts up to entry {page}, and the journal ends with {journal}: it is another's"
    )]
    OtherJournal { page: u64, journal: u64 },
    /// The page is old.
    #[error("the text file counts up to entry {page} of {journal}, which is too long ago")]
    TooOld { page: u64, journal: u64 },
    /// An entry is archived already.
    #[error("entry {seq} of the journal is not here any more")]
    Archived { seq: u64 },
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ResumedMeters {
    /// Of the text file, where one is configured and says how far it counted.
    pub(super) fn of_file(
        config: &Config,
        dir: &StateDir,
        here: (BootId, Stamp),
        earlier: &[Earlier],
        head: u64,
    ) -> Option<Self> {
        let path = config.metrics.textfile.as_ref()?;
        let text = textfile::read(path).inspect_err(|error| tracing::warn!("{error}"));
        let Ok(Some(text)) = text else { return None };
        let page = HeldPage::of(&text)?;
        match Self::read(page, dir, here, earlier, head) {
            Ok(resumed) => Some(resumed),
            Err(error) => {
                tracing::warn!("{error}: the held counters begin at 0");
                None
            }
        }
    }

    /// Reads what happened since the page was made; it is `now`, in this boot. `head`: number of the journal's last entry; `earlier`: what
    /// it has open.
    pub(super) fn read(
        page: HeldPage,
        dir: &StateDir,
        (boot, now): (BootId, Stamp),
        earlier: &[Earlier],
        head: u64,
    ) -> Result<Self, ResumedError> {
        let length = head
            .checked_sub(page.journal_head)
            .ok_or(ResumedError::OtherJournal { page: page.journal_head, journal: head })?;
        if length > ENTRIES_MAX {
            return Err(ResumedError::TooOld { page: page.journal_head, journal: head });
        }
        let reader = Reader::open_beside_writer(dir)?;
        let entry = |seq| reader.entry(seq)?.ok_or(ResumedError::Archived { seq });
        let mut entries = Vec::new();
        for seq in page.journal_head.saturating_add(1)..=head {
            entries.push(entry(seq)?);
        }
        // Counters trail: of what was booked before the page was made they may not have counted all.
        let until = page.gpus.values().map(|gpu| boot_of(gpu.until, now)).min();
        let since = until.map_or(now.boot, |until| until.minus_ns(LEARNT_BEFORE_NS));
        let mut before = Vec::new();
        for seq in (1..=page.journal_head).rev() {
            let Some(entry) = reader.entry(seq)? else { break };
            let length = u64::try_from(before.len()).unwrap_or(u64::MAX);
            let is_over = entry.at.boot != boot || entry.at.stamp.boot < since;
            if is_over || length > ENTRIES_MAX {
                break;
            }
            before.push(entry);
        }
        let entries = before.into_iter().rev().chain(entries);
        let entries = entries.filter(|entry| entry.at.boot == boot);
        let booked = entries.filter_map(|entry| Later::of(&entry));
        // Those of another boot are over, and were counted up to the page.
        let open = earlier.iter().filter(|one| one.at.boot == boot).filter_map(OpenRow::of);
        Ok(Self { open: open.collect(), booked: booked.collect(), page })
    }

    /// Puts the counters where they stood, and takes in what happened since. It is `now`.
    pub(super) fn apply(self, tally: &mut Tally, now: Stamp) {
        let counted = self.page.journal_head;
        for (gpu, one) in self.page.gpus {
            tally.held.resume(&gpu, (rounded(boot_of(one.until, now)), now.boot), one.counts);
        }
        for OpenRow { seq, key, label, from } in self.open {
            if seq <= counted {
                tally.held.open(&key, &label, from);
            } else {
                tally.held.open_uncounted(&key, &label, from);
            }
            tally.resumed.insert(seq, key);
        }
        for Later { seq, opened, booked } in self.booked {
            // Up to where the page counts it is in the page.
            let is_counted = seq <= counted || opened.is_some_and(|opened| opened <= counted);
            if is_counted {
                tally.meter_open(&booked);
            }
            tally.meter(&booked);
        }
    }
}

impl OpenRow {
    fn of(one: &Earlier) -> Option<Self> {
        let key = one.open.key()?;
        let from = boot_of(key.start, one.open.first_seen.ended);
        Some(Self { seq: one.seq, key, label: AccountLabel::of(&one.open.account), from })
    }
}

impl Later {
    fn of(entry: &Entry) -> Option<Self> {
        let Figures::Settlement(settlement) = &entry.figures else { return None };
        let booked = Booked::of(settlement);
        Some(Self { seq: entry.seq, opened: settlement.opened, booked })
    }
}

/// To the millisecond: counters stand on whole ones, and the wall clock that carried it here may have been
/// slewed by less.
fn rounded(at: BootNs) -> BootNs {
    BootNs(at.0.saturating_add(500_000) / 1_000_000 * 1_000_000)
}

#[cfg(test)]
#[path = "resumed_tests.rs"]
mod tests;
