//! What `cargo xtask bench journal` measures: fills a journal, opens it, reads periods of it, each in a
//! process of its own. Prints `name value` lines; times are nanoseconds.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark's program: it times, and stops where it cannot go on"
)]

#[path = "made.rs"]
#[expect(
    unreachable_pub,
    dead_code,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "shared with tests"
)]
mod made;

use std::io::Read as _;
use std::time::Instant;

use gpu_ledger::bill::ledger::Ledger;
use gpu_ledger::bill::period::Period;
use gpu_ledger::bill::report::{Ask, report};
use gpu_ledger::bill::text::render;
use gpu_ledger::bill::{By, SharePolicy};
use gpu_ledger::billing::{JournalFiles, Source as _};
use gpu_ledger::journal::store::{Extent, Reader, StateDir, Store};
use gpu_ledger::journal::{BootId, Entry, Figures, Moment};
use gpu_ledger::unit::Span;
use jiff::tz::TimeZone;

use made::{DAY_MS, EPOCH_MS, Job};

/// Settlements are spread over this many days.
const DAYS: u64 = 365;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["fill", path, count, batch] => {
            fill(&StateDir::at(path), count.parse().unwrap(), batch.parse().unwrap(), 0);
        }
        ["fill", path, count, batch, host] => {
            let (count, batch) = (count.parse().unwrap(), batch.parse().unwrap());
            fill(&StateDir::at(path), count, batch, host.parse().unwrap());
        }
        ["open", path] => open(&StateDir::at(path)),
        ["day", path] => {
            let from = EPOCH_MS + DAYS / 2 * DAY_MS;
            period(&StateDir::at(path), from, from + DAY_MS);
        }
        ["watch", path] => return watch(&StateDir::at(path)),
        ["all", path] => period(&StateDir::at(path), 0, u64::MAX),
        ["bill-day", path] => {
            let from = EPOCH_MS + DAYS / 2 * DAY_MS;
            bill(&StateDir::at(path), from, from + DAY_MS);
        }
        ["bill-all", path] => bill(&StateDir::at(path), EPOCH_MS, EPOCH_MS + 2 * DAYS * DAY_MS),
        _ => panic!(
            "fill DIR COUNT BATCH [HOST], or open, day, all, bill-day, bill-all or watch and DIR"
        ),
    }
    println!("rss_kib {}", status("VmRSS"));
    println!("peak_kib {}", status("VmHWM"));
}

/// A field of this process's status, in KiB.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

fn told(name: &str, from: Instant) {
    println!("{name} {}", from.elapsed().as_nanos());
}

/// `host`: which of many, each with eight GPUs of its own.
fn fill(dir: &StateDir, count: u32, batch: u32, host: u64) {
    let (mut store, _) = Store::open(dir).unwrap();
    let key = store.commitment_key().clone();
    // Its bundles are signed.
    let at = Moment { boot: BootId(7), stamp: made::stamp(0) };
    store.signer(at, None).unwrap();
    let apart = DAYS * DAY_MS / u64::from(count);
    let mut writing = std::time::Duration::ZERO;
    let mut wal_bytes = 0;
    let wal = dir.path().join("ledger.db-wal");
    let mut done = 0;
    while done < count {
        let last = count.min(done + batch);
        let drafts = (done..last)
            .map(|number| {
                // Like a pool of workers: pids recur, jobs take minutes, eight GPUs.
                let start = EPOCH_MS + u64::from(number) * apart;
                let mut job =
                    Job::of(1_000 + number % 30_000, start, 60_000 + u64::from(number % 600_000));
                job.gpu = host * 8 + u64::from(number % 8);
                job.draft(Some(&key))
            })
            .collect();
        let began = Instant::now();
        store.append(drafts).unwrap();
        writing += began.elapsed();
        done = last;
        wal_bytes = wal_bytes.max(std::fs::metadata(&wal).map_or(0, |found| found.len()));
    }
    println!("write_ns {}", writing.as_nanos());
    println!("wal_bytes_max {wal_bytes}");
    store.close().unwrap();
    println!("file_bytes {}", std::fs::metadata(dir.journal()).unwrap().len());
}

/// Says of every settlement that is entered from now on when it was first seen: pid, start and that moment, in
/// microseconds. An empty line when it begins; ends with its input.
fn watch(dir: &StateDir) {
    use std::sync::atomic::{AtomicBool, Ordering};
    static ENDS: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        ENDS.store(true, Ordering::Relaxed);
    });
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let journal = rusqlite::Connection::open_with_flags(dir.journal(), flags).unwrap();
    let last = "SELECT coalesce(max(seq), 0) FROM settlement";
    let mut last: u64 = journal.query_row(last, [], |row| row.get(0)).unwrap();
    println!();
    let sql = "SELECT seq, pid, start_us FROM settlement WHERE seq > ? ORDER BY seq";
    let mut statement = journal.prepare(sql).unwrap();
    while !ENDS.load(Ordering::Relaxed) {
        let rows = statement.query_map([last], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?, row.get::<_, u64>(2)?))
        });
        let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
        let seen = jiff::Timestamp::now().as_microsecond();
        for (seq, pid, start) in rows {
            println!("{pid} {start} {seen}");
            last = seq;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn open(dir: &StateDir) {
    let began = Instant::now();
    let (store, recovered) = Store::open(dir).unwrap();
    told("open_ns", began);
    println!("entries {}", recovered.head.seq);
    drop(store);
}

fn period(dir: &StateDir, from_ms: u64, to_ms: u64) {
    let began = Instant::now();
    let reader = Reader::open(dir).unwrap();
    told("open_ns", began);
    let mut settlements = 0_u64;
    let mut held = 0_u128;
    let take = |entry: &Entry| {
        if let Figures::Settlement(settlement) = &entry.figures {
            settlements += 1;
            held += u128::from(settlement.held.0);
        }
    };
    let read = reader.period(from_ms, to_ms, take).unwrap();
    told("read_ns", began);
    println!("visited {}", read.visited);
    println!("settlements {settlements}");
    if (from_ms, to_ms) == (0, u64::MAX) {
        let booked: u128 = read.end.head.booked.values().map(|balance| balance.held_ms).sum();
        assert_eq!(booked, held, "the sums of everything are what was ever booked");
    }
}

/// A whole bill for people: opened, read, added up, rendered.
fn bill(dir: &StateDir, from_ms: u64, to_ms: u64) {
    let began = Instant::now();
    let mut source = JournalFiles::open(dir).unwrap();
    let mut ledger = Ledger::new();
    let span = Span::new(from_ms, to_ms).unwrap();
    let head = source.read(span, Extent::default(), &mut ledger).unwrap();
    told("read_ns", began);
    let period = Period {
        span,
        begins_with_journal: false,
        is_open_ended: false,
        beyond_now: None,
        zone: TimeZone::UTC,
    };
    let ask = Ask {
        period,
        by: By::Account,
        share: SharePolicy::None,
        gpus: Vec::new(),
        accounts: Vec::new(),
        prices: None,
    };
    let outside = source.outside(&ledger).unwrap();
    let report = report(&ledger, &ask, head, &outside).unwrap();
    let page = render(&report);
    told("bill_ns", began);
    println!("settlements {}", report.settlements_total);
    println!("page_bytes {}", page.len());
}
