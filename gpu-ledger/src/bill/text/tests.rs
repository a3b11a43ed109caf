//! The page, golden; and its other forms from the same journal.
#![expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]

use std::collections::BTreeSet;

use unicode_width::UnicodeWidthStr as _;

use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, gpu, program};
use crate::bill::period::Period;
use crate::bill::report::{Ask, Head, Outside, Proven, ReadingLine, Report, Through, Tree, report};
use crate::bill::{BillError, By, Ledger, SharePolicy, table};
use crate::journal::Digest;
use crate::journal::entry::OpenKind;
use crate::prices::PriceList;
use crate::rendering::json;
use crate::residency::verdict::VoidReason;
use crate::settlement::{Account, Ground, RuleId};
use crate::unit::{GpuUuid, Ms, Span};
use crate::unknown::{DisputeReason, Flag, GapCause};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// A morning on which everything occurred that a bill can have.
fn morning() -> Journal {
    let mut journal = Journal::began(30 * MINUTE, 2);
    journal.open(30 * MINUTE, OpenKind::NoDriverRow, 1, 1_308, 0, program("voice-daemon"));
    journal.open(HOUR + 40, OpenKind::Row, 0, 2_488, HOUR, program("llama-server"));
    for job in 0..20 {
        let name = if job % 4 == 0 { "whisper-cli" } else { "xtts\u{1b}[2J 語音合成服務" };
        let start_ms = HOUR + u64::from(job) * 7 * MINUTE;
        let row = Row {
            gpu: u64::from(job % 2),
            busy: (job % 5 > 0).then_some((1_000, 2_500)),
            peak_mib: (job != 4).then_some(178),
            ..Row::of(name, 3_000 + job, start_ms, 6_748)
        };
        journal.settle(start_ms + 6_800, row);
    }
    journal.settle(4 * HOUR, Row::of("train.py", 4_000, 2 * HOUR, HOUR + 1));
    journal
        .settle(4 * HOUR, Row { account: NAMELESS, ..Row::of("", 4_001, 3 * HOUR, 20 * MINUTE) });
    let stepped =
        Row { dispute: Some(DisputeReason::ClockStep), ..Row::of("train.py", 5, HOUR, 9) };
    journal.settle(4 * HOUR, stepped);
    let lost = journal.open(4 * HOUR, OpenKind::Row, 1, 4_100, 4 * HOUR - 900, program("comfyui"));
    journal.ended(4 * HOUR + 5_000, lost, Some(GapCause::RowOverwritten));
    let (from, to) = (4 * HOUR + 5_000, 4 * HOUR + 5_900);
    journal.gap(GapCause::RowOverwritten, Some(1), from, to, Some(1));
    journal.gap(GapCause::EventLost, None, 3 * HOUR, 3 * HOUR + 1_000, None);
    journal.open(4 * HOUR + MINUTE, OpenKind::Masked, 1, 4_200, 0, program("comfyui"));
    journal.mark_of(5 * HOUR, &[(0, 5 * HOUR - 40), (1, 5 * HOUR - 5_000)]);
    journal
}

fn made(journal: &Journal, by: By, share: SharePolicy, gpus: &[GpuUuid]) -> Report {
    made_priced(journal, by, share, gpus, None)
}

fn made_priced(
    journal: &Journal,
    by: By,
    share: SharePolicy,
    gpus: &[GpuUuid],
    prices: Option<PriceList>,
) -> Report {
    made_as(journal, &ask(by, share, gpus, prices)).unwrap()
}

pub(super) fn ask(by: By, share: SharePolicy, gpus: &[GpuUuid], prices: Option<PriceList>) -> Ask {
    let span = Span::new(DAY_MS, DAY_MS + 5 * HOUR).unwrap();
    let period = Period {
        span,
        begins_with_journal: false,
        is_open_ended: true,
        beyond_now: None,
        zone: jiff::tz::TimeZone::UTC,
    };
    Ask { period, by, share, gpus: gpus.to_vec(), accounts: Vec::new(), prices }
}

