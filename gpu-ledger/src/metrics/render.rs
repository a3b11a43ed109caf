//! Meters as text: names, help, labels, and nothing where nothing is known.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;

use super::Meters;
use super::health::HealthReason;
use super::held::AccountLabel;
use super::page::{Labels, PREFIX, Page, gib_seconds_of, seconds_of, seconds_of_ns, seconds_of_us};
use crate::unit::{GpuUuid, Ms};
use crate::unknown::{GapCause, Observed};

/// The counter that a scraper's history is made of.
pub(super) const HELD: &str = "held_seconds";
/// What it missed or has too much.
pub(super) const ADJUSTMENT: &str = "settlement_adjustment_seconds";
/// What is in neither.
pub(super) const BEFORE_METERING: &str = "held_before_metering_seconds";
/// Up to when they count.
pub(super) const HELD_UNTIL: &str = "held_until_timestamp_seconds";
/// Up to which entry.
pub(super) const HELD_HEAD: &str = "held_journal_head";

pub(super) fn text(meters: &Meters) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Shown(meters.clone())));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Those of an account's series.
fn labels_of(gpu: &GpuUuid, label: &AccountLabel) -> Labels {
    let mut labels = vec![("gpu", gpu.to_string()), ("account", label.account.to_string())];
    labels.extend(label.named_by.map(|named_by| ("named_by", named_by.to_string())));
    labels
}

/// The meters, as the library collects them.
#[derive(Debug)]
struct Shown(Meters);

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(encoder);
        self.held(&mut page)?;
        self.memory(&mut page)?;
        self.blind_spots(&mut page)?;
        self.driver(&mut page)?;
        self.gpus(&mut page)?;
        self.own_state(&mut page)
    }
}

impl Shown {
    fn held(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = || self.0.held.iter().map(|((gpu, label), count)| (labels_of(gpu, label), count));
        page.counters(
            HELD,
            "Time an account's processes held a GPU, settled and open, each moment once; at most a second a second.",
            all().map(|(labels, count)| (labels, seconds_of(count.held))),
        )?;
        let adjusted = all().flat_map(|(labels, count)| {
            [("up", count.adjusted_up), ("down", count.adjusted_down)].map(|(direction, sum)| {
                let mut labels = labels.clone();
                labels.push(("direction", direction.to_owned()));
                (labels, seconds_of(sum))
            })
        });
        page.counters(
            ADJUSTMENT,
            "What held_seconds_total missed (up) or has too much (down), by late settlements and corrections.",
            adjusted,
        )?;
        let unplaced = all().filter(|(_, count)| count.unplaced != Ms::ZERO);
        page.counters(
            BEFORE_METERING,
            "Settled time from before metering began or from the future, in none of the other counters.",
            unplaced.map(|(labels, count)| (labels, seconds_of(count.unplaced))),
        )?;
        let until = self.0.held_until.iter();
        let until = until.map(|(gpu, at)| (vec![("gpu", gpu.to_string())], seconds_of_us(*at)));
        page.gauges(
            HELD_UNTIL,
            "Up to when held_seconds_total has counted, in seconds since 1970.",
            until,
        )?;
        page.gauges(
            HELD_HEAD,
            "Number of the last journal entry that is in held_seconds_total.",
            [(Labels::new(), self.0.held_journal_head)],
        )?;
        let folded = u64::try_from(self.0.folded_accounts).unwrap_or(u64::MAX);
        page.gauges(
            "folded_accounts",
            "Accounts that share the label `other`.",
            [(Labels::new(), folded)],
        )?;
        page.counters(
            "settlements",
            "Settlements in the journal.",
            [(Labels::new(), self.0.settlements)],
        )
    }

    fn memory(&self, page: &mut Page<'_>) -> fmt::Result {
        let held = self.0.memory.iter();
        let held =
            held.map(|((gpu, label), memory)| (labels_of(gpu, label), gib_seconds_of(*memory)));
        page.counters(
            "memory_held_gib_seconds",
            "Device memory held over time, by samples, of hours that are over and valid.",
            held,
        )?;
        let void = self.0.memory_void_hours.iter();
        page.counters(
            "memory_void_hours",
            "Hours in which memory held is not known: a sample in them was too old.",
            void.map(|(gpu, hours)| (vec![("gpu", gpu.to_string())], *hours)),
        )
    }

