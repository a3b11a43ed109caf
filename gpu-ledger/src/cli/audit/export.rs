//! `gpu-ledger audit export`.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use jiff::tz::TimeZone;
use nix::sys::signal::{SigSet, Signal};

use crate::audit::BundleError;
use crate::audit::bundle::{ExportAsked, ExportFrom, Exported, export};
use crate::bill::period::{Asked, PeriodError, Standpoint, moment_of};
use crate::bill::{By, SharePolicy};
use crate::billing::{JournalFiles, PricesAt};
use crate::cli::place::JournalPlace;
use crate::cli::{STATUS_UNKNOWN, Usage, print};
use crate::clock::Clock;
use crate::config::read_bounded;
use crate::daemon::send_checkpoint;
use crate::escape::escape;
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::store::{Files, Signer, StateDir};
use crate::output::complain;

const AFTER_HELP: &str = "MOMENT and WHOLE are those of bill; now is when the checkpoint's last entry was made, so that the \
same journal, period and checkpoint give the same bytes each time.\n\
It runs as root or as the daemon's user, beside the daemon: the folder is signed with the journal's key. What is in it, \
how it is checked, and what it cannot prove stands in its readme.md. The folder holds command lines as far as the journal \
keeps them (argv.jsonl).\n\
Exit status: 0 written, and everything on its bill is known, 1 failed, and nothing was written, 2 written, and \
something on its bill is UNKNOWN, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Export {
    /// The period's first moment
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    since: Option<String>,
    /// The first moment after the period
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    until: Option<String>,
    /// The whole of a day, month or year (today, yesterday, 2026-10-31, 2026-10, 2026), or of the
    /// journal: all
    #[arg(long, value_name = "WHOLE", allow_hyphen_values = true)]
    period: Option<String>,
    /// The folder that is made; it must not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The journal as it stood when this entry was its last (default: its last one)
    #[arg(long, value_name = "N")]
    checkpoint: Option<u64>,
    /// An older checkpoint, as the daemon logs them or as another bundle has it: the bundle then proves that nothing up to
    /// there was changed since
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
    /// What a line of the bill stands for: account, user, program, gpu, process, service, unit, container, pod, namespace,
    /// job, kind, model
    #[arg(long, value_name = "WHAT", default_value = "account")]
    by: By,
    /// How shared time is divided between accounts: none, equal, busy or memory
    #[arg(long, value_name = "POLICY", default_value = "none")]
    share: SharePolicy,
    /// What hours cost (default: the configured file, else /etc/gpu-ledger/prices.toml where it exists)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Days and months of UTC instead of those of TZ or of the system's time zone
    #[arg(long)]
    utc: bool,
    #[command(flatten)]
    place: JournalPlace,
}

impl Export {
    pub(super) fn run(self, clock: &Clock) -> anyhow::Result<u8> {
        let stop = heed_signals()?;
        let dir = StateDir::at(self.place.state_dir()?);
        let zone = if self.utc {
            TimeZone::UTC
        } else {
            TimeZone::try_system().map_err(|error| PeriodError::Zone(error.to_string()))?
        };
        let journal = JournalFiles::open(&dir)?;
        let size = self.size(&journal)?;
        let now = journal.entry(size)?.ok_or(BundleError::Empty)?.at.stamp.wall.ms();
        let asked = Asked { since: self.since, until: self.until, period: self.period };
        let standpoint = Standpoint { now: moment_of(now), latest_ms: None, zone: zone.clone() };
        let span = standpoint.period(&asked)?.span;
        let prices =
            self.place.prices(self.prices.as_ref())?.map_or(PricesAt::Default, PricesAt::Named);
        let prices = prices.read_with_text(&zone)?;
        let witness = self.witness.map(|path| {
            let most = u64::try_from(NOTE_BYTES_MAX).unwrap_or(u64::MAX);
            read_bounded(&path, most).map_err(|error| {
                let path = escape(path.as_os_str().as_encoded_bytes());
                Usage(format!("cannot read the witness {path}: {error}"))
            })
        });
        let witness = witness.transpose()?;
        let signer = Signer::open(&dir)?.ok_or(NoKey)?;
        let files = Files::of_reader(&dir)?;
        let from = ExportFrom { journal: &journal, files: files.as_ref(), seal: &signer };
        let asked =
            ExportAsked { span, size, zone, by: self.by, share: self.share, prices, witness };
        let mut bar = Bar::new();
        let exported = export(&from, &asked, &self.out, &mut |done, total| {
            bar.show(done, total);
            !stop.load(Ordering::Relaxed)
        });
        bar.clear();
        let exported = exported?;
        let kept = self.place.checkpoint_file()?;
        for lack in send_checkpoint(&exported.checkpoint, kept.as_deref(), clock.now().wall) {
            complain(&format!("the checkpoint did not get out of this host's reach: {lack}"));
        }
        for digest in &exported.missing {
            complain(&format!(
                "the rules {digest}, which settlements name, are not kept beside the journal: audit replay cannot make \
                 their accounts again"
            ));
        }
        print(&told(&exported, &escape(self.out.as_os_str().as_encoded_bytes()).to_string()))?;
        Ok(if exported.is_known { 0 } else { STATUS_UNKNOWN })
    }

