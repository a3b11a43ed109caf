//! What reports say of a batch besides its curves: the part of its manifest that they need.

pub use super::events::Labels;
use super::moment::Length;
use super::sample::FieldName;
use super::settings::Settings;
use super::tally::Figures;
use super::verdict::Backend;
use crate::escape::escape;
use crate::unit::GpuUuid;

/// Who and what a batch was recorded with. `None` is what the recorder could not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchFacts {
    /// Its name: that of its folder.
    pub batch_id: String,
    /// The version of its files.
    pub schema_version: u32,
    /// When its recording began, RFC 3339 in UTC.
    pub created_wall: Option<String>,
    /// This product's version.
    pub version: String,
    /// The GPU.
    pub gpu_uuid: GpuUuid,
    /// What its maker calls it.
    pub gpu_name: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The kernel's.
    pub kernel: Option<String>,
    /// Who was asked.
    pub backend: Backend,
    /// Whether any program was run to ask.
    pub cli_subprocess_used: bool,
    /// Periods, cap and gate.
    pub settings: Settings,
    /// In which order fields were asked for.
    pub field_order: Vec<FieldName>,
    /// The limit on the GPU's power, in mW.
    pub power_limit_mw: Option<u32>,
    /// Whether this recorder passed its acceptance run in these surroundings.
    pub harness_verified: bool,
    /// How the wall clock was kept, in the recorder's words.
    pub clock_sync: Option<String>,
    /// The command that was recorded, as it may be shown; `None`: there was none.
    pub command: Option<String>,
}

/// The worst of all iterations of a batch, or of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extremes {
    /// The greatest age at a point.
    pub max_sample_age: Option<Length>,
    /// The greatest supremum between points.
    pub supremum: Option<Length>,
    /// The longest pass over the fields.
    pub pass_max: Option<Length>,
    /// The greatest 99th percentile of the time from one pass to the next.
    pub interval_p99: Option<Length>,
    /// The greatest share of the window that passes took, in millionths.
    pub duty_cycle_ppm: Option<u64>,
}

impl Extremes {
    /// Over the figures of iterations.
    #[must_use]
    pub fn of<'figures>(all: impl IntoIterator<Item = &'figures Figures>) -> Self {
        all.into_iter().fold(Self::default(), |worst, figures| Self {
            // An unknown is less than any length, and so never hides one.
            max_sample_age: worst.max_sample_age.max(figures.max_sample_age_ms),
            supremum: worst.supremum.max(figures.max_sample_age_sup_ms),
            pass_max: worst.pass_max.max(figures.probe_duration_ms.max),
            interval_p99: worst.interval_p99.max(figures.effective_interval_ms.p99),
            duty_cycle_ppm: worst.duty_cycle_ppm.max(figures.probe_duty_cycle_ppm),
        })
    }
}

/// `700.000 W`, or that nobody knows.
#[must_use]
pub fn watts(milliwatts: Option<u32>) -> String {
    milliwatts.map_or_else(unknown, |mw| format!("{}.{:03} W", mw / 1_000, mw % 1_000))
}

/// A text of strangers, safe to print; `UNKNOWN` where there is none.
#[must_use]
pub fn said(text: Option<&str>) -> String {
    text.map_or_else(unknown, |text| escape(text.as_bytes()).to_string())
}

fn unknown() -> String {
    "UNKNOWN".to_owned()
}

/// `2.345 %` of millionths.
#[must_use]
pub fn percent_of_ppm(ppm: Option<u64>) -> String {
    ppm.map_or_else(unknown, |ppm| format!("{}.{:04} %", ppm / 10_000, ppm % 10_000))
}

/// `utilization, power, memory`.
#[must_use]
pub fn names(fields: &[FieldName]) -> String {
    fields.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
