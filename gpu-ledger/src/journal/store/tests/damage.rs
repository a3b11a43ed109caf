//! Damage: one turned byte, a cut, a zeroed page, a file that is missing or somebody else's. The right
//! figures, or an error; never wrong figures, and never a change of what was found.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nvsim::random::Random;

use super::made::{DAY_MS, EPOCH_MS};
use super::{Folder, filled, read, settlement};
use crate::journal::chain::key_of_row;
use crate::journal::entry::{Entry, Figures};
use crate::journal::store::{Reader, StateDir, Store, StoreError, check, check_file};
use crate::unit::Span;

const PAGE: u64 = 4_096;

/// A journal of some hundred entries in one file, with what a reader must say of it.
struct Whole {
    folder: Folder,
    entries: Vec<Entry>,
    day: Vec<Entry>,
    from: u64,
}

fn whole(seed: u64) -> Whole {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, seed, 330);
    folder.store().close().unwrap();
    Whole::of(folder, entries, EPOCH_MS + 3 * DAY_MS)
}

impl Whole {
    fn of(folder: Folder, entries: Vec<Entry>, from: u64) -> Self {
        let period = Span::new(from, from + DAY_MS).unwrap();
        let bears = |entry: &&Entry| super::model::bears(&entries, entry, period);
        let day: Vec<Entry> = entries.iter().filter(bears).cloned().collect();
        assert!(!day.is_empty() && day.len() < entries.len());
        Self { folder, entries, day, from }
    }
}

/// What reading a damaged copy came to: whether it was noticed. Panics at a wrong figure.
fn read_damaged(whole: &Whole, copy: &Folder, how: &str) -> bool {
    let answers = Reader::open(&copy.dir()).map(|reader| {
        let all = read(&reader, 0, u64::MAX);
        let day = read(&reader, whole.from, whole.from + DAY_MS);
        (all, day)
    });
    let Ok((all, day)) = answers else { return true };
    let mut noticed = false;
    match all {
        Ok(all) => assert_eq!(all, whole.entries, "{how}: wrong figures without an error"),
        Err(_) => noticed = true,
    }
    // More than bears on the day may come: a segment that damage hides is read as the tail is.
    match day {
        Ok(day) => {
            let at = |seq: u64| whole.entries.iter().find(|entry| entry.seq == seq);
            assert!(day.iter().all(|entry| at(entry.seq) == Some(entry)), "{how}: changed");
            let missing = whole.day.iter().find(|entry| !day.contains(entry));
            assert_eq!(missing, None, "{how}: wrong figures without an error");
        }
        Err(_) => noticed = true,
    }
    noticed
}

/// Damages copies of a journal on all cores.
fn each(count: u64, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && number < count
                {
                    work(number);
                }
            });
        }
    });
}

#[test]
fn a_turned_byte_anywhere_is_an_error_or_harmless() {
    let whole = whole(21);
    let path = whole.folder.dir().journal();
    let bytes = std::fs::metadata(&path).unwrap().len();
    let noticed = AtomicU64::new(0);
    each(500, |number| {
        let mut random = Random::seeded(number);
        // Half of them where a journal is smallest and most is decided: the first bytes of pages.
        let offset = if number % 2 == 0 {
            random.below(bytes)
        } else {
            random.below(bytes / PAGE) * PAGE + random.below(64)
        };
        let copy = whole.folder.copy();
        let path = copy.dir().journal();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        byte[0] ^= u8::try_from(random.between(1, 255)).unwrap();
        file.write_all_at(&byte, offset).unwrap();
        let damaged = std::fs::read(&path).unwrap();
        if read_damaged(&whole, &copy, &format!("byte {offset} of {bytes}")) {
            noticed.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "a reader changed the file");
    });
    let noticed = noticed.into_inner();
    assert!(noticed > 100, "only {noticed} of 500 were noticed: was anything damaged?");
}

