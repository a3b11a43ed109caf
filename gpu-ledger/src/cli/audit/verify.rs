//! `gpu-ledger audit verify`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::super::{Usage, print};
use crate::audit::verify::{Known, verify};
use crate::escape::escape;
use crate::journal::note::{NOTE_BYTES_MAX, NoteError, VerifyingKey};
use crate::rendering::json;

const AFTER_HELP: &str = "BUNDLE is the folder of a bundle, or the file of audit prove. Nothing is asked of this host: it \
can be proven on any machine, and verify.py in the bundle says the same without gpu-ledger.\n\
The key and an old checkpoint must come from somewhere else than the bundle: whoever can sign can make another \
bundle, and without an older checkpoint nobody can tell that its end was cut off or written anew.\n\
Exit status: 0 all of it proven and everything known, 1 integrity failed, or it is no bundle, 2 integrity is good, but \
something of the period is unknown or a gap, 64 usage.";

/// What is to be proven.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Verify {
    /// The bundle's folder, or the file of one proven settlement
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The key that must have signed, or signed for the one that did: its text, or a file that holds it
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// An older checkpoint of the same journal
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
    /// One JSON object (format gpu-ledger-audit-verdict) instead of text
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let known = Known {
            key: self.key.as_deref().map(key).transpose()?,
            witness: self.witness.as_deref().map(note).transpose()?,
        };
        let verdict = verify(&self.bundle, &known);
        let page = if self.json { json(&verdict)? } else { verdict.to_string() };
        print(&page)?;
        Ok(verdict.exit_status())
    }
}

/// A key, as text or as the file that holds it.
pub(super) fn key(word: &str) -> anyhow::Result<VerifyingKey> {
    /// Bytes of a key's file at most.
    const KEY_BYTES_MAX: u64 = 4_096;
    let path = std::path::Path::new(word);
    let text = if path.is_file() {
        let bytes = read(path, KEY_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(|_| usage(word, "is not a key: name+id+base64"))?
    } else {
        word.to_owned()
    };
    Ok(text.parse().map_err(|error: NoteError| usage(word, &error.to_string()))?)
}

fn note(path: &std::path::Path) -> anyhow::Result<Vec<u8>> {
    let most = u64::try_from(NOTE_BYTES_MAX).unwrap_or(u64::MAX);
    read(path, most.saturating_add(1))
}

fn read(path: &std::path::Path, most: u64) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.with_context(|| format!("cannot read {}", escape(path.as_os_str().as_encoded_bytes())))
        .map_err(|error| Usage(format!("{error:#}")))?;
    Ok(bytes)
}

fn usage(word: &str, what: &str) -> Usage {
    Usage(format!("--key {}: {what}", escape(word.as_bytes())))
}
