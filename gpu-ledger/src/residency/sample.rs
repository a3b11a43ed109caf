//! Samples: what one pass over the fields of a GPU brought, each field with its bracket.
//!
//! A value never travels without its own time and its own status. A value that no GPU can have is
//! `invalid_value` and kept nowhere, never clamped. The rows of `samples.jsonl` are these types.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::unit::{BootNs, Pid};
use crate::unknown::UnknownReason;

/// The fields, in the order they are asked for: device memory last, so that the time of the sample
/// stands next to it.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[clap(rename_all = "snake_case")]
pub enum FieldName {
    /// Share of the driver's own window in which a kernel ran.
    Utilization,
    /// Power drawn.
    Power,
    /// Temperature of the GPU.
    Temperature,
    /// Utilization samples of processes.
    ProcessUtilization,
    /// Who holds the GPU, with how much memory.
    Processes,
    /// Device memory.
    Memory,
}

impl FieldName {
    /// Every field, in the order they are asked for.
    pub const ORDER: [Self; 6] = [
        Self::Utilization,
        Self::Power,
        Self::Temperature,
        Self::ProcessUtilization,
        Self::Processes,
        Self::Memory,
    ];

    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Utilization => "utilization",
            Self::Power => "power",
            Self::Temperature => "temperature",
            Self::ProcessUtilization => "process_utilization",
            Self::Processes => "processes",
            Self::Memory => "memory",
        }
    }

    /// The driver's own window behind a value, in ms from the shortest to the longest that it is known
    /// to be: a fresh query of utilization still tells of up to a second before (nvml.h of 595.45.04 on
    /// `nvmlUtilization_t`: "between 1 second and 1/6 second"). `None`: the driver does not say.
    #[must_use]
    pub const fn source_window_ms(self) -> Option<(u64, u64)> {
        match self {
            Self::Utilization => Some((167, 1_000)),
            // Counted by the driver at the moment of asking.
            Self::Processes | Self::Memory => Some((0, 0)),
            Self::Power | Self::Temperature | Self::ProcessUtilization => None,
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How asking for a field went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// There is a value.
    Ok,
    /// The driver gave one that no GPU can have.
    InvalidValue,
    /// The driver gave none.
    Unknown(UnknownReason),
}

impl Status {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InvalidValue => "invalid_value",
            Self::Unknown(reason) => reason.as_str(),
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let known = [Self::Ok, Self::InvalidValue].into_iter();
        let mut known = known.chain(UnknownReason::ALL.iter().copied().map(Self::Unknown));
        let found = known.find(|status| status.as_str() == word);
        found.ok_or_else(|| serde::de::Error::custom("no status of a field is called so"))
    }
}

/// What asking for one field brought.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading<T> {
    /// `CLOCK_BOOTTIME` before the driver call.
    pub before_ns: BootNs,
    /// And after it.
    pub after_ns: BootNs,
    /// The value, exactly where the status is ok.
    pub value: Option<T>,
    /// How it went.
    pub status: Status,
    /// The driver's return code, where that was not success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// What the driver says when it measured, in µs of a clock that depends on the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_timestamp_us: Option<u64>,
}

impl<T> Reading<T> {
    /// How long the call took.
    #[must_use]
    pub const fn duration_ns(&self) -> u64 {
        self.after_ns.0.saturating_sub(self.before_ns.0)
    }

    /// The value, where there is one.
    #[must_use]
    pub const fn known(&self) -> Option<&T> {
        match (&self.value, self.status) {
            (Some(value), Status::Ok) => Some(value),
            _ => None,
        }
    }
}

/// Device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceMemory {
    /// In use, in bytes: by processes, and by the driver where it counts that in.
    pub used_bytes: u64,
    /// All there is.
    pub total_bytes: u64,
    /// Kept by the driver for itself; null where it counts that as used.
    #[serde(default)]
    pub reserved_bytes: Option<u64>,
}

impl DeviceMemory {
    /// Whether a GPU can be so: no more used than there is, and no "not available" mark
    /// (`NVML_VALUE_NOT_AVAILABLE` of nvml.h 595.45.04 is all ones).
    #[must_use]
    pub const fn is_possible(self) -> bool {
        self.total_bytes != 0 && self.total_bytes != u64::MAX && self.used_bytes <= self.total_bytes
    }
}

