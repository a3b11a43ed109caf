//! Random journals: what closes, and that a part of a journal says what the whole does.

use std::collections::BTreeMap;

use super::{ask, head, ledger, made, made_by, span};
use crate::bill::ledger::{Ledger, Which};
use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, gpu, program};
use crate::bill::report::{Outside, Report, report};
use crate::bill::{By, SharePolicy, bill};
use crate::journal::Figures;
use crate::journal::entry::OpenKind;
use crate::memory::HOUR_MS;
use crate::random::{Random, histories};
use crate::unit::{Span, WallUs};
use crate::unknown::{DisputeReason, GapCause};

/// Every figure of a bill that is a sum over time, by what it is of.
fn sums(report: &Report) -> BTreeMap<String, u128> {
    let mut sums = BTreeMap::new();
    let mut add = |key: String, ms: u128| *sums.entry(key).or_insert(0) += ms;
    for gpu in &report.gpus {
        let uuid = &gpu.gpu_uuid;
        add(format!("{uuid} alone"), gpu.alone_ms.0.into());
        add(format!("{uuid} shared"), gpu.shared_ms.0.into());
        add(format!("{uuid} free"), gpu.free_ms.0.into());
        add(format!("{uuid} uncovered"), gpu.uncovered_ms.0.into());
        add(format!("{uuid} period"), gpu.period_ms.0.into());
    }
    for line in &report.accounts {
        let name = format!("{} {:?}", line.account, line.classified);
        add(format!("{name} held"), line.held_ms.0.into());
        add(format!("{name} alone"), line.alone_ms.0.into());
        add(format!("{name} shared"), line.shared_ms.0.into());
        add(format!("{name} uncovered"), line.uncovered_ms.0.into());
        add(format!("{name} spans"), line.span_ms_total.0.into());
        add(format!("{name} open"), line.open_ms.0.into());
        add(format!("{name} open unseen"), line.open_uncovered_ms.0.into());
        add(format!("{name} both"), line.settled_or_open_ms.0.into());
        add(format!("{name} rowless"), line.no_driver_row_ms.0.into());
    }
    for line in &report.unattributed {
        add(format!("{} {} held", line.gpu_uuid, line.reason), line.held_ms.0.into());
        add(format!("{} {} spans", line.gpu_uuid, line.reason), line.span_ms_total.0.into());
    }
    for line in &report.disputed {
        add(format!("{} {} {}", line.gpu_uuid, line.account, line.reason), line.raw_ms);
    }
    for open in &report.open {
        if let Some(accrued) = open.accrued_ms {
            add(format!("open {:?}", open.pid), accrued.0.into());
        }
    }
    for one in &report.no_driver_row {
        if let Some(seen) = one.seen_ms {
            add(format!("rowless {:?} {}", one.pid, one.first_seen), seen.0.into());
        }
    }
    add("all".to_owned(), report.span_ms_total);
    sums.retain(|_, ms| *ms > 0);
    sums
}

fn plus(a: BTreeMap<String, u128>, b: BTreeMap<String, u128>) -> BTreeMap<String, u128> {
    let mut sums = a;
    for (key, ms) in b {
        *sums.entry(key).or_insert(0) += ms;
    }
    sums
}

fn random_account(random: &mut Random) -> crate::settlement::Account {
    match random.below(5) {
        0 => NAMELESS,
        1 => program("whisper"),
        2 => program("ollama"),
        3 => crate::settlement::Account::Ruled {
            name: "ollama".into(),
            rule: crate::settlement::RuleId(u32::try_from(random.below(3)).unwrap()),
        },
        _ => program("train.py"),
    }
}

/// A journal of two GPUs as it might have been: crashes, epochs, gaps, and all kinds of rows.
pub(super) fn random_journal(random: &mut Random) -> (Journal, u64) {
    let mut journal = Journal::began(random.below(2_000), 2);
    let mut now = 2_000;
    let mut pid = 0;
    let mut settled: Vec<u64> = Vec::new();
    for _ in 0..random.below(45) {
        now += 1 + random.below(3_000);
        pid += 1;
        let index = random.below(2);
        let begun = now - random.below(now.min(6_000));
        let account = random_account(random);
        match random.below(14) {
            0 | 1 => {
                let kind = [OpenKind::Row, OpenKind::Row, OpenKind::Masked, OpenKind::NoDriverRow];
                let kind = kind[usize::try_from(random.below(4)).unwrap()];
                journal.open(now, kind, index, pid, begun, account);
            }
            2..=4 => {
                let mut row = Row::of("", pid, begun, random.below(now - begun + 1));
                (row.gpu, row.account) = (index, account);
                match random.below(9) {
                    0 => row.start_ms = None,
                    1 => row.dispute = Some(DisputeReason::ClockStep),
                    2 => row.uid = None,
                    3 => row.held_ms = 0,
                    _ => {}
                }
                settled.push(journal.settle(now, row));
            }
            5 | 6 => settled.extend(settle_an_open(&mut journal, random, now)),
            7 => {
                let open: Vec<u64> = journal.end.unresolved.keys().copied().collect();
                if let Some(of) = pick(random, &open) {
                    let lost = random.one_in(2).then_some(GapCause::RowOverwritten);
                    journal.ended(now - random.below(500), of, lost);
                }
            }
            8 => {
                if let Some(of) = pick(random, &settled) {
                    journal.conflict(now, of);
                }
            }
            9 => {
                let open = journal.end.unresolved.keys().copied();
                let all: Vec<u64> = settled.iter().copied().chain(open).collect();
                if let Some(of) = pick(random, &all) {
                    journal.moved(now, of, account);
                }
            }
            10 => {
                let causes = [GapCause::EventLost, GapCause::AgentDown, GapCause::NvmlCallTimeout];
                let cause = causes[usize::try_from(random.below(3)).unwrap()];
                let of = (cause == GapCause::NvmlCallTimeout).then_some(index);
                journal.gap(cause, of, begun, now, None);
            }
            11 => journal.mark_of(now, &[(0, now), (1, now - random.below(900))]),
            12 => {
                journal.epoch_ended(now, index);
                now += 1 + random.below(900);
                journal.epoch_began(now, index);
            }
            _ => restart(&mut journal, random, &mut now),
        }
    }
    (journal, now)
}

