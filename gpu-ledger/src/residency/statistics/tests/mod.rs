//! Statistics of made curves, where every number can be added up by hand.

pub(in crate::residency) mod made;

use made::{MIB, MS, Made, T0, process, valid, void};

use super::Sound;
use super::series::Series;
use super::window::{IterationStatistics, Stretch};
use crate::random::{Random, histories};
use crate::residency::events::{CpuInvalid, CpuPoint, Event};
use crate::residency::moment::Length;
use crate::unit::{BootNs, Pid};

fn share(centipercent: u64) -> CpuPoint {
    CpuPoint { centipercent: Some(centipercent), invalid: None }
}

fn mean(statistics: &IterationStatistics) -> (String, u64) {
    let window = &statistics.window;
    (window.cpu.mean.unwrap().to_string(), window.cpu.known_ms.0)
}

/// P 200 ms, Q 50 ms, 400 ms: points 0 to 3 hold the first sample, 4 to 7 the second, 8 the third.
#[test]
fn a_curve_by_hand() {
    let made = Made::of(400, &[(0, 100 * MIB), (200, 300 * MIB), (400, 900 * MIB)]);
    let window = made.statistics().window;
    let memory = &window.memory;
    assert_eq!((memory.known_ms, memory.missing_ms), (Length::of_ms(400), Length(0)));
    // The last point holds for no time: it is the peak and in no mean.
    assert_eq!(memory.mean.unwrap().value, i128::from(200 * MIB) * 1_000);
    assert_eq!(memory.peak, Some(i64::try_from(900 * MIB).unwrap()));
    let mib = |value: u64| Some(i64::try_from(value * MIB).unwrap());
    assert_eq!((memory.p5, memory.p50, memory.p99), (mib(100), mib(100), mib(300)));
    assert_eq!(memory.percentile_resolution, 1);
    assert_eq!(memory.transitions, 2);
    let plateau = memory.longest_plateau.unwrap();
    assert_eq!((Some(plateau.value), plateau.length_ms), (mib(100), Length::of_ms(200)));
    // 100 MiB · 0.2 s + 300 MiB · 0.2 s = 80 MiB·s
    assert_eq!(window.residency_gib_s.unwrap().to_string(), "0.078125");
    assert_eq!(window.utilization.source_window_ms, Some((167, 1_000)));
    assert_eq!(window.power.source_window_ms, None);
}

#[test]
fn a_window_that_ends_between_points_counts_to_its_end() {
    let made = Made::of(430, &[(0, 100 * MIB), (200, 300 * MIB), (400, 900 * MIB)]);
    let window = made.statistics().window;
    assert_eq!(window.length_ms, Length::of_ms(430));
    let expected = u128::from(MIB) * u128::from(MS) * (100 * 200 + 300 * 200 + 900 * 30);
    assert_eq!(window.memory.value_ns, i128::try_from(expected).unwrap());
    // After the last point nobody read the processors.
    assert_eq!(window.cpu.known_ms.plus(window.cpu.missing_ms), Length::of_ms(430));
    assert!(window.cpu.missing_ms >= Length::of_ms(30));
}

#[test]
fn what_is_missing_is_told_and_never_nought() {
    // No pass after the first: from 750 ms on nothing may be used.
    let made = Made::of(1_000, &[(0, 64 * MIB)]);
    let window = made.statistics().window;
    assert_eq!(window.memory.known_ms.plus(window.memory.missing_ms), Length::of_ms(1_000));
    // The sample is as old as its landing at T0, so that the cap ends 1 ms earlier.
    assert_eq!(window.memory.known_ms, Length::of_ms(749));
    assert_eq!(window.memory.mean.unwrap().value, i128::from(64 * MIB) * 1_000);
    assert_eq!(window.memory.least, window.memory.peak);
    // Never asked for: no value, and no nought.
    assert_eq!((window.temperature.mean, window.temperature.peak), (None, None));
    assert_eq!(window.temperature.missing_ms, Length::of_ms(1_000));
}