pub(super) fn made_as(journal: &Journal, ask: &Ask) -> Result<Report, BillError> {
    let mut ledger = Ledger::for_bill_by(By::Process);
    journal.entries.iter().for_each(|entry| ledger.take(entry).unwrap());
    ledger.finish(&journal.end).unwrap();
    let outside = Outside {
        driver: Some("simulated".to_owned()),
        driver_version: Some("595.45.04".to_owned()),
        born_ms: std::iter::once((4, DAY_MS)).collect(),
        ..Outside::default()
    };
    let tree = Tree::Root(Digest([7; 32]));
    let head = Head { seq: journal.end.head.seq, hash: journal.end.head.hash, tree };
    report(&ledger, ask, head, &outside)
}

#[test]
fn a_morning_on_which_everything_occurred_reads_well() {
    let journal = morning();
    insta::assert_snapshot!(
        "morning",
        super::render(&made(&journal, By::Account, SharePolicy::None, &[]))
    );
    insta::assert_snapshot!(
        "morning_by_process_shared_equally",
        super::render(&made(&journal, By::Process, SharePolicy::Equal, &[gpu(0)]))
    );
}

/// A change of price at noon less nine hours, a price of the first GPU alone, and evidence.
fn prices() -> PriceList {
    let text = "currency = \"EUR\"\n\
        [[price]]\ngpu = \"GPU-0a2b3c4d\"\nmeter = \"held\"\nper_hour = \"1.25\"\nuntil = 2026-11-30T03:00:00Z\n\
        [[price]]\ngpu = \"GPU-0a2b3c4d\"\nmeter = \"held\"\nper_hour = \"1.1\"\nfrom = 2026-11-30T03:00:00Z\n\
        [[price]]\ngpu = \"GPU-0a2b3c4d\"\nmeter = \"busy\"\nper_hour = \"3.333333333\"\n";
    crate::prices::parse(text, &jiff::tz::TimeZone::UTC).unwrap()
}

#[test]
fn a_morning_in_money_reads_well_and_keeps_its_schema() {
    let said = made_priced(&morning(), By::Account, SharePolicy::Equal, &[], Some(prices()));
    let page = super::render(&said);
    insta::assert_snapshot!("morning_in_money", page);
    let words = |line: &&str| !line.starts_with("GPU_LEDGER_UNKNOWN");
    assert!(page.lines().filter(words).all(|line| line.width() <= 80), "{page}");
    assert_eq!(schema_faults(&said), Vec::<String>::new());
    let value: serde_json::Value = serde_json::from_str(&json(&said).unwrap()).unwrap();
    let line = &value["priced"]["lines"][0];
    assert!(line["amount"].is_string() && line["per_hour"].is_string(), "{line}");
    assert!(value["priced"]["booked"]["amount"].is_string());
    // Another list of prices is another bill.
    let unpriced = made(&morning(), By::Account, SharePolicy::Equal, &[]);
    assert_ne!(said.bill_id, unpriced.bill_id);
}

