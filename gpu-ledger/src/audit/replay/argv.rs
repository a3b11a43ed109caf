//! Arguments that a bundle still has, each read when it is asked for: an index of them is all that is held.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::argv::StoredText;
use crate::audit::error::BundleError;
use crate::audit::layout::{ARGV, LINE_BYTES_MAX};
use crate::audit::read::Bundle;
use crate::journal::Digest;
use crate::journal::canon;
use crate::journal::entry::{ArgvPlace, KeptArgv};
use crate::kernel::{Argv, ArgvState};

/// Where each is, ascending.
pub(super) struct ArgvIndex {
    file: File,
    places: Vec<(ArgvPlace, u64, usize)>,
}

/// What tells a line from another.
#[derive(Deserialize)]
struct Of {
    commitment: String,
    mode: Option<String>,
}

/// The rest of it.
#[derive(Deserialize)]
struct Line {
    text: String,
    state: String,
    true_length: Option<u64>,
    bytes: String,
}

fn wrong(at: u64) -> BundleError {
    BundleError::wrong(ARGV, format!("has a line that is none of its format, at byte {at}"))
}

impl ArgvIndex {
    /// Those of a bundle.
    pub(super) fn of(bundle: &Bundle) -> Result<Self, BundleError> {
        let file = bundle.file(ARGV)?;
        let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let (mut places, mut at, mut line) = (Vec::new(), 0_u64, Vec::new());
        let io = BundleError::io("read", Path::new(ARGV));
        let mut reader = BufReader::new(file.try_clone().map_err(&io)?);
        loop {
            line.clear();
            let mut limited = std::io::Read::take(&mut reader, most);
            let read = limited.read_until(b'\n', &mut line).map_err(&io)?;
            if read == 0 {
                break;
            }
            if line.len() > LINE_BYTES_MAX {
                return Err(BundleError::wrong(ARGV, "has a line of more than 16 MiB"));
            }
            let of: Of = serde_json::from_slice(&line).map_err(|_| wrong(at))?;
            let commitment = Digest::of_hex(&of.commitment).ok_or_else(|| wrong(at))?;
            let mode = of.mode.map(|word| word.parse()).transpose().map_err(|_| wrong(at))?;
            places.push((ArgvPlace { commitment, mode }, at, read));
            at = at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        }
        places.sort_unstable();
        places.dedup_by_key(|(place, ..)| *place);
        Ok(Self { file, places })
    }

    /// Those of one place; `None` where they are not kept any more.
    pub(super) fn get(&self, place: ArgvPlace) -> Result<Option<KeptArgv>, BundleError> {
        let Ok(found) = self.places.binary_search_by_key(&place, |(place, ..)| *place) else {
            return Ok(None);
        };
        let Some((_, at, length)) = self.places.get(found) else { return Ok(None) };
        let mut line = vec![0; *length];
        let read = self.file.read_exact_at(&mut line, *at);
        read.map_err(BundleError::io("read", Path::new(ARGV)))?;
        let line: Line = serde_json::from_slice(&line).map_err(|_| wrong(*at))?;
        let state = canon::encode(&std::sync::Arc::<str>::from(line.state))?;
        let state: ArgvState = canon::decode(&state)?;
        let bytes = STANDARD.decode(line.bytes).map_err(|_| wrong(*at))?;
        let text = StoredText::of(&line.text).ok_or_else(|| wrong(*at))?;
        let argv = Argv { bytes: bytes.into(), true_length: line.true_length, state };
        Ok(Some(KeptArgv { commitment: place.commitment, mode: place.mode, argv, text }))
    }
}
