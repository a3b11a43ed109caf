//! Prices: what an hour of a meter costs on which GPU, from when until when; and exact amounts.
//!
//! Purpose: from the text of a price file to the one price in force at a moment, and from milliseconds and a
//! price to an amount. May touch: nothing. May not: read a file or a clock, use a float, take a missing price
//! for 0, or round more than once.
//!
//! A price of a GPU's UUID goes before one of its model. The commented file is `gpu-ledger/units/prices.toml`;
//! a test reads it.
#![deny(clippy::arithmetic_side_effects)]

mod amount;
mod fault;
mod file;
mod overlap;
#[cfg(test)]
mod tests;

pub use amount::{AMOUNT_DECIMALS, Amount, Exact, PRICE_DECIMALS_MAX, Rate};
pub use fault::{FAULTS_SHOWN_MAX, Fault, Faults};
pub use file::{FILE_BYTES_MAX, LINE_BYTES_MAX, PRICES_MAX, parse};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::journal::Digest;
use crate::unit::{GpuUuid, Span};

/// What is measured, and can have a price.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Meter {
    /// Hours held: the union of an account's spans on a GPU.
    Held,
    /// Of those, hours in which nobody else held the GPU.
    Alone,
    /// Hours busy, by the driver's samples.
    Busy,
    /// GiB·hours of device memory held, by samples.
    Memory,
}

/// How a meter comes to its figure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MeterBasis {
    /// From the driver's own spans, to the millisecond.
    Exact,
    /// From samples: evidence, in no booked total.
    Sampled,
}

impl Meter {
    /// Every meter, in the order of the documents.
    pub const ALL: [Self; 4] = [Self::Held, Self::Alone, Self::Busy, Self::Memory];

    /// The word in the price file and in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Alone => "alone",
            Self::Busy => "busy",
            Self::Memory => "memory",
        }
    }

    /// How it comes to its figure.
    #[must_use]
    pub const fn basis(self) -> MeterBasis {
        match self {
            Self::Held | Self::Alone => MeterBasis::Exact,
            Self::Busy | Self::Memory => MeterBasis::Sampled,
        }
    }
}

impl MeterBasis {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Sampled => "sampled",
        }
    }
}

impl fmt::Display for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Meter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for MeterBasis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Of which GPUs a price is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhichGpu {
    /// Those whose UUID begins so.
    Uuid(String),
    /// Those of this product name, as the driver gives it; small and capital letters are one.
    Model(String),
}

impl WhichGpu {
    /// Whether a GPU is meant.
    #[must_use]
    pub fn means(&self, gpu: &GpuUuid, model: Option<&str>) -> bool {
        match self {
            Self::Uuid(beginning) => gpu.0.starts_with(beginning.as_str()),
            Self::Model(name) => model.is_some_and(|model| model.eq_ignore_ascii_case(name)),
        }
    }

    /// Whether one GPU may be meant by both, with neither going before the other.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Uuid(one), Self::Uuid(other)) => {
                one.starts_with(other.as_str()) || other.starts_with(one.as_str())
            }
            (Self::Model(one), Self::Model(other)) => one.eq_ignore_ascii_case(other),
            (Self::Uuid(_), Self::Model(_)) | (Self::Model(_), Self::Uuid(_)) => false,
        }
    }
}

impl fmt::Display for WhichGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(text) | Self::Model(text) => f.pad(text),
        }
    }
}

/// One price.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Price {
    /// Of which GPUs.
    pub gpu: WhichGpu,
    /// Of what.
    pub meter: Meter,
    /// In the list's currency; of memory an hour of one GiB.
    pub per_hour: Rate,
    /// In force from this millisecond since 1970 …
    pub from_ms: u64,
    /// … up to this one, which it is no more.
    pub until_ms: u64,
    /// Where it stands in its file.
    pub line: usize,
}

/// A price file, checked: at any moment a GPU and meter has one price or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriceList {
    currency: String,
    prices: Vec<Price>,
    text: Arc<str>,
    digest: Digest,
}

impl PriceList {
    /// Three capital letters (ISO 4217).
    #[must_use]
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of the file's text.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Every price, in the file's order.
    #[must_use]
    pub fn prices(&self) -> &[Price] {
        &self.prices
    }

    /// Whether this GPU's meter has a price at any time at all: whether it is charged by it.
    #[must_use]
    pub fn charges(&self, gpu: &GpuUuid, model: Option<&str>, meter: Meter) -> bool {
        self.prices.iter().any(|price| price.meter == meter && price.gpu.means(gpu, model))
    }

    /// The price of a GPU's meter at a moment, with its number in the list; `None` where the file has none.
    #[must_use]
    pub fn in_force(
        &self,
        gpu: &GpuUuid,
        model: Option<&str>,
        meter: Meter,
        at_ms: u64,
    ) -> Option<(usize, &Price)> {
        let of_this = |(_, price): &(usize, &Price)| {
            price.meter == meter
                && (price.from_ms..price.until_ms).contains(&at_ms)
                && price.gpu.means(gpu, model)
        };
        let found = || self.prices.iter().enumerate().filter(of_this);
        let own = found().find(|(_, price)| matches!(price.gpu, WhichGpu::Uuid(_)));
        own.or_else(|| found().next())
    }

    /// The moments within a period at which any price changes.
    #[must_use]
    pub fn changes(&self, period: Span) -> BTreeSet<u64> {
        let edges = self.prices.iter().flat_map(|price| [price.from_ms, price.until_ms]);
        edges.filter(|at| period.from_ms() < *at && *at < period.to_ms()).collect()
    }
}