    fn blind_spots(&self, page: &mut Page<'_>) -> fmt::Result {
        let unattributed = self.0.unattributed.iter().map(|((gpu, reason), held)| {
            let labels = vec![("gpu", gpu.to_string()), ("reason", reason.to_string())];
            (labels, seconds_of(*held))
        });
        page.counters(
            "unattributed_seconds",
            "Settled time without a name, by what would have named it.",
            unattributed,
        )?;
        // Every cause has a series from the start: a first gap is then a rise, and no new series.
        let gap = |cause: &GapCause| self.0.gaps.get(cause).copied().unwrap_or_default();
        let all =
            || GapCause::ALL.iter().map(|cause| (vec![("cause", cause.to_string())], gap(cause)));
        page.counters(
            "gaps",
            "Intervals that could not be seen.",
            all().map(|(labels, gap)| (labels, gap.count)),
        )?;
        page.counters(
            "gap_seconds",
            "Length of the intervals that could not be seen.",
            all().map(|(labels, gap)| (labels, seconds_of(gap.length))),
        )?;
        let count = |pick: fn(&super::EventCount) -> u64| match &self.0.events {
            Observed::Known(count) => Observed::Known(pick(count)),
            Observed::Unknown(reason) => Observed::Unknown(*reason),
        };
        let produced = [(Labels::new(), count(|events| events.produced))];
        page.observed_counters(
            "events_produced",
            "Process events made by the kernel side.",
            produced,
        )?;
        let received = [(Labels::new(), count(|events| events.received))];
        page.observed_counters("events_received", "Process events that arrived.", received)?;
        let lost = [(Labels::new(), count(|events| events.lost))];
        page.observed_counters(
            "events_lost",
            "Process events that the kernel side counted as lost.",
            lost,
        )
    }

    fn driver(&self, page: &mut Page<'_>) -> fmt::Result {
        let calls = &self.0.driver.calls;
        let of = |call: &&'static str| vec![("call", (*call).to_owned())];
        page.latencies(calls.iter().map(|(call, cost)| (of(call), cost)))?;
        page.counters(
            "driver_cpu_seconds",
            "CPU time inside driver calls.",
            calls.iter().map(|(call, cost)| (of(call), seconds_of_ns(cost.cpu_ns))),
        )
    }

    fn gpus(&self, page: &mut Page<'_>) -> fmt::Result {
        let of = |gpu: &GpuUuid| vec![("gpu", gpu.to_string())];
        let all = || self.0.gpus.iter().map(|(gpu, meters)| (of(gpu), meters));
        page.observed_gauges(
            "eviction_margin_rows",
            "Dead rows that the driver could still have taken before it evicted one that was not read, at the closest of the last minute.",
            all().map(|(labels, gpu)| (labels, gpu.eviction_margin_rows.clone())),
        )?;
        let age = all().map(|(labels, gpu)| {
            let age = match &gpu.good_read_age {
                Observed::Known(age) => Observed::Known(seconds_of(*age)),
                Observed::Unknown(reason) => Observed::Unknown(*reason),
            };
            (labels, age)
        });
        page.observed_gauges(
            "last_good_read_age_seconds",
            "Time since the last complete read.",
            age,
        )?;
        let on = all().map(|(labels, gpu)| {
            let on = match &gpu.accounting_on {
                Observed::Known(on) => Observed::Known(u64::from(*on)),
                Observed::Unknown(reason) => Observed::Unknown(*reason),
            };
            (labels, on)
        });
        page.observed_gauges("accounting_enabled", "Whether the driver keeps rows.", on)?;
        page.observed_gauges(
            "open_rows",
            "Rows of processes that hold the GPU.",
            all().map(|(labels, gpu)| (labels, gpu.open_rows.clone())),
        )
    }

