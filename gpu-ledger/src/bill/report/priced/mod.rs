//! What the bill's time costs: lines of one account, GPU, meter and state each, by a list of prices.
//!
//! A line's amount is exact and rounded once, a half to the even digit; a total is the sum of the amounts as
//! they are printed, as on a cloud's bill, so that whoever adds the lines up gets it. Where a price changes
//! within the period the ledger is cut there: two bills of adjacent periods add up to the millisecond, and so do
//! the two sides of a change.
//!
//! Meters are never added to each other. Held is what is booked: of a GPU whose held hours have no price in
//! the file and whose alone hours have one, alone is. Open time is what settling would add to what is booked. Free
//! time is what nobody held, at the price of what is booked; time that was not seen is UNKNOWN, and never
//! free. Every millisecond of a GPU stands on one line, but for those that several accounts share
//! without a policy, those asleep, and the end that the next read will tell of. Time asleep is not priced. Where a share policy is named, shared time is on the lines of those to whom it gives it.

mod asleep;
mod divided;
mod gaps;
mod lines;
mod measured;

pub(super) use gaps::unknown;
pub(super) use lines::{Source, merged, priced, totals};

use serde::Serialize;

use crate::bill::LineKey;
use crate::prices::{Amount, Exact, Meter, MeterBasis, Rate};
use crate::settlement::NamedBy;
use crate::unit::{GpuUuid, Span};
use crate::unknown::NamelessReason;

/// Whose time a line is of, and whether it is booked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Settled, of an account.
    Settled,
    /// Settled, and nobody can say whose.
    Unattributed,
    /// Running still: not booked, and replaced when it settles.
    Open,
    /// Nobody held the GPU.
    Free,
    /// The GPU was not seen, and nobody is known to have held it.
    Uncovered,
    /// Held by those alone who are never billed: in dispute, or without a driver row. Or shared with somebody billed,
    /// and the policy gave it to one of them.
    Unbilled,
    /// Shared, and the policy could not divide it.
    Undivided,
    /// Its milliseconds are in doubt.
    Disputed,
    /// Memory held, by samples: of rows settled and open alike, and of processes that get none.
    Sampled,
    /// Memory held that no sample tells, or none that may be used.
    Unsampled,
}

impl State {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Unattributed => "unattributed",
            Self::Open => "open",
            Self::Free => "free",
            Self::Uncovered => "uncovered",
            Self::Unbilled => "unbilled",
            Self::Undivided => "undivided",
            Self::Disputed => "disputed",
            Self::Sampled => "sampled",
            Self::Unsampled => "unsampled",
        }
    }

    /// Whether it is of memory.
    #[must_use]
    pub const fn is_of_memory(self) -> bool {
        matches!(self, Self::Sampled | Self::Unsampled)
    }

    /// Whether it is a settlement's.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Settled | Self::Unattributed)
    }
}

/// Why an amount is UNKNOWN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unpriced {
    /// The list has no price for it then.
    NoPrice,
    /// Nothing was sampled.
    NoSamples,
    /// Memory was sampled, and the hour is void: not every sample of it was near its moment.
    MemoryVoid,
    /// Memory was sampled, and the period cuts the quarter of an hour that its sum is of.
    MemoryCut,
    /// Memory was sampled, and the driver did not say how much of it was whose.
    MemoryUnsaid,
    /// Memory is sampled, and the quarter of an hour is not over, so that nothing of it is entered yet.
    MemoryPending,
    /// The host slept meanwhile, which is not priced, and how much of it fell here nobody can say.
    Asleep,
    /// The GPU was not seen.
    Uncovered,
    /// Shared time that the policy could not divide.
    Undivided,
    /// Its milliseconds are in doubt.
    Disputed,
}

impl Unpriced {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoPrice => "no-price",
            Self::NoSamples => "no-samples",
            Self::MemoryVoid => "memory-void",
            Self::MemoryCut => "memory-cut",
            Self::MemoryUnsaid => "memory-unsaid",
            Self::MemoryPending => "memory-pending",
            Self::Asleep => "asleep",
            Self::Uncovered => "uncovered",
            Self::Undivided => "undivided",
            Self::Disputed => "disputed",
        }
    }
}

