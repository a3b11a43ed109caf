//! The faults in force, and doing what a fault says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::{Server, ServerError};
use crate::fault::{Calls, Change, Disabled, EmptyList, Fault, Gpus};

/// `NVML_ERROR_DRIVER_NOT_LOADED`.
const DRIVER_NOT_LOADED: u32 = 9;
/// `NVML_ERROR_GPU_NOT_FOUND`.
const GPU_NOT_FOUND: u32 = 28;
/// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`.
const VERSION_MISMATCH: u32 = 25;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Answered so many milliseconds late.
    Delay(u64),
    /// Not answered until healed.
    Hang,
    /// Answered with this code.
    Code(u32),
}

#[derive(Debug)]
struct Rule {
    calls: Calls,
    action: Action,
}

/// A way in which the driver may be switched to answer unlike usual.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Oddity {
    ContainerView,
    NotRoot,
    EmptyListIsInsufficient,
    DisabledAsDocumented,
    DriverNotLoaded,
    NoGpu,
    Sentinels,
    NoStartTime,
    OddMode,
    LongerRows,
}

/// Everything that is switched away from the driver's usual behaviour.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    /// What to do after the next answer to a call: (symbol, words).
    after: Vec<(String, Vec<String>)>,
    /// Lost GPUs, with the number of calls that still succeed.
    lost: BTreeMap<u32, u64>,
    oddities: BTreeSet<Oddity>,
    pub(super) version_code: u32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            after: Vec::new(),
            lost: BTreeMap::new(),
            oddities: BTreeSet::new(),
            version_code: VERSION_MISMATCH,
        }
    }
}

/// The faults that switch one oddity.
fn oddity(fault: &Fault) -> Option<(Oddity, bool)> {
    Some(match fault {
        Fault::ContainerView { switch } => (Oddity::ContainerView, switch.is_on()),
        Fault::NotRoot { switch } => (Oddity::NotRoot, switch.is_on()),
        Fault::DriverNotLoaded { switch } => (Oddity::DriverNotLoaded, switch.is_on()),
        Fault::NoGpu { switch } => (Oddity::NoGpu, switch.is_on()),
        Fault::Sentinels { switch } => (Oddity::Sentinels, switch.is_on()),
        Fault::NoStartTime { switch } => (Oddity::NoStartTime, switch.is_on()),
        Fault::OddMode { switch } => (Oddity::OddMode, switch.is_on()),
        Fault::LongerRows { switch } => (Oddity::LongerRows, switch.is_on()),
        Fault::EmptyList { answer } => {
            (Oddity::EmptyListIsInsufficient, *answer == EmptyList::Insufficient)
        }
        Fault::Disabled { behaviour } => {
            (Oddity::DisabledAsDocumented, *behaviour == Disabled::Documented)
        }
        _ => return None,
    })
}

fn matches(pattern: &str, symbol: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => symbol.starts_with(beginning),
        None => pattern == symbol,
    }
}

impl Faults {
    pub(super) fn has(&self, oddity: Oddity) -> bool {
        self.oddities.contains(&oddity)
    }

    fn switch(&mut self, oddity: Oddity, on: bool) {
        if on {
            self.oddities.insert(oddity);
        } else {
            self.oddities.remove(&oddity);
        }
    }

    /// What becomes of this call: the first rule that fits and is not used up.
    pub(super) fn action(&mut self, symbol: &str, gpu: u32) -> Option<Action> {
        let fits = |rule: &Rule| {
            matches(&rule.calls.call, symbol) && rule.calls.gpu.is_none_or(|only| only == gpu)
        };
        let place = self.rules.iter().position(fits)?;
        let rule = self.rules.get_mut(place)?;
        if rule.calls.after > 0 {
            rule.calls.after -= 1;
            return None;
        }
        let action = rule.action;
        if let Some(times) = &mut rule.calls.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.rules.remove(place);
            }
        }
        Some(action)
    }

    /// Takes what is to be done after an answer to this call.
    pub(super) fn take_after(&mut self, symbol: &str) -> Vec<Vec<String>> {
        if self.after.is_empty() {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.after);
        let (now, later): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(call, _)| matches(call, symbol));
        self.after = later;
        now.into_iter().map(|(_, words)| words).collect()
    }

    /// Whether this call for the GPU fails because the GPU is lost.
    pub(super) fn is_lost(&mut self, gpu: u32) -> bool {
        let Some(passing) = self.lost.get_mut(&gpu) else { return false };
        if *passing == 0 {
            return true;
        }
        *passing -= 1;
        false
    }

    /// Why nobody can initialise, if so.
    pub(super) fn init_code(&self) -> Option<u32> {
        if self.has(Oddity::DriverNotLoaded) {
            Some(DRIVER_NOT_LOADED)
        } else if self.has(Oddity::NoGpu) {
            Some(GPU_NOT_FOUND)
        } else {
            None
        }
    }
}

impl Server {
    /// Does what the words say. The text that comes back is what the fault prints.
    pub(super) fn apply_words(&mut self, words: &[String]) -> Result<String, String> {
        let fault = Fault::parse(words).map_err(|error| error.to_string())?;
        self.apply(fault)
    }

