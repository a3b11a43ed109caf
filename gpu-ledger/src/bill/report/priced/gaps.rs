//! Where prices and a bill do not meet: amounts without a price, and prices of GPUs that are not there. Each says
//! what to do about it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Priced, PricedLine, Unmatched, Unpriced};
use crate::bill::Ledger;
use crate::bill::report::UnknownLine;
use crate::likeness::nearest;
use crate::prices::{Meter, PriceList, WhichGpu};
use crate::unit::{GpuUuid, Span};

/// Prices of no GPU that the journal knows, each GPU that is named once.
pub(super) fn unmatched(ledger: &Ledger, prices: &PriceList) -> Vec<Unmatched> {
    let known = ledger.models();
    let is_known =
        |which: &WhichGpu| known.iter().any(|(gpu, model)| which.means(gpu, model.as_deref()));
    let mut told: Vec<Unmatched> = Vec::new();
    for price in prices.prices().iter().filter(|price| !is_known(&price.gpu)) {
        let gpu = price.gpu.to_string();
        if told.iter().any(|one| one.gpu == gpu) {
            continue;
        }
        let nearest = match &price.gpu {
            WhichGpu::Uuid(uuid) => nearest(uuid, known.iter().map(|(gpu, _)| &*gpu.0)),
            WhichGpu::Model(name) => {
                let models = || known.iter().filter_map(|(_, model)| model.as_deref());
                nearest(name, models()).or_else(|| only_around(name, models()))
            }
        };
        told.push(Unmatched { nearest: nearest.map(str::to_owned), line: price.line, gpu });
    }
    told
}

/// The only model that the name is a part of, or that is a part of it, whatever the case: `H200` of `NVIDIA H200`.
fn only_around<'m>(name: &str, models: impl Iterator<Item = &'m str>) -> Option<&'m str> {
    let name = name.to_lowercase();
    let is_around = |model: &&str| {
        let model = model.to_lowercase();
        !name.is_empty() && !model.is_empty() && (model.contains(&name) || name.contains(&model))
    };
    let models: BTreeSet<&str> = models.filter(is_around).collect();
    models.first().copied().filter(|_| models.len() == 1)
}

/// What of the amounts is UNKNOWN for want of a price, a sample or a weight, or as it may have been slept. What was
/// not seen and what is in dispute have their own words on the bill.
pub(in crate::bill::report) fn unknown(priced: &Priced, period: Span) -> Vec<UnknownLine> {
    let mut found: BTreeMap<(Unpriced, &GpuUuid, Meter), Vec<&PricedLine>> = BTreeMap::new();
    for line in &priced.lines {
        if let Some(
            reason @ (Unpriced::NoPrice
            | Unpriced::NoSamples
            | Unpriced::MemoryVoid
            | Unpriced::MemoryCut
            | Unpriced::MemoryUnsaid
            | Unpriced::MemoryPending
            | Unpriced::Asleep
            | Unpriced::Undivided),
        ) = line.reason
        {
            found.entry((reason, &line.gpu_uuid, line.meter)).or_default().push(line);
        }
    }
    let told = found.into_iter().map(|((reason, gpu, meter), lines)| UnknownLine {
        host: None,
        reason: reason.as_str().to_owned(),
        subject: format!("{} amounts by {meter} hours", lines.len()),
        gpu: Some(gpu.clone()),
        call: None,
        code: None,
        remedy: remedy(reason, meter, &lines, period),
        is_evidence: false,
    });
    told.collect()
}

/// What would make amounts known.
fn remedy(reason: Unpriced, meter: Meter, lines: &[&PricedLine], period: Span) -> Option<String> {
    match (reason, meter) {
        (Unpriced::NoPrice, _) => no_price(meter, lines, period),
        (Unpriced::NoSamples, Meter::Memory) => Some(
            "memory was not sampled then: no daemon ran, it had just begun, or memory_period is off in its \
             configuration"
                .to_owned(),
        ),
        (Unpriced::MemoryCut, _) => Some(
            "the period cuts quarters of an hour, of which memory is known as a whole alone: give --since \
             and --until at whole quarters"
                .to_owned(),
        ),
        (Unpriced::MemoryPending, _) => Some(
            "memory is entered when its quarter of an hour is over: ask again then, or end the bill with the last \
             whole quarter"
                .to_owned(),
        ),
        (Unpriced::MemoryVoid, _) => Some(
            "a sample of that hour came too late, and nothing in it may be used: \"memory held\" says why".to_owned(),
        ),
        (Unpriced::Undivided, _) => {
            Some("--share equal divides what another policy has no weights for".to_owned())
        }
        _ => None,
    }
}

/// The lines of TOML to add; with dates where another price is in force before or after.
fn no_price(meter: Meter, lines: &[&PricedLine], period: Span) -> Option<String> {
    let first = lines.first()?;
    let gpu = first.gpu_name.as_deref().unwrap_or(&first.gpu_uuid.0);
    let without: BTreeSet<(&str, &str)> = lines
        .iter()
        .filter(|line| line.span != period)
        .map(|line| (line.since.as_str(), line.until.as_str()))
        .collect();
    let dated = |(since, until): (&str, &str)| format!(" from = {since} until = {until}");
    let mut times = without.iter().copied();
    let (date, more) = (times.next().map(dated).unwrap_or_default(), times.len());
    let also =
        if more > 0 { format!(", and likewise for {more} more times") } else { String::new() };
    Some(format!(
        "no {meter} price of {gpu:?} is in force for all of that time; add to the prices, each on a line of its own: \
         [[price]] gpu = {gpu:?} meter = \"{meter}\" per_hour = \"…\"{date}{also}"
    ))
}

#[cfg(test)]
mod tests {
    use super::only_around;

    #[test]
    fn a_part_of_one_models_name_means_that_and_of_several_none() {
        let host = ["NVIDIA H200", "NVIDIA H200", "NVIDIA A100-SXM4-80GB"];
        let of = |name: &str| only_around(name, host.into_iter());
        assert_eq!(of("H200"), Some("NVIDIA H200"));
        assert_eq!(of("a100"), Some("NVIDIA A100-SXM4-80GB"));
        assert_eq!(of("NVIDIA H200 141GB"), Some("NVIDIA H200"));
        assert_eq!((of("nvidia"), of("K80"), of("")), (None, None, None));
    }
}
