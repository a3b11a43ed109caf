//! Comparisons of made batches. T20 with them: a void side is refused, and no word ranks.

use super::{
    Across, Admitted, Comparison, Observation, Options, Refusal, Row, Says, Side, admit, compare,
};
use crate::rendering::json;
use crate::residency::facts::{BatchFacts, Extremes};
use crate::residency::moment::Length;
use crate::residency::sample::FieldName;
use crate::residency::settings::AgeGate;
use crate::residency::statistics::measure::Measure;
use crate::residency::statistics::tests::made::{MIB, MS, Made, T0, facts, labels, valid, void};
use crate::residency::statistics::window::IterationStatistics;
use crate::residency::verdict::{Backend, BackendReason, Verdict};
use crate::unit::{BootNs, GpuUuid};

/// Iterations of 400 ms that hold so many MiB each.
fn holding(mib: &[u64]) -> Vec<IterationStatistics> {
    marked(mib, &[])
}

fn marked(mib: &[u64], marks: &[(BootNs, String)]) -> Vec<IterationStatistics> {
    let made = mib.iter().map(|mib| {
        let rows = [0, 200, 400].map(|at| (at, mib * MIB));
        Made { marks: marks.to_vec(), ..Made::of(400, &rows) }.statistics()
    });
    made.collect()
}

fn observed<'all>(config: &str, all: &'all [IterationStatistics]) -> Vec<Observation<'all>> {
    let observation =
        |(statistics, round)| Observation { labels: labels(config, round), notes: &[], statistics };
    all.iter().zip(1..).map(observation).collect()
}

fn worst() -> Extremes {
    Extremes {
        supremum: Some(Length::of_ms(205)),
        interval_p99: Some(Length::of_ms(201)),
        ..Extremes::default()
    }
}