fn pick(random: &mut Random, of: &[u64]) -> Option<u64> {
    let place = random.below(u64::try_from(of.len()).unwrap());
    of.get(usize::try_from(place).unwrap()).copied()
}

fn settle_an_open(journal: &mut Journal, random: &mut Random, now: u64) -> Option<u64> {
    let open: Vec<u64> = journal.end.unresolved.keys().copied().collect();
    let opened = pick(random, &open)?;
    let figures = journal.end.unresolved[&opened].clone();
    let start_ms = figures.start?.ms() - DAY_MS;
    let row = Row {
        gpu: u64::from(figures.gpu == gpu(1)),
        account: figures.account.clone(),
        opened: Some(opened),
        ..Row::of("", figures.pid.0, start_ms, now - start_ms - random.below(2))
    };
    Some(journal.settle(now, Row { held_ms: row.held_ms.min(now - start_ms), ..row }))
}

fn restart(journal: &mut Journal, random: &mut Random, now: &mut u64) {
    if random.one_in(2) {
        journal.mark(*now, 2);
        journal.agent_ended(*now);
    }
    *now += 1 + random.below(2_000);
    journal.agent_began(*now);
    let began = *now;
    for index in 0..2 {
        if !random.one_in(5) {
            journal.epoch_began(began + index, index);
        }
    }
    *now += 2;
}

fn random_split(random: &mut Random, end_ms: u64) -> (u64, u64, u64) {
    let mut cuts = [(); 3].map(|()| random.below(end_ms + 3_000));
    cuts.sort_unstable();
    (cuts[0], cuts[1], cuts[2])
}

#[test]
fn the_bills_of_two_adjacent_periods_are_that_of_both_for_every_gpu_and_line() {
    histories(4_000, |seed, random| {
        let (journal, end_ms) = random_journal(random);
        let ledger = ledger(&journal);
        let (from, cut, to) = random_split(random, end_ms);
        let by = By::ALL[usize::try_from(seed).unwrap() % By::ALL.len()];
        let whole = made_by(&journal, &ledger, span(from, to), by);
        let first = made_by(&journal, &ledger, span(from, cut), by);
        let second = made_by(&journal, &ledger, span(cut, to), by);
        assert_eq!(sums(&whole), plus(sums(&first), sums(&second)));
    });
}

#[test]
fn by_gpu_a_line_says_alone_and_shared_of_processes_as_its_statement_does() {
    histories(2_000, |_, random| {
        let (mut journal, end_ms) = random_journal(random);
        let whole = span(0, end_ms);
        let report = made_by(&journal, &ledger(&journal), whole, By::Gpu);
        let by_account = made_by(&journal, &ledger(&journal), whole, By::Account);
        for line in &report.accounts {
            let parts = line.alone_ms.0 + line.shared_ms.0 + line.uncovered_ms.0;
            assert_eq!(parts, line.held_ms.0);
            let gpu = report.gpus.iter().find(|gpu| {
                gpu.gpu_index
                    .is_some_and(|index| line.account.starts_with(&format!("GPU {index} ")))
            });
            let gpu = gpu.unwrap();
            assert!(line.alone_ms <= gpu.alone_ms && line.shared_ms <= gpu.shared_ms);
        }
        let held = |report: &Report| {
            let held = report.accounts.iter().map(|line| (line.settlements, line.span_ms_total));
            held.fold((0, 0), |(count, ms), (more, span)| (count + more, ms + span.0))
        };
        assert_eq!(held(&report), held(&by_account));
        // With nothing on it but settlements that have a name, the line is the statement.
        journal.entries.retain(|entry| match &entry.figures {
            Figures::Settlement(one) => {
                one.account.unattributed().is_none() && one.dispute.is_none() && one.start.is_some()
            }
            Figures::Open(_) | Figures::Correction(_) | Figures::Conflict(_) => false,
            _ => true,
        });
        let mut pure = Ledger::for_bill_by(By::Process);
        journal.entries.iter().for_each(|entry| pure.take(entry).unwrap());
        let report = made_by(&journal, &pure, whole, By::Gpu);
        for gpu in &report.gpus {
            let name = format!("GPU {} ", gpu.gpu_index.unwrap());
            let line = report.accounts.iter().find(|line| line.account.starts_with(&name));
            let (alone, shared) = line.map_or((0, 0), |it| (it.alone_ms.0, it.shared_ms.0));
            assert_eq!((alone, shared), (gpu.alone_ms.0, gpu.shared_ms.0), "{name}");
        }
    });
}

