//! Which GPUs are meant, by the words that people have for them.

use super::BillError;
use super::ledger::Ledger;
use crate::escape::escape;
use crate::unit::GpuUuid;

/// Names that a refusal lists; the rest is counted.
const NAMES_SHOWN_MAX: usize = 20;

/// The GPUs that are meant: by index (`0`, where it enumerated last), UUID, or the beginning of one, with or
/// without `GPU-`.
///
/// # Errors
/// [`BillError::NoSuchGpu`] where none or several are called so, with those there are.
pub fn chosen_gpus(ledger: &Ledger, words: &[String]) -> Result<Vec<GpuUuid>, BillError> {
    let known = ledger.gpus();
    let mut chosen = Vec::new();
    for word in words {
        let by = |is: &dyn Fn(Option<u32>, &GpuUuid) -> bool| -> Vec<GpuUuid> {
            let found = known.iter().filter(|(index, uuid)| is(*index, uuid));
            found.map(|(_, uuid)| uuid.clone()).collect()
        };
        let mut found = by(&|_, uuid| *uuid.0 == **word);
        if found.is_empty() {
            found = by(&|index, _| index.is_some_and(|index| index.to_string() == *word));
        }
        if found.is_empty() && !word.is_empty() {
            found = by(&|_, uuid| {
                let bare = uuid.0.strip_prefix("GPU-").unwrap_or(&uuid.0);
                uuid.0.starts_with(word.as_str()) || bare.starts_with(word.as_str())
            });
        }
        match found.as_slice() {
            [one] if !chosen.contains(one) => chosen.push(one.clone()),
            [_] => {}
            other => {
                let known = known.iter().map(|(index, uuid)| match index {
                    Some(index) => format!("{index} ({uuid})"),
                    None => uuid.to_string(),
                });
                return Err(BillError::NoSuchGpu {
                    name: escape(word.as_bytes()).to_string(),
                    are: other.len(),
                    known: list(known),
                });
            }
        }
    }
    Ok(chosen)
}

/// Refuses a name that no line of the bill has, with those there are.
pub(super) fn refuse_unknown_lines<'a>(
    wanted: &[String],
    known: impl Iterator<Item = &'a str>,
    is_called: impl Fn(&str) -> bool,
) -> Result<(), BillError> {
    let Some(name) = wanted.iter().find(|name| !is_called(name)) else { return Ok(()) };
    let mut names: Vec<&str> = known.collect();
    names.sort_unstable();
    names.dedup();
    Err(BillError::NoSuchLine {
        name: escape(name.as_bytes()).to_string(),
        known: list(names.into_iter().map(|name| escape(name.as_bytes()).to_string())),
    })
}

/// `a, b, c and 7 more`; `none` of nothing.
fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let shown = names.iter().take(NAMES_SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMES_SHOWN_MAX) {
        _ if names.is_empty() => "none".to_owned(),
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::made::{Journal, gpu};

    fn ledger() -> Ledger {
        let journal = Journal::began(0, 3);
        let mut ledger = Ledger::new();
        journal.entries.iter().for_each(|entry| ledger.take(entry).unwrap());
        ledger
    }

    #[test]
    fn a_gpu_is_known_by_index_by_uuid_and_by_the_beginning_of_one() {
        let ledger = ledger();
        let whole = gpu(1).to_string();
        for word in ["1", &*whole, "GPU-1a2b", "1a2b3c4d-0000"] {
            assert_eq!(chosen_gpus(&ledger, &[word.to_owned()]), Ok(vec![gpu(1)]), "{word}");
        }
        let twice = ["2", "1", "GPU-2"].map(str::to_owned);
        assert_eq!(chosen_gpus(&ledger, &twice), Ok(vec![gpu(2), gpu(1)]));
        assert_eq!(chosen_gpus(&ledger, &[]), Ok(Vec::new()));
    }

    #[test]
    fn a_word_for_none_or_for_several_is_refused_with_those_there_are() {
        let ledger = ledger();
        let refused =
            |word: &str| chosen_gpus(&ledger, &[word.to_owned()]).unwrap_err().to_string();
        let none = refused("nosuch");
        assert!(
            none.starts_with("no GPU of this journal is called nosuch; there are: 0 (GPU-0a2b")
        );
        assert!(none.contains("2 (GPU-2a2b3c4d-0000-0000-0000-000000000001)"), "{none}");
        assert!(refused("GPU-").starts_with("3 GPUs of this journal are called GPU-"));
        assert!(refused("").starts_with("no GPU"));
        assert!(refused("\u{1b}[2J").contains("\\x1b"));
        let empty = chosen_gpus(&Ledger::new(), &["0".to_owned()]).unwrap_err().to_string();
        assert!(empty.ends_with("there are: none"), "{empty}");
    }
}