    fn size(&self, journal: &JournalFiles) -> Result<u64, BundleError> {
        let last = journal.end()?.head.seq;
        match self.checkpoint {
            _ if last == 0 => Err(BundleError::Empty),
            None => Ok(last),
            Some(asked) if (1..=last).contains(&asked) => Ok(asked),
            Some(asked) => Err(BundleError::NoSuchCheckpoint { asked, last }),
        }
    }
}

/// The daemon has not made one yet.
#[derive(Debug, thiserror::Error)]
#[error(
    "the journal has no key yet (ledger.key): the daemon makes it when it starts; start it once"
)]
struct NoKey;

fn told(exported: &Exported, out: &str) -> String {
    let Exported { range: (first, last, size), context, checkpoint, .. } = exported;
    format!(
        "{out}: entries {first} to {last} of {size}, and {context} beside them; check it with\n\
         gpu-ledger audit verify {out}\n\n{checkpoint}"
    )
}

/// From here on a signal that would end this process is noted instead, so that what was begun is taken away; a limit of
/// file sizes fails the write, as a full disk does.
fn heed_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let heeded = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let (mut ending, mut all) = (SigSet::empty(), SigSet::empty());
    for signal in heeded {
        ending.add(signal);
        all.add(signal);
    }
    all.add(Signal::SIGXFSZ);
    // Threads that are begun from here on have it too.
    all.thread_block()?;
    let stop = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&stop);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // One that is ignored (nohup) never comes.
        if ending.wait().is_ok() {
            noted.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(stop)
}

/// How far it is, on a terminal: one line that is written over.
struct Bar {
    is_shown: bool,
    percent: Option<u64>,
}

impl Bar {
    fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal(), percent: None }
    }

    fn show(&mut self, done: u64, total: u64) {
        const CELLS: usize = 30;
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
        if !self.is_shown || self.percent == Some(percent) {
            return;
        }
        self.percent = Some(percent);
        let full = usize::try_from(percent).unwrap_or(0).saturating_mul(CELLS) / 100;
        let (full, empty) = ("#".repeat(full), ".".repeat(CELLS.saturating_sub(full)));
        // Nobody has to see it.
        let _ = write!(std::io::stderr(), "\r{full}{empty} {percent:3} % of {total} entries");
    }

    fn clear(&self) {
        if self.percent.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_folder_the_range_and_the_checkpoint() {
        let exported = Exported {
            range: (3, 9, 12),
            context: 2,
            checkpoint: "gpu-ledger/0\n12\nroot\n\n— sig\n".to_owned(),
            missing: std::collections::BTreeSet::new(),
            is_known: true,
        };
        let page = told(&exported, "out");
        assert!(page.starts_with("out: entries 3 to 9 of 12, and 2 beside them;"), "{page}");
        assert!(page.contains("audit verify out") && page.ends_with("— sig\n"), "{page}");
    }
}