    fn rules(&self, page: &mut Page<'_>) -> fmt::Result {
        let rules = &self.0.rules;
        page.gauges("rules", "Rules in force.", [(Labels::new(), rules.rules)])?;
        page.gauges(
            "rules_shadowed",
            "Rules in force that never match, since an earlier one takes everything that they would.",
            [(Labels::new(), rules.shadowed)],
        )?;
        let outcomes = [("taken", rules.reloads_taken), ("refused", rules.reloads_refused)];
        page.counters(
            "reloads",
            "Times the configuration and its rules were read anew, by what came of it.",
            outcomes.map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count)),
        )?;
        page.gauges(
            "reload_refused",
            "Whether the last reload was refused: what is in force is not what the files say.",
            [(Labels::new(), u64::from(rules.is_refused))],
        )
    }

    fn checkpoints(&self, page: &mut Page<'_>) -> fmt::Result {
        let checkpoint = &self.0.checkpoint;
        let none = Labels::new;
        page.gauges(
            "checkpoint_size",
            "Entries that the last signed checkpoint of the journal's tree is of.",
            checkpoint.size.map(|size| (none(), size)),
        )?;
        page.gauges(
            "checkpoint_timestamp_seconds",
            "When it was signed, in seconds since 1970.",
            checkpoint.at.map(|at| (none(), seconds_of_us(at))),
        )?;
        page.gauges(
            "checkpoint_uncovered_entries",
            "Entries on the disk that no checkpoint is of.",
            checkpoint.uncovered.map(|count| (none(), count)),
        )?;
        page.gauges(
            "checkpoint_key_info",
            "The key that signs checkpoints.",
            checkpoint.key_id.iter().map(|id| (vec![("key", id.clone())], 1_u64)),
        )?;
        let anchors = || {
            checkpoint.anchors.iter().map(|(name, is_on, failed)| {
                (vec![("anchor", (*name).to_owned())], *is_on, *failed)
            })
        };
        page.gauges(
            "checkpoint_anchor",
            "Whether checkpoints get to a place outside of the journal.",
            anchors().filter_map(|(labels, is_on, _)| Some((labels, u64::from(is_on?)))),
        )?;
        page.counters(
            "checkpoint_anchor_failures",
            "Checkpoints that did not get there, since the daemon started.",
            anchors().map(|(labels, _, failed)| (labels, failed)),
        )
    }

    fn own_state(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = || {
            let queues = self.0.queues.iter();
            queues.map(|(queue, meters)| (vec![("queue", (*queue).to_owned())], meters))
        };
        let length = all().map(|(labels, queue)| (labels, queue.length));
        page.gauges("queue_length", "What waits in a queue of the daemon.", length)?;
        let capacity = all().map(|(labels, queue)| (labels, queue.capacity));
        page.gauges("queue_capacity", "What fits into it.", capacity)?;
        let overflows = all().map(|(labels, queue)| (labels, queue.overflowed));
        page.counters("queue_overflows", "What did not fit; each is in a gap.", overflows)?;
        page.gauges(
            "journal_head",
            "Number of the last entry on the disk.",
            [(Labels::new(), self.0.journal_head)],
        )?;
        page.gauges(
            "unknown",
            "What cannot be said at present, by reason.",
            self.0.unknown.iter().map(|reason| (vec![("reason", reason.to_string())], 1_u64)),
        )?;
        page.gauges(
            "page_timestamp_seconds",
            "When this page was made, in seconds since 1970: one that grows old has nobody who writes it.",
            [(Labels::new(), seconds_of_us(self.0.made_at))],
        )?;
        page.gauges(
            "healthy",
            "Whether rows and events are read and the journal is written.",
            [(Labels::new(), u64::from(self.0.health.is_well()))],
        )?;
        let ill = HealthReason::ALL.iter().map(|reason| {
            let is_so = self.0.health.reasons.iter().any(|(found, _)| found == reason);
            (vec![("reason", reason.to_string())], u64::from(is_so))
        });
        page.gauges("unhealthy", "Why it is not healthy.", ill)?;
        self.rules(page)?;
        self.checkpoints(page)?;
        let driver = self.0.driver_kind.unwrap_or("none").to_owned();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let labels = vec![("version", version), ("driver", driver)];
        page.gauges(
            "build_info",
            "The program, and what stands behind the library.",
            [(labels, 1_u64)],
        )
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