/// T18.
#[test]
fn t18_the_first_sample_of_the_processors_counts_in_nothing() {
    let mut made = Made::of(400, &[(0, MIB), (200, MIB), (400, MIB)]);
    let first = CpuPoint { centipercent: None, invalid: Some(CpuInvalid::FirstSampleNoBaseline) };
    made.cpu = std::iter::once(first).chain((1..9).map(|j| share(j * 100))).collect();
    let clean = made.statistics();
    assert_eq!((clean.cpu_samples_total, clean.cpu_samples_aggregated), (9, 8));
    // (1 + … + 8) % / 8 = 4.5 %, over the eight times between nine points.
    assert_eq!(mean(&clean), ("450.000".to_owned(), 400 * MS));
    made.cpu[0] = share(10_000);
    assert_eq!(made.statistics(), clean);
    assert_eq!(clean.window.cpu.peak, Some(800));
}

#[test]
fn a_processor_share_that_is_not_known_is_missing_time() {
    let mut made = Made::of(400, &[(0, MIB), (200, MIB), (400, MIB)]);
    made.cpu = (0..9).map(|_| share(5_000)).collect();
    made.cpu[3] = CpuPoint { centipercent: None, invalid: Some(CpuInvalid::Late) };
    let statistics = made.statistics();
    assert_eq!(mean(&statistics), ("5000.000".to_owned(), 350 * MS));
    assert_eq!(statistics.window.cpu.missing_ms, Length::of_ms(50));
    assert_eq!(statistics.cpu_samples_aggregated, 7);
}

#[test]
fn a_threshold_is_a_time_above_it() {
    let mut made = Made::of(400, &[(0, 100 * MIB), (200, 300 * MIB), (400, MIB)]);
    made.thresholds.memory_bytes = Some(i64::try_from(100 * MIB).unwrap());
    assert_eq!(made.statistics().window.memory.above_ms, Some(Length::of_ms(200)));
    assert_eq!(made.statistics().window.power.above_ms, None);
}

#[test]
fn processes_are_told_apart_by_their_start_and_the_rest_stays() {
    let mut made = Made::of(400, &[(0, 100 * MIB), (200, 100 * MIB), (400, 0)]);
    made.processes = vec![
        vec![process(7, Some(60 * MIB)), process(8, None)],
        vec![process(7, Some(130 * MIB))],
        vec![],
    ];
    // The pid is another's from before the second list on.
    made.events = vec![seen(7, 1, "old"), seen(7, T0 + 150 * MS, "new")];
    let window = made.statistics().window;
    let held: Vec<_> = window
        .processes
        .iter()
        .map(|held| (held.person.program.as_deref(), held.listed_ms, held.peak_bytes))
        .collect();
    let ms = Length::of_ms(200);
    assert_eq!(held[0], (Some("new"), ms, Some(130 * MIB)));
    assert_eq!(held[1], (Some("old"), ms, Some(60 * MIB)));
    // Nobody knows what 8 held, nor so what is left.
    assert_eq!(held[2], (None, ms, None));
    assert_eq!(window.processes[2].residency_gib_s, None);
    assert_eq!(window.processes[2].memory_unknown_ms, ms);
    let rest = &window.unattributed;
    assert_eq!((rest.bytes.known_ms, rest.bytes.missing_ms), (ms, ms));
    // 100 − 130 MiB: told as it is, and flagged.
    assert_eq!(rest.bytes.least, Some(-30 * i64::try_from(MIB).unwrap()));
    assert_eq!(rest.negative_ms, ms);
}

fn seen(pid: u32, start_ns: u64, program: &str) -> Event {
    Event::Process {
        at_ns: BootNs(start_ns),
        pid: Pid(pid),
        start_ns: Some(BootNs(start_ns)),
        program: Some(program.to_owned()),
        basis: Some("procfs".to_owned()),
        uid: Some(1_000),
    }
}

fn random_curve(random: &mut Random) -> Made {
    let duration = random.between(50, 5_000);
    let mut at = 0;
    let mut rows = Vec::new();
    while at <= duration {
        rows.push((at, random.below(64) * MIB));
        at += random.between(1, 1_000);
    }
    let mut made = Made::of(duration, &rows);
    made.processes = rows
        .iter()
        .map(|_| {
            let held = |random: &mut Random| (!random.one_in(5)).then(|| random.below(40) * MIB);
            (0..random.below(4))
                .map(|pid| process(u32::try_from(pid).unwrap(), held(random)))
                .collect()
        })
        .collect();
    made.cpu = (0..1_000).map(|_| share(random.below(10_001))).collect();
    made.marks = (0..random.below(6))
        .map(|mark| (BootNs(T0 + random.below(duration * MS)), format!("p{}", mark % 3)))
        .collect();
    made
}

