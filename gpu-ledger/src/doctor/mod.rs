//! Every prerequisite of this product, looked at: each with what was found and what to do.
//!
//! Purpose: what is missing is said before it is missed. May touch: procfs, sysfs, the driver, the state
//! directory, to look. May not: change anything, not even by making a file to see whether it can.

mod driver;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod host;
mod state;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::clock::Clock;
use crate::config::Config;
use crate::survey::{Survey, SurveyOptions};
use crate::unit::GpuUuid;
use crate::unknown::UnknownReason;

pub use text::render;

/// What to do about what the driver cannot say.
#[must_use]
pub const fn remedy_of(reason: UnknownReason) -> &'static str {
    driver::remedy(reason)
}

/// What to do where the accounting mode goes with the last client.
#[must_use]
pub const fn persistence_remedy() -> &'static str {
    driver::PERSISTENCE_REMEDY
}

/// The word in the `format` field.
pub const FORMAT: &str = "gpu-ledger-doctor";
/// The number in the `version` field; raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// How something stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Works, with something to know.
    Warn,
    /// Without it something will not be known.
    Missing,
    /// Cannot be told from here.
    Unknown,
}

impl Status {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a check is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The kernel, and what this process may do.
    Host,
    /// The driver and its library.
    Driver,
    /// One GPU.
    Gpu,
    /// The journal's folder, and the configuration.
    State,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// What it is about.
    pub area: Area,
    /// Its name, kebab-case, for other programs.
    pub check: &'static str,
    /// Which GPU; null for all others.
    pub gpu: Option<GpuUuid>,
    /// How it stands.
    pub status: Status,
    /// What was seen: the cause, where something is amiss.
    pub cause: String,
    /// What to do; null where nothing is to be done.
    pub remedy: Option<String>,
    /// The reason that the product will give for what it cannot know; null where it has none.
    pub reason: Option<UnknownReason>,
}

impl Check {
    fn new(area: Area, check: &'static str, status: Status, cause: impl Into<String>) -> Self {
        // Names of strangers (a path, a group) may be in it.
        let cause = crate::escape::escape(cause.into().as_bytes()).to_string();
        Self { area, check, gpu: None, status, cause, remedy: None, reason: None }
    }

    fn ok(area: Area, check: &'static str, found: impl Into<String>) -> Self {
        Self::new(area, check, Status::Ok, found)
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(crate::escape::escape(remedy.into().as_bytes()).to_string());
        self
    }

    fn of_gpu(mut self, gpu: &GpuUuid) -> Self {
        self.gpu = Some(gpu.clone());
        self
    }

    fn with_reason(mut self, reason: UnknownReason) -> Self {
        self.reason = Some(reason);
        self
    }
}

/// A GPU as people call it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GpuName {
    /// Its UUID.
    pub uuid: GpuUuid,
    /// Where it enumerates.
    pub index: u32,
    /// The product; null where the driver does not say.
    pub name: Option<String>,
}

/// How many checks stand how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// [`Status::Ok`].
    pub ok: usize,
    /// [`Status::Warn`].
    pub warn: usize,
    /// [`Status::Missing`].
    pub missing: usize,
    /// [`Status::Unknown`].
    pub unknown: usize,
}

/// Everything that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DoctorReport {
    /// [`FORMAT`].
    pub format: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// `real` or `simulated`; null where no driver answered.
    pub driver: Option<&'static str>,
    /// Driver version; null where no driver answered, or it does not say.
    pub driver_version: Option<String>,
    /// The journal's folder that was looked at.
    pub state_dir: String,
    /// How the checks stand.
    pub counts: Counts,
    /// The GPUs that the driver shows.
    pub gpus: Vec<GpuName>,
    /// The checks.
    pub checks: Vec<Check>,
    /// What stays invisible even where everything is well.
    pub invisible: &'static [&'static str],
}

