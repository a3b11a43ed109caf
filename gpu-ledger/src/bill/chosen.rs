//! Which GPUs are meant, by the words that people have for them.

use super::BillError;
use super::ledger::Ledger;
use crate::calling::{NoSuchGpu, gpu_called, listed};
use crate::escape::printable;
use crate::likeness::nearest;
use crate::unit::GpuUuid;

/// The GPUs that are meant: by index (`0`, where it enumerated last), UUID, or the beginning of one, with or
/// without `GPU-`.
///
/// # Errors
/// [`BillError::NoSuchGpu`] where none or several are called so, with those there are.
pub fn chosen_gpus(ledger: &Ledger, words: &[String]) -> Result<Vec<GpuUuid>, BillError> {
    let known = ledger.gpus();
    let mut chosen = Vec::new();
    for word in words {
        let found = gpu_called(word, &known)
            .map_err(|NoSuchGpu { name, are, known }| BillError::NoSuchGpu { name, are, known })?;
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// Refuses a name that no line of the bill has, with those there are.
pub(super) fn no_such_line<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> BillError {
    let mut names: Vec<&str> = known.collect();
    names.sort_unstable();
    names.dedup();
    let safe = |name: &str| printable(name.as_bytes()).to_string();
    BillError::NoSuchLine {
        name: if name.is_empty() {
            "\"\"".to_owned()
        } else {
            printable(name.as_bytes()).to_string()
        },
        likely: nearest(name, names.iter().copied()).map(safe),
        known: listed(names.into_iter().map(safe)),
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
    fn a_line_that_is_not_there_is_answered_with_the_one_that_is_called_almost_so() {
        let known = ["ollama", "train.py", "x\u{1b}"];
        let refused = |name: &str| no_such_line(name, known.into_iter()).to_string();
        assert_eq!(
            refused("tarin.py"),
            "no line of this bill is called tarin.py, did you mean train.py?; there are: ollama, \
             train.py, x\\x1b"
        );
        assert!(refused("zzz").starts_with("no line of this bill is called zzz; there are: "));
        assert!(refused("").starts_with("no line of this bill is called \"\"; there are: "));
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
