//! The bill of a bundle: made of its entries, ascending, and of what its manifest says. Whoever exports makes it with
//! this, and whoever has the bundle makes the same again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::bill::ledger::Ledger;
use crate::bill::period::{Beyond, Period, zone_name};
use crate::bill::report::{Ask, Head, Outside, Reading, Report, Through, Tree, report};
use crate::bill::{BillError, By, SharePolicy, focus, table, text};
use crate::journal::chain::Recovered;
use crate::journal::entry::{Change, DriverSaid, Entry, Evidence, Figures, OpenFigures, OpenKind};
use crate::journal::{ChainError, Digest};
use crate::prices::PriceList;
use crate::rendering::json;
use crate::unit::Span;
use crate::unknown::GapCause;

use super::error::BundleError;
use super::layout::{BILL_CSV, BILL_FOCUS, BILL_JSON, BILL_TXT, BILL_XLSX};

/// The end of a journal, from the entries of a bundle: all that are open there, the last mark and all after it are among
/// them.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    end: Recovered,
}

impl Ending {
    /// Takes the next entry.
    pub fn take(&mut self, entry: &Entry) {
        let end = &mut self.end;
        match &entry.figures {
            Figures::Open(open) => {
                end.unresolved.insert(entry.seq, OpenFigures::clone(open));
            }
            Figures::Settlement(settlement) => {
                if let Some(opened) = settlement.opened {
                    end.unresolved.remove(&opened);
                }
                end.head.booked.insert(settlement.gpu.clone(), settlement.booked);
            }
            Figures::Correction(correction) => {
                if let Change::Ended { .. } = correction.change {
                    end.unresolved.remove(&correction.of);
                }
            }
            // What is over by an entry that is not here is in no mark any more.
            Figures::Mark(mark) => {
                end.unresolved.retain(|seq, _| mark.unresolved.binary_search(seq).is_ok());
            }
            _ => {}
        }
        // A full disk is told out of turn, as in the chain.
        let is_out_of_turn =
            matches!(&entry.figures, Figures::Gap(gap) if gap.cause == GapCause::DiskFull);
        if !is_out_of_turn {
            end.last = Some(entry.at);
        }
        (end.head.seq, end.head.hash) = (entry.seq, entry.hash);
    }

    /// The end, as a bill needs it.
    #[must_use]
    pub const fn recovered(&self) -> &Recovered {
        &self.end
    }
}

/// What a bill is asked to be.
#[derive(Clone, Debug)]
pub struct BillAsked {
    /// The period, in ms since 1970; from 0: from where the journal begins.
    pub span: Span,
    /// What it calls now, in ms since 1970.
    pub now_ms: u64,
    /// Where its days begin.
    pub zone: TimeZone,
    /// What a line stands for.
    pub by: By,
    /// How shared time is divided.
    pub share: SharePolicy,
    /// What hours cost.
    pub prices: Option<PriceList>,
}

/// A bill in the making.
#[derive(Debug)]
pub struct BillMaker {
    ledger: Ledger,
    ending: Ending,
    /// What epochs rest on, by number.
    drivers: BTreeMap<u64, DriverSaid>,
    /// When the processes behind holders without a row began.
    born_ms: BTreeMap<u64, u64>,
}

impl BillMaker {
    /// Of a bill by this.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self {
            ledger: Ledger::for_bill_by(by),
            ending: Ending::default(),
            drivers: BTreeMap::new(),
            born_ms: BTreeMap::new(),
        }
    }

    /// Takes the next entry. `because` is asked for what it rests on, where a bill shows something of that.
    ///
    /// # Errors
    /// [`BillError::Order`], and those of `because`.
    pub fn take(
        &mut self,
        entry: &Entry,
        because: impl FnOnce() -> Result<Evidence, ChainError>,
    ) -> Result<(), BundleError> {
        match &entry.figures {
            Figures::Epoch(_) => {
                if let Evidence::Epoch(said) = because()? {
                    self.drivers.insert(entry.seq, said);
                }
            }
            Figures::Open(open) if open.kind == OpenKind::NoDriverRow => {
                if let Evidence::Open(open) = because()?
                    && let Some(identity) = &open.identity
                    && identity.boot == entry.at.boot
                    && let Some(born_ms) = crate::billing::wall_ms(entry.at, identity.key.start.0)
                {
                    self.born_ms.insert(entry.seq, born_ms);
                }
            }
            _ => {}
        }
        self.ending.take(entry);
        Ok(self.ledger.take(entry)?)
    }

    /// The host, where an entry names it.
    #[must_use]
    pub const fn host(&self) -> Option<&Arc<str>> {
        self.ledger.host()
    }

    /// The entries are all that there is of these stretches of time, and of no other.
    pub fn limit_to(&mut self, here: Vec<Span>) {
        self.ledger.limit_to(here);
    }

    /// Ends the ledger after the last entry.
    ///
    /// # Errors
    /// [`BillError::Books`].
    pub fn finish(mut self) -> Result<Finished, BundleError> {
        self.ledger.finish(&self.ending.end)?;
        Ok(Finished(self))
    }
}