/// What a reader of a journal hands over for a period: no less than it must, and by chance more.
fn handed_over(random: &mut Random, journal: &Journal, period: Span) -> Ledger {
    let entries = &journal.entries;
    let last_mark = |end: usize| {
        let marks = &entries[..end];
        marks.iter().rposition(|entry| matches!(entry.figures, Figures::Mark(_)))
    };
    let meets = |from: u64, to: u64| from < period.to_ms() && to >= period.from_ms();
    let mut wanted: Vec<bool> = entries.iter().map(|_| random.one_in(7)).collect();
    wanted[last_mark(entries.len()).unwrap_or(0)..].fill(true);
    for (place, entry) in entries.iter().enumerate() {
        if let (Figures::Coverage(_), Some(mark)) = (&entry.figures, last_mark(place)) {
            wanted[mark] = true;
        }
        wanted[place] |= match &entry.figures {
            Figures::Settlement(one) => {
                let read = one.read_at.wall.ms();
                let start = one.start.map_or(read, WallUs::ms);
                meets(start.min(read), read.max(start.saturating_add(one.held.0)))
            }
            Figures::Gap(gap) => meets(gap.from.wall.ms(), gap.to.wall.ms()),
            Figures::Memory(one) => meets(one.hour_ms(), one.hour_ms() + HOUR_MS),
            Figures::Epoch(_)
            | Figures::Coverage(_)
            | Figures::Key(_)
            | Figures::Closed(_)
            | Figures::Correction(_)
            | Figures::Conflict(_) => true,
            Figures::Open(_) | Figures::Mark(_) => false,
        };
        if let Figures::Correction(correction) = &entry.figures {
            wanted[usize::try_from(correction.of - 1).unwrap()] = true;
        }
    }
    let mut ledger = Ledger::for_bill_by(By::Process);
    let handed = entries.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
    handed.for_each(|(entry, _)| ledger.take(entry).unwrap());
    ledger.finish(&journal.end).unwrap();
    ledger
}

#[test]
fn a_bill_of_the_entries_that_bear_on_its_period_is_that_of_the_whole_journal() {
    histories(4_000, |seed, random| {
        let (journal, end_ms) = random_journal(random);
        let (from, _, to) = random_split(random, end_ms);
        let by = By::ALL[usize::try_from(seed).unwrap() % By::ALL.len()];
        let whole = made_by(&journal, &ledger(&journal), span(from, to), by);
        let part = {
            let handed = handed_over(random, &journal, span(from, to));
            made_by(&journal, &handed, span(from, to), by)
        };
        let text = |report| crate::rendering::json(report).unwrap();
        assert_eq!(text(&part), text(&whole));
    });
}

#[test]
fn over_all_time_the_bill_is_what_was_ever_booked() {
    histories(2_000, |_, random| {
        let (journal, _) = random_journal(random);
        let ledger = ledger(&journal);
        let always = Span::new(0, u64::MAX).unwrap();
        let which = Which { period: always, by: By::Account, gpus: &[] };
        let found = bill(always, &ledger.cut(which).books).unwrap();
        found.agrees_with(&journal.end.head.booked).unwrap();
        let booked: u128 = journal.end.head.booked.values().map(|sum| sum.held_ms).sum();
        assert_eq!(made(&journal, &ledger, always).span_ms_total, booked);
    });
}

#[test]
fn shares_and_what_is_not_divided_add_up_to_shared_time() {
    histories(500, |_, random| {
        let (journal, end_ms) = random_journal(random);
        let ledger = ledger(&journal);
        let (from, _, to) = random_split(random, end_ms);
        let which = Which { period: span(from, to), by: By::Account, gpus: &[] };
        let bill = bill(span(from, to), &ledger.cut(which).books).unwrap();
        let sets = bill.gpus.iter().flat_map(|gpu| gpu.statement.shared_between.values());
        let shared: u64 = sets.map(|ms| ms.0).sum();
        for policy in [SharePolicy::Equal, SharePolicy::Busy, SharePolicy::Memory] {
            let ask = ask(span(from, to), By::Account, policy);
            let found = report(&ledger, &ask, head(&journal), &Outside::default()).unwrap();
            let lines = found.accounts.iter().map(|line| line.share_ms.unwrap().0);
            let reasons = found.unattributed.iter().map(|line| line.share_ms.unwrap().0);
            let divided: u64 = lines.chain(reasons).sum();
            assert_eq!(divided + found.undivided_ms.unwrap().0, shared);
        }
    });
}