/// What no prerequisite changes.
pub const INVISIBLE: &[&str] = &[
    "a span opened and replaced within one read interval by the same pid: the driver keeps one \
     dead row per pid",
    "what a process held before accounting was on: it has no row, and never will",
    "what a process does while it holds a GPU: busy is sampled by the driver",
];

impl DoctorReport {
    /// Whether nothing is missing and nothing unknown.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.counts.missing == 0 && self.counts.unknown == 0
    }
}

/// What to look at.
#[derive(Clone, Debug)]
pub struct DoctorOptions {
    /// The configuration file; the default one, where it exists, otherwise.
    pub config: Option<PathBuf>,
    /// The journal's folder, instead of the configured one.
    pub state_dir: Option<PathBuf>,
    /// The library, instead of the configured one.
    pub nvml_library: Option<PathBuf>,
    /// The clocks.
    pub clock: Clock,
}

/// Looks at everything.
pub async fn examine(options: DoctorOptions) -> DoctorReport {
    let (mut checks, clock) = (Vec::new(), options.clock);
    let (config, file) = configuration(options.config.as_deref());
    checks.extend(host::checks(Path::new("/proc"), Path::new("/sys"), config.device_touch));
    let survey = Survey::take(SurveyOptions {
        library: options.nvml_library.or_else(|| config.nvml_library.clone()),
        call_deadline: config.call_deadline,
        clock: clock.clone(),
    })
    .await;
    let (mut kind, mut version, mut gpus) = (None, None, Vec::new());
    match &survey {
        Ok(survey) => {
            kind = Some(survey.facts.kind.as_str());
            version = survey.facts.version.clone().ok();
            gpus = survey.gpus.iter().map(|gpu| name_of(&gpu.facts)).collect();
            checks.extend(driver::checks(&survey.facts, &survey.gpus));
        }
        Err(unknown) => checks.push(driver::unreadable(unknown)),
    }
    let state_dir = options.state_dir.unwrap_or_else(|| config.state_dir.clone());
    checks.push(file);
    checks.extend(state::daemon(&config));
    checks.push(state::names(config.names_socket.as_deref(), &clock));
    checks.extend(state::checks(&state_dir));
    DoctorReport {
        format: FORMAT,
        version: VERSION,
        driver: kind,
        driver_version: version,
        state_dir: crate::escape::escape(state_dir.as_os_str().as_encoded_bytes()).to_string(),
        counts: count(&checks),
        gpus,
        checks,
        invisible: INVISIBLE,
    }
}

/// The configuration, and how its file stands. A wrong file stops the daemon and not the doctor.
fn configuration(path: Option<&Path>) -> (Config, Check) {
    let check = "configuration";
    let named = path.unwrap_or(Path::new(crate::config::CONFIG_DEFAULT));
    match Config::read_or_default(path) {
        Ok(config) if path.is_some() || named.exists() => {
            (config, Check::ok(Area::State, check, named.display().to_string()))
        }
        Ok(config) => {
            let found = format!("defaults: there is no {}", named.display());
            (config, Check::ok(Area::State, check, found))
        }
        Err(error) => {
            let found = Check::new(Area::State, check, Status::Missing, error.to_string());
            let remedy = "correct the file: the daemon does not start with it; looked at below \
                          are the defaults";
            (Config::default(), found.with_remedy(remedy))
        }
    }
}

fn name_of(facts: &crate::accounting::driver::GpuFacts) -> GpuName {
    let name = facts.name.known();
    let name = name.map(|name| crate::escape::escape(name.as_bytes()).to_string());
    GpuName { uuid: facts.uuid.clone(), index: facts.index, name }
}

fn count(checks: &[Check]) -> Counts {
    let of = |status| checks.iter().filter(|check| check.status == status).count();
    Counts {
        ok: of(Status::Ok),
        warn: of(Status::Warn),
        missing: of(Status::Missing),
        unknown: of(Status::Unknown),
    }
}
