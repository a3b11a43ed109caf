//! The bill in money in the columns of FOCUS, the FinOps Open Cost and Usage Specification 1.0, as CSV: a row
//! for each priced line.
//!
//! What is booked is in BilledCost and EffectiveCost, and what is not is 0 there: nobody is billed for it. Its
//! amount stands in ListCost and ContractedCost, so that their sums are of all meters, and mean nothing unless
//! they are taken of one `x_Meter` and `x_State`. What is UNKNOWN is null in all four, although FOCUS
//! allows no null there: a number would be a lie, and whoever checks the file learns of it.
//!
//! Five columns stand twice: FOCUS 1.0 renamed them, and the rules for 1.0 of its validator (focus-validator 1.0.0,
//! the newest there is) ask for them by their older names still.
//!
//! FOCUS has no word for how a figure came about: `x_MeterBasis` says `exact` or `sampled`.

use rust_decimal::Decimal;

use super::period::moment_of;
use super::report::{Gpu, PricedLine, Report, State};
use super::table::text;
use crate::prices::{Amount, Meter};

/// Who tells, in columns that must name somebody.
const PROVIDER: &str = "gpu-ledger";
/// Digits after the point of a quantity in hours: an hour's millisecond is 2.8 × 10⁻⁷.
const HOUR_DECIMALS: u32 = 12;

/// The columns in the order of the specification, then what some of them were called before, then ours.
pub const COLUMNS: [&str; 63] = [
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "ChargeType",
    "InvoiceIssuer",
    "Provider",
    "Publisher",
    "ResourceID",
    "x_BillId",
    "x_Booked",
    "x_Classified",
    "x_CostHigh",
    "x_Driver",
    "x_Meter",
    "x_MeterBasis",
    "x_NamedBy",
    "x_Nameless",
    "x_QuantityByteMs",
    "x_QuantityMs",
    "x_Reason",
    "x_SharePolicy",
    "x_State",
    "x_UnknownMs",
];

/// The rows, with a head; the head alone where the bill has no prices.
///
/// # Errors
/// Where a row cannot be written, which memory never refuses.
pub fn csv(report: &Report, is_raw: bool) -> Result<String, csv::Error> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    if let Some(priced) = &report.priced {
        for line in &priced.lines {
            let row = Row { report, currency: &priced.currency, line, is_raw };
            writer.write_record(COLUMNS.map(|column| row.cell(column).unwrap_or_default()))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    String::from_utf8(bytes).map_err(|error| std::io::Error::other(error).into())
}

/// What the rows have no place for: that some have no cost.
#[must_use]
pub fn note(report: &Report) -> Option<String> {
    let lines = report.priced.as_ref().map(|priced| priced.lines.as_slice()).unwrap_or_default();
    let unknown = lines.iter().filter(|line| line.amount.is_none()).count();
    (unknown > 0).then(|| {
        format!(
            "{unknown} of {} rows have an UNKNOWN cost, and x_Reason says why: it is null, which \
             FOCUS allows in no cost, and never 0",
            lines.len()
        )
    })
}

struct Row<'a> {
    report: &'a Report,
    currency: &'a str,
    line: &'a PricedLine,
    is_raw: bool,
}