#[test]
fn a_cut_anywhere_is_an_error() {
    let whole = whole(22);
    let bytes = std::fs::metadata(whole.folder.dir().journal()).unwrap().len();
    each(200, |number| {
        let mut random = Random::seeded(number);
        let at =
            if number % 2 == 0 { random.below(bytes) } else { random.below(bytes / PAGE) * PAGE };
        let copy = whole.folder.copy();
        let path = copy.dir().journal();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(at).unwrap();
        assert!(read_damaged(&whole, &copy, &format!("cut at {at}")), "cut at {at} unnoticed");
        assert!(Store::open(&copy.dir()).is_err(), "cut at {at}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), at, "it was written over");
    });
}

#[test]
fn a_page_of_zeros_is_an_error_or_holds_nothing_that_a_bill_reads() {
    let whole = whole(23);
    let pages = std::fs::metadata(whole.folder.dir().journal()).unwrap().len() / PAGE;
    let noticed = AtomicU64::new(0);
    each(pages, |page| {
        let copy = whole.folder.copy();
        let file = std::fs::File::options().write(true).open(copy.dir().journal()).unwrap();
        file.write_all_at(&[0; 4_096], page * PAGE).unwrap();
        if read_damaged(&whole, &copy, &format!("page {page}")) {
            noticed.fetch_add(1, Ordering::Relaxed);
        }
        let told = check(&copy.dir()).map(|report| report.is_whole());
        assert!(!told.unwrap_or(false), "check does not see that page {page} is gone");
    });
    assert!(noticed.into_inner() > pages / 4);
}

#[test]
fn a_log_that_is_missing_cut_or_damaged_is_an_error_or_harmless() {
    let whole = killed();
    let log = whole.folder.path().join("ledger.db-wal");
    let bytes = std::fs::metadata(&log).unwrap().len();
    let without = whole.folder.copy();
    std::fs::remove_file(without.path().join("ledger.db-wal")).unwrap();
    let error = Store::open(&without.dir()).unwrap_err();
    assert!(matches!(error, StoreError::LostEntries { .. }), "{error}");
    assert!(read_damaged(&whole, &without, "no log"));
    each(100, |number| {
        let mut random = Random::seeded(number);
        let copy = whole.folder.copy();
        let path = copy.path().join("ledger.db-wal");
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let offset = random.below(bytes);
        if number % 2 == 0 {
            file.set_len(offset).unwrap();
            assert!(read_damaged(&whole, &copy, &format!("log cut at {offset}")), "{offset}");
        } else {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[byte[0] ^ 0x41], offset).unwrap();
            read_damaged(&whole, &copy, &format!("byte {offset} of the log"));
        }
    });
}

/// A journal whose entries stand in the log alone.
fn killed() -> Whole {
    let folder = Folder::new();
    let mut store = folder.store();
    for pid in 1..=40 {
        store.append((0..8).map(|n| settlement(pid * 10 + n, None)).collect()).unwrap();
    }
    let copy = folder.copy();
    drop(store);
    let entries = read(&folder.reader(), 0, u64::MAX).unwrap();
    Whole::of(copy, entries, EPOCH_MS + 100_000)
}