/// Whether a GPU can be so many percent busy.
#[must_use]
pub const fn is_possible_percent(percent: u32) -> bool {
    percent <= 100
}

/// Whether a GPU can draw so many milliwatts: no running one draws none, and no board draws 10 kW.
#[must_use]
pub const fn is_possible_power(milliwatts: u32) -> bool {
    milliwatts > 0 && milliwatts < 10_000_000
}

/// Whether a GPU can be so warm, in °C.
#[must_use]
pub const fn is_possible_temperature(celsius: i32) -> bool {
    celsius >= -40 && celsius <= 150
}

/// One process on the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessMemory {
    /// Its pid in the reader's pid namespace.
    pub pid: Pid,
    /// Device memory in bytes; null where the driver does not say.
    pub memory_bytes: Option<u64>,
    /// Whether it has a compute context.
    pub compute: bool,
    /// Whether it has a graphics context.
    pub graphics: bool,
}

/// One process's share of the driver's last utilization sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessUtilization {
    /// Its pid.
    pub pid: Pid,
    /// Share of the sample's time in which its kernels ran, in percent.
    pub sm_percent: u32,
    /// When the driver took it, in µs.
    pub driver_timestamp_us: u64,
}

/// The fields of one sample; one that was not asked for is not there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// In percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<Reading<u32>>,
    /// In mW.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Reading<u32>>,
    /// In °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Reading<i32>>,
    /// "Not found" is an empty list: no process was seen busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_utilization: Option<Reading<Vec<ProcessUtilization>>>,
    /// Who holds the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Reading<Vec<ProcessMemory>>>,
    /// Always asked for, and last.
    pub memory: Reading<DeviceMemory>,
}

/// A bracket and how it went, of whichever field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Which field.
    pub name: FieldName,
    /// After its call.
    pub after_ns: BootNs,
    /// How long its call took.
    pub duration_ns: u64,
    /// Whether there is a value.
    pub known: bool,
    /// How it went.
    pub status: Status,
    /// The driver's return code, where that was not success.
    pub code: Option<u32>,
}

impl Asked {
    /// Whether the answer means that the device or its driver is gone, so that nothing after it is of the same
    /// device: lost (15), wants a reset (16), the driver unloaded (9) or another than the library is of (18),
    /// the library shut (1); of device memory, which every GPU has, also a handle that is none any more (2).
    /// Codes are of `nvmlReturn_t`, nvml.h 595.45.04.
    #[must_use]
    pub const fn is_device_gone(&self) -> bool {
        use UnknownReason as R;
        match self.status {
            Status::Unknown(
                R::GpuLost
                | R::GpuResetRequired
                | R::DriverNotLoaded
                | R::DriverLibraryVersionMismatch
                | R::NvmlUninitialized,
            ) => true,
            Status::Unknown(R::NvmlInvalidArgument) => matches!(self.name, FieldName::Memory),
            _ => false,
        }
    }
}

impl Fields {
    /// Every field that was asked for, in their order.
    pub fn asked(&self) -> impl Iterator<Item = Asked> {
        fn of<T>(name: FieldName, reading: Option<&Reading<T>>) -> Option<Asked> {
            reading.map(|reading| Asked {
                name,
                after_ns: reading.after_ns,
                duration_ns: reading.duration_ns(),
                known: reading.known().is_some(),
                status: reading.status,
                code: reading.code,
            })
        }
        let all = [
            of(FieldName::Utilization, self.utilization.as_ref()),
            of(FieldName::Power, self.power.as_ref()),
            of(FieldName::Temperature, self.temperature.as_ref()),
            of(FieldName::ProcessUtilization, self.process_utilization.as_ref()),
            of(FieldName::Processes, self.processes.as_ref()),
            of(FieldName::Memory, Some(&self.memory)),
        ];
        all.into_iter().flatten()
    }

    /// When the last of them was read: memory, in this product's order.
    #[must_use]
    pub fn completed(&self) -> BootNs {
        self.asked().fold(self.memory.after_ns, |last, asked| last.max(asked.after_ns))
    }

