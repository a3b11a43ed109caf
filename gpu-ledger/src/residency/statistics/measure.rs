//! One number of one iteration: what is estimated over iterations and compared between batches.
//!
//! Points of a curve depend on one another, so that no interval can come from them; iterations do not.

use std::fmt;

use serde::{Serialize, Serializer};

use super::fixed::{Fixed, rounded};
use super::window::Stretch;
use crate::residency::sample::FieldName;

/// What is taken of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Measure {
    /// Mean of device memory.
    MemoryMean,
    /// Its peak.
    MemoryPeak,
    /// Its integral.
    Residency,
    /// Mean utilization.
    UtilizationMean,
    /// Mean power.
    PowerMean,
    /// Peak of the temperature.
    TemperaturePeak,
    /// Mean share of the processors.
    CpuMean,
}

/// Measures that are tested together, so that one of many is not taken for a finding by chance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Of device memory.
    Memory,
    /// Of what the GPU and the host did.
    Load,
}

impl Family {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Load => "load",
        }
    }
}

impl Measure {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::MemoryMean,
        Self::MemoryPeak,
        Self::Residency,
        Self::UtilizationMean,
        Self::PowerMean,
        Self::TemperaturePeak,
        Self::CpuMean,
    ];

    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryMean => "memory_mean",
            Self::MemoryPeak => "memory_peak",
            Self::Residency => "residency",
            Self::UtilizationMean => "utilization_mean",
            Self::PowerMean => "power_mean",
            Self::TemperaturePeak => "temperature_peak",
            Self::CpuMean => "cpu_mean",
        }
    }

    /// For people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::MemoryMean => "memory, mean",
            Self::MemoryPeak => "memory, peak",
            Self::Residency => "residency",
            Self::UtilizationMean => "utilization, mean",
            Self::PowerMean => "power, mean",
            Self::TemperaturePeak => "temperature, peak",
            Self::CpuMean => "CPU, mean",
        }
    }

    /// What its numbers count, in files.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MemoryMean | Self::MemoryPeak => "bytes",
            Self::Residency => "GiB*s",
            Self::UtilizationMean | Self::CpuMean => "percent",
            Self::PowerMean => "W",
            Self::TemperaturePeak => "degC",
        }
    }

    /// Digits behind the point of its numbers.
    #[must_use]
    pub const fn digits(self) -> u32 {
        match self {
            Self::MemoryMean | Self::MemoryPeak => 0,
            Self::Residency => 6,
            Self::UtilizationMean | Self::CpuMean | Self::PowerMean | Self::TemperaturePeak => 3,
        }
    }

    /// With which others it is tested.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::MemoryMean | Self::MemoryPeak | Self::Residency => Family::Memory,
            Self::UtilizationMean | Self::PowerMean | Self::TemperaturePeak | Self::CpuMean => {
                Family::Load
            }
        }
    }

    /// Its field's own window behind each value: [`FieldName::source_window_ms`].
    #[must_use]
    pub const fn source_window_ms(self) -> Option<(u64, u64)> {
        match self.family() {
            Family::Memory => FieldName::Memory.source_window_ms(),
            Family::Load if matches!(self, Self::UtilizationMean) => {
                FieldName::Utilization.source_window_ms()
            }
            Family::Load => None,
        }
    }

    /// The number of an iteration's stretch, in 10⁻ᵈⁱᵍⁱᵗˢ of the unit; `None` where it is not known.
    #[must_use]
    pub fn of(self, stretch: &Stretch) -> Option<i128> {
        let to = |mean: Option<Fixed>, per: u128| rounded(mean?.value, per);
        match self {
            Self::MemoryMean => to(stretch.memory.mean, 1_000),
            Self::MemoryPeak => stretch.memory.peak.map(i128::from),
            Self::Residency => stretch.residency_gib_s.map(|gib_s| gib_s.value),
            Self::UtilizationMean => to(stretch.utilization.mean, 1),
            // mW with three digits.
            Self::PowerMean => to(stretch.power.mean, 1_000),
            Self::TemperaturePeak => {
                stretch.temperature.peak.map(|peak| i128::from(peak).saturating_mul(1_000))
            }
            // Hundredths of a percent with three digits.
            Self::CpuMean => to(stretch.cpu.mean, 100),
        }
    }

    /// Between which the number of an iteration's stretch lies, by its samples ([`super::bounds`]); `None` where they
    /// do not say.
    #[must_use]
    pub fn range(self, stretch: &Stretch) -> Option<(i128, i128)> {
        let low = stretch.residency_lower_gib_s?.value;
        let high = stretch.residency_upper_gib_s?.value;
        match self {
            Self::Residency => Some((low, high)),
            // 10⁻⁶ GiB·s are 2³⁰ · 10³ byte·ns.
            Self::MemoryMean => {
                let known = u128::from(stretch.memory.known_ms.0);
                let mean = |of: i128| rounded(of.saturating_mul(1_000 << 30), known);
                Some((mean(low)?, mean(high)?))
            }
            Self::MemoryPeak
            | Self::UtilizationMean
            | Self::PowerMean
            | Self::TemperaturePeak
            | Self::CpuMean => None,
        }
    }

    /// A number of this measure, with its digits.
    #[must_use]
    pub const fn fixed(self, value: i128) -> Fixed {
        Fixed { value, digits: self.digits() }
    }

    /// A number for people, without its unit: bytes as GiB.
    #[must_use]
    pub fn bare(self, value: i128) -> String {
        match self.family() {
            Family::Memory if self.digits() == 0 => gib(value),
            Family::Memory => {
                let thousandths = rounded(value, 1_000).unwrap_or(value);
                Fixed { value: thousandths, digits: 3 }.to_string()
            }
            Family::Load => self.fixed(value).to_string(),
        }
    }

    /// A number for people, with its unit.
    #[must_use]
    pub fn show(self, value: i128) -> String {
        let unit = match self.unit() {
            "bytes" => "GiB",
            "percent" => "%",
            "GiB*s" => "GiB·s",
            "degC" => "°C",
            unit => unit,
        };
        format!("{} {unit}", self.bare(value))
    }
}

/// Bytes in GiB with three digits.
fn gib(bytes: i128) -> String {
    Fixed::quotient(bytes, 1 << 30, 3).map_or_else(|| "UNKNOWN".to_owned(), |gib| gib.to_string())
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
