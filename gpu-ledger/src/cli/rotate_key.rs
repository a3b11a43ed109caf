//! `gpu-ledger journal rotate-key`.

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};

use super::place::Place;
use super::print;
use crate::clock::Clock;
use crate::daemon::{Client, ClientError, VERSION, boot_id, machine_id};
use crate::journal::entry::Moment;
use crate::journal::store::{StateDir, Store, StoreError};

pub(super) const AFTER_HELP: &str = "The key that signs until now signs for the next one, in an entry: whoever trusts the \
one can trust the other. Give the new verifier key, which this prints, to everybody who has the old one.\n\
--lost is for a key that is gone: nobody signs for the next one then, and every audit from here on says so.\n\
With a daemon it is asked over its socket. Without one this runs as the journal's owner:\n\
  sudo -u gpu-ledger gpu-ledger journal rotate-key\n\
Exit status: 0 another key signs, 1 failed, and the same key does, 64 usage.";

/// Which key is to go.
#[derive(Args, Debug)]
pub(super) struct RotateKey {
    /// The key that signed so far is gone
    #[arg(long)]
    lost: bool,
    #[command(flatten)]
    place: Place,
}

impl RotateKey {
    pub(super) fn run(self, clock: &Clock) -> anyhow::Result<u8> {
        let key = self.rotate(clock)?;
        print(&format!("checkpoints are signed with this key from here on:\n{key}\n"))?;
        Ok(0)
    }

    /// Through the daemon that writes this journal, or where none does, as its writer.
    fn rotate(&self, clock: &Clock) -> anyhow::Result<String> {
        if self.place.names_socket() || !self.place.names_state_dir() {
            let request = json!({ "version": VERSION, "request": "rotate-key", "lost": self.lost });
            match Client::at(&self.place.socket()?).ask(&request) {
                Ok(answer) => {
                    let key = answer.get("key").and_then(Value::as_str);
                    return key.map(str::to_owned).context("the daemon did not say the new key");
                }
                // Nobody writes it.
                Err(ClientError::Absent { .. }) if !self.place.names_socket() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let dir = StateDir::at(self.place.state_dir()?);
        let (mut store, _) = Store::open(&dir).map_err(|error| match error {
            held @ StoreError::Held { .. } => {
                anyhow::anyhow!("{held}; or have that daemon do it: name its socket with --socket")
            }
            error => super::journal::told(error),
        })?;
        let at = Moment { boot: boot_id()?, stamp: clock.now() };
        let signer = store.rotate_key(at, machine_id().as_deref(), self.lost)?;
        // Its first word; the daemon says the next one, and why where none can be said.
        let first_word = store.sign(&signer);
        let key = signer.public().to_string();
        store.close()?;
        if let Err(error) = first_word {
            print(&format!("no checkpoint was signed with it yet: {error}\n"))?;
        }
        Ok(key)
    }
}
