//! Closing a period: its bill is made in every form, kept beside the journal, and entered as the one that stays.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::{BillOptions, Format, JournalFiles, PricesAt, Read, Version, made, page, read};
use crate::bill::period::{Asked, moment_of, show, zone_name};
use crate::bill::report::{Report, Tree};
use crate::bill::{By, Closing, SharePolicy};
use crate::clock::Clock;
use crate::daemon::{Client, ClientError, boot_id};
use crate::journal::Digest;
use crate::journal::canon;
use crate::journal::entry::{ClosedPeriod, Draft, Evidence, Figures, Moment};
use crate::journal::store::{Extent, Files, StateDir, Store, StoreError};
use crate::output::to_stdout;
use crate::unit::{Ms, WallUs};

/// How often the journal is looked at for the closing, and how long is waited between two looks: 20 s in all.
const LOOKS_MAX: u32 = 200;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What is to be closed.
#[derive(Clone, Debug)]
pub struct CloseOptions {
    /// The period.
    pub asked: Asked,
    /// What a line of its bill stands for.
    pub by: By,
    /// How shared time is divided on it.
    pub share: SharePolicy,
    /// Where prices are.
    pub prices: PricesAt,
    /// The time zone.
    pub zone: TimeZone,
    /// The clocks.
    pub clock: Clock,
    /// The journal.
    pub dir: StateDir,
    /// Where its daemon is asked, if one runs.
    pub socket: PathBuf,
}

/// Why a period is not closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// It is not over.
    #[error(
        "the period to {0} is not over, and its bill would miss what is still to come; close one that is over, such \
         as yesterday or 2026-10"
    )]
    NotOver(String),
    /// Whether it was seen to its end is not entered yet.
    #[error("the period to {until} is not known to its end: {why}")]
    NotSeen {
        /// Its end.
        until: String,
        /// What is lacking, and when it will be there.
        why: String,
    },
    /// It is closed, and with other options.
    #[error(
        "{name} is closed already (entry {entry}), --by {by} --share {share} and with {prices}; its bill stays as it is: \
         gpu-ledger bill with other options makes one of the same entries"
    )]
    OtherOptions {
        /// Which.
        name: String,
        /// Number of the entry that closed it.
        entry: u64,
        /// By what.
        by: String,
        /// How shared.
        share: String,
        /// By which prices.
        prices: String,
    },
    /// Another one that is closed has time of it.
    #[error(
        "it has time of {name}, which is closed (entry {entry}); close what lies before or after that"
    )]
    Overlaps {
        /// Which.
        name: String,
        /// Number of the entry that closed it.
        entry: u64,
    },
    /// The root of the tree is not known.
    #[error(
        "the root of the tree of the entries is not known: {0}; without it a closing would prove nothing"
    )]
    NoTree(&'static str),
    /// It did not come into the journal.
    #[error(
        "the daemon took the closing and did not enter it in time; see its log, and close the period again"
    )]
    NotEntered,
    /// Somebody was faster.
    #[error(
        "{name} was closed by somebody else meanwhile (entry {entry}); see gpu-ledger bill --period {name}"
    )]
    Meanwhile {
        /// Which.
        name: String,
        /// Number of the entry that closed it.
        entry: u64,
    },
    /// The journal is written by a daemon that does not answer.
    #[error("{store}; and {daemon}")]
    NoWriter {
        /// Why it cannot be written.
        store: Box<StoreError>,
        /// Why the daemon cannot be asked.
        daemon: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl CloseError {
    /// Whether what was asked for is what is wrong.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::NotOver(_) | Self::OtherOptions { .. } | Self::Overlaps { .. })
    }
}

impl CloseOptions {
    fn bill(&self, format: Format) -> BillOptions {
        BillOptions {
            asked: self.asked.clone(),
            version: Version::AsOf(super::NOW.to_owned()),
            by: self.by,
            share: self.share,
            gpus: Vec::new(),
            accounts: Vec::new(),
            prices: self.prices.clone(),
            format,
            output: None,
            zone: self.zone.clone(),
            clock: self.clock.clone(),
        }
    }

    /// What a period is called: as it was asked for, where that says the same for ever.
    fn name(&self, report: &Report) -> String {
        let word = self.asked.period.as_deref();
        match word.filter(|word| word.starts_with(|first: char| first.is_ascii_digit())) {
            Some(word) => word.to_owned(),
            None if word == Some("yesterday") => {
                let begin = moment_of(report.period.span.from_ms());
                begin.to_zoned_datetime(self.zone.clone()).date().to_string()
            }
            None => format!("{}/{}", report.period.since, report.period.until),
        }
    }
}