/// Nobody settled anything: memory is on the page all the same.
#[test]
fn memory_held_reads_well_and_keeps_its_schema() {
    const SLOT: u64 = HOUR / 4;
    let mut journal = Journal::began(0, 1);
    journal.open(5, OpenKind::NoDriverRow, 0, 2488, 0, program("ollama"));
    let held = [(program("ollama"), 2488, 8 << 30), (NAMELESS, 9, 1 << 30)];
    for quarter in 0..10 {
        let void: &[VoidReason] =
            if quarter == 6 { &[VoidReason::AgeSupOverCap, VoidReason::ProbeStuck] } else { &[] };
        journal.memory((quarter * SLOT, (quarter + 1) * SLOT), &held, void);
    }
    journal.mark(10 * SLOT + 60_000, 1);
    let mut asked = ask(By::Account, SharePolicy::None, &[], None);
    asked.period.span = Span::new(DAY_MS, DAY_MS + 10 * SLOT + 60_000).unwrap();
    let said = made_as(&journal, &asked).unwrap();
    assert_eq!(schema_faults(&said), Vec::<String>::new());
    let page = super::render(&said);
    let from = page.find("\nmemory held").unwrap();
    let to = page[from..].find("\nno driver row").map_or(page.len(), |at| from + at);
    insta::assert_snapshot!("memory", &page[from..to]);
    // In money: an hour and a half known, an hour void with its size.
    let text = "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"memory\"\n\
        per_hour = \"0.5\"\n";
    asked.prices = Some(crate::prices::parse(text, &jiff::tz::TimeZone::UTC).unwrap());
    let priced = made_as(&journal, &asked).unwrap();
    assert_eq!(schema_faults(&priced), Vec::<String>::new());
    insta::assert_snapshot!("memory_in_focus", crate::bill::focus::csv(&priced, false).unwrap());
    let page = super::render(&priced);
    let rows = page.lines().filter(|line| line.contains("memory"));
    let reasons = page.lines().filter(|line| line.contains("memory-void, for 1:00:00"));
    insta::assert_snapshot!("memory_in_money", rows.collect::<Vec<_>>().join("\n"));
    assert_eq!(reasons.count(), 3, "{page}");
    // But for what programs read.
    let is_read = |line: &&str| !line.starts_with("GPU_LEDGER_UNKNOWN");
    assert!(page.lines().filter(is_read).all(|line| line.chars().count() <= 80), "{page}");
}

fn schema_faults(report: &Report) -> Vec<String> {
    let schema = include_str!("../../../schema/bill.v1.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json(report).unwrap()).unwrap();
    schema.iter_errors(&value).map(|fault| fault.to_string()).collect()
}

#[test]
fn by_gpu_alone_is_said_of_processes() {
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row::of("train.py", 7, MINUTE, 4_000));
    journal.settle(HOUR, Row::of("whisper", 8, MINUTE + 2_500, 1_500));
    journal.mark(5 * HOUR, 1);
    let page = super::render(&made(&journal, By::Gpu, SharePolicy::None, &[]));
    assert!(page.contains("  GPU 0 NVIDIA H200      2    4.000 s    2.500 s    1.500 s"), "{page}");
    assert!(page.contains("alone: no other\nprocess held the GPU."), "{page}");
}

#[test]
fn a_process_says_how_much_of_its_time_nobody_saw() {
    // It began before anybody looked.
    let mut journal = Journal::began(HOUR, 1);
    journal.settle(2 * HOUR, Row { account: NAMELESS, ..Row::of("", 7, HOUR - 300, 300) });
    journal.settle(2 * HOUR, Row::of("train.py", 8, HOUR - 1_000, 3_000));
    journal.mark(5 * HOUR, 1);
    let page = super::render(&made(&journal, By::Process, SharePolicy::None, &[]));
    assert!(
        page.contains(
            "      0    3.000 s    2.000 s    0.300 s  512 MiB\n      0a2b3c4d-8-1796000399000000\n      \
             of it 0.700 s where nobody saw who shared it\n"
        ),
        "{page}"
    );
    assert!(page.contains("      0    0.300 s    0.000 s    0.300 s"), "{page}");
    let mut alone = Journal::began(HOUR, 1);
    alone.settle(2 * HOUR, Row { account: NAMELESS, ..Row::of("", 7, HOUR - 300, 300) });
    alone.mark(5 * HOUR, 1);
    let page = super::render(&made(&alone, By::Process, SharePolicy::None, &[]));
    assert!(
        page.contains(
            "      of it 0.300 s where nobody saw who shared it\n      unattributed event-lost\n"
        ),
        "{page}"
    );
}