    /// Whether there is a value of a field.
    #[must_use]
    pub fn has(&self, name: FieldName) -> bool {
        self.asked().any(|asked| asked.name == name && asked.known)
    }
}

/// One pass over the fields: a row of `samples.jsonl`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The deadline it served.
    pub k: u64,
    /// Whether it began at once after an overrun.
    pub recovery: bool,
    /// When it began.
    pub begin_ns: BootNs,
    /// What it brought.
    pub fields: Fields,
    /// The moment it claims: after its memory was read.
    pub sample_timestamp_ns: BootNs,
    /// When the timeline could see it: after its last field; null where it did not land.
    pub landed_at_ns: Option<BootNs>,
    /// Whether it landed.
    pub ok: bool,
}

impl Sample {
    /// What a pass brought. It lands with its last field, where its memory was read.
    #[must_use]
    pub fn new(k: u64, recovery: bool, begin_ns: BootNs, fields: Fields) -> Self {
        let ok = fields.memory.known().is_some();
        let sample_timestamp_ns = fields.memory.after_ns;
        let landed_at_ns = ok.then_some(fields.completed());
        Self { k, recovery, begin_ns, fields, sample_timestamp_ns, landed_at_ns, ok }
    }

    /// When its last field was read.
    #[must_use]
    pub fn completed(&self) -> BootNs {
        self.fields.completed()
    }

    /// Whether what it says of itself follows from its fields.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        *self == Self::new(self.k, self.recovery, self.begin_ns, self.fields.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        DeviceMemory, FieldName, Fields, Reading, Sample, Status, is_possible_percent,
        is_possible_power, is_possible_temperature,
    };
    use crate::unit::BootNs;
    use crate::unknown::UnknownReason;

    fn memory(status: Status) -> Reading<DeviceMemory> {
        let value = DeviceMemory { used_bytes: 1, total_bytes: 2, reserved_bytes: Some(0) };
        Reading {
            before_ns: BootNs(10),
            after_ns: BootNs(12),
            value: (status == Status::Ok).then_some(value),
            status,
            code: (status != Status::Ok).then_some(15),
            driver_timestamp_us: None,
        }
    }

    fn fields(status: Status) -> Fields {
        Fields {
            utilization: None,
            power: None,
            temperature: None,
            process_utilization: None,
            processes: None,
            memory: memory(status),
        }
    }

    #[test]
    fn a_row_comes_back_as_it_was() {
        for status in [Status::Ok, Status::InvalidValue, Status::Unknown(UnknownReason::GpuLost)] {
            let sample = Sample::new(3, true, BootNs(9), fields(status));
            let row = serde_json::to_string(&sample).unwrap();
            assert_eq!(serde_json::from_str::<Sample>(&row).unwrap(), sample, "{row}");
        }
    }

    #[test]
    fn one_whose_memory_was_not_read_does_not_land() {
        let sample = Sample::new(0, false, BootNs(9), fields(Status::InvalidValue));
        assert_eq!((sample.ok, sample.landed_at_ns), (false, None));
        assert_eq!(sample.completed(), BootNs(12));
        let sample = Sample { ok: true, landed_at_ns: Some(BootNs(12)), ..sample };
        assert!(!sample.is_consistent());
    }

    #[test]
    fn values_no_gpu_can_have_are_known_as_such() {
        let of = |used_bytes, total_bytes| {
            DeviceMemory { used_bytes, total_bytes, reserved_bytes: None }.is_possible()
        };
        assert!(of(0, 1) && of(1, 1));
        assert!(!of(2, 1) && !of(0, 0) && !of(u64::MAX, u64::MAX));
        assert!(is_possible_percent(0) && is_possible_percent(100));
        assert!(!is_possible_percent(101) && !is_possible_percent(u32::MAX));
        assert!(is_possible_power(1) && !is_possible_power(0) && !is_possible_power(u32::MAX));
        assert!(is_possible_temperature(-40) && is_possible_temperature(150));
        assert!(!is_possible_temperature(-41) && !is_possible_temperature(151));
    }

    #[test]
    fn memory_is_asked_for_last() {
        assert_eq!(FieldName::ORDER.last(), Some(&FieldName::Memory));
        assert!(FieldName::ORDER.is_sorted());
    }
}
