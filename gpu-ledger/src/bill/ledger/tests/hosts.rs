//! Bills of several hosts: they close, they are the sum of the hosts' own, and nothing is on them twice.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr as _;

use super::closing::random_journal;
use super::priced::random_prices;
use super::{ask, head, span};
use crate::bill::ledger::Ledger;
use crate::bill::made::{DAY_MS, Journal, Row, program};
use crate::bill::report::{Account, Ask, Outside, Part, Report, merge, part, report};
use crate::bill::{BillError, By, SharePolicy, text};
use crate::journal::Figures;
use crate::journal::entry::{CoverageEdge, OpenKind};
use crate::random::{Random, histories};
use crate::rendering::json;
use crate::unit::{GpuUuid, Ms, Span};

/// A UUID of the same GPU in another host.
fn of_host(uuid: &GpuUuid, host: char) -> GpuUuid {
    let (begin, end) = uuid.0.split_at("GPU-0".len());
    GpuUuid(format!("{begin}{host}{}", &end[1..]).into())
}

/// The same journal on another host, with GPUs of its own.
fn on_host(mut journal: Journal, host: char) -> Journal {
    let moved = |uuid: &mut GpuUuid| *uuid = of_host(uuid, host);
    for entry in &mut journal.entries {
        match &mut entry.figures {
            Figures::Settlement(settlement) => moved(&mut settlement.gpu),
            Figures::Open(open) => moved(&mut open.gpu),
            Figures::Epoch(epoch) => moved(&mut epoch.gpu),
            Figures::Memory(stretch) => moved(&mut stretch.gpu),
            Figures::Gap(gap) => gap.gpu.iter_mut().for_each(moved),
            Figures::Mark(mark) => mark.gpus.iter_mut().for_each(|gpu| moved(&mut gpu.gpu)),
            Figures::Coverage(CoverageEdge::Began { host: name, .. }) => {
                *name = format!("host-{host}").into();
            }
            _ => {}
        }
    }
    journal.end.unresolved.values_mut().for_each(|open| moved(&mut open.gpu));
    let booked = std::mem::take(&mut journal.end.head.booked);
    journal.end.head.booked =
        booked.into_iter().map(|(gpu, sum)| (of_host(&gpu, host), sum)).collect();
    journal
}

fn ledger(journal: &Journal) -> Ledger {
    let mut ledger = Ledger::for_bill_by(By::Process);
    journal.entries.iter().for_each(|entry| ledger.take(entry).unwrap());
    ledger.finish(&journal.end).unwrap();
    ledger
}

fn users(names: &[(u32, &str)]) -> Outside {
    let users = names.iter().map(|(uid, name)| (*uid, (*name).to_owned())).collect();
    Outside { users, driver: Some("real".to_owned()), ..Outside::default() }
}

/// The part of a host whose journal is called as it.
fn part_of(journal: &Journal, ask: &Ask, host: char) -> Part {
    let outside = users(&[(1_000, "ada")]);
    part(&ledger(journal), ask, head(journal), &outside, format!("{host}0")).unwrap()
}

fn merged(parts: Vec<Part>) -> Report {
    merge(parts).unwrap().unwrap()
}

