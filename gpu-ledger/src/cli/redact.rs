//! `gpu-ledger journal redact`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use serde_json::json;

use super::place::Place;
use super::{STATUS_FAILED, Usage, print};
use crate::daemon::{Client, ClientError, REDACT_MAX, VERSION};
use crate::escape::escape;
use crate::journal::entry::BootId;
use crate::journal::store::{
    Forgotten, Reader, StateDir, Store, StoreError, Whose, erase_in_archives, texts_of,
};
use crate::journal::{Digest, Entry, Evidence, Figures};
use crate::kernel::ProcessKey;
use crate::settlement::SettlementId;

pub(super) const AFTER_HELP: &str = "The texts go out of the journal, its log and its archives, and are not kept again; \
every entry, the chain, the tree and every proof stay as they are, for an entry holds no text but a commitment to it. \
What an entry does hold stays: the program, the file that was executed, the user's number, control groups. Out of reach \
is what left the journal: bundles that were handed out, backups, exports.\n\
Words that processes of other users were given too are kept, and counted, unless --shared says that they go as well.\n\
With a daemon it is asked over its socket, and this reads the journal's files: run it as root. Without one it runs as the \
journal's owner: sudo -u gpu-ledger gpu-ledger journal redact …\n\
Exit status: 0 deleted, or nothing was there, 1 failed, or somebody reads the journal and its log still has them: run it \
again, 64 usage.";

/// Whose texts are to go.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("whose").required(true).multiple(true))]
pub(super) struct Redact {
    /// Of this user's processes, by name or number
    #[arg(long, value_name = "USER", group = "whose")]
    user: Option<String>,
    /// Of this settlement, by its id as bill --by process has it (may be given again)
    #[arg(long = "id", value_name = "ID", group = "whose")]
    ids: Vec<String>,
    /// Also those that processes of others were given
    #[arg(long)]
    shared: bool,
    /// Say what would go, and delete nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

impl Redact {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let dir = StateDir::at(self.place.state_dir()?);
        let uid = self.user.as_deref().map(uid_of).transpose()?;
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let ids: BTreeSet<&str> = self.ids.iter().map(String::as_str).collect();
        let mut processes = Vec::new();
        if !ids.is_empty() {
            // Of the process of a settlement there may be other entries, such as of when it was seen first.
            let name = |entry: &Entry, evidence: &Evidence| {
                let named = id_of(entry).and_then(|id| ids.get(id.as_str()).copied());
                found.extend(named);
                processes.extend(named.and_then(|_| process_of(evidence)));
                false
            };
            texts_of(&dir, name).map_err(told)?;
        }
        if let Some(missing) = ids.difference(&found).next() {
            let what = format!(
                "no settlement has the id {}; bill --by process has them",
                escape(missing.as_bytes())
            );
            return Err(Usage(what).into());
        }
        let whose = texts_of(&dir, |_, evidence| {
            uid.is_some_and(|uid| is_of_user(evidence, uid))
                || process_of(evidence).is_some_and(|process| processes.contains(&process))
        });
        let Whose { mut own, shared } = whose.map_err(told)?;
        if self.shared {
            own.extend(&shared);
        }
        let mut page = String::new();
        if self.dry_run {
            writeln!(page, "command lines that would be deleted: {}", own.len())?;
            self.tell_shared(&mut page, &shared)?;
            print(&page)?;
            return Ok(0);
        }
        let forgotten = self.delete(&dir, &own)?;
        let archived = erase_in_archives(&dir, &own).map_err(told)?;
        writeln!(
            page,
            "command lines redacted: {}; texts deleted: {} in the journal, {archived} in its archives",
            own.len(),
            forgotten.texts
        )?;
        self.tell_shared(&mut page, &shared)?;
        writeln!(page, "bundles that were handed out, backups and exports keep what they have")?;
        if !forgotten.log_is_empty {
            writeln!(
                page,
                "somebody reads the journal at this moment, so its log {} still has them: run this again",
                dir.journal().with_extension("db-wal").display()
            )?;
        }
        print(&page)?;
        Ok(if forgotten.log_is_empty { 0 } else { STATUS_FAILED })
    }

