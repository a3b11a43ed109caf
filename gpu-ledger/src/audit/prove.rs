//! One settlement with its proof, as a file that is checked without the rest.
//!
//! ```text
//! {"format":"gpu-ledger-audit-proof","version":1,"key":VKEY,"checkpoint":NOTE,
//! "entry":{a line of context.jsonl},
//! "schema":{the form of entries}}
//! ```
//! `audit verify` and `verify.py` check it whole. What is needed of it fits on a page of Python
//! (`verify/tests/check_proof.py`, in the README).

use super::error::BundleError;
use super::line::{LinePrinter, Raw};
use super::verify::ProofHead;
use crate::billing::JournalFiles;
use crate::journal::form::schema;
use crate::journal::store::Signer;

/// The proof that an entry is in the journal as it stands now.
///
/// # Errors
/// Those of reading the journal and of signing; an entry that is not here.
pub fn prove(journal: &JournalFiles, by: &Signer, seq: u64) -> Result<String, BundleError> {
    let mut tree = journal.tree()?;
    let size = tree.size();
    let signed = by.sign(&mut tree, size)?;
    let proof = tree.inclusion(seq, size)?;
    let mut line = String::new();
    journal.raw((seq, seq), &mut |raw| {
        let raw = Raw { kept: raw.kept, evidence: raw.evidence };
        LinePrinter::default().print(raw, Some(&proof), &mut line).map_err(BundleError::from)
    })?;
    text(&by.public().to_string(), &signed.note, &line)
}

/// The file, of a line with its end.
pub(crate) fn text(key: &str, checkpoint: &str, line: &str) -> Result<String, BundleError> {
    let form = |error: serde_json::Error| BundleError::Form(error.to_string());
    let head = ProofHead::new(key.to_owned(), checkpoint.to_owned());
    let mut text = serde_json::to_string(&head).map_err(form)?;
    text.pop();
    text.push_str(",\n\"entry\":");
    text.push_str(line.trim_end_matches('\n'));
    text.push_str(",\n\"schema\":");
    text.push_str(schema().map_err(form)?.trim_end_matches('\n'));
    text.push_str("}\n");
    Ok(text)
}