fn schema_faults(report: &Report) -> Vec<String> {
    let schema = include_str!("../../../../schema/bill.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json(report).unwrap()).unwrap();
    schema.iter_errors(&value).map(|fault| fault.to_string()).collect()
}

/// What the lines of a bill add up to, by their names.
fn sums(report: &Report) -> BTreeMap<String, u128> {
    let mut sums = BTreeMap::new();
    let mut add = |key: String, ms: u128| *sums.entry(key).or_insert(0) += ms;
    for gpu in &report.gpus {
        for (what, ms) in [
            ("alone", gpu.alone_ms),
            ("shared", gpu.shared_ms),
            ("free", gpu.free_ms),
            ("uncovered", gpu.uncovered_ms),
        ] {
            add(format!("{} {what}", gpu.gpu_uuid), ms.0.into());
        }
    }
    for line in &report.accounts {
        let name = format!("{} {:?} {:?}", line.account, line.named_by, line.user);
        for (what, ms) in [
            ("held", line.held_ms),
            ("alone", line.alone_ms),
            ("shared", line.shared_ms),
            ("uncovered", line.uncovered_ms),
            ("spans", line.span_ms_total),
            ("open", line.open_ms),
            ("open unseen", line.open_uncovered_ms),
            ("both", line.settled_or_open_ms),
            ("rowless", line.no_driver_row_ms),
            ("share", line.share_ms.unwrap_or_default()),
            ("low", line.busy_ms_low.unwrap_or_default()),
            ("unsampled", line.busy_unsampled_ms),
        ] {
            add(format!("{name} {what}"), ms.0.into());
        }
        add(format!("{name} count"), line.settlements.into());
        let memory = line.memory_held_byte_ms.as_ref().map_or(0, |text| text.parse().unwrap());
        add(format!("{name} memory"), memory);
    }
    for line in &report.unattributed {
        add(format!("{} {}", line.gpu_uuid, line.reason), line.span_ms_total.0.into());
    }
    for line in &report.disputed {
        add(format!("{} {} {}", line.gpu_uuid, line.account, line.reason), line.raw_ms);
    }
    for line in report.priced.iter().flat_map(|priced| &priced.lines) {
        let key = format!("{} {:?} {:?} {}", line.meter, line.state, line.account, line.gpu_uuid);
        add(key, line.quantity_ms.or(line.quantity_byte_ms).unwrap_or(0));
    }
    for class in &report.lifetime_classes {
        add(format!("class {}", class.class), class.span_ms_total.0.into());
    }
    add(
        "open".to_owned(),
        report.open.iter().filter_map(|open| open.accrued_ms).map(|ms| u128::from(ms.0)).sum(),
    );
    add("rowless".to_owned(), wide(report.no_driver_row.len()));
    add("settlements".to_owned(), wide(report.settlements.as_ref().map_or(0, Vec::len)));
    add("covered".to_owned(), report.coverage.covered_ms.0.into());
    add("gaps".to_owned(), wide(report.coverage.gaps.len()));
    add("unknown".to_owned(), wide(report.unknown.len()));
    add("undivided".to_owned(), report.undivided_ms.unwrap_or_default().0.into());
    add("count".to_owned(), report.settlements_total.into());
    add("all".to_owned(), report.span_ms_total);
    sums.retain(|_, ms| *ms > 0);
    sums
}

fn wide(number: usize) -> u128 {
    u128::try_from(number).unwrap()
}

/// So many hosts as they might have been.
fn random_hosts(random: &mut Random) -> (Vec<(char, Journal)>, u64) {
    let count = 1 + random.below(4);
    let mut end_ms = 2;
    let hosts = ('b'..).take(usize::try_from(count).unwrap()).map(|host| {
        let (journal, until) = random_journal(random);
        end_ms = end_ms.max(until);
        (host, on_host(journal, host))
    });
    (hosts.collect(), end_ms)
}

#[test]
fn a_bill_of_hosts_is_the_sum_of_theirs_in_any_order_and_of_one_is_that_hosts_own() {
    histories(250, |_, random| {
        let (hosts, end_ms) = random_hosts(random);
        // Of GPUs no two have the same line.
        let dimensions: Vec<By> = By::ALL.into_iter().filter(|by| *by != By::Gpu).collect();
        let count = u64::try_from(dimensions.len()).unwrap();
        let by = dimensions[usize::try_from(random.below(count)).unwrap()];
        let share = SharePolicy::ALL[usize::try_from(random.below(4)).unwrap()];
        let from = random.below(end_ms);
        let mut asked = ask(span(from, from + 1 + random.below(end_ms)), by, share);
        asked.prices = random.one_in(2).then(|| random_prices(random, end_ms));
        let parts: Vec<Part> =
            hosts.iter().map(|(host, journal)| part_of(journal, &asked, *host)).collect();
        let whole = merged(parts.clone());
        assert_eq!(schema_faults(&whole), Vec::<String>::new());

        let own: Vec<Report> = hosts
            .iter()
            .map(|(_, journal)| {
                let outside = users(&[(1_000, "ada")]);
                report(&ledger(journal), &asked, head(journal), &outside).unwrap()
            })
            .collect();
        if let [own] = own.as_slice() {
            assert_eq!(json(&whole).unwrap(), json(own).unwrap());
            assert_eq!(text::render(&whole), text::render(own));
        }
        let mut expected: BTreeMap<String, u128> = BTreeMap::new();
        for (key, ms) in own.iter().flat_map(sums) {
            *expected.entry(key).or_insert(0) += ms;
        }
        assert_eq!(sums(&whole), expected);

        let mut other = parts;
        let times = usize::try_from(random.below(4)).unwrap() % other.len();
        other.rotate_left(times);
        other.reverse();
        let other = merged(other);
        assert_eq!(json(&other).unwrap(), json(&whole).unwrap());
        assert_eq!(text::render(&other), text::render(&whole));
    });
}

/// An hour of one job on each GPU of a host.
fn hour(host: char, name: &str, at_ms: u64) -> Journal {
    let mut journal = Journal::began(at_ms, 2);
    journal.settle(at_ms + 3_600_100, Row::of(name, 7, at_ms, 3_600_000));
    let other = Row { gpu: 1, ..Row::of(name, 8, at_ms + 10, 1_000) };
    journal.settle(at_ms + 3_600_100, other);
    journal.mark(at_ms + 3_600_200, 2);
    on_host(journal, host)
}

#[test]
fn one_account_of_two_hosts_is_one_line_and_each_gpu_keeps_its_statement() {
    let asked = ask(span(0, 3_600_000), By::Account, SharePolicy::None);
    let (one, other) = (hour('b', "train.py", 0), hour('c', "train.py", 0));
    let whole = merged(vec![part_of(&one, &asked, 'b'), part_of(&other, &asked, 'c')]);
    assert_eq!(whole.accounts.len(), 1);
    let line = &whole.accounts[0];
    assert_eq!((line.settlements, line.held_ms), (4, Ms(2 * 3_601_000)));
    let hosts: Vec<_> = whole.gpus.iter().map(|gpu| gpu.host.clone().unwrap()).collect();
    assert_eq!(hosts, ["host-b", "host-b", "host-c", "host-c"]);
    assert!(whole.gpus.iter().all(|gpu| gpu.period_ms == Ms(3_600_000)));
    assert_eq!((whole.host, whole.journal_head), (None, None));
    let hosts = whole.hosts.unwrap();
    assert_eq!(hosts.iter().map(|host| host.settlements_total).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(hosts[0].journal_head.as_ref().unwrap().seq, one.end.head.seq);
}

#[test]
fn gpus_of_two_hosts_are_two_lines_and_users_are_one_only_where_they_are_called_alike() {
    let (one, other) = (hour('b', "train.py", 0), hour('c', "train.py", 0));
    let of = |by, names: &[(u32, &str)], other_names: &[(u32, &str)]| {
        let asked = ask(span(0, 3_600_000), by, SharePolicy::None);
        let part = |journal: &Journal, names, id: &str| {
            part(&ledger(journal), &asked, head(journal), &users(names), id.to_owned()).unwrap()
        };
        merged(vec![part(&one, names, "b0"), part(&other, other_names, "c0")])
    };
    let titles = |report: &Report| -> Vec<String> {
        let mut titles: Vec<String> = report.accounts.iter().map(Account::title).collect();
        titles.sort();
        titles
    };
    assert_eq!(
        titles(&of(By::Gpu, &[], &[])),
        [
            "host-b: GPU 0 NVIDIA H200",
            "host-b: GPU 1 NVIDIA H200",
            "host-c: GPU 0 NVIDIA H200",
            "host-c: GPU 1 NVIDIA H200",
        ]
    );
    let (ada, bob) = ([(1_000, "ada")], [(1_000, "bob")]);
    assert_eq!(titles(&of(By::User, &ada, &ada)), ["ada (1000)"]);
    assert_eq!(titles(&of(By::User, &ada, &bob)), ["ada (1000)", "bob (1000)"]);
    // Who that is, nobody knows of one of them.
    assert_eq!(titles(&of(By::User, &ada, &[])), ["ada (1000)", "uid 1000"]);
}

#[test]
fn time_of_one_gpu_that_two_journals_tell_of_is_refused_and_a_gpu_that_moved_is_not() {
    const HOUR: u64 = 3_600_000;
    let asked = ask(span(0, 4 * HOUR), By::Account, SharePolicy::None);
    let first = hour('b', "train.py", 0);
    // The same GPUs, told of by another journal.
    let at = |at_ms| hour('b', "whisper", at_ms);
    let of =
        |other: &Journal| merge(vec![part_of(&first, &asked, 'b'), part_of(other, &asked, 'c')]);
    let refused = of(&at(HOUR / 2)).unwrap_err();
    assert!(matches!(&refused, BillError::SameGpu { .. }), "{refused}");
    let words = refused.to_string();
    assert!(words.contains("host-b (journal b0)") && words.contains("(journal c0)"), "{words}");
    assert!(words.contains("from 2026-11-30T00:30:00"), "{words}");
    // It was taken out of one host and put into another.
    let moved = of(&at(2 * HOUR)).unwrap().unwrap();
    assert_eq!((moved.gpus.len(), moved.settlements_total), (4, 4));
    // One row is enough: nobody else tells of that time.
    let mut blind = Journal::default();
    blind.agent_began(HOUR);
    blind.epoch_began(HOUR, 0);
    blind.settle(2 * HOUR, Row::of("whisper", 9, HOUR - 100, 50));
    let blind = on_host(blind, 'b');
    assert!(matches!(of(&blind), Err(BillError::SameGpu { .. })));
}

#[test]
fn a_name_that_one_host_has_is_asked_for_of_all_and_one_that_none_has_is_refused() {
    let mut asked = ask(span(0, 3_600_000), By::Account, SharePolicy::None);
    let (one, other) = (hour('b', "train.py", 0), hour('c', "whisper", 0));
    let of = |asked: &Ask| merge(vec![part_of(&one, asked, 'b'), part_of(&other, asked, 'c')]);
    asked.accounts = vec!["whisper".to_owned()];
    let found = of(&asked).unwrap().unwrap();
    let names: Vec<&str> = found.accounts.iter().map(|line| line.account.as_str()).collect();
    assert_eq!((names, found.settlements_total), (vec!["whisper"], 4));
    assert_eq!(found.left_out.map(|left| (left.accounts, left.settlements)), Some((1, 2)));
    asked.accounts = vec!["wisper".to_owned()];
    let refused = of(&asked).unwrap_err().to_string();
    assert_eq!(
        refused,
        "no line of this bill is called wisper, did you mean whisper?; there are: train.py, whisper"
    );
}

#[test]
fn what_was_not_given_of_a_host_was_not_seen_and_is_said() {
    const HOUR: u64 = 3_600_000;
    let journal = hour('b', "train.py", 0);
    let mut ledger = ledger(&journal);
    let known = Span::new(DAY_MS, DAY_MS + HOUR / 2).unwrap();
    ledger.limit_to(vec![known]);
    let asked = ask(span(0, HOUR), By::Account, SharePolicy::None);
    let of = part(&ledger, &asked, head(&journal), &users(&[]), "b0".to_owned()).unwrap();
    let other = hour('c', "train.py", 0);
    let whole = merged(vec![of, part_of(&other, &asked, 'c')]);
    // The second GPU was free for all but a second of what is known.
    assert_eq!(
        (whole.gpus[1].free_ms, whole.gpus[1].uncovered_ms),
        (Ms(HOUR / 2 - 1_000), Ms(HOUR / 2))
    );
    assert_eq!((whole.gpus[3].free_ms, whole.gpus[3].uncovered_ms), (Ms(HOUR - 1_000), Ms::ZERO));
    let hosts = whole.hosts.as_ref().unwrap();
    assert_eq!((hosts[0].not_here.len(), hosts[1].not_here.len()), (1, 0));
    assert_eq!((hosts[0].covered_ms, hosts[1].covered_ms), (Ms(HOUR / 2), Ms(HOUR)));
    let page = text::render(&whole);
    assert!(
        page.contains("  host-b: everything from 2026-11-30T00:30:00") && !whole.is_known(),
        "{page}"
    );
}

#[test]
fn the_page_of_two_hosts() {
    const HOUR: u64 = 3_600_000;
    let mut one = Journal::began(0, 2);
    one.settle(2 * HOUR, Row::of("train.py", 7, HOUR, HOUR / 2));
    one.gap(crate::unknown::GapCause::EventLost, None, HOUR, HOUR + 1_000, None);
    one.open(2 * HOUR, OpenKind::Row, 1, 9, 2 * HOUR - 50, program("ollama"));
    one.mark(3 * HOUR, 2);
    let one = on_host(one, 'b');
    let other = hour('c', "train.py", HOUR);
    let asked = ask(span(0, 3 * HOUR), By::Account, SharePolicy::Equal);
    let whole = merged(vec![part_of(&one, &asked, 'b'), part_of(&other, &asked, 'c')]);
    let page = text::render(&whole);
    let is_read = |line: &&str| !line.starts_with("GPU_LEDGER_UNKNOWN");
    assert!(page.lines().filter(is_read).all(|line| line.width() <= 80), "{page}");
    insta::assert_snapshot!("two_hosts", page);
}
