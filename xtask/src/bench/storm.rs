//! The storm: very many very short processes, each known by its pid.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::guard::Guarded;

/// No storm of a size that makes sense takes longer.
const STORM_LIMIT: Duration = Duration::from_mins(30);
/// The name of a storm's process: its `comm`, and the file name in what tracers print.
pub(super) const PROCESS_NAME: &str = "gl-brief";

/// The C programs of the benchmark, built.
pub(super) struct Programs {
    folder: PathBuf,
}

/// How a storm blows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) processes: u64,
    pub(super) workers: u64,
    /// Starts a second; 0 is as fast as it goes.
    pub(super) rate: u64,
    /// Starts timed apart, all on one CPU; 0 for none. Needs one worker.
    pub(super) chunk: u64,
}

/// What the storm says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Blown {
    pub(super) chunks_ns: Vec<u64>,
    processes: u64,
    failed: u64,
    pub(super) elapsed_ns: u64,
    /// CPU time of the storm and all its processes, what tracers do in them included.
    pub(super) cpu_ns: u64,
}

/// How many processes of a storm bore each pid: pids come round again in a long storm.
pub(super) type Pids = BTreeMap<u32, u64>;

impl Programs {
    /// Compiles them into `folder`.
    pub(super) fn build(folder: &Path) -> anyhow::Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench/c");
        let compile = |flags: &[&str], from: &str, to: &str| -> anyhow::Result<()> {
            let status = Command::new("cc")
                .args(["-Wall", "-Wextra", "-Werror"])
                .args(flags)
                .arg("-o")
                .arg(folder.join(to))
                .arg(source.join(from))
                .status()
                .context("cannot start the C compiler `cc`: apt-get install gcc libc6-dev")?;
            ensure!(status.success(), "`cc` cannot compile {from}: {status}");
            Ok(())
        };
        compile(&["-Os", "-static", "-nostdlib"], "brief.c", PROCESS_NAME)?;
        compile(&["-O2"], "storm.c", "storm")?;
        compile(&["-O2"], "cpuclock.c", "cpuclock")?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Lets a storm blow; `while_it_blows` is called again and again until it is over.
    pub(super) fn blow(
        &self,
        shape: &Shape,
        mut while_it_blows: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<(Blown, Pids)> {
        let said = self.folder.join("storm.json");
        let pids = self.folder.join("storm.pids");
        let file = fs::File::create(&said).context("cannot create the storm's output")?;
        let mut storm = Guarded::start(
            Command::new(self.folder.join("storm"))
                .arg(self.folder.join(PROCESS_NAME))
                .arg("storm")
                .args(
                    [shape.processes, shape.workers, shape.rate, shape.chunk]
                        .map(|n| n.to_string()),
                )
                .arg(&pids)
                .stdin(Stdio::null())
                .stdout(file),
        )?;
        let mut slices = 0;
        let status = loop {
            while_it_blows()?;
            if let Some(status) = storm.wait(Duration::from_millis(20))? {
                break status;
            }
            slices += 1;
            ensure!(slices < STORM_LIMIT.as_millis() / 20, "the storm does not end");
        };
        ensure!(status.success(), "the storm failed: {status}; is a limit on processes too low?");
        let blown: Blown =
            serde_json::from_str(&fs::read_to_string(said)?).context("the storm's own report")?;
        ensure!(blown.failed == 0, "{} processes of the storm failed", blown.failed);
        ensure!(blown.processes == shape.processes, "the storm was of another size");
        Ok((blown, count_pids(&fs::read(pids)?)?))
    }

    /// CPU time that each process used so far, in nanoseconds, summed.
    pub(super) fn cpu_ns(&self, pid: u32) -> anyhow::Result<u64> {
        let output = Command::new(self.folder.join("cpuclock"))
            .arg(pid.to_string())
            .stdin(Stdio::null())
            .output()
            .context("cannot start cpuclock")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "no CPU clock of process {pid}: {}", error.trim_end());
        let text = String::from_utf8(output.stdout)?;
        text.trim_end().parse().with_context(|| format!("cpuclock printed {text}"))
    }
}

/// Counts the pids that the storm wrote down.
fn count_pids(bytes: &[u8]) -> anyhow::Result<Pids> {
    let (pids, rest) = bytes.as_chunks::<4>();
    ensure!(rest.is_empty(), "the storm's list of pids is cut");
    let mut counts = Pids::new();
    for pid in pids {
        *counts.entry(u32::from_ne_bytes(*pid)).or_insert(0) += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_that_came_round_again_is_counted_twice() {
        let bytes: Vec<u8> = [7_u32, 9, 7].iter().flat_map(|pid| pid.to_ne_bytes()).collect();
        assert_eq!(count_pids(&bytes).unwrap(), Pids::from([(7, 2), (9, 1)]));
        assert!(count_pids(&bytes[..11]).is_err());
    }

    #[test]
    fn a_storm_starts_what_it_was_asked_for_and_times_its_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs::build(folder.path()).unwrap();
        let shape = Shape { processes: 60, workers: 1, rate: 0, chunk: 20 };
        let (blown, pids) = programs.blow(&shape, || Ok(())).unwrap();
        assert_eq!(blown.chunks_ns.len(), 3);
        assert!(blown.chunks_ns.iter().sum::<u64>() <= blown.elapsed_ns);
        assert!(blown.cpu_ns > 0);
        assert_eq!(pids.values().sum::<u64>(), 60);

        let shape = Shape { processes: 60, workers: 2, rate: 1_000, chunk: 0 };
        let (blown, pids) = programs.blow(&shape, || Ok(())).unwrap();
        assert!(blown.elapsed_ns >= 59_000_000, "60 starts at 1000/s: {}", blown.elapsed_ns);
        assert_eq!(pids.values().sum::<u64>(), 60);
    }

    #[test]
    fn a_process_that_burns_cpu_is_seen_to() {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs::build(folder.path()).unwrap();
        let before = programs.cpu_ns(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while programs.cpu_ns(std::process::id()).unwrap() < before + 1_000_000 {
            sum = (0..100_000).fold(sum, |sum, n| sum.wrapping_mul(31) ^ n);
        }
        assert_ne!(sum, 1);
        // One above the largest pid there can be on Linux (PID_MAX_LIMIT).
        assert!(programs.cpu_ns(4_194_305).is_err());
    }
}