#[test]
fn a_process_has_the_id_that_explain_takes_and_its_account_where_that_is_another_word() {
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row::of("python3", 4_194_303, MINUTE, 4_000));
    journal.mark(5 * HOUR, 1);
    let mut report = made(&journal, By::Process, SharePolicy::None, &[]);
    let id = "      0a2b3c4d-4194303-1795996860000000";
    assert!(super::render(&report).contains(&format!("{id}\n")));
    for one in report.settlements.iter_mut().flatten() {
        one.account = "research/語音合成服務-training".to_owned();
    }
    let page = super::render(&report);
    assert!(page.contains(&format!("{id}  account research/語音")), "{page}");
    let too_wide: Vec<&str> = page.lines().filter(|line| line.width() > 80).collect();
    assert_eq!(too_wide, Vec::<&str>::new());
    // Whoever reads a table of commas has both too.
    let csv = table::csv(&report, false).unwrap();
    assert!(csv.contains("0a2b3c4d-4194303-1795996860000000,settled,research/"), "{csv}");
    let none = super::render(&made(&Journal::began(0, 1), By::Process, SharePolicy::None, &[]));
    assert!(!none.contains("gpu-ledger explain"), "{none}");
}

#[test]
fn a_quiet_morning_says_that_nothing_was_missed() {
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row::of("ollama", 7, MINUTE, 30 * MINUTE));
    journal.mark(5 * HOUR, 1);
    let report = made(&journal, By::Account, SharePolicy::None, &[]);
    assert!(report.is_known());
    insta::assert_snapshot!("quiet", super::render(&report));
    let empty = made(&Journal::default(), By::Account, SharePolicy::None, &[]);
    insta::assert_snapshot!("empty", super::render(&empty));
}

#[test]
fn no_line_is_wider_than_a_terminal_and_none_moves_its_cursor() {
    let journal = morning();
    for by in By::ALL {
        for share in SharePolicy::ALL {
            let page = super::render(&made(&journal, by, share, &[]));
            for line in page.lines() {
                // A line for programs is as long as its words.
                let is_for_people = !line.starts_with("GPU_LEDGER_UNKNOWN ");
                assert!(line.width() <= 80 || !is_for_people, "{by} {share}: {line}");
                assert!(!line.chars().any(crate::escape::is_unprintable), "{line:?}");
            }
        }
    }
}

#[test]
fn how_the_figures_came_is_said_where_it_was_not_by_the_readers_own_proof() {
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row::of("ollama", 7, MINUTE, 30 * MINUTE));
    journal.mark_in_doubt(5 * HOUR, 2 * HOUR);
    let mut report = made(&journal, By::User, SharePolicy::None, &[]);
    let mut page = |reading: ReadingLine, user: Option<&str>| {
        report.reading = reading;
        report.accounts[0].user = user.map(str::to_owned);
        let page = super::render(&report);
        for line in page.lines().filter(|line| !line.starts_with("GPU_LEDGER_UNKNOWN ")) {
            assert!(line.width() <= 80, "{line}");
            assert!(!line.chars().any(crate::escape::is_unprintable), "{line:?}");
        }
        page
    };
    let files = ReadingLine {
        through: Through::Files,
        proven: Proven::Journal,
        only_uid: None,
        only_user: None,
        end_witnessed: true,
        missing_to: 0,
    };
    let plain = page(files.clone(), None);
    assert!(!plain.contains("daemon") && !plain.contains("WARNING"), "{plain}");
    assert!(plain.contains("  uid 1000 "), "{plain}");
    assert!(plain.contains("its list was empty, as after a reset of the mode"), "{plain}");
    let unwitnessed = page(ReadingLine { end_witnessed: false, ..files.clone() }, Some("alice"));
    assert!(unwitnessed.contains("WARNING ledger.head is missing"), "{unwitnessed}");
    assert!(unwitnessed.contains("  alice (1000) "), "{unwitnessed}");
    let cut = page(ReadingLine { missing_to: u64::MAX, ..files.clone() }, None);
    let (head, _) = cut.split_once("\n\n").unwrap();
    let said = format!("WARNING entries 1 to {} were archived, and no archive is", u64::MAX);
    assert!(head.contains(&said), "at the top: {cut}");
    let through = Through::Daemon;
    let all = ReadingLine { through, proven: Proven::Entries, ..files.clone() };
    assert!(page(all, None).contains("every entry was proven here; that none is missing"));
    let long = Some("a-name-longer-than-any-terminal-is-wide\u{1b}[2J".repeat(3));
    let own = ReadingLine {
        through,
        proven: Proven::Nothing,
        only_uid: Some(u32::MAX),
        only_user: long.clone(),
        ..files
    };
    let said = page(own.clone(), long.as_deref());
    assert!(said.contains("its word, nothing of it was proven here"), "{said}");
    let unnamed = page(ReadingLine { only_user: None, ..own }, None);
    assert!(unnamed.contains("  lines of uid 4294967295 alone; others' are folded"), "{unnamed}");
}

