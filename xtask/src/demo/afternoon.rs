//! The made-up afternoon: which programs run when, as a plan, and the processes that play it.
//!
//! The plan is pure and the same at every run; only the kernel decides the pids. Every job is a
//! real process with a real name (a link to the simulated driver's workload), so that what traces
//! it sees real execs, forks and exits.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::system::{elapsed_ms, monotonic_ms, program};

/// Speech jobs of the whole afternoon.
pub(super) const SPEECH_JOBS: u64 = 200;
/// Shortest and longest speech job.
pub(super) const SPEECH_MS: (u64, u64) = (5, 700);
/// How often the afternoon looks for jobs that ended.
const REAP_EVERY: Duration = Duration::from_millis(20);
/// A resident holds its GPU this long, unless somebody ends it: long after every demo is over.
const RESIDENT_MS: u64 = 3_600_000;
/// Failed jobs that are named; the rest is counted.
const FAILURES_NAMED_MAX: usize = 3;

/// Names that the workload goes by; `ollama` is this program itself.
pub(super) const WORKLOADS: [&str; 6] =
    ["comfyui", "gunicorn", "jupyter-kernel", "llama-server", "whisper-cli", "xtts-server"];
/// The name of the server that starts and reaps `llama-server`.
pub(super) const LLM_SERVER: &str = "ollama";

/// How long the afternoon is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Length {
    /// 36 s.
    Whole,
    /// 10 s, with fewer jobs of the same real lengths.
    Fast,
}

impl Length {
    pub(super) const fn of(fast: bool) -> Self {
        if fast { Self::Fast } else { Self::Whole }
    }

    /// From the first job's possible start to the last one's.
    pub(super) const fn ms(self) -> u64 {
        match self {
            Self::Whole => 36_000,
            Self::Fast => 10_000,
        }
    }

    /// What stands for one minute of the cron job.
    pub(super) const fn minute_ms(self) -> u64 {
        match self {
            Self::Whole => 3_000,
            Self::Fast => 1_000,
        }
    }

    /// `ms` of the whole afternoon, as much of a shorter one.
    const fn scale(self, ms: u64) -> u64 {
        ms * self.ms() / Self::Whole.ms()
    }
}

/// One start of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Act {
    /// Since the afternoon began.
    pub(super) at_ms: u64,
    /// A name from [`WORKLOADS`], or [`LLM_SERVER`].
    pub(super) program: &'static str,
    pub(super) words: Vec<String>,
    /// Never exits by itself, so nobody waits for it.
    pub(super) resident: bool,
}

/// One model that the LLM server has loaded for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Model {
    /// Nothing is loaded for so long before.
    pub(super) after_ms: u64,
    /// Then a worker holds the GPU for so long; none: it stays warm to the end.
    pub(super) loaded_ms: Option<u64>,
    pub(super) memory_mib: u64,
}

fn job(at_ms: u64, program: &'static str, words: &str) -> Act {
    let words = std::iter::once("work").chain(words.split_whitespace());
    Act { at_ms, program, words: words.map(str::to_owned).collect(), resident: false }
}

/// The process that holds a GPU before accounting is turned on: it never gets a row.
pub(super) fn older_than_accounting() -> Act {
    let words = format!("--gpu 1 --ms {RESIDENT_MS} --mem-mib 1400");
    Act { resident: true, ..job(0, "jupyter-kernel", &words) }
}

/// What the traced command runs, by time.
pub(super) fn traced(length: Length) -> Vec<Act> {
    let server = Act { at_ms: 0, program: LLM_SERVER, words: Vec::new(), resident: true };
    let mut acts = vec![server];
    acts.extend(speech_jobs(length));
    // A prefork server: the worker that holds the GPU never execs. Its dead rows also let a reader
    // prove that nothing was evicted on the second GPU, where the reopening job replaces its own.
    let (waves, apart_ms) = match length {
        Length::Whole => (8, 4_200),
        Length::Fast => (3, 2_500),
    };
    for wave in 0..waves {
        let at_ms = 1_500 + wave * apart_ms;
        let words = format!("--fork --gpu 1 --ms {} --mem-mib 900", 700 + wave * 170);
        acts.push(job(at_ms, "gunicorn", &words));
    }
    acts.sort_by_key(|act| act.at_ms);
    acts
}

