//! `gpu-ledger journal`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;

use super::place::JournalPlace;
use super::redact::{self, Redact};
use super::rotate_key::{self, RotateKey};
use super::{STATUS_FAILED, STATUS_UNKNOWN, print};
use crate::bill::period::{PeriodError, Standpoint, moment_of};
use crate::clock::Clock;
use crate::journal::store::{
    CheckReport, CheckedArchives, StateDir, StoreError, archive, check, check_archives, check_file,
};
use crate::unit::WallUs;

const CHECK_STATUS: &str = "The archives that lie beside the journal are proven as well, and that each continues \
the one before it.\n\
Exit status: 0 all of it proven, 1 something is wrong, or it cannot be read, 2 what is here is proven, but an \
archive that the journal continues is not beside it, 64 usage.";

const ARCHIVE_STATUS: &str = "MOMENT is 2026-10-31T08:00:00Z, 2026-10-31, 2026-10, 2026 (their first moment), \
today, yesterday, now, or a time ago: 24h, 7d. Entries move in whole runs of 4096, oldest first; a run of which \
one entry is younger stays. The archive lies beside the journal, where bill and check find it.\n\
It runs as the daemon's user, while the daemon does not run:\n\
  systemctl stop gpu-ledger; sudo -u gpu-ledger gpu-ledger journal archive --before 2026-10\n\
Exit status: 0 archived, or nothing was old enough, 1 failed, 64 usage.";

#[derive(Args, Debug)]
pub(super) struct Journal {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Prove every entry, and everything that is derived from them
    #[command(after_help = CHECK_STATUS)]
    Check {
        /// One file by itself instead of the journal: an archive, or the copy of a journal
        #[arg(value_name = "FILE", conflicts_with_all = ["config", "state_dir"])]
        file: Option<PathBuf>,
        #[command(flatten)]
        place: JournalPlace,
    },
    /// Delete the texts of a person's command lines; every proof stays as it is
    #[command(after_help = redact::AFTER_HELP)]
    Redact(Redact),
    /// Let another key sign the checkpoints of its tree
    #[command(after_help = rotate_key::AFTER_HELP)]
    RotateKey(RotateKey),
    /// Move entries older than a moment into a file of their own; the daemon must not run
    #[command(after_help = ARCHIVE_STATUS)]
    Archive {
        /// The moment
        #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
        before: String,
        /// Days and months of UTC instead of those of TZ or of the system's time zone
        #[arg(long)]
        utc: bool,
        #[command(flatten)]
        place: JournalPlace,
    },
}

impl Journal {
    pub(super) fn run(self, clock: &Clock) -> anyhow::Result<u8> {
        match self.command {
            Command::Check { file: Some(file), .. } => check_one(&file),
            Command::Check { file: None, place } => run_check(&place),
            Command::Redact(redact) => redact.run(),
            Command::RotateKey(rotate) => rotate.run(clock),
            Command::Archive { before, utc, place } => run_archive(&before, utc, &place, clock),
        }
    }
}

fn check_one(file: &Path) -> anyhow::Result<u8> {
    let report = check_file(file).map_err(told)?;
    let mut page = String::new();
    tell(&mut page, file, &report)?;
    print(&page)?;
    Ok(if report.is_whole() { 0 } else { STATUS_FAILED })
}

fn run_check(place: &JournalPlace) -> anyhow::Result<u8> {
    let dir = StateDir::at(place.state_dir()?);
    let report = check(&dir).map_err(told)?;
    let mut page = String::new();
    tell(&mut page, dir.path(), &report)?;
    let checked =
        if report.base > 0 { check_archives(&dir) } else { Ok(CheckedArchives::default()) };
    let checked = match checked {
        Ok(checked) => checked,
        // What is wrong with a journal that is damaged stands above.
        Err(error) if !report.is_whole() => {
            writeln!(page, "archives: not looked at: {error}")?;
            CheckedArchives { missing: report.base, ..CheckedArchives::default() }
        }
        Err(error) => return Err(told(error)),
    };
    for one in &checked.archives {
        tell(&mut page, &one.path, &one.report)?;
    }
    if checked.missing > 0 {
        writeln!(
            page,
            "NOT HERE: entries 1 to {} were archived, and no archive beside the journal has them; put it back \
             and check again, or check it by itself: gpu-ledger journal check FILE",
            checked.missing
        )?;
    }
    print(&page)?;
    let is_whole = report.is_whole() && checked.archives.iter().all(|one| one.report.is_whole());
    Ok(match (is_whole, checked.missing) {
        (false, _) => STATUS_FAILED,
        (true, 0) => 0,
        (true, _) => STATUS_UNKNOWN,
    })
}

/// What is wrong with one part, and what it is.
fn tell(page: &mut String, path: &Path, report: &CheckReport) -> std::fmt::Result {
    let name = path.display();
    for fault in &report.faults {
        match fault.seq {
            Some(seq) => writeln!(page, "{name}: entry {seq}: {}", fault.what)?,
            None => writeln!(page, "{name}: {}", fault.what)?,
        }
    }
    let first = report.base.saturating_add(1);
    let range = match report.entries {
        0 => String::new(),
        _ => format!(", {first} to {}", report.head.seq),
    };
    if report.argv_redacted > 0 {
        writeln!(
            page,
            "{name}: {} command lines are kept redacted or as their file alone, and cannot be compared with what was \
             committed to",
            report.argv_redacted
        )?;
    }
    writeln!(
        page,
        "{name}: {} entries{range}, {} settlements, {}",
        report.entries,
        report.settlements,
        match report.faults_total {
            0 => "all of it proven".to_owned(),
            faults => format!("{faults} faults"),
        }
    )?;
    match &report.root {
        Some(root) => {
            writeln!(page, "{name}: the tree of entries 1 to {} has root {root}", report.head.seq)
        }
        None => writeln!(
            page,
            "{name}: the root of its tree is UNKNOWN: an older version archived entries before {first}, and it was not \
             made since of all archives; put them beside the journal and start the daemon again"
        ),
    }
}

/// With what to do where this user may not look.
pub(super) fn told(error: StoreError) -> anyhow::Error {
    if error.is_denied() {
        anyhow::anyhow!("{error}; the journal is the daemon's: run it under sudo")
    } else {
        error.into()
    }
}

fn run_archive(before: &str, utc: bool, place: &JournalPlace, clock: &Clock) -> anyhow::Result<u8> {
    let zone = if utc {
        TimeZone::UTC
    } else {
        TimeZone::try_system().map_err(|error| PeriodError::Zone(error.to_string()))?
    };
    let standpoint = Standpoint { now: moment_of(clock.now().wall.ms()), latest_ms: None, zone };
    let moment = standpoint.moment("--before", before)?;
    // What was before 1970 was before every journal.
    let us = u64::try_from(moment.as_microsecond()).unwrap_or(0);
    let page = match archive(&StateDir::at(place.state_dir()?), WallUs(us)) {
        Ok(archived) => format!(
            "{}: entries {} to {}; the journal goes on after {}\n",
            archived.file.display(),
            archived.first,
            archived.last,
            archived.hash
        ),
        Err(error @ StoreError::NothingToArchive { .. }) => format!("{error} ({moment})\n"),
        Err(error) => return Err(told(error)),
    };
    print(&page)?;
    Ok(0)
}