    fn tell_shared(&self, page: &mut String, shared: &BTreeSet<Digest>) -> std::fmt::Result {
        match (shared.len(), self.shared) {
            (0, _) => Ok(()),
            (count, true) => writeln!(page, "{count} of them are also those of others' processes"),
            (count, false) => {
                writeln!(
                    page,
                    "{count} more are also those of others' processes, and stay; --shared deletes them too"
                )
            }
        }
    }

    /// Through the daemon that writes this journal, or where none does, as its writer.
    fn delete(&self, dir: &StateDir, commitments: &BTreeSet<Digest>) -> anyhow::Result<Forgotten> {
        let asks = self.place.names_socket() || !self.place.names_state_dir();
        if asks {
            match ask(&self.place.socket()?, commitments) {
                Ok(forgotten) => return proven(dir, commitments, forgotten),
                // Nobody writes it.
                Err(error) if is_absent(&error) && !self.place.names_socket() => {}
                Err(error) => return Err(error),
            }
        }
        let (mut store, _) = Store::open(dir).map_err(|error| match error {
            held @ StoreError::Held { .. } => {
                anyhow::anyhow!("{held}; or have that daemon do it: name its socket with --socket")
            }
            error => error.into(),
        })?;
        let all: Vec<Digest> = commitments.iter().copied().collect();
        let forgotten = store.forget_argv(&all)?;
        store.close()?;
        Ok(forgotten)
    }
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientError::Absent { .. }))
}

fn ask(socket: &Path, commitments: &BTreeSet<Digest>) -> anyhow::Result<Forgotten> {
    let client = Client::at(socket);
    let words: Vec<String> = commitments.iter().map(ToString::to_string).collect();
    let mut all = Forgotten { texts: 0, log_is_empty: true };
    // With nothing to delete it is asked once all the same: whether its log is empty is the answer.
    let chunks: Vec<&[String]> =
        if words.is_empty() { vec![&[]] } else { words.chunks(REDACT_MAX).collect() };
    for chunk in chunks {
        let request = json!({ "version": VERSION, "request": "redact", "commitments": chunk });
        let answer = client.ask(&request)?;
        let texts = answer.get("texts").and_then(serde_json::Value::as_u64);
        let texts = texts.context("the daemon did not say how many texts it deleted")?;
        all.texts = all.texts.saturating_add(usize::try_from(texts)?);
        // The last one empties it, or nobody does.
        all.log_is_empty = answer
            .get("log_is_empty")
            .and_then(serde_json::Value::as_bool)
            .context("the daemon did not say whether its log is empty")?;
    }
    Ok(all)
}

/// That the daemon which answered writes this journal: none of the texts is in it any more.
fn proven(
    dir: &StateDir,
    commitments: &BTreeSet<Digest>,
    forgotten: Forgotten,
) -> anyhow::Result<Forgotten> {
    let reader = Reader::open(dir)?;
    let mut left = 0_usize;
    for one in commitments {
        left = left.saturating_add(usize::from(reader.has_text(*one)?));
    }
    anyhow::ensure!(
        left == 0,
        "{} has {left} of the texts still: the daemon that answered writes another journal; name its socket with \
         --socket, or this journal's folder with --state-dir",
        dir.path().display()
    );
    Ok(forgotten)
}

fn is_of_user(evidence: &Evidence, uid: u32) -> bool {
    evidence.identity().is_some_and(|identity| identity.user.uid == Some(uid))
}

fn process_of(evidence: &Evidence) -> Option<(BootId, ProcessKey)> {
    evidence.identity().map(|identity| (identity.boot, identity.key))
}

fn id_of(entry: &Entry) -> Option<SettlementId> {
    match &entry.figures {
        Figures::Settlement(settlement) => {
            Some(SettlementId::of_parts(&settlement.gpu, settlement.pid, settlement.start))
        }
        _ => None,
    }
}

/// Of a name, or of a number: also of one who is gone from the system.
fn uid_of(user: &str) -> anyhow::Result<u32> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let found = nix::unistd::User::from_name(user).ok().flatten();
    found.map(|user| user.uid.as_raw()).ok_or_else(|| {
        let name = escape(user.as_bytes());
        Usage(format!("this system knows no user {name}; give the number of one who is gone"))
            .into()
    })
}

fn told(error: StoreError) -> anyhow::Error {
    super::journal::told(error)
}
