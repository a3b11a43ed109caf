//! What came of a replay, for people.

use std::fmt::{self, Write as _};

use super::{Document, Replayed, Verdict};
use crate::escape::printable;

/// The page.
#[must_use]
pub fn render(replayed: &Replayed) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut page, replayed);
    page
}

fn write(page: &mut String, replayed: &Replayed) -> fmt::Result {
    let host = if replayed.host.is_empty() { "unknown host" } else { &replayed.host };
    let (host, size) = (printable(host.as_bytes()), replayed.size);
    writeln!(page, "{host}, journal {}, entries up to {size}", replayed.journal)?;
    let Replayed { settlements, same, differences_total, .. } = replayed;
    writeln!(page, "settlements: {settlements}, derived again and the same {same}")?;
    for one in &replayed.undecided {
        writeln!(page, "  cannot be derived: {} of them, {}", one.settlements, one.why.as_str())?;
    }
    for one in &replayed.differences {
        let [entered, derived] =
            [&one.entered, &one.derived].map(|text| printable(text.as_bytes()).to_string());
        writeln!(page, "  DIFFERS entry {} {}: {entered}, and is {derived}", one.seq, one.what)?;
    }
    let listed = u64::try_from(replayed.differences.len()).unwrap_or(u64::MAX);
    if *differences_total > listed {
        writeln!(page, "  … {} more", differences_total.saturating_sub(listed))?;
    }
    writeln!(page, "bill, made again of the entries:")?;
    replayed.documents.iter().try_for_each(|one| write_document(page, one))?;
    let words = match replayed.verdict {
        Verdict::Same => "the same, byte for byte",
        Verdict::Differs => "NOT THE SAME",
        Verdict::SameAsFarAsKnown => "the same as far as it can be derived still",
    };
    writeln!(page, "replay: {} ({words})", replayed.verdict.as_str())
}

fn write_document(page: &mut String, one: &Document) -> fmt::Result {
    let at = one.first_byte.map(|at| format!(", from byte {at} on")).unwrap_or_default();
    writeln!(page, "  {} {}{at}", one.file, one.state.as_str())
}
