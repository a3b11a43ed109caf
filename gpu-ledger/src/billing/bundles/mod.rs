//! One bill of audit bundles, of any number of hosts.
//!
//! Every bundle is verified before anything of it is read. Bundles of one journal continue each other: their
//! entries are taken as one, each number once. Then the bill of each host is made, one host after the other, so that
//! no more than one ledger is held.

mod union;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::Deserialize;

use self::union::Union;
use super::{BillOptions, Format, asked, standpoint, write_out};
use crate::audit::bill::{BillMaker, Finished};
use crate::audit::layout::{BILL_JSON, CHECKPOINT, KEY};
use crate::audit::read::Bundle;
use crate::bill::period::{ALL, Asked, Period, milliseconds};
use crate::bill::report::{Ask, Part, merge, part};
use crate::bill::{BillError, chosen_gpus};
use crate::calling::listed;
use crate::escape::escape;
use crate::journal::Digest;
use crate::journal::note::{Checkpoint, VerifyingKey};
use crate::output::Output;
use crate::rendering::rfc3339;
use crate::unit::{GpuUuid, Span, WallUs};

/// The name of no GPU: of a host that has none of those that are asked for.
const NO_GPU: &str = "";

/// Proves a bundle, or says why it is none.
pub type Verify<'v> = &'v dyn Fn(&Path) -> anyhow::Result<()>;

/// A bundle that was verified.
struct Named {
    path: PathBuf,
    /// What it is all of: from where the journal begins, of a bundle of everything.
    here: Span,
    /// From when its own bill is.
    since_ms: u64,
    /// Number of the last entry that it covers.
    size: u64,
}

impl Named {
    fn shown(&self) -> String {
        shown(&self.path)
    }
}

/// What is read of a bundle's own bill.
#[derive(Deserialize)]
struct OwnBill {
    period: OwnPeriod,
}

#[derive(Deserialize)]
struct OwnPeriod {
    since: String,
    until: String,
}

/// Makes one bill of these bundles and returns the exit status.
///
/// # Errors
/// Where a bundle is not proven, or two are of one journal and time; those of [`super::bill`] and of [`merge`].
pub fn bill_of_bundles(
    options: &BillOptions,
    paths: &[PathBuf],
    verify: Verify<'_>,
) -> anyhow::Result<u8> {
    let prices = match options.format {
        Format::Csv { .. } | Format::Line => None,
        Format::Table | Format::Json | Format::Focus { .. } => {
            options.prices.read(&options.zone)?
        }
    };
    if prices.is_none() && matches!(options.format, Format::Focus { .. }) {
        return Err(BillError::NoPrices.into());
    }
    let output = Output::open(options.output.clone(), true)?;
    let journals = journals(paths, verify)?;
    let ask = Ask {
        period: period(options, journals.values().flatten())?,
        by: options.by,
        share: options.share,
        gpus: Vec::new(),
        accounts: options.accounts.clone(),
        prices,
    };
    let mut gpus = Gpus::new(&options.gpus);
    let mut parts = Vec::with_capacity(journals.len());
    for (journal, bundles) in journals {
        parts.push(host(journal, &bundles, &ask, &mut gpus)?);
    }
    gpus.all_met()?;
    let report = merge(parts)?.context("no bundle was given")?;
    let as_of = report.as_of.as_deref().and_then(|text| text.parse().ok());
    write_out(options, output, &report, as_of.map_or(0, milliseconds))
}

/// The bundles by their journals, each verified, ascending by time.
fn journals(paths: &[PathBuf], verify: Verify<'_>) -> anyhow::Result<BTreeMap<String, Vec<Named>>> {
    let mut journals: BTreeMap<String, Vec<Named>> = BTreeMap::new();
    for path in paths {
        verify(path).with_context(|| format!("no bill: {} is not proven", shown(path)))?;
        let (journal, named) =
            named(path).with_context(|| format!("cannot read {}", shown(path)))?;
        journals.entry(journal).or_default().push(named);
    }
    for bundles in journals.values_mut() {
        bundles.sort_by_key(|one| (one.here.from_ms(), one.here.to_ms()));
        for (one, next) in bundles.iter().zip(bundles.iter().skip(1)) {
            if let Some(both) = one.here.overlap(next.here) {
                let from = both.from_ms().max(next.since_ms);
                bail!(
                    "{} and {} are of one journal, and both are of the time from {} to {}, which would be billed \
                     twice; leave one of them out",
                    one.shown(),
                    next.shown(),
                    moment(from),
                    moment(both.to_ms())
                );
            }
        }
    }
    Ok(journals)
}

fn named(path: &Path) -> anyhow::Result<(String, Named)> {
    let bundle = Bundle::open(path)?;
    let manifest = bundle.manifest();
    let file = BufReader::new(bundle.file(BILL_JSON)?);
    let OwnBill { period } =
        serde_json::from_reader(file).with_context(|| format!("its {BILL_JSON} says no period"))?;
    let ms = |text: &str| {
        let at: Timestamp =
            text.parse().with_context(|| format!("its {BILL_JSON} has a period of no moments"))?;
        anyhow::Ok(milliseconds(at))
    };
    let (since_ms, until_ms) = (ms(&period.since)?, ms(&period.until)?);
    let is_from_the_beginning = manifest.span_ms().is_some_and(|(since, _)| since == 0);
    let from_ms = if is_from_the_beginning { 0 } else { since_ms };
    let here = Span::new(from_ms, until_ms)
        .with_context(|| format!("its {BILL_JSON} has a period that ends before it begins"))?;
    let named = Named { path: path.to_path_buf(), here, since_ms, size: manifest.size };
    Ok((manifest.journal.clone(), named))
}

