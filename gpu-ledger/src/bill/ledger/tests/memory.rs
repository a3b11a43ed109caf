//! Memory held: whole quarters of valid hours, and the size of everything else.

use std::collections::BTreeMap;

use super::{ask, head, ledger, made, made_by, span};
use crate::bill::made::{Journal, NAMELESS, Row, program};
use crate::bill::report::{MemoryGpu, MemoryLine, Outside, Report, report};
use crate::bill::{By, SharePolicy};
use crate::journal::entry::OpenKind;
use crate::memory::{HOUR_MS, SLOT_MS};
use crate::prices::{Meter, parse};
use crate::random::Random;
use crate::residency::verdict::VoidReason;
use crate::unit::Ms;

const GIB: u64 = 1 << 30;
/// Bytes × milliseconds of a GiB·s.
const GIB_S: u128 = (1 << 30) * 1_000;

/// A GPU in sight for four hours.
fn watched() -> Journal {
    Journal::began(0, 1)
}

fn of<'a>(report: &'a Report, name: &str) -> &'a MemoryLine {
    let mut lines = report.memory.lines.iter();
    lines.find(|line| line.account == name).unwrap_or_else(|| panic!("{name}: {:?}", report.memory))
}

fn gpu_of(report: &Report) -> &MemoryGpu {
    &report.memory.gpus[0]
}

fn bytes(text: &str) -> u128 {
    text.parse().unwrap()
}

/// What is used is what the lines and nobody held.
fn assert_closes(report: &Report) {
    let lines = report.memory.lines.iter().filter_map(|line| line.byte_ms.as_deref());
    let lines: u128 = lines.map(bytes).sum();
    let gpu = gpu_of(report);
    // Known at no moment, there is nothing to close.
    let told = |of: &Option<String>| of.as_deref().map_or(0, bytes);
    let all = lines + told(&gpu.unattributed_byte_ms);
    assert_eq!(all, told(&gpu.used_byte_ms) + told(&gpu.excess_byte_ms));
    let sizes = [gpu.covered_ms, gpu.void_ms, gpu.cut_ms, gpu.pending_ms, gpu.uncovered_ms];
    let sum: u64 = sizes.iter().map(|size| size.0).sum();
    assert_eq!(sum, report.period.length_ms.0, "{gpu:?}");
}

