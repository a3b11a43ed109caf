//! GPUs by the words that people have for them. Pure.

use crate::escape::printable;
use crate::unit::GpuUuid;

/// Names that a refusal lists; the rest is counted.
const NAMES_SHOWN_MAX: usize = 20;

/// A word that means no GPU, or more than one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{} called {name}; there are: {known}",
    match are { 0 => "no GPU is".to_owned(), several => format!("{several} GPUs are") }
)]
pub struct NoSuchGpu {
    /// What was asked for, safe to print.
    pub name: String,
    /// How many are called so.
    pub are: usize,
    /// The GPUs there are.
    pub known: String,
}

/// The GPU that is meant: by index (`0`, where it enumerated last), UUID, or the beginning of one, with or
/// without `GPU-`.
///
/// # Errors
/// Where none or several are called so, with those there are.
pub fn gpu_called(word: &str, known: &[(Option<u32>, GpuUuid)]) -> Result<GpuUuid, NoSuchGpu> {
    let by = |is: &dyn Fn(Option<u32>, &GpuUuid) -> bool| -> Vec<GpuUuid> {
        let found = known.iter().filter(|(index, uuid)| is(*index, uuid));
        found.map(|(_, uuid)| uuid.clone()).collect()
    };
    let mut found = by(&|_, uuid| *uuid.0 == *word);
    if found.is_empty() {
        found = by(&|index, _| index.is_some_and(|index| index.to_string() == *word));
    }
    if found.is_empty() && !word.is_empty() {
        found = by(&|_, uuid| {
            let bare = uuid.0.strip_prefix("GPU-").unwrap_or(&uuid.0);
            uuid.0.starts_with(word) || bare.starts_with(word)
        });
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        other => {
            let known = known.iter().map(|(index, uuid)| match index {
                Some(index) => format!("{index} ({uuid})"),
                None => uuid.to_string(),
            });
            let name = printable(word.as_bytes()).to_string();
            Err(NoSuchGpu { name, are: other.len(), known: listed(known) })
        }
    }
}

/// Digits of a UUID of which no product's name is made alone (`A100` has four).
const HEX_DIGITS_MIN: usize = 8;

/// Why a text that was written where a GPU's index, its UUID from `GPU-` on or its product's name may stand is none of
/// them, and what to write: a UUID without its beginning, or a place on the bus. `None` where it may be one.
#[must_use]
pub fn no_gpu_name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_of = |more: &[char]| text.chars().all(|c| c.is_ascii_hexdigit() || more.contains(&c));
    let digits = text.chars().filter(char::is_ascii_hexdigit).count();
    let remedy = "nvidia-smi -L shows names and UUIDs";
    if text.contains(':') && is_of(&[':', '.']) {
        let what =
            "is no place on the bus, as that may be another GPU's tomorrow; write its name or UUID";
        return Some(format!("{what}: {remedy}"));
    }
    let is_number = text.chars().all(|c| c.is_ascii_digit()) && text.parse::<u32>().is_ok();
    let is_uuid = is_of(&['-']) && digits >= HEX_DIGITS_MIN && !is_number;
    is_uuid.then(|| format!("has GPU- before the digits of a UUID; write \"GPU-{text}\": {remedy}"))
}

/// `a, b, c and 7 more`; `none` of nothing.
#[must_use]
pub fn listed(names: impl Iterator<Item = String>) -> String {
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

    #[test]
    fn a_word_means_one_gpu_or_is_refused_with_those_there_are() {
        let known: Vec<(Option<u32>, GpuUuid)> = ["GPU-1a2b", "GPU-1c3d", "GPU-2"]
            .into_iter()
            .zip([Some(0), Some(1), None])
            .map(|(uuid, index)| (index, GpuUuid(uuid.into())))
            .collect();
        for (word, uuid) in [("1", "GPU-1c3d"), ("GPU-1a", "GPU-1a2b"), ("2", "GPU-2")] {
            assert_eq!(gpu_called(word, &known).unwrap().0, uuid.into(), "{word}");
        }
        let refused = |word: &str| gpu_called(word, &known).unwrap_err().to_string();
        let rest = "there are: 0 (GPU-1a2b), 1 (GPU-1c3d), GPU-2";
        assert_eq!(refused("7"), format!("no GPU is called 7; {rest}"));
        assert_eq!(refused("GPU-1"), format!("2 GPUs are called GPU-1; {rest}"));
        assert!(refused("").starts_with("no GPU is called ;"), "{}", refused(""));
    }
}