/// What the rest of the host runs meanwhile, by time.
pub(super) fn host(length: Length) -> Vec<Act> {
    // One process, several contexts. Each is as long as several reads of the driver are apart:
    // the driver keeps one dead row per pid, so a context's row is gone when the next one closes.
    let contexts = match length {
        Length::Whole => 5,
        Length::Fast => 2,
    };
    let reopening = format!("--gpu 1 --ms 2600 --mem-mib 6200 --reopen {contexts}");
    let voice = format!("--gpu 1 --ms {RESIDENT_MS} --mem-mib 3400");
    vec![
        job(length.scale(8_000), "comfyui", &reopening),
        Act { resident: true, ..job(length.scale(12_000), "xtts-server", &voice) },
    ]
}

/// The models that the LLM server swaps.
pub(super) fn models(length: Length) -> Vec<Model> {
    let swap = |after_ms, loaded_ms, memory_mib| Model {
        after_ms: length.scale(after_ms),
        loaded_ms: Some(length.scale(loaded_ms)),
        memory_mib,
    };
    vec![
        swap(400, 7_000, 5_378),
        swap(2_000, 8_500, 14_200),
        swap(2_500, 6_000, 5_378),
        Model { loaded_ms: None, ..swap(2_000, 0, 22_016) },
    ]
}

fn speech_jobs(length: Length) -> Vec<Act> {
    let count = length.scale(SPEECH_JOBS * 1_000) / 1_000;
    let mut numbers = Numbers(0x5151);
    let last_ms = length.ms() - 2 * SPEECH_MS.1;
    let mut acts = Vec::new();
    for number in 0..count {
        // The two ends of the range are always among them.
        let ms = match number {
            0 => SPEECH_MS.0,
            1 => SPEECH_MS.1,
            _ => numbers.between(SPEECH_MS.0, SPEECH_MS.1),
        };
        let words = format!("--gpu 0 --ms {ms} --mem-mib 178");
        acts.push(job(numbers.between(200, last_ms), "whisper-cli", &words));
    }
    acts
}

/// A fixed sequence of numbers (SplitMix64): the same afternoon every time.
struct Numbers(u64);

impl Numbers {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (word ^ (word >> 31)) % (high - low + 1)
    }
}

/// Plays acts from a folder of programs: starts each at its time, reaps what ends, and returns when
/// all but the residents have. `more` is appended to the words of the LLM server.
pub(super) fn play(acts: &[Act], folder: &Path, more: &[String]) -> anyhow::Result<()> {
    let begin = monotonic_ms();
    let mut running: Vec<(Child, &Act)> = Vec::new();
    let mut failures = Vec::new();
    for act in acts {
        while let Some(left @ 1..) = act.at_ms.checked_sub(elapsed_ms(begin)) {
            reap(&mut running, &mut failures)?;
            std::thread::sleep(REAP_EVERY.min(Duration::from_millis(left)));
        }
        let child = start(act, folder, more)?;
        if !act.resident {
            running.push((child, act));
        }
    }
    while !running.is_empty() {
        reap(&mut running, &mut failures)?;
        std::thread::sleep(REAP_EVERY);
    }
    if failures.is_empty() {
        return Ok(());
    }
    let count = failures.len();
    failures.truncate(FAILURES_NAMED_MAX);
    bail!("{count} jobs of the afternoon failed, such as: {}", failures.join("; "))
}

/// Starts one act's program. It reads nothing and says nothing but on stderr.
pub(super) fn start(act: &Act, folder: &Path, more: &[String]) -> anyhow::Result<Child> {
    let path = folder.join(act.program);
    let more = if act.program == LLM_SERVER { more } else { &[] };
    program(&path)
        .args(&act.words)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", path.display()))
}