#[test]
fn a_program_called_like_a_word_of_ours_is_told_apart_in_every_form() {
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row::of("unattributed", 7, MINUTE, MINUTE));
    journal.settle(HOUR, Row { account: NAMELESS, ..Row::of("", 8, 5 * MINUTE, MINUTE) });
    let stepped =
        Row { dispute: Some(DisputeReason::ClockStep), ..Row::of("unattributed", 9, HOUR, 9) };
    journal.settle(HOUR, stepped);
    journal.open(2 * HOUR, OpenKind::Row, 0, 10, HOUR, program("unattributed"));
    journal.mark(5 * HOUR, 1);
    let programs = made(&journal, By::Program, SharePolicy::None, &[]);
    assert!(programs.accounts.iter().any(|line| line.account == "\"unattributed\""));
    for by in [By::Account, By::Process] {
        let report = made(&journal, by, SharePolicy::None, &[]);
        let [line] = &*report.accounts else { panic!("{:?}", report.accounts) };
        assert_eq!(line.account, "\"unattributed\"");
        assert_eq!(
            (&report.open[0].account, &report.disputed[0].account),
            (&line.account, &line.account)
        );
        let page = super::render(&report);
        assert!(page.contains("  \"unattributed\"         1    0:01:00"), "{page}");
        let rows = table::csv(&report, false).unwrap();
        assert!(rows.contains("\"\"\"unattributed\"\"\","), "{rows}");
    }
}

#[test]
fn accounts_that_are_called_alike_are_marked_wherever_they_stand() {
    let ruled = || Account::Ruled { name: "ollama".into(), rule: RuleId(3) };
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row { account: ruled(), ..Row::of("", 1, 0, MINUTE) });
    journal.settle(HOUR, Row::of("ollama", 2, 2 * MINUTE, MINUTE));
    journal.settle(HOUR, Row::of("whisper", 3, 4 * MINUTE, MINUTE));
    journal.open(HOUR, OpenKind::Row, 0, 4, HOUR, program("ollama"));
    journal.open(HOUR, OpenKind::Row, 0, 5, HOUR, ruled());
    journal.mark(5 * HOUR, 1);
    let report = made_priced(&journal, By::Account, SharePolicy::None, &[], Some(prices()));
    let page = super::render(&report);
    let lines = |begin: &str| page.lines().filter(|line| line.starts_with(begin)).count();
    // Accounts, evidence, two prices of open time, two of settled time and one of busy, open.
    assert!(lines("  ollama (program) ") >= 5, "{page}");
    assert_eq!(lines("  ollama (program) "), lines("  ollama (rule) "), "{page}");
    assert_eq!((lines("  ollama  "), lines("Several accounts here are called alike, ")), (0, 1));
    assert!(lines("  whisper ") > 2 && lines("  whisper (") == 0, "{page}");
    let priced: serde_json::Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
    let lines = priced["priced"]["lines"].as_array().unwrap();
    let of = |by: &str| lines.iter().filter(|line| line["named_by"] == by).count();
    assert!(of("rule") > 0 && of("program") > of("rule"), "{lines:?}");
    let alone = made(&morning(), By::Account, SharePolicy::None, &[]);
    assert!(!super::render(&alone).contains("Several accounts"));
}

