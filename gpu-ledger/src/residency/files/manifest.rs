//! `manifest.json`: what a batch was recorded with.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::FilesError;
use super::iteration::Iteration;
use super::seed::{Keys, Said, Seed};
use super::whole::{hex, pretty, sha256};
use super::{Labels, SCHEMA_VERSION};
use crate::clock::Stamp;
use crate::rendering::rfc3339;
use crate::residency::moment::Length;
use crate::residency::sample::FieldName;
use crate::residency::settings::{AgeGate, OnVoid, Settings};
use crate::unit::{BootNs, GpuUuid, WallUs};

/// Whether the batch has an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManifestStatus {
    /// It is being recorded, or was cut off.
    Open,
    /// It was ended.
    Closed,
}

/// What two clocks showed at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WallAnchor {
    /// `CLOCK_BOOTTIME`.
    pub boottime_ns: BootNs,
    /// `CLOCK_REALTIME`.
    pub realtime_us: WallUs,
}

/// Whether somebody keeps the wall clock right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSyncState {
    /// A time service does.
    Synchronized,
    /// Nobody does.
    Unsynchronized,
    /// The kernel did not say.
    Unknown,
}

/// How right the wall clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockSync {
    /// Whether somebody keeps it right.
    pub state: ClockSyncState,
    /// The kernel's estimate of its error; null where it has none.
    pub est_error_ms: Option<Length>,
}

/// Which clock the driver's own time stamps are of: found by comparing, since it differs by driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampDomain {
    /// Microseconds since 1970.
    Realtime,
    /// Microseconds since boot.
    Boottime,
    /// Neither, or both: the stamps are not used.
    Unknown,
}

/// A driver's newest time stamp is no further from now than this on the clock that it is of.
const TIMESTAMP_AGE_US_MAX: u64 = 5_000_000;

impl TimestampDomain {
    /// Which clock a driver's newest time stamp is of: drivers give both microseconds since 1970
    /// (Syllo/nvtop#110) and since boot.
    #[must_use]
    pub const fn of(newest_us: u64, now: Stamp) -> Self {
        let is_wall = newest_us.abs_diff(now.wall.0) <= TIMESTAMP_AGE_US_MAX;
        let is_boot = newest_us.abs_diff(now.boot.0 / 1_000) <= TIMESTAMP_AGE_US_MAX;
        match (is_wall, is_boot) {
            (true, false) => Self::Realtime,
            (false, true) => Self::Boottime,
            (true, true) | (false, false) => Self::Unknown,
        }
    }
}

/// The GPU. Null is what the driver did not say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestGpu {
    /// Its UUID.
    pub uuid: GpuUuid,
    /// Its model.
    pub name: Option<String>,
    /// Its place in the driver's list.
    pub index: Option<u32>,
    /// Its place on the bus.
    pub pci: Option<String>,
    /// Whether it is cut into instances.
    pub mig: Option<bool>,
    /// Whether the driver stays loaded without users.
    pub persistence_mode: Option<bool>,
    /// Whether the driver accounts for processes.
    pub accounting_mode: Option<bool>,
    /// How much it may draw, in mW: curves under two limits are not compared.
    pub power_limit_mw: Option<u32>,
}

impl ManifestGpu {
    /// One of which nothing else is known.
    #[must_use]
    pub const fn new(uuid: GpuUuid) -> Self {
        Self {
            uuid,
            name: None,
            index: None,
            pci: None,
            mig: None,
            persistence_mode: None,
            accounting_mode: None,
            power_limit_mw: None,
        }
    }
}

