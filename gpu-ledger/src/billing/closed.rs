//! The bill of a closed period: the one that it was closed with, byte for byte, or another of the same entries.

use jiff::tz::TimeZone;

use super::{BillOptions, PricesAt, Read, STATUS_FAILED, STATUS_UNKNOWN, Source, outside};
use crate::bill::figures::Told;
use crate::bill::ledger::Ledger;
use crate::bill::period::{Period, moment_of, show};
use crate::bill::report::{Outside, Tree};
use crate::bill::{BillError, Closing};
use crate::journal::Digest;
use crate::journal::store::Extent;
use crate::output::{self, Output};
use crate::prices::{PriceList, parse};

/// Why what a closing names cannot be given. Another bill never stands in for it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum ClosedError {
    /// A file that it names is not here.
    #[error(
        "{name} was closed with {what} {digest}, which is not in files/ beside the journal; put it back, or make the \
         bill afresh with --as-of now"
    )]
    Missing {
        /// The period.
        name: String,
        /// What it is.
        what: String,
        /// The name of its file.
        digest: Digest,
    },
    /// It is no text.
    #[error("file {0} that a closing names is no text; this is a bug, please report it")]
    NoText(Digest),
    /// The entries are not those that it was made of.
    #[error(
        "{name} was closed with entries whose tree has root {closed}, and those that are here have {found}: the \
         journal is another one, or was changed"
    )]
    OtherEntries {
        /// The period.
        name: String,
        /// The root as it was.
        closed: Digest,
        /// The root as it is.
        found: Digest,
    },
    /// The prices cannot be read.
    #[error("the prices that {name} was closed with cannot be read: {why}")]
    Prices {
        /// The period.
        name: String,
        /// Why.
        why: String,
    },
}

/// Whether a bill is asked for with the options that the period was closed with, by somebody who sees all of it.
pub(super) fn is_as_closed(
    options: &BillOptions,
    closing: &Closing,
    outside: &Outside,
) -> anyhow::Result<bool> {
    let period = &closing.period;
    let is_whole = options.gpus.is_empty()
        && options.accounts.is_empty()
        && outside.reading.only_uid.is_none();
    let is_made_so = *period.by == *options.by.as_str() && *period.share == *options.share.as_str();
    if !is_whole || !is_made_so {
        return Ok(false);
    }
    match &options.prices {
        PricesAt::Named(_) => {
            let prices = options.prices.read(&zone_of(closing, &options.zone))?;
            Ok(prices.map(|prices| prices.digest()) == period.prices)
        }
        // What lies there now is nothing to a period that is closed.
        PricesAt::Configured(_) | PricesAt::Default => Ok(true),
    }
}

/// Gives the bill that a period was closed with.
pub(super) fn give(
    options: &BillOptions,
    closing: &Closing,
    source: &mut dyn Source,
    output: Output,
) -> anyhow::Result<u8> {
    let form = options.format.as_str();
    let name = || closing.period.name.to_string();
    let digest = closing.document(form);
    let digest = digest.ok_or_else(|| BillError::NotClosedWith { name: name(), form })?;
    let page = file(closing, &format!("the bill as {form}, file"), digest, source)?;
    let told = match closing.document("json") {
        Some(digest) => Some(file(closing, "the bill as json, file", digest, source)?),
        None => None,
    };
    if let Err(error) = output.write(&page) {
        output::complain(&format!("{error:#}"));
        return Ok(STATUS_FAILED);
    }
    let at = show(moment_of(closing.at.stamp.wall.ms()), &options.zone);
    output::complain(&format!(
        "{} was closed at {at} (entry {}): this is the bill of then; what came later is told in the bill of the next \
         period, and --as-of now makes this one afresh",
        closing.period.name, closing.seq
    ));
    // A document of a later version may say it in a way that is not known here.
    let told = told.and_then(|text| Told::read(&text).ok());
    if told.as_ref().is_some_and(|told| told.driver.as_deref() == Some("simulated")) {
        output::complain("SIMULATED DRIVER: no GPU was used");
    }
    Ok(if told.is_some_and(|told| told.is_known()) { 0 } else { STATUS_UNKNOWN })
}

/// Reads the entries that a closed period's bill was made of.
pub(super) fn read_as_closed(
    options: &BillOptions,
    closing: &Closing,
    period: Period,
    source: &mut dyn Source,
) -> anyhow::Result<Read> {
    let mut ledger = Ledger::for_bill_by(options.by);
    let extent = Extent::at(closing.period.through);
    let head = source.read(period.span, extent, &mut ledger)?;
    if let Tree::Root(found) = head.tree
        && found != closing.period.tree
    {
        let (name, closed) = (closing.period.name.to_string(), closing.period.tree);
        return Err(ClosedError::OtherEntries { name, closed, found }.into());
    }
    let outside = outside(&ledger, source)?;
    Ok(Read { ledger, head, period, outside })
}

/// The prices that a period was closed with; `None` where it has none.
pub(super) fn prices_of(
    closing: &Closing,
    zone: &TimeZone,
    source: &mut dyn Source,
) -> anyhow::Result<Option<PriceList>> {
    let Some(digest) = closing.period.prices else { return Ok(None) };
    let text = file(closing, "the prices of file", digest, source)?;
    let prices = parse(&text, &zone_of(closing, zone)).map_err(|faults| ClosedError::Prices {
        name: closing.period.name.to_string(),
        why: faults.told(&format!("files/{digest}")),
    })?;
    Ok(Some(prices))
}

/// The zone that a period was closed in, where this system knows it by its name.
pub(super) fn zone_of(closing: &Closing, otherwise: &TimeZone) -> TimeZone {
    match &*closing.period.zone {
        "UTC" => TimeZone::UTC,
        name => TimeZone::get(name).unwrap_or_else(|_| otherwise.clone()),
    }
}

/// The text of a file that a closing names.
pub(super) fn file(
    closing: &Closing,
    what: &str,
    digest: Digest,
    source: &mut dyn Source,
) -> anyhow::Result<String> {
    let (name, what) = (closing.period.name.to_string(), what.to_owned());
    let bytes = source.file(digest)?.ok_or(ClosedError::Missing { name, what, digest })?;
    Ok(String::from_utf8(bytes).map_err(|_| ClosedError::NoText(digest))?)
}
