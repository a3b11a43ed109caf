//! A host being watched for one report: what is settled is kept until it is printed.

use crate::host::{Host, HostError, News, Settled};
use crate::identity::Program;
use crate::observer::{Observer, Wake};
use crate::settlement::{Account, Settlement};
use crate::unknown::Unknown;

/// A settlement and where it stands in the report.
pub(super) struct Entry {
    pub(super) settlement: Settlement,
    pub(super) account: Account,
    pub(super) program: Option<Program>,
    pub(super) of_command: bool,
}

/// The watched host.
pub(super) struct Watch {
    pub(super) observer: Observer,
    pub(super) entries: Vec<Entry>,
    /// Why device opens are not watched, as it was at the start; `None` while they are.
    pub(super) touch_off_because: Option<String>,
}

impl Watch {
    pub(super) const fn new(observer: Observer, touch_off_because: Option<String>) -> Self {
        Self { observer, entries: Vec::new(), touch_off_because }
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
                _ => {}
            }
            self.observer.host_mut().acknowledged(note.number);
        }
    }
}
