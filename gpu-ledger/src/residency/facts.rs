//! What reports say of a batch besides its curves: the part of its manifest that they need.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub use super::events::Labels;
use super::moment::Length;
use super::sample::FieldName;
use super::settings::Settings;
use super::spread::Spread;
use super::tally::Figures;
use super::verdict::{Backend, or_unknown};
use crate::escape::{escape, printable};
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
    /// Whether the kernel denied the probing threads of every iteration to start one.
    pub exec_denied: bool,
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
    /// How many windows it was to have.
    pub iterations_planned: u64,
    /// The SHA-256 of its `SHA256SUMS`.
    pub fingerprint: Option<String>,
}

impl BatchFacts {
    /// The command, safe to print whatever the file says; `None`: there was none.
    #[must_use]
    pub fn command_said(&self) -> Option<String> {
        self.command.as_ref().map(|command| printable(command.as_bytes()).to_string())
    }
}

/// What probing itself took, the worst of all iterations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cost {
    /// The greatest share of the window that passes took, in millionths.
    pub probe_duty_cycle_ppm: Option<u64>,
    /// The greatest share of a core that the recorder took, in millionths.
    pub recorder_cpu_ppm: Option<u64>,
    /// Of a pass over the fields.
    pub pass: CallCost,
    /// Of each field's call.
    pub fields: BTreeMap<FieldName, CallCost>,
}

/// How long a call took, at the worst.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CallCost {
    /// The greatest median.
    pub p50_ms: Option<Length>,
    /// The greatest 99th percentile.
    pub p99_ms: Option<Length>,
}

impl CallCost {
    /// An unknown is less than any length, and so never hides one.
    fn worst(&mut self, of: &Spread) {
        self.p50_ms = self.p50_ms.max(of.p50);
        self.p99_ms = self.p99_ms.max(of.p99);
    }
}

impl fmt::Display for CallCost {
    /// `0.012 / 0.034`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", or_unknown(self.p50_ms), or_unknown(self.p99_ms))
    }
}

impl Cost {
    /// In words, in parts of which none is broken between two lines.
    #[must_use]
    pub fn parts(&self) -> Vec<String> {
        let mut parts = vec![
            format!("probing {} of the time", percent_of_ppm(self.probe_duty_cycle_ppm)),
            format!("recorder CPU {} of a core", percent_of_ppm(self.recorder_cpu_ppm)),
            format!("ms p50 / p99: pass {}", self.pass),
        ];
        parts.extend(self.fields.iter().map(|(name, cost)| format!("{name} {cost}")));
        parts
    }
}

/// The worst of all iterations of a batch, or of two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extremes {
    /// The greatest age at a point.
    pub max_sample_age: Option<Length>,
    /// The greatest supremum between points.
    pub supremum: Option<Length>,
    /// The longest pass over the fields.
    pub pass_max: Option<Length>,
    /// The greatest 99th percentile of the time from one pass to the next.
    pub interval_p99: Option<Length>,
    /// The longest that a probe had been in flight when its window was given up.
    pub in_flight_at_end: Option<Length>,
    /// What probing took.
    pub cost: Cost,
}

impl Extremes {
    /// Over the figures of iterations.
    #[must_use]
    pub fn of<'figures>(all: impl IntoIterator<Item = &'figures Figures>) -> Self {
        let mut worst = Self::default();
        for figures in all {
            // An unknown is less than any length, and so never hides one.
            worst.max_sample_age = worst.max_sample_age.max(figures.max_sample_age_ms);
            worst.supremum = worst.supremum.max(figures.max_sample_age_sup_ms);
            worst.pass_max = worst.pass_max.max(figures.probe_duration_ms.max);
            worst.interval_p99 = worst.interval_p99.max(figures.effective_interval_ms.p99);
            worst.in_flight_at_end = worst.in_flight_at_end.max(figures.probe_in_flight_at_end_ms);
            let cost = &mut worst.cost;
            cost.probe_duty_cycle_ppm = cost.probe_duty_cycle_ppm.max(figures.probe_duty_cycle_ppm);
            cost.recorder_cpu_ppm = cost.recorder_cpu_ppm.max(figures.recorder_cpu_ppm);
            cost.pass.worst(&figures.probe_duration_ms);
            for (name, field) in &figures.field_duration_ms {
                cost.fields.entry(*name).or_default().worst(&field.duration_ms);
            }
        }
        worst
    }
}

/// What every report says of programs that were run to ask the driver.
#[must_use]
pub const fn programs_said(facts: &BatchFacts) -> &'static str {
    match (facts.cli_subprocess_used, facts.exec_denied) {
        (true, _) => "PROGRAMS WERE RUN to ask the driver",
        (false, true) => {
            "no program was run to ask the driver, and the kernel denied it to the probing threads"
        }
        (false, false) => "no program was run to ask the driver",
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

/// `2 of 3 planned iterations were recorded`: what every report says of it.
#[must_use]
pub fn iterations_said(recorded: u64, planned: u64) -> String {
    format!("{recorded} of {planned} planned iterations were recorded")
}

/// What every report says of a probe that never came back.
#[must_use]
pub fn in_flight_said(flight: Length) -> String {
    format!(
        "a probe of the driver had been in flight for {flight} ms when its window was given up, and never came \
         back: what the driver held then is unknown"
    )
}

/// The batch's fingerprint, to be noted down where nobody who can write its folder can change it.
#[must_use]
pub fn fingerprint_said(fingerprint: Option<&str>) -> String {
    format!("fingerprint (SHA-256 of SHA256SUMS) {}", fingerprint.unwrap_or("UNKNOWN"))
}
