//! The held counters of an earlier run, read back from its page: a scraper has seen them, so they go on from there.
//!
//! What is not a line of ours is passed over; a page that does not say up to when and up to which entry it
//! counted says nothing that could be gone on from.

use std::collections::BTreeMap;

use super::held::{AccountLabel, HeldCount};
use super::page::PREFIX;
use super::render::{ADJUSTMENT, BEFORE_METERING, HELD, HELD_HEAD, HELD_UNTIL};
use crate::settlement::NamedBy;
use crate::unit::{GpuUuid, Ms, WallUs};

/// The held counters of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldPage {
    /// Number of the last journal entry that is in them.
    pub journal_head: u64,
    /// Each GPU.
    pub gpus: BTreeMap<GpuUuid, HeldGpu>,
}

/// The held counters of one GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldGpu {
    /// Up to this moment they count.
    pub until: WallUs,
    /// By account label.
    pub counts: BTreeMap<AccountLabel, HeldCount>,
}

impl HeldPage {
    /// What a page of [`super::Meters::text`] says; `None` where it does not say from where to go on.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let lines = || text.lines().filter_map(Line::of);
        let head = lines().find(|line| line.name == HELD_HEAD)?;
        let mut gpus = BTreeMap::new();
        for line in lines().filter(|line| line.name == HELD_UNTIL) {
            let until = WallUs(line.scaled(6)?);
            gpus.insert(line.gpu()?, HeldGpu { until, counts: BTreeMap::new() });
        }
        for line in lines() {
            let Some(gpu) = line.gpu().and_then(|gpu| gpus.get_mut(&gpu)) else { continue };
            let Some(account) = line.label("account") else { continue };
            let named_by = line.label("named_by");
            let label = AccountLabel {
                account: account.into(),
                named_by: named_by.and_then(|word| NamedBy::of(&word)),
            };
            let is_ours =
                [HELD, ADJUSTMENT, BEFORE_METERING].iter().any(|name| line.is_total(name));
            if !is_ours {
                continue;
            }
            let ms = Ms(line.scaled(3)?);
            let count = gpu.counts.entry(label).or_default();
            match line.label("direction").as_deref() {
                None if line.is_total(HELD) => count.held = ms,
                None => count.unplaced = ms,
                Some("up") => count.adjusted_up = ms,
                Some(_) => count.adjusted_down = ms,
            }
        }
        Some(Self { journal_head: head.scaled(0)?, gpus })
    }
}

/// One series and its value.
struct Line<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (series, value) = line.strip_prefix(PREFIX)?.strip_prefix('_')?.rsplit_once(' ')?;
        let Some((name, labels)) = series.split_once('{') else {
            return Some(Self { name: series, labels: Vec::new(), value });
        };
        Some(Self { name, labels: read_labels(labels.strip_suffix('}')?)?, value })
    }

    fn is_total(&self, name: &str) -> bool {
        self.name.strip_suffix("_total") == Some(name)
    }

    fn label(&self, name: &str) -> Option<String> {
        let found = self.labels.iter().find(|(label, _)| *label == name);
        found.map(|(_, value)| value.clone())
    }

    fn gpu(&self) -> Option<GpuUuid> {
        self.label("gpu").map(|gpu| GpuUuid(gpu.into()))
    }

    /// The value, rounded to that many digits behind the point: those that it was made of.
    fn scaled(&self, digits: usize) -> Option<u64> {
        // The text of a double, and of a whole number where it is one.
        let Ok(value) = self.value.parse::<f64>() else { return None };
        let Ok(whole) = format!("{value:.digits$}").replace('.', "").parse() else { return None };
        Some(whole)
    }
}

/// Labels of one series; a quotation mark ends a value where no backslash stands before it.
fn read_labels(mut rest: &str) -> Option<Vec<(&str, String)>> {
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = behind.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name, value));
        rest = behind.get(end..)?.strip_prefix('"')?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_does_not_say_up_to_when_it_counted_is_not_gone_on_from() {
        let held = "gpu_ledger_held_seconds_total{gpu=\"GPU-a\",account=\"x\"} 1.5\n";
        assert_eq!(HeldPage::of(held), None);
        let headed = format!("{held}gpu_ledger_held_journal_head 7\n");
        assert_eq!(
            HeldPage::of(&headed),
            Some(HeldPage { journal_head: 7, gpus: BTreeMap::new() })
        );
        let until = "gpu_ledger_held_until_timestamp_seconds{gpu=\"GPU-a\"} 1796040500.123456\n";
        let whole = HeldPage::of(&format!("{headed}{until}")).unwrap();
        let gpu = &whole.gpus[&GpuUuid("GPU-a".into())];
        assert_eq!(gpu.until, WallUs(1_796_040_500_123_456));
        assert_eq!(
            gpu.counts[&AccountLabel { account: "x".into(), named_by: None }].held,
            Ms(1_500)
        );
    }

    #[test]
    fn lines_that_are_cut_or_of_others_are_passed_over() {
        for text in ["", "gpu_ledger_held_seconds_total{gpu=\"GPU-a", "node_x 1", "gpu_ledger_ "] {
            assert_eq!(HeldPage::of(text), None, "{text}");
        }
        let cut = "gpu_ledger_held_journal_head 7\ngpu_ledger_held_seconds_total{gpu=\"GPU-a\\";
        assert!(HeldPage::of(cut).unwrap().gpus.is_empty());
    }
}