/// The period that is asked for; where none is, all that any bundle is of.
fn period<'n>(
    options: &BillOptions,
    bundles: impl Iterator<Item = &'n Named>,
) -> anyhow::Result<Period> {
    let (mut since_ms, mut until_ms) = (u64::MAX, 0);
    for bundle in bundles {
        since_ms = since_ms.min(bundle.since_ms);
        until_ms = until_ms.max(bundle.here.to_ms());
    }
    let asked = asked(options);
    let mut standpoint = standpoint(options);
    let is_all = asked == Asked::default() || asked.period.as_deref() == Some(ALL);
    if is_all {
        let span = Span::new(since_ms, until_ms).context("no bundle was given")?;
        let zone = options.zone.clone();
        return Ok(Period {
            span,
            begins_with_journal: false,
            is_open_ended: false,
            beyond_now: None,
            zone,
        });
    }
    // A bundle may come from a host whose clock is ahead.
    standpoint.latest_ms = Some(until_ms).filter(|until| *until > milliseconds(standpoint.now));
    let mut period = standpoint.period(&asked)?;
    let last = Span::new(period.span.from_ms(), period.span.to_ms().min(until_ms));
    let is_open_ended = std::mem::replace(&mut period.is_open_ended, false);
    if let Some(last) = last.filter(|last| is_open_ended && last.from_ms() < last.to_ms()) {
        period.span = last;
    }
    period.begins_with_journal = false;
    Ok(period)
}

/// The bill of one host.
fn host(journal: String, named: &[Named], ask: &Ask, gpus: &mut Gpus<'_>) -> anyhow::Result<Part> {
    let mut bundles = Vec::with_capacity(named.len());
    for one in named {
        let of = || format!("cannot read {}", one.shown());
        bundles.push(Bundle::open(&one.path).with_context(of)?);
    }
    let last = named.iter().zip(&bundles).max_by_key(|(one, _)| one.size);
    let (_, last) = last.context("no bundle was given")?;
    let root = root(last).with_context(|| format!("cannot read {}", shown(last.path())))?;
    let mut maker = BillMaker::new(ask.by);
    let mut union = Union::of(&bundles)?;
    while let Some(one) = union.next()? {
        maker.take(&one.entry, || one.because())?;
    }
    maker.limit_to(named.iter().map(|one| one.here).collect());
    let finished: Finished = maker.finish()?;
    union.all_is_told(finished.end())?;
    let mut users = BTreeMap::new();
    for bundle in &bundles {
        users.extend(bundle.manifest().bill.users.clone());
    }
    let ask = Ask { gpus: gpus.of(&finished)?, ..ask.clone() };
    let (head, outside) = finished.standing(root, users, true);
    Ok(part(finished.ledger(), &ask, head, &outside, journal)?)
}

/// The root of the tree, as the checkpoint has it.
fn root(bundle: &Bundle) -> anyhow::Result<Digest> {
    let key = String::from_utf8(bundle.document(KEY)?)?;
    let key: VerifyingKey = key.trim_end_matches('\n').parse()?;
    Ok(Checkpoint::open(&bundle.document(CHECKPOINT)?, &[&key])?.root)
}

/// The GPUs that are asked for, each of which one host at least must have.
struct Gpus<'o> {
    /// Each word, and whether any host has a GPU that it means.
    words: Vec<(&'o String, bool)>,
    known: Vec<String>,
}

impl<'o> Gpus<'o> {
    fn new(words: &'o [String]) -> Self {
        Self { words: words.iter().map(|word| (word, false)).collect(), known: Vec::new() }
    }

    /// Those of one host; all where none is asked for.
    fn of(&mut self, host: &Finished) -> anyhow::Result<Vec<GpuUuid>> {
        if self.words.is_empty() {
            return Ok(Vec::new());
        }
        let ledger = host.ledger();
        let name = ledger.host().map_or("unknown host", |name| name);
        self.known.extend(ledger.gpus().into_iter().map(|(index, gpu)| {
            let index = index.map_or_else(|| "?".to_owned(), |index| index.to_string());
            format!("{index} of {} ({gpu})", escape(name.as_bytes()))
        }));
        let mut chosen = Vec::new();
        for (word, is_met) in &mut self.words {
            match chosen_gpus(ledger, std::slice::from_ref(*word)) {
                Ok(found) => {
                    *is_met = true;
                    chosen.extend(
                        found.into_iter().filter(|gpu| !chosen.contains(gpu)).collect::<Vec<_>>(),
                    );
                }
                Err(BillError::NoSuchGpu { are: 0, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if chosen.is_empty() {
            chosen.push(GpuUuid(NO_GPU.into()));
        }
        Ok(chosen)
    }

    fn all_met(self) -> Result<(), BillError> {
        match self.words.iter().find(|(_, is_met)| !is_met) {
            None => Ok(()),
            Some((word, _)) => Err(BillError::NoSuchGpu {
                name: escape(word.as_bytes()).to_string(),
                are: 0,
                known: listed(self.known.into_iter()),
            }),
        }
    }
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes()).to_string()
}

fn moment(ms: u64) -> String {
    rfc3339(WallUs(ms.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests;
