//! A bill as figures by their place, so that two of them can be compared, whoever made them and when.

use std::collections::{BTreeMap, BTreeSet};

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize, Serializer};

use super::report::{Priced, Report, State};
use crate::settlement::NamedBy;

/// Where on a bill a figure stands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Place {
    /// The part of the bill.
    pub section: Section,
    /// Whose; null where it is nobody's.
    pub line: Option<String>,
    /// What gave it that name; null where it has none.
    pub named_by: Option<String>,
    /// Which GPU; null where the line is of all of them.
    pub gpu_uuid: Option<String>,
    /// Why it has no name, or is in doubt.
    pub reason: Option<String>,
    /// Of what, where it is money.
    pub meter: Option<String>,
    /// In which state, where it is money.
    pub state: Option<String>,
    /// Which figure, by the name of its field.
    pub figure: &'static str,
}

/// A part of a bill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// The statement of a GPU.
    Gpu,
    /// A line.
    Account,
    /// What has no name.
    Unattributed,
    /// What is in doubt.
    Disputed,
    /// Money that is booked.
    Booked,
    /// Money that is not.
    Priced,
}

/// A figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Milliseconds, or how many.
    Whole(i128),
    /// An amount; `None` where it is UNKNOWN.
    Money(Option<Decimal>),
}

impl Figure {
    /// What must be added to it to make the other of it: UNKNOWN where one of two amounts is.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(before), Self::Whole(after)) => Self::Whole(after.saturating_sub(before)),
            (Self::Money(before), Self::Money(after)) => {
                Self::Money(before.zip(after).and_then(|(before, after)| after.checked_sub(before)))
            }
            // Two figures of one place are of one kind.
            (_, other) => other,
        }
    }

    /// The figure of a line that is not there: nothing of the same kind.
    #[must_use]
    pub const fn nothing(self) -> Self {
        match self {
            Self::Whole(_) => Self::Whole(0),
            Self::Money(_) => Self::Money(Some(Decimal::ZERO)),
        }
    }
}

impl Serialize for Figure {
    /// Money as text, for the reason that [`crate::prices::Amount`] is.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(whole) => serializer.serialize_i128(*whole),
            Self::Money(None) => serializer.serialize_none(),
            Self::Money(Some(amount)) => serializer.collect_str(amount),
        }
    }
}

/// A figure that two bills do not agree on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// On the one; null where that has no such line, or where it is UNKNOWN.
    pub before: Option<Figure>,
    /// On the other.
    pub after: Option<Figure>,
    /// What came to it; null where that is UNKNOWN.
    pub difference: Figure,
}

/// A bill's figures.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Figures(BTreeMap<Place, Figure>);

impl Figures {
    /// Of a bill. `gpu`: the only GPU that it is of, so that its lines are that GPU's.
    #[must_use]
    pub fn of(report: &Report, gpu: Option<&str>) -> Self {
        Told::of(report).figures(gpu)
    }

    /// What two bills do not agree on, in the order of their places.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let places: BTreeSet<&Place> = self.0.keys().chain(other.0.keys()).collect();
        let differ = places.into_iter().filter_map(|place| {
            let (before, after) = (self.0.get(place).copied(), other.0.get(place).copied());
            let known = before.or(after)?;
            let nothing = known.nothing();
            let (was, is) = (before.unwrap_or(nothing), after.unwrap_or(nothing));
            (was != is).then(|| Difference {
                place: place.clone(),
                before,
                after,
                difference: was.to(is),
            })
        });
        differ.collect()
    }

    fn add(&mut self, place: Place, figure: Figure) {
        let sum = match (self.0.get(&place), figure) {
            (Some(Figure::Whole(sum)), Figure::Whole(more)) => {
                Figure::Whole(sum.saturating_add(more))
            }
            (Some(Figure::Money(sum)), Figure::Money(more)) => {
                Figure::Money(sum.zip(more).and_then(|(sum, more)| sum.checked_add(more)))
            }
            (_, figure) => figure,
        };
        self.0.insert(place, sum);
    }
}

/// What is compared of a bill, as `--format json` has it. Of other fields nothing is asked.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Told {
    /// The word of the format.
    pub format: String,
    /// Its version.
    pub version: u32,
    /// Which bill.
    pub bill_id: String,
    /// Up to when it speaks.
    pub as_of: Option<String>,
    /// Where its journal ended.
    pub journal_head: ToldHead,
    /// From when to when.
    pub period: ToldPeriod,
    /// The driver.
    pub driver: Option<String>,
    /// What a line stands for.
    pub by: String,
    /// How shared time is divided.
    pub share: String,
    gpus: Vec<ToldGpu>,
    accounts: Vec<ToldAccount>,
    unattributed: Vec<ToldUnattributed>,
    disputed: Vec<ToldDisputed>,
    unknown: Vec<ToldUnknown>,
    /// The bill in money.
    pub priced: Option<ToldPriced>,
    coverage: ToldCoverage,
    reading: ToldReading,
    left_out: Option<serde::de::IgnoredAny>,
}