/// A bill in money.
#[derive(Clone, Debug, Serialize)]
pub struct Priced {
    /// Three capital letters (ISO 4217).
    pub currency: String,
    /// SHA-256 of the price file.
    pub prices_sha256: String,
    /// By meter, state, account, GPU and time.
    pub lines: Vec<PricedLine>,
    /// What is booked: the lines that say so.
    pub booked: Sum,
    /// Of each meter and state, the lines of it. Meters are not added to each other.
    pub totals: Vec<Total>,
    /// Prices of no GPU that the journal knows: of another host, or misspelt.
    pub unmatched: Vec<Unmatched>,
}

/// A price of no GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unmatched {
    /// The GPU, as the price has it.
    pub gpu: String,
    /// The line of the file at which the price begins.
    pub line: usize,
    /// The GPU that is called most like it; null where none is.
    pub nearest: Option<String>,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct PricedLine {
    /// Its place among the lines of the bill; `None` where it is a GPU's own.
    #[serde(skip)]
    pub line: Option<LineKey>,
    /// Whose, as on the bill's own lines; `unattributed` where nobody knows, null of time that is nobody's.
    pub account: Option<String>,
    /// The same for people.
    #[serde(skip)]
    pub title: Option<String>,
    /// Named by a rule; null where it is no account's.
    pub classified: Option<bool>,
    /// What gave it that name; null where it is neither an account's nor a service's.
    pub named_by: Option<NamedBy>,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Its product name; null where no entry says.
    pub gpu_name: Option<String>,
    /// Of what.
    pub meter: Meter,
    /// `exact`, or `sampled`: evidence.
    pub basis: MeterBasis,
    /// In which state.
    pub state: State,
    /// Why nobody knows whose it is.
    pub nameless: Option<NamelessReason>,
    /// Whether it is in the booked total.
    #[serde(rename = "booked")]
    pub is_booked: bool,
    /// The first moment of the period at which this price was in force (RFC 3339).
    pub since: String,
    /// The first moment after it.
    pub until: String,
    /// Both.
    #[serde(skip)]
    pub span: Span,
    /// How much, in ms; of a range its lower end. Null where nobody knows, and of memory.
    pub quantity_ms: Option<u128>,
    /// The range's upper end; null where the figure is exact.
    pub quantity_ms_high: Option<u128>,
    /// Of memory: how much, in bytes × ms, as decimal text. Null where nobody knows, and of time.
    #[serde(serialize_with = "text")]
    pub quantity_byte_ms: Option<u128>,
    /// Of memory that is UNKNOWN: for how long, of each process, or of the GPU where it is nobody's.
    pub unknown_ms: Option<u128>,
    /// What an hour costs; null where the list has no price.
    pub per_hour: Option<Rate>,
    /// What it costs; null where that is UNKNOWN.
    pub amount: Option<Amount>,
    /// Of a range, what its upper end costs.
    pub amount_high: Option<Amount>,
    /// Why it is UNKNOWN.
    pub reason: Option<Unpriced>,
    /// The amount before it was rounded.
    #[serde(skip)]
    pub exact: Option<Exact>,
}

/// Beyond 53 bits a number of JSON is not the same to every reader.
#[expect(clippy::ref_option, reason = "serde hands it so")]
fn text<S: serde::Serializer>(number: &Option<u128>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(|number| number.to_string()).serialize(serializer)
}

/// Several lines together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Sum {
    /// The amounts that are known, added up as they are printed; null where there are lines and none is known.
    pub amount: Option<Amount>,
    /// The same of the upper ends of ranges; null where there is none.
    pub amount_high: Option<Amount>,
    /// Lines.
    pub lines: u64,
    /// Of those, how many are UNKNOWN: in no sum.
    pub unknown_lines: u64,
}

/// The lines of one meter and state together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Total {
    /// Of what.
    pub meter: Meter,
    /// `exact` or `sampled`.
    pub basis: MeterBasis,
    /// In which state.
    pub state: State,
    /// Their sum.
    #[serde(flatten)]
    pub sum: Sum,
}