impl Row<'_> {
    /// A cell by its column; `None` is null.
    fn cell(&self, column: &str) -> Option<String> {
        let Self { report, currency, line, .. } = *self;
        let (period, span) = (report.period.span, line.span);
        let moment = |ms| Some(moment_of(ms).to_string());
        let word = |word: &str| Some(word.to_owned());
        let name = |name: &Option<String>| name.as_deref().map(|name| text(name, self.is_raw));
        match column {
            "BilledCost" | "EffectiveCost" => self.billed().map(|amount| amount.to_string()),
            "ListCost" | "ContractedCost" => line.amount.map(|amount| amount.to_string()),
            "ListUnitPrice" | "ContractedUnitPrice" => line.per_hour.map(|rate| rate.to_string()),
            // An empty journal has no host, and no row.
            "BillingAccountId" => name(&self.host()).or_else(|| word(PROVIDER)),
            "BillingAccountName" => name(&self.host()),
            "BillingCurrency" => word(currency),
            "BillingPeriodStart" => moment(period.from_ms()),
            "BillingPeriodEnd" => moment(period.to_ms()),
            "ChargePeriodStart" => moment(span.from_ms()),
            "ChargePeriodEnd" => moment(span.to_ms()),
            "ChargeCategory" | "ChargeType" => word("Usage"),
            "ChargeDescription" => Some(self.description()),
            "ChargeFrequency" => word("Usage-Based"),
            "ConsumedQuantity" => self.quantity(1_000, 3),
            "ConsumedUnit" => word(self.unit("Seconds", "GiB-Seconds")),
            "PricingCategory" => word("Standard"),
            "PricingQuantity" => self.quantity(3_600_000, HOUR_DECIMALS),
            "PricingUnit" => word(self.unit("Hours", "GiB-Hours")),

            "ProviderName" | "PublisherName" | "InvoiceIssuerName" | "Provider" | "Publisher"
            | "InvoiceIssuer" => word(PROVIDER),
            "ResourceId" | "ResourceID" => word(&line.gpu_uuid.0),
            "ResourceName" => name(&line.gpu_name),
            "ResourceType" => word("GPU"),
            "ServiceCategory" => word("Compute"),
            "ServiceName" => word("GPU time"),
            "SkuId" | "SkuPriceId" => Some(format!("{} {}", self.model(), line.meter)),
            // Two accounts of one name are two.
            "SubAccountId" => match (&line.account, line.named_by) {
                (Some(account), Some(named_by)) => {
                    Some(text(&format!("{named_by} {account}"), self.is_raw))
                }
                (account, _) => name(account),
            },
            "SubAccountName" => name(&line.title),
            "x_BillId" => word(&report.bill_id),
            "x_Booked" => word(if line.is_booked { "true" } else { "false" }),
            "x_Classified" => line.classified.map(|is_ruled| is_ruled.to_string()),
            "x_CostHigh" => line.amount_high.map(|amount| amount.to_string()),
            "x_Driver" => report.driver.clone(),
            "x_Meter" => word(line.meter.as_str()),
            "x_MeterBasis" => word(line.basis.as_str()),
            "x_NamedBy" => line.named_by.map(|named_by| named_by.to_string()),
            "x_Nameless" => line.nameless.map(|reason| reason.to_string()),
            "x_QuantityByteMs" => line.quantity_byte_ms.map(|of| of.to_string()),
            "x_UnknownMs" => line.unknown_ms.map(|ms| ms.to_string()),
            "x_QuantityMs" => line.quantity_ms.map(|ms| ms.to_string()),
            "x_Reason" => line.reason.and_then(|reason| word(reason.as_str())),
            "x_SharePolicy" => word(report.share),
            "x_State" => word(line.state.as_str()),
            // No zone, region, commitment or tag is known of a GPU, and no row corrects another bill's.
            _ => None,
        }
    }

    /// The host of the bill, or of several the one of the GPU.
    fn host(&self) -> Option<String> {
        let is_its = |gpu: &&Gpu| gpu.gpu_uuid == self.line.gpu_uuid;
        let of_gpu = self.report.hosts.as_ref().and(self.report.gpus.iter().find(is_its));
        of_gpu.map_or_else(|| self.report.host.clone(), |gpu| gpu.host.clone())
    }

    /// What is billed: of what is not booked nothing, where its amount is known.
    fn billed(&self) -> Option<Amount> {
        let amount = self.line.amount?;
        Some(if self.line.is_booked { amount } else { Amount::ZERO })
    }

    fn description(&self) -> String {
        let (line, unit) = (self.line, self.unit("hours", "GiB hours"));
        let (state, basis) = (line.state.as_str(), line.basis.as_str());
        let what = format!("{} {unit} of {}", line.meter, self.model());
        match (line.state, line.reason) {
            (State::Sampled, _) => format!("{what}, {state}"),
            (State::Unsampled, Some(reason)) => format!("{what}, UNKNOWN: {}", reason.as_str()),
            _ => format!("{what}, {state}, {basis}"),
        }
    }

    /// The model, or the UUID of a GPU that no entry names.
    fn model(&self) -> String {
        let name = self.line.gpu_name.as_deref();
        text(name.unwrap_or(&self.line.gpu_uuid.0), self.is_raw)
    }

    const fn unit(&self, time: &'static str, memory: &'static str) -> &'static str {
        match self.line.meter {
            Meter::Held | Meter::Alone | Meter::Busy => time,
            Meter::Memory => memory,
        }
    }

    /// The quantity in units of so many milliseconds, of memory times GiB; no figure longer than a decimal's 28
    /// digits is known.
    fn quantity(&self, unit_ms: i64, decimals: u32) -> Option<String> {
        let quantity = match self.line.meter {
            Meter::Held | Meter::Alone | Meter::Busy => self.line.quantity_ms?,
            Meter::Memory => self.line.quantity_byte_ms?,
        };
        let quantity = Decimal::try_from_i128_with_scale(quantity.try_into().ok()?, 0).ok()?;
        let gib = if self.line.meter == Meter::Memory { 1 << 30 } else { 1 };
        let quotient = quantity.checked_div(Decimal::new(gib, 0))?;
        let quotient = quotient.checked_div(Decimal::new(unit_ms, 0))?;
        Some(quotient.round_dp(decimals).normalize().to_string())
    }
}

#[cfg(test)]
#[path = "focus_tests.rs"]
mod tests;