#[test]
fn nobody_comes_onto_the_line_of_a_job_or_a_service_by_what_they_call_a_program() {
    let mut journal = Journal::began(0, 1);
    let named =
        [(Ground::Job, "slurm 4711"), (Ground::Unit, "gpuweb"), (Ground::Container, "gpuweb")];
    for (pid, (ground, name)) in (1..).zip(named) {
        let row = Row::of(name, pid, u64::from(pid) * MINUTE, MINUTE);
        journal.settle(HOUR, Row { account: Account::by(ground, name), ..row });
    }
    for (pid, name) in [(7, "slurm 4711"), (8, "gpuweb"), (9, "gpuweb (unit)")] {
        journal.settle(HOUR, Row::of(name, pid, u64::from(pid) * MINUTE, 9_000));
    }
    journal.mark(5 * HOUR, 1);
    let report = made(&journal, By::Account, SharePolicy::None, &[]);
    let mut lines: Vec<(&str, &str, Ms)> = report
        .accounts
        .iter()
        .map(|line| (&*line.account, line.named_by.unwrap().as_str(), line.held_ms))
        .collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            ("\"gpuweb (unit)\"", "program", Ms(9_000)),
            ("gpuweb", "container", Ms(MINUTE)),
            ("gpuweb", "program", Ms(9_000)),
            ("gpuweb", "unit", Ms(MINUTE)),
            ("slurm 4711", "job", Ms(MINUTE)),
            ("slurm 4711", "program", Ms(9_000)),
        ]
    );
    let meant = |word: &str| {
        let mut ask = ask(By::Account, SharePolicy::None, &[], None);
        ask.accounts = vec![word.to_owned()];
        let report = made_as(&journal, &ask).unwrap();
        report.accounts.iter().map(|line| line.named_by.unwrap().as_str()).collect::<Vec<_>>()
    };
    assert_eq!(meant("slurm 4711"), ["job", "program"]);
    assert_eq!(meant("slurm 4711 (job)"), ["job"]);
    assert_eq!(meant("gpuweb (unit)"), ["unit"]);
    assert_eq!(meant("\"gpuweb (unit)\""), ["program"]);
    let rows = table::csv(&report, false).unwrap();
    assert!(rows.contains("slurm 4711,,,,,false,job,1,60000,"), "{rows}");
    // Of an entry that does not say what named it, nobody knows whether it is the one or the other.
    let untold = Account::Unclassified { name: "gpuweb".into(), ground: None };
    journal.settle(5 * HOUR + 1, Row { account: untold, ..Row::of("gpuweb", 10, HOUR, 5) });
    journal.mark(5 * HOUR + 2, 1);
    let page = super::render(&made(&journal, By::Account, SharePolicy::None, &[]));
    assert!(page.contains("\n  gpuweb (unknown) "), "{page}");
}