/// Splitting a window into phases adds up, to the byte and the nanosecond.
#[test]
fn phases_add_up_to_the_window() {
    histories(300, |_, random| {
        let made = random_curve(random);
        let whole = made.statistics();
        if made.marks.is_empty() {
            assert!(whole.phases.is_empty());
            return;
        }
        let parts = || whole.phases.iter().map(|phase| &phase.stretch);
        let window = &whole.window;
        assert_eq!(parts().map(|part| part.length_ms.0).sum::<u64>(), window.length_ms.0);
        let series: [fn(&Stretch) -> Series; 4] = [
            |stretch| stretch.memory.clone(),
            |stretch| stretch.cpu.clone(),
            |stretch| stretch.utilization.clone(),
            |stretch| stretch.unattributed.bytes.clone(),
        ];
        for of in series {
            let all = of(window);
            assert_eq!(parts().map(|part| of(part).value_ns).sum::<i128>(), all.value_ns);
            assert_eq!(parts().map(|part| of(part).known_ms.0).sum::<u64>(), all.known_ms.0);
            assert_eq!(parts().map(|part| of(part).missing_ms.0).sum::<u64>(), all.missing_ms.0);
            assert_eq!(parts().filter_map(|part| of(part).peak).max(), all.peak);
            assert_eq!(all.known_ms.plus(all.missing_ms), window.length_ms);
        }
        for held in &window.processes {
            let same = parts().flat_map(|part| &part.processes);
            let same = same.filter(|other| other.person == held.person);
            let (byte_ns, listed) = same.fold((0, 0), |(byte_ns, listed), other| {
                (byte_ns + other.byte_ns, listed + other.listed_ms.0)
            });
            assert_eq!((byte_ns, listed), (held.byte_ns, held.listed_ms.0));
        }
    });
}

/// An independent model: every nanosecond's value by the definition, in steps of 1 ms.
#[test]
fn the_integral_is_that_of_the_definition() {
    histories(100, |_, random| {
        let made = random_curve(random);
        let window = made.statistics().window;
        let (mut sum, mut known) = (0_u128, 0_u64);
        for ms in 0..made.duration_ms {
            // Landed by then, and not too old a millisecond later.
            let held = made.rows.iter().rev().find(|(at, _)| *at <= ms);
            let (at, bytes) = held.unwrap();
            if ms + 1 - at < 750 {
                sum += u128::from(bytes * MS);
                known += MS;
            }
        }
        assert_eq!(u128::try_from(window.memory.value_ns).unwrap(), sum);
        assert_eq!(window.memory.known_ms, Length(known));
    });
}

#[test]
fn nothing_is_computed_of_a_void_batch() {
    assert!(Sound::of_batch(&valid()).is_ok());
    let refused = Sound::of_batch(&void()).map(|_| ()).unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("the batch is void (age_over_cap 3 (first at point 17))"), "{text}");
}

#[test]
fn json_has_null_where_nothing_is_known_and_integers_elsewhere() {
    let mut made = Made::of(400, &[(0, 100 * MIB), (200, 300 * MIB)]);
    made.processes = vec![vec![process(7, Some(MIB))]];
    made.marks = vec![(BootNs(T0 + 100 * MS), "serve".to_owned())];
    let text = crate::rendering::json(&made.statistics()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["phases"][1]["name"], "serve");
    assert_eq!(json["phases"][1]["from_ms"].to_string(), "100.0");
    assert_eq!(json["phases"][1]["processes"][0]["pid"], 7);
    assert!(text.contains("\"from_ms\":100.000,"), "{text}");
    let window = &json["window"];
    assert_eq!(window["memory"]["peak"], serde_json::json!(300 * MIB));
    assert_eq!(window["temperature"]["mean"], serde_json::Value::Null);
    assert_eq!(window["residency_gib_s"].to_string(), "0.078125");
    assert!(window["unattributed"]["negative_ms"].is_number());
}