/// The end of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct ToldHead {
    /// Number of its last entry.
    pub seq: u64,
    /// Its hash, in hex.
    pub hash: String,
}

/// A period.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct ToldPeriod {
    /// Its first moment.
    pub since: String,
    /// The first one after it.
    pub until: String,
    /// The time zone.
    pub zone: String,
}

/// Its money.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct ToldPriced {
    /// In which currency.
    pub currency: String,
    /// By which prices.
    pub prices_sha256: String,
    lines: Vec<ToldPrice>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldGpu {
    gpu_uuid: String,
    alone_ms: u64,
    shared_ms: u64,
    free_ms: u64,
    uncovered_ms: u64,
    unread_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldAccount {
    account: String,
    named_by: Option<String>,
    settlements: u64,
    held_ms: u64,
    open_ms: u64,
    no_driver_row_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldUnattributed {
    gpu_uuid: String,
    reason: String,
    count: u64,
    held_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldDisputed {
    gpu_uuid: String,
    account: String,
    named_by: Option<String>,
    reason: String,
    count: u64,
    raw_ms: u128,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldUnknown {
    evidence: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldPrice {
    account: Option<String>,
    named_by: Option<String>,
    gpu_uuid: String,
    meter: String,
    state: String,
    nameless: Option<String>,
    booked: bool,
    amount: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
struct ToldCoverage {
    gaps: Vec<serde::de::IgnoredAny>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct ToldReading {
    end_witnessed: bool,
}

impl Told {
    /// Reads one.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Of a bill that is made.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let ignored = || serde::de::IgnoredAny;
        Self {
            format: report.format.to_owned(),
            version: report.version,
            bill_id: report.bill_id.clone(),
            as_of: report.as_of.clone(),
            journal_head: report.journal_head.as_ref().map_or_else(ToldHead::default, |head| {
                ToldHead { seq: head.seq, hash: head.hash.clone() }
            }),
            period: ToldPeriod {
                since: report.period.since.clone(),
                until: report.period.until.clone(),
                zone: report.period.zone.clone(),
            },
            driver: report.driver.clone(),
            by: report.by.to_owned(),
            share: report.share.to_owned(),
            gpus: (report.gpus.iter())
                .map(|gpu| ToldGpu {
                    gpu_uuid: gpu.gpu_uuid.to_string(),
                    alone_ms: gpu.alone_ms.0,
                    shared_ms: gpu.shared_ms.0,
                    free_ms: gpu.free_ms.0,
                    uncovered_ms: gpu.uncovered_ms.0,
                    unread_ms: gpu.unread_ms.0,
                })
                .collect(),
            accounts: (report.accounts.iter())
                .map(|line| ToldAccount {
                    account: line.account.clone(),
                    named_by: named_by(line.named_by),
                    settlements: line.settlements,
                    held_ms: line.held_ms.0,
                    open_ms: line.open_ms.0,
                    no_driver_row_ms: line.no_driver_row_ms.0,
                })
                .collect(),
            unattributed: (report.unattributed.iter())
                .map(|line| ToldUnattributed {
                    gpu_uuid: line.gpu_uuid.to_string(),
                    reason: line.reason.to_string(),
                    count: line.count,
                    held_ms: line.held_ms.0,
                })
                .collect(),
            disputed: (report.disputed.iter())
                .map(|line| ToldDisputed {
                    gpu_uuid: line.gpu_uuid.to_string(),
                    account: line.account.clone(),
                    named_by: named_by(line.named_by),
                    reason: line.reason.to_string(),
                    count: line.count,
                    raw_ms: line.raw_ms,
                })
                .collect(),
            unknown: (report.unknown.iter())
                .map(|line| ToldUnknown { evidence: line.is_evidence })
                .collect(),
            priced: report.priced.as_ref().map(ToldPriced::of),
            coverage: ToldCoverage {
                gaps: report.coverage.gaps.iter().map(|_| ignored()).collect(),
            },
            reading: ToldReading { end_witnessed: report.reading.end_witnessed },
            left_out: report.left_out.as_ref().map(|_| ignored()),
        }
    }

    /// Whether everything on it is known, as [`Report::is_known`] says of one that is made. Of one that left lines
    /// out that is not said.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let unseen = |gpu: &ToldGpu| gpu.uncovered_ms > gpu.unread_ms;
        self.unknown.iter().all(|line| line.evidence)
            && self.unattributed.is_empty()
            && self.disputed.is_empty()
            && self.left_out.is_none()
            && self.coverage.gaps.is_empty()
            && self.reading.end_witnessed
            && !self.gpus.is_empty()
            && !self.gpus.iter().any(unseen)
    }

    /// Its figures by their places.
    #[must_use]
    pub fn figures(&self, gpu: Option<&str>) -> Figures {
        let mut figures = Figures::default();
        let mut add = |place: Place, whole: i128| {
            // What a line has nothing of is as if the line were not there.
            if whole != 0 {
                figures.add(place, Figure::Whole(whole));
            }
        };
        self.add_gpus(&mut add);
        self.add_accounts(gpu, &mut add);
        self.add_unbilled(&mut add);
        self.add_amounts(&mut figures);
        figures
    }

    fn add_gpus(&self, add: &mut dyn FnMut(Place, i128)) {
        for one in &self.gpus {
            for (figure, ms) in [
                ("alone_ms", one.alone_ms),
                ("shared_ms", one.shared_ms),
                ("free_ms", one.free_ms),
                ("uncovered_ms", one.uncovered_ms),
            ] {
                let gpu_uuid = Some(one.gpu_uuid.clone());
                add(Place { gpu_uuid, ..at(Section::Gpu, figure) }, ms.into());
            }
        }
    }

    fn add_accounts(&self, gpu: Option<&str>, add: &mut dyn FnMut(Place, i128)) {
        for one in &self.accounts {
            for (figure, number) in [
                ("settlements", one.settlements),
                ("held_ms", one.held_ms),
                ("open_ms", one.open_ms),
                ("no_driver_row_ms", one.no_driver_row_ms),
            ] {
                let place = Place {
                    line: Some(one.account.clone()),
                    named_by: one.named_by.clone(),
                    gpu_uuid: gpu.map(str::to_owned),
                    ..at(Section::Account, figure)
                };
                add(place, number.into());
            }
        }
    }

    /// What is on no account: without a name, or disputed.
    fn add_unbilled(&self, add: &mut dyn FnMut(Place, i128)) {
        for one in &self.unattributed {
            for (figure, number) in [("count", one.count), ("held_ms", one.held_ms)] {
                let place = Place {
                    gpu_uuid: Some(one.gpu_uuid.clone()),
                    reason: Some(one.reason.clone()),
                    ..at(Section::Unattributed, figure)
                };
                add(place, number.into());
            }
        }
        for one in &self.disputed {
            let raw_ms = i128::try_from(one.raw_ms).unwrap_or(i128::MAX);
            for (figure, number) in [("count", i128::from(one.count)), ("raw_ms", raw_ms)] {
                let place = Place {
                    line: Some(one.account.clone()),
                    named_by: one.named_by.clone(),
                    gpu_uuid: Some(one.gpu_uuid.clone()),
                    reason: Some(one.reason.clone()),
                    ..at(Section::Disputed, figure)
                };
                add(place, number);
            }
        }
    }

    fn add_amounts(&self, figures: &mut Figures) {
        for one in self.priced.iter().flat_map(|priced| &priced.lines) {
            let section = if one.booked { Section::Booked } else { Section::Priced };
            let place = Place {
                line: one.account.clone(),
                named_by: one.named_by.clone(),
                gpu_uuid: Some(one.gpu_uuid.clone()),
                reason: one.nameless.clone(),
                meter: Some(one.meter.clone()),
                state: Some(one.state.clone()),
                ..at(section, "amount")
            };
            // An amount that is no number is one that nobody knows.
            let amount = one.amount.as_ref().and_then(|text| Decimal::from_str_exact(text).ok());
            if amount != Some(Decimal::ZERO) {
                figures.add(place, Figure::Money(amount));
            }
        }
    }
}

impl ToldPriced {
    fn of(priced: &Priced) -> Self {
        let lines = priced.lines.iter().map(|line| ToldPrice {
            account: line.account.clone(),
            named_by: named_by(line.named_by),
            gpu_uuid: line.gpu_uuid.to_string(),
            meter: line.meter.as_str().to_owned(),
            state: State::as_str(line.state).to_owned(),
            nameless: line.nameless.map(|why| why.to_string()),
            booked: line.is_booked,
            amount: line.amount.map(|amount| amount.to_string()),
        });
        Self {
            currency: priced.currency.clone(),
            prices_sha256: priced.prices_sha256.clone(),
            lines: lines.collect(),
        }
    }
}

fn named_by(by: Option<NamedBy>) -> Option<String> {
    by.map(|by| by.as_str().to_owned())
}

/// A place of which nothing more is said.
fn at(section: Section, figure: &'static str) -> Place {
    Place {
        section,
        line: None,
        named_by: None,
        gpu_uuid: None,
        reason: None,
        meter: None,
        state: None,
        figure,
    }
}
