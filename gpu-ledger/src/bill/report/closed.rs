//! What a bill says of periods that are closed.

use serde::Serialize;

use crate::bill::figures::{Difference, Figure, Section};
use crate::bill::report::coverage::moment;
use crate::bill::{Closing, figures::Place};
use crate::unit::WallUs;

/// A closed period that a bill's own meets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ClosedLine {
    /// What it is called.
    pub name: String,
    /// Its first moment, RFC 3339 in UTC.
    pub since: String,
    /// The first moment after it.
    pub until: String,
    /// When it was closed (RFC 3339).
    pub closed_at: String,
    /// Number of the entry that closed it.
    pub entry: u64,
    /// Number of the last entry that its bill is made of.
    pub through: u64,
    /// Whether this bill is made of the entries up to that one as well, and not of those that came later.
    pub is_as_closed: bool,
}

impl ClosedLine {
    /// Of a closing.
    #[must_use]
    pub fn of(closing: &Closing, is_as_closed: bool) -> Self {
        let period = &closing.period;
        Self {
            name: period.name.to_string(),
            since: moment(period.from.ms()),
            until: moment(period.to.ms()),
            closed_at: moment(closing.at.stamp.wall.ms()),
            entry: closing.seq,
            through: period.through,
            is_as_closed,
        }
    }
}

/// What came to closed periods since their bills were fixed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Adjustments {
    /// The first moment after the last closed period (RFC 3339): the bill of the period that holds it tells them.
    pub after: String,
    /// The bill's own period holds time of closed ones, whose lines are made of all entries: what is told here is in
    /// them, and must not be added to them.
    pub is_in_lines: bool,
    /// By closed period, those to which nothing came left out.
    pub periods: Vec<AdjustedPeriod>,
}

/// What came to one closed period.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AdjustedPeriod {
    /// Which.
    #[serde(flatten)]
    pub period: ClosedLine,
    /// What a line of its bill stands for.
    pub by: String,
    /// How its shared time is divided.
    pub share: String,
    /// Number of the last entry that an earlier closed bill tells of.
    pub after_entry: u64,
    /// Number of the last entry that is told of here.
    pub to_entry: u64,
    /// In which currency; null where the period was closed without prices, or they cannot be read.
    pub currency: Option<String>,
    /// SHA-256 of the prices that it was closed with; null where there were none.
    pub prices_sha256: Option<String>,
    /// Why no amount is told although it was closed with prices.
    pub prices_unknown: Option<String>,
    /// In the order in which they were learnt.
    pub entries: Vec<Adjustment>,
    /// What they come to.
    pub total: AdjustedTotal,
}

/// Sums of adjustments.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct AdjustedTotal {
    /// Of the lines' held time, in ms.
    pub held_ms: i128,
    /// Of their settlements.
    pub settlements: i128,
    /// Of what is booked in money; null where the period has no amounts.
    pub booked: Option<Figure>,
    /// Booked amounts that became, or ceased to be, UNKNOWN: in no sum.
    pub booked_unknown: u64,
}

/// What one entry changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Adjustment {
    /// Its number; null of what no single entry changed.
    pub seq: Option<u64>,
    /// When it was learnt (RFC 3339); null likewise.
    pub learnt_at: Option<String>,
    /// The same.
    #[serde(skip)]
    pub learnt: Option<WallUs>,
    /// What it is.
    pub kind: AdjustmentKind,
    /// Number of the entry that it replaces or corrects.
    pub of: Option<u64>,
    /// Every figure of the closed bill that it changes.
    pub changes: Vec<Difference>,
}

/// What changes a closed bill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdjustmentKind {
    /// A row of the period was read final only later.
    SettledLate,
    /// What was open when the period was closed has settled.
    OpenSettled,
    /// What was open when the period was closed is over, and will not settle.
    OpenEnded,
    /// A line stands on another account.
    AccountCorrected,
    /// A booked row was read again with other figures, and is in doubt since.
    Conflict,
    /// A gap in what was seen was told later.
    GapTold,
    /// Memory held was told later.
    MemoryTold,
    /// Several entries, told together: there are too many for one by one.
    Several,
    /// What was seen, or was open, is known better by marks that came later.
    Seen,
}

impl AdjustmentKind {
    /// For people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::SettledLate => "settled late",
            Self::OpenSettled => "open became settled",
            Self::OpenEnded => "open ended without settling",
            Self::AccountCorrected => "account corrected",
            Self::Conflict => "conflict: read again with other figures",
            Self::GapTold => "gap told late",
            Self::MemoryTold => "memory told late",
            Self::Several => "further entries together",
            Self::Seen => "seen since",
        }
    }
}

impl AdjustedTotal {
    /// The sums of these changes.
    #[must_use]
    pub fn of<'d>(changes: impl Iterator<Item = &'d Difference>, is_priced: bool) -> Self {
        let mut total = Self::default();
        let mut booked = rust_decimal::Decimal::ZERO;
        for Difference { place: Place { section, figure, .. }, difference, .. } in changes {
            match (section, *figure, difference) {
                (Section::Account, "held_ms", Figure::Whole(ms)) => {
                    total.held_ms = total.held_ms.saturating_add(*ms);
                }
                (Section::Account, "settlements", Figure::Whole(count)) => {
                    total.settlements = total.settlements.saturating_add(*count);
                }
                (Section::Booked, _, Figure::Money(Some(amount))) => {
                    booked = booked.checked_add(*amount).unwrap_or(booked);
                }
                (Section::Booked, _, Figure::Money(None)) => {
                    total.booked_unknown = total.booked_unknown.saturating_add(1);
                }
                _ => {}
            }
        }
        booked.rescale(crate::prices::AMOUNT_DECIMALS);
        total.booked = is_priced.then_some(Figure::Money(Some(booked)));
        total
    }
}