    fn apply(&mut self, fault: Fault) -> Result<String, String> {
        match fault {
            Fault::Delay { calls, delay_ms } => self.rule(calls, Action::Delay(delay_ms)),
            Fault::Hang { calls } => self.rule(calls, Action::Hang),
            Fault::Code { calls, code } => self.rule(calls, Action::Code(code)),
            Fault::After { call, words } => {
                Fault::parse(&words).map_err(|error| error.to_string())?;
                self.faults.after.push((call, words));
            }
            Fault::ListChange { change, count, call, gpus } => {
                self.faults.after.push((call, change_words(change, count, &gpus)));
            }
            Fault::StructVersion { code } => self.faults.version_code = code,
            Fault::Heal => self.heal(),
            Fault::Pending => return Ok(self.faults.after.len().to_string()),
            Fault::Clients => {
                let pids: BTreeSet<u32> = self.clients.values().copied().collect();
                return Ok(pids.len().to_string());
            }
            Fault::State => return self.state(),
            fault => {
                let Some((oddity, on)) = oddity(&fault) else { return self.apply_to_gpus(fault) };
                self.faults.switch(oddity, on);
            }
        }
        Ok(String::new())
    }

    fn rule(&mut self, calls: Calls, action: Action) {
        self.faults.rules.push(Rule { calls, action });
    }

    fn heal(&mut self) {
        self.faults = Faults::default();
        for (token, call) in self.waiting.release() {
            self.answer_call(token, &call);
        }
    }

    fn apply_to_gpus(&mut self, fault: Fault) -> Result<String, String> {
        let now = self.now();
        match fault {
            Fault::Accounting { switch, gpus } => {
                for gpu in self.chosen(&gpus)? {
                    let device = self.gpus.get_mut(gpu).ok_or("no such GPU")?;
                    let set = device.set_accounting(switch.is_on(), now);
                    set.map_err(|refusal| refusal.to_string())?;
                }
            }
            Fault::GpuLost { switch, gpus, after } => {
                for gpu in self.chosen(&gpus)? {
                    let gpu = u32::try_from(gpu).map_err(|error| error.to_string())?;
                    if switch.is_on() {
                        self.faults.lost.insert(gpu, after);
                    } else {
                        self.faults.lost.remove(&gpu);
                    }
                }
            }
            Fault::Persistence { switch, gpus } => {
                for gpu in self.chosen(&gpus)? {
                    let board = self.boards.get_mut(gpu).ok_or("no such GPU")?;
                    board.persistence = switch.is_on();
                }
                self.tear_down_deserted();
            }
            Fault::Clear { gpus } => self.each(&gpus, crate::model::Gpu::clear)?,
            Fault::Reset { gpus } => self.each(&gpus, |gpu| gpu.teardown(now))?,
            Fault::Mig { switch, gpus } => {
                self.each(&gpus, |gpu| gpu.set_mig(switch.is_on(), now))?;
            }
            Fault::VgpuHost { switch, gpus } => {
                self.each(&gpus, |gpu| gpu.set_vgpu_host(switch.is_on()))?;
            }
            Fault::Evict { count, gpus } => {
                self.each(&gpus, |gpu| gpu.add_made_up_dead(count, now))?;
            }
            Fault::ChangeNow { change, count, gpus } => {
                self.each(&gpus, |gpu| match change {
                    Change::Grow => gpu.add_made_up_live(count, now),
                    Change::Shrink => gpu.shrink(count),
                })?;
            }
            Fault::Xid { number, gpus } => {
                for gpu in self.chosen(&gpus)? {
                    for (token, answer) in self.events.xid(gpu, number) {
                        self.send(token, &answer);
                    }
                }
            }
            other => return Err(format!("not for GPUs: {other:?}")),
        }
        for gpu in 0..self.gpus.len() {
            self.log_ended(gpu, None);
        }
        Ok(String::new())
    }

    fn each(
        &mut self,
        gpus: &Gpus,
        mut act: impl FnMut(&mut crate::model::Gpu),
    ) -> Result<(), String> {
        for gpu in self.chosen(gpus)? {
            act(self.gpus.get_mut(gpu).ok_or("no such GPU")?);
        }
        Ok(())
    }

    fn chosen(&self, gpus: &Gpus) -> Result<Vec<usize>, String> {
        let Some(only) = gpus.gpu else { return Ok((0..self.gpus.len()).collect()) };
        let only = usize::try_from(only).map_err(|error| error.to_string())?;
        if only >= self.gpus.len() {
            return Err("there is no such GPU".to_owned());
        }
        Ok(vec![only])
    }
}

/// A change of lists, in words that come due after a call.
fn change_words(change: Change, count: u64, gpus: &Gpus) -> Vec<String> {
    let word = match change {
        Change::Grow => "grow",
        Change::Shrink => "shrink",
    };
    let mut words = vec!["change-now".to_owned(), word.to_owned(), count.to_string()];
    if let Some(gpu) = gpus.gpu {
        words.extend(["--gpu".to_owned(), gpu.to_string()]);
    }
    words
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptLine {
    at_ms: u64,
    fault: Vec<String>,
}

/// Reads a script of faults: (milliseconds after the start, words).
pub(super) fn read_script(path: &Path) -> Result<Vec<(u64, Vec<String>)>, ServerError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| ServerError::System { what: format!("script {name}"), source })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(place, line)| {
        let problem =
            |problem: String| ServerError::Script { path: name.clone(), line: place + 1, problem };
        let line: ScriptLine =
            serde_json::from_str(line).map_err(|error| problem(error.to_string()))?;
        Fault::parse(&line.fault).map_err(|error| problem(error.to_string()))?;
        Ok((line.at_ms, line.fault))
    });
    read.collect()
}