#[test]
fn containers_whose_first_digits_agree_are_two_lines_and_a_page_shows_as_many_as_that_takes() {
    let id = |end: &str| format!("3f2a9c0d1e4b{end}{}", "0".repeat(52 - end.len()));
    let mut journal = Journal::began(0, 1);
    for (pid, end) in [(2, "a"), (7, "b")] {
        journal.settle(HOUR, Row::of(&format!("docker {}", id(end)), pid, 0, MINUTE));
    }
    journal.settle(HOUR, Row::of(&format!("podman {}", "ab".repeat(32)), 12, 0, MINUTE));
    journal.mark(5 * HOUR, 1);
    let report = made(&journal, By::Account, SharePolicy::None, &[]);
    let accounts: BTreeSet<&str> = report.accounts.iter().map(|line| &*line.account).collect();
    assert_eq!(accounts.len(), 3);
    assert!(accounts.contains(&*format!("docker {}", id("a"))));
    let page = super::render(&report);
    for line in [
        // Two that would be one in their column have a line of their own.
        "\n  docker 3f2a9c0d1e4ba000\n                         1    0:01:00 ",
        "\n  docker 3f2a9c0d1e4bb000\n                         1    0:01:00 ",
        "\n  podman abababababab       ",
        "\n  podman ababababa…      1    0:01:00 ",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(table::csv(&report, false).unwrap().contains(&id("b")));
}

#[test]
fn a_page_tells_every_moment_in_the_zone_of_its_heading_and_other_forms_as_it_is() {
    let mut report = made_priced(&morning(), By::Account, SharePolicy::None, &[], Some(prices()));
    report.period.time_zone = jiff::tz::TimeZone::posix("CET-1").unwrap();
    let page = super::render(&report);
    for told in [
        "process events 2026-11-30 01:30:00 CET to 2026-11-30 06:00:00 CET\n",
        // Shorter than a minute: to the millisecond.
        "\n    2026-11-30 05:00:05 CET to 2026-11-30 05:00:05.900 CET\n",
        "\n      2026-11-30 01:00:00 CET to 2026-11-30 04:00:00 CET\n",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let (_, below) = page.split_once("\n\n").unwrap();
    assert!(!below.contains("UTC") && !below.contains("00Z"), "{page}");
    let json = json(&report).unwrap();
    assert!(json.contains("\"2026-11-30T04:00:05.900000Z\""), "{json}");
}

#[test]
fn the_json_form_keeps_every_field_and_its_schema() {
    for journal in [morning(), Journal::default()] {
        for by in By::ALL {
            let faults = schema_faults(&made(&journal, by, SharePolicy::Busy, &[gpu(1)]));
            assert!(faults.is_empty(), "{by}: {faults:?}");
        }
    }
}

#[test]
fn the_csv_form_has_a_row_a_line_and_guards_names() {
    let mut journal = morning();
    journal.settle(4 * HOUR + 9, Row::of("=cmd|' /C calc'!A0, \"x\"", 9, 4 * HOUR, 5));
    journal.mark(5 * HOUR, 2);
    let report = made(&journal, By::Account, SharePolicy::None, &[]);
    let csv = table::csv(&report, false).unwrap();
    assert!(csv.contains("\r\n\"'=cmd|' /C calc'!A0, \"\"x\"\"\",,,,,false,program,1,5,"), "{csv}");
    assert!(table::csv(&report, true).unwrap().contains("\r\n\"=cmd|' /C"));
    let rows = report.accounts.len() + report.unattributed.len() + report.disputed.len();
    let read = |text: &str| {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().unwrap().len();
        (columns, reader.records().map(Result::unwrap).count())
    };
    assert_eq!(read(&csv), (25, rows));
    let by_process = made(&journal, By::Process, SharePolicy::None, &[]);
    let settled = by_process.settlements.as_ref().unwrap().len();
    let (open, rowless) = (by_process.open.len(), by_process.no_driver_row.len());
    assert!(open == 2 && rowless == 2);
    let processes = table::csv(&by_process, false).unwrap();
    assert_eq!(read(&processes), (27, settled + open + rowless));
    let llama = processes.lines().find(|line| line.contains(",llama-server,")).unwrap();
    assert!(llama.starts_with(",open,llama-server,program,GPU-0a2b3c4d-"), "{llama}");
    let accrued = by_process.open[0].accrued_ms.unwrap().0;
    assert!(llama.contains(&format!(",2488,{},,{accrued},", (DAY_MS + HOUR) * 1_000)), "{llama}");
    let hidden = processes.lines().find(|line| line.contains(",4200,")).unwrap();
    assert!(
        hidden.contains(",open,comfyui,") && hidden.contains(",masked-by-dead-row,"),
        "{hidden}"
    );
    assert!(processes.contains("\r\n,no-driver-row,voice-daemon,"), "{processes}");
    let mut flagged = by_process;
    flagged.settlements.as_mut().unwrap()[0].flags = vec![Flag::Below1Ms, Flag::SettledWhileAlive];
    let rows = table::csv(&flagged, false).unwrap();
    assert!(rows.contains(",below-1ms settled-while-alive\r\n"), "{rows}");
    let mut users = made(&journal, By::User, SharePolicy::None, &[]);
    users.accounts.iter_mut().for_each(|line| line.user = line.uid.map(|_| "=alice".to_owned()));
    let rows = table::csv(&users, false).unwrap();
    assert!(rows.contains("\r\nuid 1000,1000,'=alice,"), "{rows}");
    // What is not known is empty, and never a zero.
    let nameless = csv.lines().find(|line| line.starts_with("unattributed")).unwrap();
    assert!(nameless.ends_with(",,,,,,,"), "{nameless}");
}