/// A ledger that is whole.
#[derive(Debug)]
pub struct Finished(BillMaker);

impl Finished {
    /// Its ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// The end of the journal that it is of.
    #[must_use]
    pub const fn end(&self) -> &Recovered {
        &self.0.ending.end
    }

    /// The bill. `root` is that of the tree of all entries up to the last, `users` what its host calls users.
    ///
    /// # Errors
    /// Those of [`report()`].
    pub fn report(
        &self,
        asked: BillAsked,
        root: Digest,
        users: BTreeMap<u32, String>,
    ) -> Result<Report, BillError> {
        let ledger = self.ledger();
        let (head, outside) = self.standing(root, users, false);
        let ask = Ask {
            period: period(&asked, ledger.latest_ms()),
            by: asked.by,
            share: asked.share,
            gpus: Vec::new(),
            accounts: Vec::new(),
            prices: asked.prices,
        };
        report(ledger, &ask, head, &outside)
    }
}

impl Finished {
    /// Where the journal ended, and what a bill shows that stands in evidence. `is_merged`: the bill is one of bundles,
    /// and not that of the bundle itself.
    #[must_use]
    pub fn standing(
        &self,
        root: Digest,
        users: BTreeMap<u32, String>,
        is_merged: bool,
    ) -> (Head, Outside) {
        let BillMaker { ledger, ending, drivers, born_ms } = &self.0;
        let (mut driver, mut driver_version) = (None, None);
        let mut epochs = ledger.epochs();
        epochs.sort_unstable();
        for said in epochs.iter().filter_map(|seq| drivers.get(seq)) {
            if driver.as_deref() != Some("simulated") {
                driver = Some(said.kind.to_string());
            }
            driver_version = said.version.as_ref().map(ToString::to_string);
        }
        let rowless = ledger.rowless();
        let born_ms = rowless.iter().filter_map(|seq| Some((*seq, *born_ms.get(seq)?))).collect();
        let mut reading = Reading::default();
        if is_merged {
            reading.through = Through::Bundle;
        }
        let outside =
            Outside { driver, driver_version, born_ms, reading, users, ..Outside::default() };
        let head =
            Head { seq: ending.end.head.seq, hash: ending.end.head.hash, tree: Tree::Root(root) };
        (head, outside)
    }
}

/// The period of a bundle, with all that its two moments and now say of it.
fn period(asked: &BillAsked, latest_ms: Option<u64>) -> Period {
    let BillAsked { span, now_ms, zone, .. } = asked;
    let (now_ms, span) = (*now_ms, *span);
    let latest_ms = latest_ms.filter(|latest| *latest > now_ms && span.to_ms() > now_ms);
    Period {
        span,
        begins_with_journal: span.from_ms() == 0,
        is_open_ended: span.to_ms() >= now_ms,
        beyond_now: latest_ms.map(|latest_ms| Beyond { now_ms, latest_ms }),
        zone: zone.clone(),
    }
}

/// The name of a zone, where another machine finds it by that.
///
/// # Errors
/// [`BundleError::Zone`].
pub fn portable_zone(zone: &TimeZone) -> Result<String, BundleError> {
    let name = zone_name(zone);
    if *zone == TimeZone::UTC || zone.iana_name().is_some() {
        Ok(name)
    } else {
        Err(BundleError::Zone(name))
    }
}

/// The zone of such a name.
///
/// # Errors
/// [`BundleError::Zone`] where this machine does not know it.
pub fn zone_of(name: &str) -> Result<TimeZone, BundleError> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| BundleError::Zone(name.to_owned()))
}

/// One of the forms of a bill that a bundle has, by the name of its file; `None` where this program does not make it.
///
/// # Errors
/// [`BundleError::Form`] where the bill has no such form.
pub fn document(name: &str, report: &Report) -> Result<Option<Vec<u8>>, BundleError> {
    fn form<T>(made: Result<T, impl std::fmt::Display>) -> Result<T, BundleError> {
        made.map_err(|error| BundleError::Form(error.to_string()))
    }
    Ok(match name {
        BILL_JSON => Some(form(json(report))?.into_bytes()),
        BILL_CSV => Some(form(table::csv(report, false))?.into_bytes()),
        BILL_TXT => Some(text::render(report).into_bytes()),
        BILL_FOCUS => Some(form(focus::csv(report, false))?.into_bytes()),
        #[cfg(feature = "xlsx")]
        BILL_XLSX => Some(form(crate::export::xlsx::bill(report))?),
        _ => None,
    })
}