#[test]
fn a_warm_model_that_never_exits_has_a_line_beside_what_is_held() {
    let mut journal = watched();
    journal.open(5, OpenKind::NoDriverRow, 0, 7, 0, program("ollama"));
    journal.settle(SLOT_MS, Row::of("train", 8, 1_000, 60_000));
    for quarter in 0..4 {
        let held = [(program("ollama"), 7, 8 * GIB), (NAMELESS, 9, GIB)];
        journal.memory((quarter * SLOT_MS, (quarter + 1) * SLOT_MS), &held, &[]);
    }
    journal.mark(HOUR_MS, 1);
    let said = made(&journal, &ledger(&journal), span(0, HOUR_MS));
    assert_closes(&said);
    let line = of(&said, "ollama");
    assert_eq!(bytes(line.byte_ms.as_ref().unwrap()), 8 * 3_600 * GIB_S);
    assert_eq!(
        (line.gib_s.as_deref(), line.known_ms, line.basis),
        (Some("28800.000"), Ms(HOUR_MS), "sampled")
    );
    let account = said.accounts.iter().find(|one| one.account == "ollama").unwrap();
    assert_eq!(
        (account.held_ms, account.memory_held_gib_s.as_deref()),
        (Ms::ZERO, Some("28800.000"))
    );
    assert_eq!(account.memory_unknown_ms, Some(Ms::ZERO));
    // One that holds no memory that was seen has none that is known.
    let train = said.accounts.iter().find(|one| one.account == "train").unwrap();
    assert_eq!((&train.memory_held_gib_s, &train.memory_held_byte_ms), (&None, &None));
    let nameless = of(&said, "unattributed");
    assert_eq!((nameless.nameless.is_some(), nameless.gib_s.as_deref()), (true, Some("3600.000")));
    assert!(said.unknown.iter().all(|line| !line.subject.contains("memory held")));
    // And by everything else that a bill can be made by.
    for by in By::ALL {
        let said = made_by(&journal, &ledger(&journal), span(0, HOUR_MS), by);
        assert_closes(&said);
        let text = crate::bill::text::render(&said);
        assert!(text.contains("memory held on GPU 0: sampled"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let said = made_by(&journal, &ledger(&journal), span(0, HOUR_MS), By::Process);
    let processes = said.memory.processes.unwrap();
    assert_eq!(processes.len(), 2);
    assert_eq!(processes[0].pid.map(|pid| pid.0), Some(7));
}

#[test]
fn an_over_age_sample_voids_its_hour_for_those_who_were_seen_in_it() {
    let mut journal = watched();
    let held = [(program("ollama"), 7, 8 * GIB)];
    journal.memory((0, SLOT_MS), &held, &[]);
    journal.memory((SLOT_MS, 2 * SLOT_MS), &held, &[VoidReason::AgeSupOverCap]);
    journal.memory((HOUR_MS, HOUR_MS + SLOT_MS), &held, &[]);
    journal.mark(2 * HOUR_MS, 1);
    let ledger = ledger(&journal);
    let said = made(&journal, &ledger, span(0, 2 * HOUR_MS));
    assert_closes(&said);
    let line = of(&said, "ollama");
    assert_eq!((line.gib_s.as_deref(), line.void_ms), (Some("7200.000"), Ms(2 * SLOT_MS)));
    let gpu = gpu_of(&said);
    assert_eq!((gpu.void_hours, gpu.void_ms), (1, Ms(2 * SLOT_MS)));
    assert_eq!(gpu.voids[0].reason, VoidReason::AgeSupOverCap);
    // A part of that hour is void as well, though its own samples were young.
    let said = made(&journal, &ledger, span(0, SLOT_MS));
    let line = of(&said, "ollama");
    assert_eq!((&line.gib_s, &line.byte_ms, line.void_ms), (&None, &None, Ms(SLOT_MS)));
    assert_eq!(gpu_of(&said).used_byte_ms, None);
    let page = crate::bill::text::render(&said);
    assert!(page.contains("  = used                                  UNKNOWN\n"), "{page}");
    let unknown = said.unknown.iter().find(|line| line.subject.contains("void")).unwrap();
    assert!(unknown.is_evidence && unknown.reason == "memory-void");
}

#[test]
fn a_period_that_cuts_a_quarter_says_so_and_does_not_interpolate() {
    let mut journal = watched();
    let held = [(program("ollama"), 7, 8 * GIB)];
    journal.memory((0, SLOT_MS), &held, &[]);
    journal.mark(HOUR_MS, 1);
    let said = made(&journal, &ledger(&journal), span(0, SLOT_MS - 1));
    assert_closes(&said);
    let line = of(&said, "ollama");
    assert_eq!((&line.gib_s, line.cut_ms), (&None, Ms(SLOT_MS - 1)));
    assert_eq!(gpu_of(&said).cut_ms, Ms(SLOT_MS - 1));
    assert!(crate::bill::text::render(&said).contains("the period cuts"));
}

#[test]
fn what_is_not_entered_yet_is_awaited_and_what_never_came_is_not_sampled() {
    let mut journal = watched();
    let held = [(program("ollama"), 7, GIB)];
    journal.memory((1_000, SLOT_MS), &held, &[]);
    journal.mark(SLOT_MS + 60_000, 1);
    let said = made(&journal, &ledger(&journal), span(0, SLOT_MS + 60_000));
    assert_closes(&said);
    let gpu = gpu_of(&said);
    assert_eq!((gpu.pending_ms, gpu.uncovered_ms), (Ms(60_000), Ms(1_000)));
    journal.mark(2 * HOUR_MS, 1);
    let said = made(&journal, &ledger(&journal), span(0, 2 * HOUR_MS));
    assert_closes(&said);
    let gpu = gpu_of(&said);
    assert_eq!((gpu.pending_ms, gpu.uncovered_ms), (Ms::ZERO, Ms(2 * HOUR_MS - SLOT_MS + 1_000)));
    // Of one whom nobody sampled that is said, as before there was a recorder.
    let mut journal = watched();
    journal.settle(9, Row::of("train", 8, 1, 8));
    let said = made(&journal, &ledger(&journal), span(0, 100));
    assert!(said.unknown.iter().any(|line| line.subject == "memory held"));
    assert!(crate::bill::text::render(&said).contains("UNKNOWN, nothing of it is entered: it was"));
}

#[test]
fn shared_time_is_divided_by_memory_where_that_is_known() {
    let mut journal = watched();
    journal.settle(SLOT_MS, Row::of("a", 1, 0, SLOT_MS));
    journal.settle(SLOT_MS, Row::of("b", 2, 0, SLOT_MS));
    let held = [(program("a"), 1, 3 * GIB), (program("b"), 2, GIB)];
    journal.memory((0, SLOT_MS), &held, &[]);
    journal.mark(SLOT_MS, 1);
    let shares = |journal: &Journal| {
        let ask = ask(span(0, SLOT_MS), By::Account, SharePolicy::Memory);
        let said = report(&ledger(journal), &ask, head(journal), &Outside::default()).unwrap();
        let share = |name: &str| super::line(&said, name).share_ms.unwrap();
        (share("a"), share("b"), said.undivided_ms.unwrap())
    };
    assert_eq!(shares(&journal), (Ms(675_000), Ms(225_000), Ms::ZERO));
    // A void hour weighs nothing: it is unknown, and nobody is given more than he can be shown to owe.
    journal.memory((2 * SLOT_MS, 3 * SLOT_MS), &[], &[VoidReason::ProbeStuck]);
    assert_eq!(shares(&journal), (Ms::ZERO, Ms::ZERO, Ms(SLOT_MS)));
}

#[test]
fn a_gib_hour_has_a_price_and_what_is_void_has_none() {
    let text = "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"memory\"\nper_hour = \"0.5\"\n";
    let list = parse(text, &jiff::tz::TimeZone::UTC).unwrap();
    let mut journal = watched();
    let held = [(program("ollama"), 7, 8 * GIB)];
    for quarter in 0..4 {
        journal.memory((quarter * SLOT_MS, (quarter + 1) * SLOT_MS), &held, &[]);
    }
    let void = [VoidReason::SuspendDetected];
    journal.memory((HOUR_MS, HOUR_MS + SLOT_MS), &held, &void);
    journal.mark(2 * HOUR_MS, 1);
    let mut ask = ask(span(0, HOUR_MS + SLOT_MS), By::Account, SharePolicy::None);
    ask.prices = Some(list);
    let said = report(&ledger(&journal), &ask, head(&journal), &Outside::default()).unwrap();
    let priced = said.priced.as_ref().unwrap();
    let memory = priced.lines.iter().filter(|line| line.meter == Meter::Memory);
    let told: Vec<_> = memory
        .map(|line| {
            assert!(!line.is_booked && line.basis.as_str() == "sampled");
            assert_eq!(line.quantity_ms, None);
            let reason = line.reason.map(crate::bill::report::Unpriced::as_str);
            let whose = line.account.as_deref();
            let amount = line.amount.map(|amount| amount.to_string());
            (whose, line.quantity_byte_ms, line.unknown_ms, reason, amount)
        })
        .collect();
    let slot = u128::from(SLOT_MS);
    let known = u128::from(8 * HOUR_MS) << 30;
    // The void hour has its size on the line of whoever was seen in it, and on the GPU's own.
    let wanted = [
        (Some("ollama"), Some(known), None, None, Some("4.0000".to_owned())),
        (None, None, Some(slot), Some("memory-void"), None),
        (Some("ollama"), None, Some(slot), Some("memory-void"), None),
    ];
    assert_eq!(told, wanted);
    assert!(said.unknown.iter().any(|line| !line.is_evidence && line.remedy.is_some()));
    let csv = crate::bill::focus::csv(&said, false).unwrap();
    assert!(csv.contains("GiB-Hours") && csv.contains("unsampled"), "{csv}");
    assert!(csv.contains("memory-void") && csv.contains(",900000\r\n"), "{csv}");
    assert!(!csv.contains("sampled, sampled"), "{csv}");
    let page = crate::bill::text::render(&said);
    assert!(page.contains("memory-void, for 0:15:00"), "{page}");
}

#[test]
fn a_clock_that_was_set_back_cuts_nothing_of_all() {
    let mut journal = watched();
    let held = [(program("ollama"), 7, 8 * GIB)];
    journal.memory((4 * SLOT_MS, 5 * SLOT_MS), &held, &[]);
    // Set back by an hour: what is entered from here on is earlier than what the last entry tells of.
    journal.memory((SLOT_MS, 2 * SLOT_MS), &held, &[]);
    journal.mark(2 * SLOT_MS, 1);
    let ledger = ledger(&journal);
    let latest = span(0, 5 * SLOT_MS).to_ms();
    assert_eq!(ledger.latest_ms(), Some(latest), "the entry itself");
    let all = span(0, 5 * SLOT_MS + 1);
    let said = made(&journal, &ledger, all);
    assert_closes(&said);
    assert_eq!(bytes(of(&said, "ollama").byte_ms.as_ref().unwrap()), 2 * 8 * 900 * GIB_S);
    // An entry that was made after the step tells of before it.
    let mut late = watched();
    late.mark(SLOT_MS, 1);
    let stretch = Journal::stretch_of((4 * SLOT_MS, 5 * SLOT_MS), &held, &[]);
    late.enter(SLOT_MS + 1, crate::journal::Figures::Memory(Box::new(stretch)));
    late.mark(SLOT_MS + 2, 1);
    let late_ledger = super::ledger(&late);
    assert_eq!(late_ledger.latest_ms(), Some(latest - 1));
    let said = made(&late, &late_ledger, span(0, 5 * SLOT_MS));
    assert_eq!(gpu_of(&said).cut_ms, Ms::ZERO);
    assert_eq!(bytes(of(&said, "ollama").byte_ms.as_ref().unwrap()), 8 * 900 * GIB_S);
}

/// Histories of quarters, with holes, voids and parts: every bill over quarters is the sum of the bills of its parts,
/// and what a naive sum says.
#[test]
fn bills_over_quarters_add_up_to_the_byte() {
    for seed in 0..60 {
        let random = &mut Random::seeded(seed);
        let mut journal = watched();
        let (mut naive, mut voids) = (BTreeMap::<(u64, u32), u128>::new(), Vec::new());
        let quarters = 24;
        for quarter in 0..quarters {
            if random.below(6) == 0 {
                continue;
            }
            let (from, to) = (quarter * SLOT_MS, (quarter + 1) * SLOT_MS);
            let from = if random.below(5) == 0 { from + random.below(SLOT_MS) } else { from };
            let held: Vec<_> = (0..random.below(4))
                .map(|pid| {
                    (
                        program(&format!("p{}", pid % 3)),
                        u32::try_from(pid).unwrap(),
                        random.below(1 << 40),
                    )
                })
                .collect();
            let is_void = random.below(8) == 0;
            let void = [VoidReason::AgeSupOverCap];
            journal.memory((from, to), &held, if is_void { &void } else { &[] });
            if is_void {
                voids.push(quarter / 4);
            }
            for (_, pid, bytes) in &held {
                *naive.entry((quarter, pid % 3)).or_default() +=
                    u128::from(*bytes) * u128::from(to - from);
            }
        }
        journal.mark(quarters * SLOT_MS, 1);
        let ledger = ledger(&journal);
        let of_period = |from: u64, to: u64| {
            let said = made(&journal, &ledger, span(from * SLOT_MS, to * SLOT_MS));
            assert_closes(&said);
            let lines = said.memory.lines.iter();
            let lines = lines.map(|line| {
                let held = line.byte_ms.as_deref().map_or(0, bytes);
                (line.account.clone(), (held, line.void_ms.0))
            });
            lines.collect::<BTreeMap<String, (u128, u64)>>()
        };
        let (from, to) = (random.below(12), 12 + random.below(12));
        let cut = from + random.below(to - from + 1);
        let whole = of_period(from, to);
        let mut sum = of_period(from, cut);
        for (name, (held, void)) in of_period(cut, to) {
            let line = sum.entry(name).or_default();
            *line = (line.0 + held, line.1 + void);
        }
        assert_eq!(whole, sum, "seed {seed}: {from}..{cut}..{to}");
        let mut plain = BTreeMap::<String, u128>::new();
        for ((quarter, name), held) in &naive {
            if (from..to).contains(quarter) && !voids.contains(&(quarter / 4)) {
                *plain.entry(format!("p{name}")).or_default() += held;
            }
        }
        plain.retain(|_, held| *held > 0);
        let known = whole.into_iter().map(|(name, (held, _))| (name, held));
        let known: BTreeMap<String, u128> = known.filter(|(_, held)| *held > 0).collect();
        assert_eq!(known, plain, "seed {seed}");
    }
}
