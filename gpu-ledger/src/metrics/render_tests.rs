use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::accounting::calls::{CallCost, LATENCY_BOUNDS_NS, ReadCost};
use crate::memory::ByteMs;
use crate::metrics::health::{Health, HealthReason};
use crate::metrics::held::HeldCount;
use crate::metrics::{
    CheckpointMeters, EventCount, GapCount, GpuMeters, HeldGpu, HeldPage, QueueMeters, RulesMeters,
};
use crate::settlement::{Ground, NamedBy};
use crate::unit::WallUs;
use crate::unknown::{NamelessReason, UnknownReason};

fn gpu() -> GpuUuid {
    GpuUuid("GPU-a".into())
}

fn of(account: &str) -> AccountLabel {
    AccountLabel { account: account.into(), named_by: Some(NamedBy::Ground(Ground::Unit)) }
}

/// A host in which everything occurs once.
fn meters() -> Meters {
    let count = HeldCount {
        held: Ms(13_149_789),
        adjusted_up: Ms(7),
        adjusted_down: Ms(1_000),
        unplaced: Ms(5),
    };
    let mut latency_counts = [0; LATENCY_BOUNDS_NS.len()];
    (latency_counts[0], latency_counts[2]) = (3, 1);
    let cost = CallCost {
        count: 5,
        latency_total_ns: 3_000_250_001,
        latency_max_ns: 3_000_000_000,
        cpu_ns: 1_000_001,
        latency_counts,
    };
    Meters {
        memory: BTreeMap::from([((gpu(), of("ollama")), ByteMs((3 << 30) * 1_500))]),
        memory_void_hours: BTreeMap::from([(gpu(), 2)]),
        made_at: WallUs(1_796_040_500_250_000),
        held: BTreeMap::from([
            ((gpu(), of("ollama")), count),
            ((gpu(), of("a\"b\\c\nd")), HeldCount { held: Ms(1), ..HeldCount::default() }),
        ]),
        held_until: BTreeMap::from([(gpu(), WallUs(1_796_040_490_000_001))]),
        held_journal_head: 41,
        folded_accounts: 2,
        unattributed: BTreeMap::from([((gpu(), NamelessReason::AgentDown), Ms(896_825))]),
        gaps: BTreeMap::from([(
            GapCause::EventLost,
            GapCount { count: 2, length: Ms(1_500), ..GapCount::default() },
        )]),
        events: Observed::Known(EventCount { produced: 10, received: 7, lost: 3 }),
        driver: ReadCost { calls: BTreeMap::from([("nvmlX", cost)]) },
        gpus: BTreeMap::from([(
            gpu(),
            GpuMeters {
                eviction_margin_rows: Observed::Unknown(UnknownReason::GpuLost),
                good_read_age: Observed::Known(Ms(250)),
                accounting_on: Observed::Known(false),
                open_rows: Observed::Known(0),
            },
        )]),
        queues: BTreeMap::from([(
            "journal",
            QueueMeters { length: 1, capacity: 64, overflowed: 0 },
        )]),
        journal_head: 42,
        settlements: 40,
        unknown: BTreeSet::from([UnknownReason::GpuLost]),
        health: Health { reasons: vec![(HealthReason::ReaderStale, "late".to_owned())] },
        rules: RulesMeters {
            rules: 12,
            shadowed: 1,
            reloads_taken: 3,
            reloads_refused: 2,
            is_refused: true,
        },
        checkpoint: CheckpointMeters {
            key_id: Some("3c28751e".to_owned()),
            size: Some(40),
            at: Some(WallUs(1_796_040_480_000_500)),
            uncovered: Some(2),
            anchors: vec![("syslog", Some(true), 0), ("file", Some(false), 3)],
        },
        driver_kind: Some("simulated"),
    }
}

#[test]
fn the_page_is_what_it_was() {
    insta::assert_snapshot!(meters().text().unwrap());
}

/// Every line of the text format, read by its grammar.
fn check_grammar(text: &str) -> BTreeMap<String, f64> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut values = BTreeMap::new();
    let mut typed = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(is_name(name) && name.starts_with("gpu_ledger_"), "{line}");
            assert!(typed.insert(name.to_owned()), "{name} twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            assert!(
                typed.contains(name) || family.is_some_and(|name| typed.contains(name)),
                "{line}"
            );
            assert!(values.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    values
}