#[test]
fn a_key_that_damage_hides_is_not_booked_again() {
    let folder = Folder::new();
    filled(&folder, 25, 200);
    let mut store = folder.store();
    store.append(vec![settlement(5, None)]).unwrap();
    store.close().unwrap();
    let path = folder.dir().journal();
    let Figures::Settlement(figures) = settlement(5, None).figures else { unreachable!() };
    let key = key_of_row(&figures.key().unwrap()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.windows(key.len()).position(|window| window == key).unwrap();
    bytes[place + key.len() - 1] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut store = folder.store();
    let error = store.append(vec![settlement(5, None)]).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn files_of_others_are_refused_by_name_and_left_as_they_are() {
    let mut made: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    made.insert("empty", Vec::new());
    made.insert("text", b"ledger of Mr. Pepys".to_vec());
    made.insert("zeros", vec![0; 8_192]);
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("other.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE a(b); INSERT INTO a VALUES (1)").unwrap();
    drop(connection);
    made.insert("database", std::fs::read(&path).unwrap());
    for (what, bytes) in made {
        let folder = Folder::new();
        let path = folder.dir().journal();
        std::fs::write(&path, &bytes).unwrap();
        for error in [
            Store::open(&folder.dir()).unwrap_err(),
            Reader::open(&folder.dir()).unwrap_err(),
            check_file(&path).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Foreign { .. }), "{what}: {error}");
            assert!(error.to_string().contains("left as it is"), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what} was changed");
    }
}

#[test]
fn a_newer_journal_is_refused_by_name_and_left_as_it_is() {
    let folder = Folder::new();
    filled(&folder, 26, 40);
    folder.store().close().unwrap();
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    connection.pragma_update(None, "user_version", 6).unwrap();
    drop(connection);
    let before = std::fs::read(folder.dir().journal()).unwrap();
    for error in [Store::open(&folder.dir()).unwrap_err(), Reader::open(&folder.dir()).unwrap_err()]
    {
        assert!(matches!(error, StoreError::Newer { found: 6, known: 5, .. }), "{error}");
    }
    assert_eq!(std::fs::read(folder.dir().journal()).unwrap(), before);
}

#[test]
fn a_journal_that_is_gone_or_replaced_by_an_older_copy_is_not_begun_anew() {
    let folder = Folder::new();
    let mut store = folder.store();
    store.append(vec![settlement(1, None)]).unwrap();
    store.close().unwrap();
    let older = std::fs::read(folder.dir().journal()).unwrap();
    let mut store = folder.store();
    store.append(vec![settlement(2, None)]).unwrap();
    store.close().unwrap();
    std::fs::write(folder.dir().journal(), older).unwrap();
    let lost = |dir: &StateDir| match Store::open(dir) {
        Err(StoreError::LostEntries { found, witnessed, .. }) => (found, witnessed),
        other => panic!("{other:?}"),
    };
    assert_eq!(lost(&folder.dir()), (1, 2));
    std::fs::remove_file(folder.dir().journal()).unwrap();
    assert_eq!(lost(&folder.dir()), (0, 2));
    assert!(!Path::new(&folder.dir().journal()).exists());
    // Moving the witness away is how a new journal is begun on purpose.
    std::fs::remove_file(folder.path().join("ledger.head")).unwrap();
    assert_eq!(Store::open(&folder.dir()).unwrap().1.head.seq, 0);
}

/// How, and by what.
type TakesAway<'a> = (&'a str, &'a dyn Fn(&Folder));

/// What is entered into a file that nobody finds again is not acknowledged.
#[test]
fn a_journal_that_is_taken_away_while_it_is_written_takes_nothing_more() {
    let rename = |folder: &Folder, name: &str| {
        std::fs::rename(folder.path().join(name), folder.path().join("elsewhere")).unwrap();
    };
    let takes_away: [TakesAway<'_>; 5] = [
        ("the database is moved", &|folder| rename(folder, "ledger.db")),
        ("another one stands in its place", &|folder| {
            let other = folder.copy();
            std::fs::rename(other.path().join("ledger.db"), folder.path().join("ledger.db"))
                .unwrap();
        }),
        ("what witnesses its end is removed", &|folder| rename(folder, "ledger.head")),
        ("its lock is removed", &|folder| rename(folder, "ledger.lock")),
        ("all of it is removed", &|folder| std::fs::remove_dir_all(folder.path()).unwrap()),
    ];
    for (how, take_away) in takes_away {
        let folder = Folder::new();
        let mut store = folder.store();
        store.append(vec![settlement(1, None)]).unwrap();
        let acknowledged = store.end().clone();
        take_away(&folder);
        let refused = store.append(vec![settlement(2, None)]);
        assert!(matches!(refused, Err(StoreError::Removed { .. })), "{how}: {refused:?}");
        assert_eq!(store.end(), &acknowledged, "{how}");
        let refused = store.append(vec![settlement(2, None)]);
        assert!(matches!(refused, Err(StoreError::Poisoned { .. })), "{how}: {refused:?}");
    }
}