fn both<R>(then: impl FnOnce(&Admitted<'_>) -> R) -> R {
    let (a, b, verdict) = (facts("batch-a"), facts("batch-b"), valid());
    let side = |facts| Side { facts, verdict: &verdict };
    then(&admit(side(&a), side(&b), false).unwrap())
}

fn compared(a: &[u64], b: &[u64]) -> Comparison {
    of(&holding(a), &holding(b))
}

fn of(a: &[IterationStatistics], b: &[IterationStatistics]) -> Comparison {
    both(|admitted| {
        let (a, b) = (observed("x", a), observed("x", b));
        compare(admitted, &a, &b, Options::default(), worst()).unwrap()
    })
}

fn row(comparison: &Comparison, measure: Measure) -> &Row {
    comparison.rows.iter().find(|row| row.measure == measure).unwrap()
}

const A: [u64; 10] = [100, 102, 98, 101, 99, 103, 97, 100, 102, 98];
const B: [u64; 10] = [112, 111, 109, 115, 108, 116, 105, 114, 113, 108];

#[test]
fn a_difference_is_told_with_its_interval_and_both_opinions() {
    let comparison = compared(&A, &B);
    let peak = row(&comparison, Measure::MemoryPeak);
    assert_eq!((peak.says, peak.n, peak.pairs_unknown), (Says::Differs, 10, 0));
    let effect = peak.effect.unwrap();
    // Differences 12 9 11 14 9 13 8 14 11 10 MiB: 11.1 in the mean, rounded to a byte; A has 100.
    assert_eq!(effect.mean_difference.value, i128::from(111 * MIB / 10) + 1);
    assert_eq!(effect.percent_of_a.unwrap().to_string(), "11.1");
    let mib = |value: i128| value / i128::from(MIB);
    assert_eq!((mib(effect.low.value), mib(effect.high.value)), (9, 12));
    let opinion = peak.second_opinion.unwrap();
    // All ten of one sign: 2 of 2¹⁰ ways. Three measures of memory are tested.
    assert!((opinion.p - 2.0 / 1_024.0).abs() < 1e-12 && opinion.is_exact);
    assert_eq!(opinion.family_size, 3);
    assert!((opinion.p_holm - 6.0 / 1_024.0).abs() < 1e-12);
    assert_eq!(opinion.rank_biserial, Some(1.0));
    assert!(!opinion.is_beyond_reach);
    // The same everywhere: no pair differs, and nothing is made of it.
    let utilization = row(&comparison, Measure::UtilizationMean);
    assert_eq!(utilization.says, Says::NoDifferenceDetected);
    assert_eq!(utilization.second_opinion.unwrap().rank_biserial, None);
    // Never read: no row at all, rather than one of noughts.
    assert!(comparison.rows.iter().all(|row| row.measure != Measure::TemperaturePeak));
}

/// The document of a comparison, checked against its schema.
fn document(comparison: &Comparison) -> serde_json::Value {
    let value = serde_json::from_str(&json(comparison).unwrap()).unwrap();
    let schema = include_str!("../../../schema/residency-comparison.v1.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = schema.iter_errors(&value).map(|fault| fault.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new());
    value
}

#[test]
fn the_json_form_keeps_its_schema() {
    let few = document(&compared(&A[..4], &B[..4]));
    assert_eq!(few["rows"][0]["effect"], serde_json::Value::Null);
    let marks = [(BootNs(0), "lo\u{202e}ad".into())];
    let (a, b) = (marked(&A[..6], &marks), marked(&B[..6], &marks));
    let enough = document(&of(&a, &b));
    let row = &enough["rows"][1];
    assert_eq!((&row["measure"], &row["unit"]), (&"memory_peak".into(), &"bytes".into()));
    assert_eq!(row["points"][0]["difference"], serde_json::json!(12 * MIB));
    assert_eq!(row["second_opinion"]["p"], serde_json::json!(0.03125));
    let phase = enough["rows"].as_array().unwrap().last().unwrap();
    assert_eq!((&phase["scope"], &phase["name"]), (&"phase".into(), &"lo\u{202e}ad".into()));
}

#[test]
fn turned_around_it_is_the_same_difference_with_the_other_sign() {
    let (one, other) = (compared(&A, &B), compared(&B, &A));
    let [one, other] = [&one, &other].map(|all| row(all, Measure::MemoryPeak));
    let [e, f] = [one, other].map(|row| row.effect.unwrap().mean_difference.value);
    assert!((e + f).abs() <= 1);
    assert_eq!(one.says, other.says);
    let [p, q] = [one, other].map(|row| row.second_opinion.unwrap().p);
    assert!((p - q).abs() < 1e-12);
}

#[test]
fn noise_is_no_difference() {
    let comparison = compared(&A, &[101, 101, 99, 100, 100, 102, 98, 101, 100, 99]);
    let row = row(&comparison, Measure::MemoryMean);
    assert_eq!(row.says, Says::NoDifferenceDetected);
    assert!(row.second_opinion.unwrap().p > 0.05);
}

#[test]
fn fewer_than_five_pairs_are_points_only() {
    let comparison = compared(&A[..4], &B[..4]);
    for row in &comparison.rows {
        assert_eq!((row.says, row.effect, row.second_opinion), (Says::PointsOnly, None, None));
        assert_eq!(row.points.len(), 4);
    }
    let page = comparison.page();
    assert!(page.contains("memory, peak: points only (n 4)"), "{page}");
    assert!(page.contains("    A     0.098 GiB, 0.100 GiB, 0.096 GiB, 0.099 GiB"), "{page}");
    assert!(page.contains("    B - A +0.012 GiB, +0.009 GiB, +0.011 GiB, +0.014 GiB"), "{page}");
    assert!(!page.contains("interval +"), "{page}");
}

#[test]
fn where_the_second_opinion_cannot_speak_up_that_is_said() {
    let comparison = compared(&A[..5], &B[..5]);
    let peak = row(&comparison, Measure::MemoryPeak);
    assert!(peak.effect.unwrap().low.value > 0);
    assert_eq!(peak.says, Says::TooFewPairs);
    let opinion = peak.second_opinion.unwrap();
    assert_eq!((opinion.is_beyond_reach, opinion.pairs_needed), (true, 7));
    let page = comparison.page();
    assert!(
        page.contains("  memory, peak: too few pairs: 5 that differ, of at least 7 (n 5)\n"),
        "{page}"
    );
    // As many as are needed may speak.
    let enough = compared(&A[..7], &B[..7]);
    assert!(row(&enough, Measure::MemoryPeak).says != Says::TooFewPairs);
}

#[test]
fn where_the_opinions_disagree_no_difference_is_detected_and_that_is_said() {
    // Differences -1 12 8 -2 2 12 5 14 12 -3 MiB: an interval from 2 MiB on, and p 0.039 that Holm makes
    // 0.117 (interval and p of another program: scipy 1.17.1).
    let comparison = compared(&A, &[99, 114, 106, 99, 101, 115, 102, 114, 114, 95]);
    let peak = row(&comparison, Measure::MemoryPeak);
    assert_eq!(peak.effect.unwrap().low.value, i128::from(2 * MIB));
    let opinion = peak.second_opinion.unwrap();
    assert!(
        (opinion.p - 0.039_062_5).abs() < 1e-12 && (opinion.p_holm - 0.117_187_5).abs() < 1e-12
    );
    assert_eq!((peak.says, opinion.is_beyond_reach), (Says::NoDifferenceDetected, false));
    let page = comparison.page();
    assert!(
        page.split_whitespace().collect::<Vec<_>>().join(" ").contains("two opinions disagree"),
        "{page}"
    );
}

/// T20.
#[test]
fn t20_a_void_side_is_refused() {
    let (a, b) = (facts("a"), facts("b"));
    let (good, bad) = (valid(), void());
    let refused = |verdict_a, verdict_b, allow| {
        let a = Side { facts: &a, verdict: verdict_a };
        let b = Side { facts: &b, verdict: verdict_b };
        admit(a, b, allow).map(|_| ()).unwrap_err()
    };
    for allow in [false, true] {
        let error = refused(&bad, &good, allow);
        assert!(matches!(error, Refusal::Void { side: 'A', .. }), "{error}");
        let error = refused(&good, &bad, allow);
        assert!(matches!(error, Refusal::Void { side: 'B', .. }), "{error}");
        assert!(
            error.to_string().starts_with("B cannot be compared: the batch is void"),
            "{error}"
        );
    }
}

#[test]
fn what_was_not_recorded_alike_is_refused_by_name_or_stands_in_the_title() {
    type Change = fn(&mut BatchFacts);
    let changes: [(&str, Change); 11] = [
        ("schema 1 / 2", |facts| facts.schema_version = 2),
        ("backend direct_nvml / simulated", |facts| facts.backend = Backend::Simulated),
        ("period 200.000 ms / 250.000 ms", |facts| facts.settings.period = Length::of_ms(250)),
        ("timeline period 50.000 ms / 49.000 ms", |facts| {
            facts.settings.timeline_period = Length::of_ms(49);
        }),
        ("cap 750.000 ms / 751.000 ms", |facts| facts.settings.cap = Length::of_ms(751)),
        ("age gate both / points", |facts| facts.settings.age_gate = AgeGate::Points),
        ("field order utilization,power,memory / memory", |facts| {
            facts.field_order = vec![FieldName::Memory];
        }),
        ("driver 595.45.04 / 610.1\\x0a", |facts| facts.driver = Some("610.1\n".into())),
        ("driver 595.45.04 / UNKNOWN", |facts| facts.driver = None),
        ("GPU GPU-11111111-2222-3333-4444-555555555555 / GPU-9", |facts| {
            facts.gpu_uuid = GpuUuid("GPU-9".into());
        }),
        ("power limit 700000 mW / 500000 mW", |facts| facts.power_limit_mw = Some(500_000)),
    ];
    let (a, verdict) = (facts("a"), valid());
    for (told, change) in changes {
        let mut b = facts("b");
        change(&mut b);
        let side = |facts| Side { facts, verdict: &verdict };
        let error = admit(side(&a), side(&b), false).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("--allow-mismatch"), "{error}");
        let title = admit(side(&a), side(&b), true).unwrap().title();
        assert!(title.ends_with(&format!("MISMATCH ALLOWED: {told}")), "{title}");
    }
}

#[test]
fn every_mismatch_is_in_the_title() {
    let (a, mut b, verdict) = (facts("a"), facts("b"), valid());
    b.schema_version = 2;
    b.driver = None;
    let side = |facts| Side { facts, verdict: &verdict };
    let title = admit(side(&a), side(&b), true).unwrap().title();
    assert!(title.ends_with("schema 1 / 2; driver 595.45.04 / UNKNOWN"), "{title}");
}

#[test]
fn what_nobody_knows_of_either_is_said_and_a_failing_backend_too() {
    let (mut a, mut b) = (facts("a"), facts("b"));
    (a.power_limit_mw, b.power_limit_mw) = (None, None);
    let simulated = Verdict { backend: vec![BackendReason::Simulated], data: vec![] };
    let (one, verdict) = (holding(&[1]), valid());
    let admitted = admit(
        Side { facts: &a, verdict: &verdict },
        Side { facts: &b, verdict: &simulated },
        false,
    )
    .unwrap();
    let observed = observed("x", &one);
    let all = compare(&admitted, &observed, &observed, Options::default(), worst()).unwrap();
    assert_eq!(all.unknown_of_both, ["power limit"]);
    let page = all.page();
    assert!(page.contains("BACKEND FAIL of B: simulated"), "{page}");
    assert!(
        page.contains("UNKNOWN     of both, and so not known to be alike: power limit"),
        "{page}"
    );
}

#[test]
fn pairs_are_made_by_labels_and_nothing_else() {
    let (a, b) = (holding(&[10, 20, 30]), holding(&[10, 20, 30]));
    both(|admitted| {
        let a = observed("x", &a);
        // In another order, and one of them of a round that A lacks.
        let mut b: Vec<_> = observed("x", &b).into_iter().rev().collect();
        b[0].labels = labels("x", 9);
        let run = |a: &[Observation<'_>], b: &[Observation<'_>], across| {
            compare(admitted, a, b, Options { across, ..Options::default() }, worst())
        };
        let comparison = run(&a, &b, Across::Nothing).unwrap();
        assert_eq!(comparison.pairs, [labels("x", 1), labels("x", 2)]);
        let differences = &row(&comparison, Measure::MemoryPeak).points;
        assert!(differences.iter().all(|point| point.difference.value == 0));
        assert_eq!(comparison.unpaired_a, [labels("x", 3)]);
        assert_eq!(comparison.unpaired_b, [labels("x", 9)]);
        assert!(comparison.page().contains("only in B   config=x context=4096 round=09"));
        // Configs that are what is compared.
        for one in &mut b {
            one.labels.config = Some("y".into());
        }
        assert_eq!(
            run(&a, &b, Across::Nothing),
            Err(Refusal::NoPair { a: super::pairs::listed(&a), b: super::pairs::listed(&b) })
        );
        assert_eq!(run(&a, &b, Across::Config).unwrap().pairs.len(), 2);
        b[1].labels = b[0].labels.clone();
        let error = run(&a, &b, Across::Config).unwrap_err().to_string();
        assert!(error.starts_with("B has two iterations labelled config=y"), "{error}");
    });
}

#[test]
fn phases_are_compared_where_both_have_them() {
    let marks = [(BootNs(0), "load".into()), (BootNs(T0 + 200 * MS), "de\u{1b}code".into())];
    let (a, mut b) = (marked(&A[..6], &marks), marked(&B[..6], &marks));
    // One iteration of B never came to its second phase.
    b[0].phases.truncate(1);
    let comparison = of(&a, &b);
    let n: Vec<usize> = comparison
        .rows
        .iter()
        .filter(|row| row.measure == Measure::MemoryPeak)
        .map(|row| row.n)
        .collect();
    assert_eq!(n, [6, 6, 5]);
    // Each stretch has its own family.
    let opinion = row(&comparison, Measure::MemoryPeak).second_opinion.unwrap();
    assert_eq!(opinion.family_size, 3);
    let page = comparison.page();
    assert!(page.contains("Phase de\\x1bcode\n"), "{page}");
    assert!(page.contains("Phase load\n") && page.contains("Whole window\n"), "{page}");
}

/// T20.
#[test]
fn t20_the_report_has_its_claims_and_ranks_nothing() {
    let comparison = compared(&A, &B);
    let (page, json) = (comparison.page(), json(&comparison).unwrap());
    for text in [&page, &json] {
        let lower = text.to_lowercase();
        for word in ["better", "worse", "best", "faster", "winner", "improve", "nan"] {
            assert!(!lower.contains(word), "{word}: {text}");
        }
        assert!(text.contains("each value of device memory was read within 205.000 ms"), "{text}");
        assert!(text.contains("750.000 ms is a trade-off"), "{text}");
    }
    assert!(page.contains("does not prove: that events shorter than 201.000 ms are visible"));
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(json.contains("\"says\":\"differs\"") && json.contains("\"n\":10"), "{json}");
}

#[test]
fn it_is_the_same_for_a_seed_and_says_which() {
    let text = |seed| {
        let (a, b) = (holding(&A), holding(&B));
        both(|admitted| {
            let (a, b) = (observed("x", &a), observed("x", &b));
            let options = Options { seed, ..Options::default() };
            let comparison = compare(admitted, &a, &b, options, worst()).unwrap();
            (comparison.page(), json(&comparison).unwrap())
        })
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1).1, text(2).1);
    assert!(text(7).0.contains("seed 7"));
}