/// Written first and replaced at the end. Null is what nobody could tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Whether the batch has an end.
    pub status: ManifestStatus,
    /// The name of its folder.
    pub batch_id: String,
    /// The three keys: what was asked as it began, the sums at the end.
    #[serde(flatten, skip_deserializing)]
    pub seed: Seed,
    /// When it began, on the wall clock.
    pub created_wall: String,
    /// The clock of every duration and stamp: always `boottime`.
    pub clock: String,
    /// What the clocks showed at the start and, once closed, at the end.
    pub wall_anchor: Vec<WallAnchor>,
    /// How right the wall clock was.
    pub clock_sync: ClockSync,
    /// Which boot.
    pub boot_id: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The recorder's version.
    pub gpu_ledger_version: String,
    /// The SHA-256 of the recorder's binary.
    pub binary_sha256: Option<String>,
    /// The driver's version.
    pub driver_version: Option<String>,
    /// Its library's.
    pub nvml_version: Option<String>,
    /// One GPU.
    pub gpus: Vec<ManifestGpu>,
    /// P, Q, the cap and the rest.
    #[serde(flatten, skip_deserializing)]
    pub settings: Settings,
    /// How long each window was meant to be; null: until its end is asked for.
    pub requested_duration_ms: Option<Length>,
    /// How many windows the batch was to have.
    pub iterations_planned: u64,
    /// What was to be done when one of them was void.
    pub on_void: OnVoid,
    /// The order in which fields are asked for.
    pub field_order: Vec<FieldName>,
    /// The driver's own window behind each field: what a fresh query can still tell of.
    pub source_window_ms: SourceWindows,
    /// Which clock the driver's time stamps are of.
    pub nvml_timestamp_domain: TimestampDomain,
    /// Whether an acceptance run of the same harness has passed.
    pub harness_verified: bool,
    /// Which one ([`Manifest::verification_id`]).
    pub harness_verification_id: Option<String>,
    /// The user's command, without its secrets; empty: none.
    pub command: Vec<String>,
    /// What the batch is of; a window may have labels of its own.
    pub labels: Labels,
    /// Other recorders of this product that ran on the GPU as it began: each adds to the driver's load.
    pub other_recorders: Option<u64>,
}

/// The windows of all fields, in ms, or `driver` where it does not say.
pub type SourceWindows = std::collections::BTreeMap<FieldName, SourceWindow>;

/// The window of a field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SourceWindow {
    /// From the shortest to the longest.
    Known([u64; 2]),
    /// `driver`: it does not say.
    Driver(String),
}

fn source_windows() -> SourceWindows {
    let window = |name: FieldName| {
        let window = match name.source_window_ms() {
            Some((shortest, longest)) => SourceWindow::Known([shortest, longest]),
            None => SourceWindow::Driver("driver".to_owned()),
        };
        (name, window)
    };
    FieldName::ORDER.map(window).into_iter().collect()
}

/// A name for a batch that begins now: names sort by time, and two recorders do not choose the same.
#[must_use]
pub fn batch_id(wall: WallUs) -> String {
    let second = rfc3339(wall);
    let second = second.split('.').next().unwrap_or_default();
    let digits: String = second.chars().filter(|letter| *letter != '-' && *letter != ':').collect();
    let mut random = [0; 4];
    // Without it two recorders of one second may meet; the second one is then refused its folder.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    format!("{digits}Z-{}", hex(&random))
}

/// Whether a folder is called as a batch is.
pub(super) fn is_batch_id(name: &str) -> bool {
    let Some((time, random)) = name.split_once("Z-") else { return false };
    let digits = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let (day, second) = time.split_once('T').unwrap_or_default();
    digits(day, 8) && digits(second, 6) && digits(random, 8)
}

impl Manifest {
    /// Of a batch that begins at `now`. What the caller knows more goes into the fields.
    #[must_use]
    pub fn new(now: Stamp, gpu: ManifestGpu, settings: Settings) -> Self {
        let start = WallAnchor { boottime_ns: now.boot, realtime_us: now.wall };
        Self {
            schema_version: SCHEMA_VERSION,
            status: ManifestStatus::Open,
            batch_id: batch_id(now.wall),
            seed: Seed::default(),
            created_wall: rfc3339(now.wall),
            clock: "boottime".to_owned(),
            wall_anchor: vec![start],
            clock_sync: ClockSync { state: ClockSyncState::Unknown, est_error_ms: None },
            boot_id: None,
            kernel: None,
            gpu_ledger_version: env!("CARGO_PKG_VERSION").to_owned(),
            binary_sha256: None,
            driver_version: None,
            nvml_version: None,
            gpus: vec![gpu],
            settings,
            requested_duration_ms: None,
            iterations_planned: 1,
            on_void: OnVoid::Stop,
            field_order: FieldName::ORDER.to_vec(),
            source_window_ms: source_windows(),
            nvml_timestamp_domain: TimestampDomain::Unknown,
            harness_verified: false,
            harness_verification_id: None,
            command: Vec::new(),
            labels: Labels::default(),
            other_recorders: None,
        }
    }