/// Closes a period, or says that it is closed already, and returns the exit status.
///
/// # Errors
/// [`CloseError`]; what keeps the bill from being made, or from being kept.
pub fn close(options: &CloseOptions) -> anyhow::Result<u8> {
    let mut files = JournalFiles::open(&options.dir)?;
    let bill = options.bill(Format::Json);
    let read = read(&bill, &mut files)?;
    let span = read.period.span;
    let until = || show(moment_of(span.to_ms()), &options.zone);
    if read.period.is_open_ended || read.period.beyond_now.is_some() {
        return Err(CloseError::NotOver(until()).into());
    }
    let closings = read.ledger.closings();
    if let Some(closing) = closings.of(span) {
        refuse_other_options(options, closing)?;
        tell(closing, true)?;
        return Ok(0);
    }
    if let Some(closing) = closings.meeting(span).next() {
        let name = closing.period.name.to_string();
        return Err(CloseError::Overlaps { name, entry: closing.seq }.into());
    }
    refuse_unseen_end(options, &read)?;
    let prices = options.prices.read(&options.zone)?;
    let text = prices.as_ref().map(|prices| prices.text().to_owned());
    let report = made(&bill, &read, (prices, None), &mut files)?;
    refuse_unseen(&report, &until())?;
    let tree = match read.head.tree {
        Tree::Root(root) => root,
        Tree::Unknown(why) => return Err(CloseError::NoTree(why).into()),
    };
    let beside = Files::of_writer(&options.dir)?;
    let mut documents: Vec<(Arc<str>, Digest)> = Vec::new();
    for form in forms(&report) {
        let page = page(&report, read.ledger.as_of_ms().unwrap_or(0), form)?;
        documents.push((form.as_str().into(), beside.keep(page.as_bytes())?));
    }
    documents.sort();
    let closed = ClosedPeriod {
        name: options.name(&report).into(),
        from: WallUs(span.from_ms().saturating_mul(1_000)),
        to: WallUs(span.to_ms().saturating_mul(1_000)),
        zone: zone_name(&options.zone).into(),
        through: read.head.seq,
        tree,
        by: options.by.as_str().into(),
        share: options.share.as_str().into(),
        prices: text.map(|text| beside.keep(text.as_bytes())).transpose()?,
        documents,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    enter(options, &closed, read.head.hash)?;
    tell(&entered(options, &read, &closed)?, false)?;
    Ok(0)
}

/// Every form that such a bill has.
fn forms(report: &Report) -> Vec<Format> {
    let mut forms = vec![
        Format::Table,
        Format::Json,
        Format::Csv { is_raw: false },
        Format::Csv { is_raw: true },
    ];
    let is_by_process = report.settlements.is_some();
    if report.priced.is_some() && !is_by_process {
        forms.extend([Format::Focus { is_raw: false }, Format::Focus { is_raw: true }]);
    }
    if report.undivided_ms.is_none() && !is_by_process {
        forms.push(Format::Line);
    }
    forms
}

fn refuse_other_options(options: &CloseOptions, closing: &Closing) -> anyhow::Result<()> {
    let period = &closing.period;
    let has_named = match &options.prices {
        PricesAt::Named(_) => {
            options.prices.read(&options.zone)?.map(|prices| prices.digest()) == period.prices
        }
        PricesAt::Configured(_) | PricesAt::Default => true,
    };
    let is_same = *period.by == *options.by.as_str() && *period.share == *options.share.as_str();
    if is_same && has_named {
        return Ok(());
    }
    Err(CloseError::OtherOptions {
        name: period.name.to_string(),
        entry: closing.seq,
        by: period.by.to_string(),
        share: period.share.to_string(),
        prices: match period.prices {
            Some(digest) => format!("the prices of file {digest}"),
            None => "no prices".to_owned(),
        },
    }
    .into())
}

/// Refuses a period whose end no entry speaks of: what the next one will say of it is not known. One whose end was not
/// seen, as the host was down, is known to be so as soon as anything later is entered.
fn refuse_unseen_end(options: &CloseOptions, read: &Read) -> Result<(), CloseError> {
    let to_ms = read.period.span.to_ms();
    let as_of_ms = read.ledger.as_of_ms();
    if as_of_ms.is_some_and(|as_of| as_of >= to_ms) {
        return Ok(());
    }
    let local = |ms| show(moment_of(ms), &options.zone);
    let speaks = as_of_ms.map_or_else(
        || "the journal is empty".to_owned(),
        |as_of| format!("the last entry is of {}", local(as_of)),
    );
    let when = if read.ledger.is_running() {
        "the daemon marks once a minute up to when it saw everything; close it then"
    } else {
        "nothing is entered since the daemon ended; start it (`systemctl start gpu-ledger`), and close it after its \
         first minute"
    };
    Err(CloseError::NotSeen { until: local(to_ms), why: format!("{speaks}, and {when}") })
}

/// Refuses a bill of which something is merely awaited.
fn refuse_unseen(report: &Report, until: &str) -> Result<(), CloseError> {
    let awaited = report.gpus.iter().find(|gpu| gpu.unread_ms > Ms::ZERO).map(|gpu| {
        format!(
            "{} was last read {} before it, and its next read is awaited; close it in two minutes",
            gpu.gpu_uuid, gpu.unread_ms
        )
    });
    let pending = report.memory.gpus.iter().find(|gpu| gpu.pending_ms > Ms::ZERO).map(|gpu| {
        format!(
            "the memory held on {} is entered by the quarter of an hour; close it in 20 minutes",
            gpu.gpu_uuid
        )
    });
    match awaited.or(pending) {
        Some(why) => Err(CloseError::NotSeen { until: until.to_owned(), why }),
        None => Ok(()),
    }
}

/// Enters it: into the journal itself, or through the daemon that writes it.
fn enter(options: &CloseOptions, closed: &ClosedPeriod, hash: Digest) -> anyhow::Result<()> {
    let store = match Store::open(&options.dir) {
        Ok((mut store, _)) => {
            let at = Moment { boot: boot_id()?, stamp: options.clock.now() };
            let figures = Figures::Closed(Box::new(closed.clone()));
            store.append(vec![Draft { at, figures, evidence: Evidence::None, argv: None }])?;
            store.close()?;
            return Ok(());
        }
        // Another writes it, or it is another user's: root may ask that user's daemon.
        Err(error @ (StoreError::Held { .. } | StoreError::Strange { .. })) => error,
        Err(error) => return Err(error.into()),
    };
    let asked = Client::at(&options.socket).close(&canon::encode(closed)?, hash);
    asked.map_err(|error| match error {
        error @ (ClientError::Absent { .. } | ClientError::Denied { .. }) => {
            CloseError::NoWriter { store: Box::new(store), daemon: Box::new(error) }.into()
        }
        error => error.into(),
    })
}

/// The closing as it stands in the journal.
fn entered(options: &CloseOptions, read: &Read, closed: &ClosedPeriod) -> anyhow::Result<Closing> {
    for look in 0..=LOOKS_MAX {
        if look > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
        let mut closings = read.ledger.closings().clone();
        let extent = Extent { after: read.head.seq, head: None };
        JournalFiles::open(&options.dir)?.visit((0, 1), extent, &mut |entry| {
            if let Figures::Closed(period) = &entry.figures {
                closings.take(entry.seq, entry.at, period);
            }
        })?;
        match closings.meeting(read.period.span).next() {
            Some(closing) if closing.period == *closed => return Ok(closing.clone()),
            Some(closing) => {
                let name = closing.period.name.to_string();
                return Err(CloseError::Meanwhile { name, entry: closing.seq }.into());
            }
            None => {}
        }
    }
    Err(CloseError::NotEntered.into())
}

/// Tells a closing.
fn tell(closing: &Closing, is_known: bool) -> anyhow::Result<()> {
    let period = &closing.period;
    let mut page = String::new();
    let already = if is_known { "is closed already" } else { "is closed" };
    writeln!(
        page,
        "{} {already}: entry {}, of the entries up to {}, by {}, share {}",
        period.name, closing.seq, period.through, period.by, period.share
    )?;
    writeln!(page, "tree {}", period.tree)?;
    if let Some(digest) = period.prices {
        writeln!(page, "prices {digest}")?;
    }
    for (form, digest) in &period.documents {
        writeln!(page, "{form} {digest}")?;
    }
    writeln!(page, "gpu-ledger bill with the same period and options prints it, byte for byte")?;
    Ok(to_stdout(&page)?)
}
