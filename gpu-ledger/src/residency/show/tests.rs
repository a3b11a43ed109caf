//! Pages of made batches.

use super::{Detail, Iteration, Shown};
use crate::residency::events::Event;
use crate::residency::statistics::bootstrap::SEED;
use crate::residency::statistics::tests::made::{
    MIB, MS, Made, T0, facts, labels, process, valid, void,
};
use crate::residency::verdict::{BackendReason, Verdict};
use crate::unit::{BootNs, Pid};

const GIB: u64 = 1_024 * MIB;

fn made() -> Made {
    let mut made = Made::of(400, &[(0, GIB), (200, 3 * GIB), (400, 3 * GIB)]);
    made.processes = vec![
        vec![process(7, Some(GIB / 2)), process(9, None)],
        vec![process(7, Some(4 * GIB))],
        vec![],
    ];
    made.marks = vec![(BootNs(T0), "load".into()), (BootNs(T0 + 200 * MS), "serve".into())];
    made.thresholds.utilization_percent = Some(0);
    made.events = vec![Event::Process {
        at_ns: BootNs(T0),
        pid: Pid(7),
        start_ns: Some(BootNs(T0)),
        program: Some("python3\u{1b}[2J".to_owned()),
        basis: Some("procfs".to_owned()),
        uid: None,
    }];
    made
}

fn page(verdict: &Verdict, count: u64) -> String {
    detailed(verdict, count, Detail::All)
}

fn detailed(verdict: &Verdict, count: u64, detail: Detail) -> String {
    let made = made();
    let (figures, statistics) = (made.figures(), made.statistics());
    let labels: Vec<_> = (1..=count).map(|round| labels("x", round)).collect();
    let iterations: Vec<Iteration<'_>> = labels
        .iter()
        .zip(1..)
        .map(|(labels, number)| Iteration {
            number,
            labels,
            figures: &figures,
            notes: &[],
            statistics: Some(&statistics),
        })
        .collect();
    Shown { facts: &facts("batch-1"), verdict, iterations: &iterations, seed: SEED, detail }.page()
}

#[test]
fn a_batch_on_a_page() {
    let page = page(&valid(), 1);
    for told in [
        "residency batch batch-1\n",
        "  GPU         NVIDIA H200, GPU-11111111-2222-3333-4444-555555555555\n",
        "  backend     direct_nvml; no program was run to ask the driver\n",
        "  age         cap 750.000 ms, gate both; a lone stall of up to 550.000 ms leaves\n",
        "  GPU_LEDGER_VERDICT backend=pass data=valid reasons=none\n",
        "   1            9/9        400.000    151.000    201.000         3           0\n",
        "        config=x context=4096 round=01\n",
        // 3 ms of each of two passes in 400 ms; the first ends where they begin.
        "   1      1.5000 %     3.000     3.000     3.000       200.000      0.000\n",
        "  memory                                     3     1.000     1.000\n",
        "  Whole window (400.000 ms)\n",
        "    memory GiB           2.000    1.000    1.000    3.000    3.000    3.000\n",
        "    temperature °C    UNKNOWN\n",
        "    missing, and in no figure: temperature 400.000 ms, CPU 400.000 ms,\n",
        "      unattributed 200.000 ms\n",
        // From 1 to 3 GiB in the first 200 ms, nobody saw when.
        "    residency 0.800000 GiB·s, 0.800000 to 1.200000 by its samples; memory:\n",
        "      longest plateau 200.000 ms at 1.000 GiB; 1 transitions\n",
        "  off by up to 201.000 ms, the longest time between two samples",
        "400.000 ms\n      above 0.0 %\n",
        "  Phase load, from 0.000 ms (200.000 ms)\n",
        "    residency 0.200000 GiB·s",
        "  Phase serve, from 200.000 ms (200.000 ms)\n",
        "    residency 0.600000 GiB·s",
        "NEGATIVE unattributed for 200.000 ms: ",
        "each utilization is the driver's own mean over the 167 to 1000 ms before it",
        "    python3\\x1b[2J 7@1000.00            0.900     2.250     4.000       400.000\n",
        "    UNKNOWN 9@UNKNOWN                 UNKNOWN   UNKNOWN   UNKNOWN       200.000\n",
        "  proves: each value of device memory was read within 201.000 ms of the",
        "  does not prove: that events shorter than 200.",
    ] {
        assert!(page.contains(told), "{told:?} is not in\n{page}");
    }
    assert!(!page.contains('\u{1b}'));
    assert!(!page.contains("Over iterations"), "one iteration has nothing to be estimated over");
}

#[test]
fn a_void_batch_has_no_statistics_and_says_so_first() {
    let page = page(&void(), 6);
    assert!(
        page.starts_with("VOID: age_over_cap 3 (first at point 17)\nBACKEND FAIL: simulated\n")
    );
    for never in ["mean", "p95", "residency 0", "Whole window", "Over iterations", "proves: each"] {
        assert!(!page.contains(never), "{never}: {page}");
    }
    assert!(page.contains("Iterations") && page.contains("own cost"), "{page}");
    assert!(
        page.contains(
            "  proves nothing: its data are void and its backend verdict failed (simulated),\n"
        ),
        "{page}"
    );
}

#[test]
fn over_iterations_n_is_always_there_and_few_are_points() {
    let few = page(&valid(), 4);
    assert!(
        few.contains("  memory, peak (n 4): 3.000 GiB, 3.000 GiB, 3.000 GiB, 3.000 GiB\n"),
        "{few}"
    );
    let enough = page(&valid(), 5);
    let told = "  memory, peak (n 5): mean 3.000 GiB, 3.000 GiB to 3.000 GiB (BCa)\n";
    assert!(enough.contains(told), "{enough}");
    assert!(enough.contains("  temperature, peak (n 0): UNKNOWN\n"), "{enough}");
}

#[test]
fn a_failing_backend_is_said_above_the_name() {
    let verdict = Verdict { backend: vec![BackendReason::Simulated], data: vec![] };
    let page = page(&verdict, 1);
    assert!(page.starts_with("BACKEND FAIL: simulated\nresidency batch batch-1\n"), "{page}");
    assert!(page.contains("Whole window"), "{page}");
}

#[test]
fn no_line_is_wider_than_eighty_columns_and_no_word_ranks() {
    use unicode_width::UnicodeWidthStr as _;
    for verdict in [valid(), void()] {
        let page = page(&verdict, 6);
        for line in page.lines() {
            assert!(line.width() <= 80, "{line:?} in\n{page}");
        }
        assert!(!page.to_lowercase().contains("better"), "{page}");
    }
}
