//! A host being watched for one report: what is settled is kept until it is printed.

use std::collections::BTreeMap;

use crate::accounting::reading::OpenRow;
use crate::host::{Host, HostError, News, Settled};
use crate::identity::Program;
use crate::kernel::ProcessKey;
use crate::observer::{Observer, Wake};
use crate::settlement::{Account, Settlement};
use crate::unit::{BootNs, GpuUuid, Pid};
use crate::unknown::{GapCause, Unknown};

/// A settlement and where it stands in the report.
pub(super) struct Entry {
    pub(super) settlement: Settlement,
    pub(super) account: Account,
    pub(super) program: Option<Program>,
    pub(super) of_command: bool,
}

/// A row that was seen to run and that nobody will ever read final.
pub(super) struct LostRow {
    pub(super) row: OpenRow,
    pub(super) cause: GapCause,
    pub(super) process: Option<ProcessKey>,
    pub(super) account: Account,
    pub(super) of_command: bool,
}

/// A process that held a GPU without a row, and does not any more.
pub(super) struct GoneHolder {
    pub(super) gpu: GpuUuid,
    pub(super) pid: Pid,
    pub(super) process: Option<ProcessKey>,
    pub(super) since: BootNs,
    /// When it let go: with its end, or, where it lives on, when it was last seen.
    pub(super) until: BootNs,
    pub(super) account: Account,
    pub(super) of_command: bool,
}

/// The watched host.
pub(super) struct Watch {
    pub(super) observer: Observer,
    pub(super) entries: Vec<Entry>,
    pub(super) lost: Vec<LostRow>,
    pub(super) gone: Vec<GoneHolder>,
    /// Holders without a row that were told, until they are gone.
    holders: BTreeMap<(GpuUuid, Pid), (Account, bool)>,
    /// Why device opens are not watched, as it was at the start; `None` while they are.
    pub(super) touch_off_because: Option<String>,
}

impl Watch {
    pub(super) const fn new(observer: Observer, touch_off_because: Option<String>) -> Self {
        Self {
            observer,
            entries: Vec::new(),
            lost: Vec::new(),
            gone: Vec::new(),
            holders: BTreeMap::new(),
            touch_off_because,
        }
    }

    pub(super) const fn host(&self) -> &Host {
        self.observer.host()
    }

    pub(super) fn note_unknown(&mut self, unknown: &Unknown) {
        self.observer.host_mut().note_unknown(unknown);
    }

    /// The next thing that happens.
    pub(super) async fn next(&mut self) -> Wake {
        self.observer.next().await
    }

    /// Moves on, and keeps what was settled.
    pub(super) fn advance(&mut self, wake: Option<Wake>) -> Result<(), HostError> {
        self.observer.advance(wake)?;
        self.keep_notes();
        Ok(())
    }

    /// What a single trace learns it prints at its end: nothing else has to be written first.
    pub(super) fn keep_notes(&mut self) {
        for note in self.observer.host_mut().take_notes() {
            match note.news {
                News::Settled(settled) => {
                    let Settled { settlement, whose, of_command, .. } = *settled;
                    let (account, program) = (whose.account, whose.program);
                    // A row that was given up for lost and came back is lost no more.
                    let row = &settlement.row;
                    self.lost.retain(|lost| {
                        let lost = &lost.row;
                        (&lost.gpu, lost.pid, lost.start) != (&row.gpu, row.pid, row.start)
                            || lost.start.is_none()
                    });
                    self.entries.push(Entry { settlement, account, program, of_command });
                }
                News::Conflict { key, now, .. } => {
                    let mut entries = self.entries.iter_mut();
                    let booked =
                        entries.find(|entry| entry.settlement.key().as_ref() == Some(&key));
                    if let Some(entry) = booked {
                        entry.settlement.reread(&now);
                    }
                }
                News::OpenLost { row, cause, whose, process, of_command, .. } => {
                    let (row, account) = (*row, whose.account);
                    self.lost.push(LostRow { row, cause, process, account, of_command });
                }
                News::RowlessSeen { gpu, holder, bearer, .. } => {
                    let of_command = bearer.key.is_some_and(|key| self.host().is_in_command(&key));
                    self.holders.insert((gpu, holder.pid), (bearer.account, of_command));
                }
                News::RowlessGone { gpu, pid, key: process, since, last_seen, exit, .. } => {
                    if let Some((account, of_command)) = self.holders.remove(&(gpu.clone(), pid)) {
                        let (since, last_seen) = (since.boot, last_seen.boot);
                        let until = exit.map_or(last_seen, |exit| exit.boot.max(last_seen));
                        self.gone.push(GoneHolder {
                            gpu,
                            pid,
                            process,
                            since,
                            until,
                            account,
                            of_command,
                        });
                    }
                }
                _ => {}
            }
            self.observer.host_mut().acknowledged(note.number);
        }
    }
}