fn reap(running: &mut Vec<(Child, &Act)>, failures: &mut Vec<String>) -> anyhow::Result<()> {
    let mut still = Vec::new();
    for (mut child, act) in running.drain(..) {
        match child.try_wait()? {
            None => still.push((child, act)),
            Some(status) if status.success() => {}
            Some(status) => {
                failures.push(format!("{} {}: {status}", act.program, act.words.join(" ")));
            }
        }
    }
    *running = still;
    Ok(())
}

/// The LLM server: itself immortal and without a GPU, it loads a model by starting a worker and
/// swaps it by ending and reaping the worker. The last one stays warm.
pub(super) fn serve_models(length: Length, folder: &Path) -> anyhow::Result<()> {
    for model in models(length) {
        std::thread::sleep(Duration::from_millis(model.after_ms));
        let words = format!("--gpu 0 --ms {RESIDENT_MS} --mem-mib {}", model.memory_mib);
        let mut worker = start(&job(0, "llama-server", &words), folder, &[])?;
        if let Some(loaded_ms) = model.loaded_ms {
            std::thread::sleep(Duration::from_millis(loaded_ms));
            let pid = rustix::process::Pid::from_child(&worker);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        let status = worker.wait()?;
        if status.success() || status.code().is_some() {
            bail!("llama-server ended by itself ({status}); is the simulated driver running?");
        }
    }
    Ok(())
}

/// The words that make a link to this program the LLM server.
pub(super) fn llm_server_words(folder: &Path, fast: bool) -> Vec<String> {
    let mut words = vec!["demo-role".to_owned(), "llm-server".to_owned(), "--programs".to_owned()];
    words.push(PathBuf::from(folder).to_string_lossy().into_owned());
    words.extend(fast.then(|| "--fast".to_owned()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(act: &Act, option: &str) -> u64 {
        let at = act.words.iter().position(|word| word == option).unwrap();
        act.words[at + 1].parse().unwrap()
    }

    #[test]
    fn the_afternoon_has_two_hundred_short_speech_jobs_and_both_ends_of_their_range() {
        let acts = traced(Length::Whole);
        let lengths: Vec<u64> = acts
            .iter()
            .filter(|act| act.program == "whisper-cli")
            .map(|act| value_of(act, "--ms"))
            .collect();
        assert_eq!(lengths.len(), 200);
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&5), Some(&700)));
    }

    #[test]
    fn acts_are_played_by_time_and_end_within_the_afternoon() {
        for length in [Length::Whole, Length::Fast] {
            for acts in [traced(length), host(length)] {
                assert!(acts.is_sorted_by_key(|act| act.at_ms));
                for act in acts.iter().filter(|act| !act.resident) {
                    let contexts = act.words.iter().any(|word| word == "--reopen");
                    let contexts = if contexts { value_of(act, "--reopen") } else { 1 };
                    let ends_ms = act.at_ms + contexts * value_of(act, "--ms");
                    assert!(ends_ms + 500 <= length.ms(), "{act:?}");
                }
            }
        }
    }

    #[test]
    fn every_program_of_the_plan_is_one_that_is_laid_out() {
        let all = traced(Length::Whole).into_iter().chain(host(Length::Whole));
        for act in all.chain([older_than_accounting()]) {
            assert!(WORKLOADS.contains(&act.program) || act.program == LLM_SERVER, "{act:?}");
        }
    }

    #[test]
    fn models_are_swapped_and_the_last_one_stays_warm_before_the_afternoon_ends() {
        for length in [Length::Whole, Length::Fast] {
            let models = models(length);
            let (last, swapped) = models.split_last().unwrap();
            assert!(last.loaded_ms.is_none() && swapped.iter().all(|one| one.loaded_ms.is_some()));
            let loads = models.iter().map(|one| one.after_ms + one.loaded_ms.unwrap_or(0));
            assert!(loads.sum::<u64>() + 2_000 <= length.ms());
        }
    }

    #[test]
    fn a_contexts_row_stays_readable_for_several_reads() {
        for length in [Length::Whole, Length::Fast] {
            let acts = host(length);
            let reopening = acts.iter().find(|act| act.program == "comfyui").unwrap();
            assert!(value_of(reopening, "--reopen") > 1 && value_of(reopening, "--ms") >= 2_000);
        }
    }
}