    /// Names the harness: the same binary, driver, kernel, GPUs, periods, cap and gate. `None` where any of
    /// them is not known, which no acceptance run can stand for.
    #[must_use]
    pub fn verification_id(&self) -> Option<String> {
        let (binary, driver) = (self.binary_sha256.as_ref()?, self.driver_version.as_ref()?);
        let mut parts = vec![binary.as_str(), driver, self.kernel.as_ref()?];
        parts.extend(self.gpus.iter().map(|gpu| &*gpu.uuid.0));
        let Settings { period, timeline_period, cap, .. } = &self.settings;
        let lengths = [period, timeline_period, cap].map(|length| length.0.to_string());
        parts.extend(lengths.iter().map(String::as_str));
        // A run that was held against points alone stands for no other.
        parts.push(match self.settings.age_gate {
            AgeGate::Both => "both",
            AgeGate::Points => "points",
        });
        serde_json::to_vec(&parts).ok().map(|bytes| sha256(&bytes))
    }

    /// As the file has it.
    pub(super) fn text(&self, path: &Path) -> Result<String, FilesError> {
        pretty(path, self)
    }

    /// The manifest of a batch whose windows were these.
    pub(super) fn closed(&self, iterations: &[Iteration]) -> Self {
        let mut closed = self.clone();
        closed.status = ManifestStatus::Closed;
        let sums = Iteration::seed_of_all(iterations);
        if !iterations.is_empty() {
            closed.seed.gpu_cli_subprocess_used = sums.gpu_cli_subprocess_used;
        }
        closed.seed.gpu_deadline_recovery_count = sums.gpu_deadline_recovery_count;
        closed.wall_anchor.truncate(1);
        let last =
            iterations.iter().rev().find_map(|iteration| iteration.derived.as_ref()?.last_anchor);
        closed.wall_anchor.extend(last);
        closed
    }

    /// Reads one, and what it says under the three keys, which need not be right.
    pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<(Self, Said), FilesError> {
        let wrong = |error: serde_json::Error| FilesError::document(path, &error);
        let mut keys: Keys = serde_json::from_slice(bytes).map_err(wrong)?;
        let said = Said::take(&mut keys);
        // First of all: what another version wrote has other fields.
        let version = keys.get("schema_version").map(|raw| raw.get());
        if version != Some(SCHEMA_VERSION.to_string().as_str()) {
            let why = format!(
                "schema_version {}: recorded by another version of gpu-ledger, and this one reads {SCHEMA_VERSION}; \
                 the version that recorded it (gpu_ledger_version {}) verifies it",
                version.unwrap_or("is missing"),
                keys.get("gpu_ledger_version").map_or("is missing", |raw| raw.get()),
            );
            return Err(FilesError::document(path, &why));
        }
        // Settings hold decimals as they are written, which a flattened reader cannot hand on.
        let known: Keys = serde_json::to_string(&Settings::default())
            .and_then(|text| serde_json::from_str(&text))
            .map_err(wrong)?;
        let (settings, rest): (Keys, Keys) =
            keys.into_iter().partition(|(key, _)| known.contains_key(key));
        let text = |keys: &Keys| serde_json::to_string(keys).map_err(wrong);
        let mut manifest: Self = serde_json::from_str(&text(&rest)?).map_err(wrong)?;
        manifest.settings = serde_json::from_str(&text(&settings)?).map_err(wrong)?;
        manifest.seed = said.seed();
        manifest
            .settings
            .check(manifest.requested_duration_ms)
            .map_err(|error| FilesError::document(path, &error))?;
        Ok((manifest, said))
    }
}

#[cfg(test)]
mod tests {
    use super::{BootNs, Stamp, TimestampDomain, WallUs};

    #[test]
    fn a_time_stamp_is_of_the_clock_that_it_alone_is_near_to() {
        let now = Stamp {
            boot: BootNs(100_000_000_000),
            mono_ns: 90_000_000_000,
            wall: WallUs(1_790_000_000_000_000),
        };
        for (newest_us, domain) in [
            (1_790_000_000_000_000, TimestampDomain::Realtime),
            (1_789_999_995_000_000, TimestampDomain::Realtime),
            (1_789_999_994_999_999, TimestampDomain::Unknown),
            (100_000_000, TimestampDomain::Boottime),
            (94_999_999, TimestampDomain::Unknown),
            (0, TimestampDomain::Unknown),
        ] {
            assert_eq!(TimestampDomain::of(newest_us, now), domain, "{newest_us}");
        }
        // A wall clock that begins at boot cannot be told from the other.
        let now = Stamp { wall: WallUs(101_000_000), ..now };
        assert_eq!(TimestampDomain::of(100_000_000, now), TimestampDomain::Unknown);
    }
}