#[test]
fn every_series_stands_once_under_its_type() {
    let text = meters().text().unwrap();
    let values = check_grammar(&text);
    assert!(values.len() > 40, "{}", values.len());
    assert!(text.ends_with('\n'));
}

#[test]
fn what_is_not_known_is_absent_and_said_to_be() {
    let mut meters = meters();
    meters.events = Observed::Unknown(UnknownReason::ProcessEventsUnavailable);
    let text = meters.text().unwrap();
    assert!(!text.contains("\ngpu_ledger_eviction_margin_rows{"), "{text}");
    assert!(!text.contains("\ngpu_ledger_events_lost_total "), "{text}");
    for line in [
        "gpu_ledger_eviction_margin_rows_unknown{gpu=\"GPU-a\",reason=\"gpu-lost\"} 1\n",
        "gpu_ledger_events_lost_total_unknown{reason=\"process-events-unavailable\"} 1\n",
        "gpu_ledger_healthy 0\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn counters_survive_the_way_to_the_scraper_and_back() {
    for ms in [0, 1, 999, 1_001, 86_400_001, 3_155_760_000_123, 99_999_999_999_999] {
        let mut meters = meters();
        let count = HeldCount {
            held: Ms(ms),
            adjusted_up: Ms(ms / 3),
            adjusted_down: Ms(ms / 7),
            unplaced: Ms(ms / 11),
        };
        let other = HeldCount { held: Ms(1), ..HeldCount::default() };
        let tricky = of("a\"b\\c\nd\",direction=\"up\"} 7");
        let counts = BTreeMap::from([
            (tricky, count),
            (AccountLabel { account: "other".into(), named_by: None }, other),
        ]);
        let held = counts.iter().map(|(label, count)| ((gpu(), label.clone()), *count));
        meters.held = held.collect();
        let until = WallUs(1_796_040_500_000_000 + ms % 1_000_000);
        meters.held_until = BTreeMap::from([(gpu(), until)]);
        meters.held_journal_head = ms;
        let text = meters.text().unwrap();
        let gpus = BTreeMap::from([(gpu(), HeldGpu { until, counts })]);
        assert_eq!(HeldPage::of(&text), Some(HeldPage { journal_head: ms, gpus }), "{text}");
    }
}

#[test]
fn no_pid_and_no_argument_is_a_label() {
    let text = meters().text().unwrap();
    let mut keys = BTreeSet::new();
    for series in text.lines().filter(|line| !line.starts_with('#')) {
        let labels = series.split_once('{').map_or("", |(_, rest)| rest);
        keys.extend(labels.split("=\"").filter_map(|part| part.rsplit([',', '{', '"']).next()));
    }
    let known = [
        "account",
        "anchor",
        "call",
        "cause",
        "direction",
        "outcome",
        "driver",
        "gpu",
        "key",
        "le",
        "queue",
        "reason",
        "version",
    ];
    let strange: Vec<_> = keys
        .iter()
        .filter(|key| {
            let is_label = key.chars().all(|c| c.is_ascii_lowercase()) && !key.is_empty();
            is_label && !known.contains(key)
        })
        .collect();
    // What stands after the last value of a line is a number and no key.
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn the_bounds_are_the_seconds_they_mean() {
    let text = meters().text().unwrap();
    for line in [
        "gpu_ledger_driver_call_seconds_bucket{call=\"nvmlX\",le=\"0.0001\"} 3\n",
        "gpu_ledger_driver_call_seconds_bucket{call=\"nvmlX\",le=\"2\"} 4\n",
        "gpu_ledger_driver_call_seconds_bucket{call=\"nvmlX\",le=\"+Inf\"} 5\n",
        "gpu_ledger_driver_call_seconds_sum{call=\"nvmlX\"} 3.000250001\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let last = Duration::from_nanos(LATENCY_BOUNDS_NS[LATENCY_BOUNDS_NS.len() - 1]);
    assert_eq!(last, crate::accounting::driver::CALL_DEADLINE);
}
