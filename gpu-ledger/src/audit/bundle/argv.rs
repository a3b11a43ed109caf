//! `argv.jsonl`: the arguments that entries commit to, as far as they are still kept.

use std::collections::{BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::folder::Stream;
use crate::audit::error::BundleError;
use crate::billing::JournalFiles;
use crate::journal::canon;
use crate::journal::entry::{ArgvPlace, Evidence, KeptArgv};

/// Places that are remembered, so that what a thousand entries share stands there once. What comes again later than
/// that stands there again.
const PLACES_MAX: usize = 65_536;

/// The file in the making.
pub(super) struct ArgvFile<'f> {
    files: &'f JournalFiles,
    stream: Stream,
    known: BTreeSet<ArgvPlace>,
    oldest_first: VecDeque<ArgvPlace>,
}

impl<'f> ArgvFile<'f> {
    pub(super) const fn new(files: &'f JournalFiles, stream: Stream) -> Self {
        Self { files, stream, known: BTreeSet::new(), oldest_first: VecDeque::new() }
    }

    /// Writes the arguments behind an entry, where there are any that were not written just now.
    pub(super) fn take(&mut self, evidence: &Evidence) -> Result<(), BundleError> {
        let Some(place) = evidence.argv_place().filter(|place| !self.known.contains(place)) else {
            return Ok(());
        };
        if self.known.len() >= PLACES_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(place);
        self.oldest_first.push_back(place);
        match self.files.argv(place)? {
            Some(kept) => self.stream.put(line(&kept)?.as_bytes()),
            None => Ok(()),
        }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }
}

/// `{"commitment":HEX,"mode":WORD or null,"text":WORD,"state":WORD,"true_length":N or null,"bytes":BASE64}`
fn line(kept: &KeptArgv) -> Result<String, BundleError> {
    let KeptArgv { commitment, mode, argv, text } = kept;
    let mode = mode.map_or_else(|| "null".to_owned(), |mode| format!("\"{mode}\""));
    let state = canon::encode(&argv.state)?;
    let state = canon::Reader::new(&state).text()?.to_owned();
    let length = argv.true_length.map_or_else(|| "null".to_owned(), |length| length.to_string());
    let bytes = STANDARD.encode(&argv.bytes);
    Ok(format!(
        "{{\"commitment\":\"{commitment}\",\"mode\":{mode},\"text\":\"{}\",\"state\":\"{state}\",\
         \"true_length\":{length},\"bytes\":\"{bytes}\"}}\n",
        text.as_str()
    ))
}
