//! Bundles as they lie on a disk: verified first, merged, continued, and refused where they contradict each other.
#![expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]

use std::cell::RefCell;

use serde_json::Value;

use super::*;
use crate::audit::made::MadeBundle;
use crate::bill::made::{DAY_MS, Journal, Row, gpu, program};
use crate::bill::{By, SharePolicy};
use crate::billing::{Format, PricesAt, Version};
use crate::clock::Clock;
use crate::journal::chain::{Recovered, Sealed};
use crate::journal::entry::OpenKind;
use crate::journal::{Evidence, canon};

const HOUR: u64 = 3_600_000;
/// A bundle in the making.
struct Made<'j> {
    journal: &'j Journal,
    id: char,
    /// Of these hours of the day.
    hours: (u64, u64),
    /// Its entries, by number; the last of them is what its checkpoint covers.
    entries: Vec<u64>,
}

fn of(journal: &Journal, id: char, hours: (u64, u64)) -> Made<'_> {
    let entries = journal.entries.iter().map(|entry| entry.seq).collect();
    Made { journal, id, hours, entries }
}

impl Made<'_> {
    fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join(format!("{}-{}-{}", self.id, self.hours.0, self.hours.1));
        let entries = self.journal.entries.iter().filter(|one| self.entries.contains(&one.seq));
        let sealed: Vec<Sealed> = entries
            .map(|entry| Sealed {
                entry: entry.clone(),
                body: canon::encode(&(entry.at, entry.figures.clone())).unwrap(),
                evidence: canon::encode(&Evidence::None).unwrap(),
            })
            .collect();
        let (from, to) = self.hours;
        MadeBundle::of(&sealed, self.id, (DAY_MS + from * HOUR, DAY_MS + to * HOUR)).write(&path);
        path
    }
}

/// A journal of two GPUs of its own, with the agent at work from the first hour to the fourth.
fn journal(first_gpu: u64) -> Journal {
    let mut journal = Journal::default();
    journal.agent_began(HOUR);
    for index in first_gpu..first_gpu + 2 {
        journal.epoch_began(HOUR, index);
    }
    let row =
        |name: &str, pid, start, held| Row { gpu: first_gpu, ..Row::of(name, pid, start, held) };
    journal.settle(HOUR + 900, row("train.py", 1, HOUR + 10, 800));
    let both = [(first_gpu, 2 * HOUR - 100), (first_gpu + 1, 2 * HOUR - 100)];
    journal.mark_of(2 * HOUR - 50, &both);
    // Across the second hour's end.
    journal.settle(2 * HOUR + 7_000, row("whisper", 2, 2 * HOUR - 5_000, 11_000));
    let both = [(first_gpu, 2 * HOUR + 8_000), (first_gpu + 1, 2 * HOUR + 8_000)];
    journal.mark_of(2 * HOUR + 8_000, &both);
    journal.settle(
        3 * HOUR,
        Row { gpu: first_gpu + 1, ..row("train.py", 3, 2 * HOUR + 9_000, 20_000) },
    );
    let both = [(first_gpu, 4 * HOUR + 10), (first_gpu + 1, 4 * HOUR + 10)];
    journal.mark_of(4 * HOUR + 20, &both);
    journal
}

fn options(by: By, asked: Asked, output: &Path) -> BillOptions {
    BillOptions {
        asked,
        version: Version::Usual,
        by,
        share: SharePolicy::None,
        gpus: Vec::new(),
        accounts: Vec::new(),
        prices: PricesAt::Default,
        format: Format::Json,
        output: Some(output.to_path_buf()),
        zone: jiff::tz::TimeZone::UTC,
        clock: Clock::system(),
    }
}

fn asked(since: u64, until: u64) -> Asked {
    let word = |hour: u64| Some(moment(DAY_MS + hour * HOUR));
    Asked { since: word(since), until: word(until), period: None }
}

const PROVEN: Verify<'static> = &|_| Ok(());

/// The bill of these bundles as JSON, and the exit status.
fn billed(paths: &[PathBuf], asked: Asked) -> anyhow::Result<(Value, u8)> {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("bill.json");
    let status = bill_of_bundles(&options(By::Account, asked, &output), paths, PROVEN)?;
    Ok((serde_json::from_slice(&std::fs::read(output)?)?, status))
}

fn refused(paths: &[PathBuf], asked: Asked) -> String {
    format!("{:#}", billed(paths, asked).unwrap_err())
}

/// What of a bill is no name of it.
fn figures(bill: &Value) -> Value {
    let of = |key: &str| bill[key].clone();
    let keys =
        ["period", "gpus", "accounts", "unattributed", "open", "settlements_total", "coverage"];
    Value::Array(keys.map(of).into())
}

#[test]
fn bundles_of_two_hosts_are_one_bill_of_the_time_that_they_are_of() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (journal(0), journal(2));
    let paths =
        [of(&one, 'a', (1, 4)), of(&other, 'b', (1, 4))].map(|made| made.write(folder.path()));
    let (bill, status) = billed(&paths, Asked::default()).unwrap();
    assert_eq!(
        (status, &bill["settlements_total"], &bill["span_ms_total"]),
        (0, &6.into(), &63_600.into())
    );
    assert_eq!(bill["period"]["length_ms"], 3 * HOUR);
    let hosts = bill["hosts"].as_array().unwrap();
    let heads: Vec<&Value> = hosts.iter().map(|host| &host["journal_head"]["seq"]).collect();
    assert_eq!(
        heads,
        [one.entries.len(), other.entries.len()].map(Value::from).iter().collect::<Vec<_>>()
    );
    assert_eq!(hosts[1]["journal_head"]["tree"], Value::from("62".repeat(32)));
    assert_eq!(hosts[0]["reading"]["through"], "bundle");
    let reversed = [paths[1].clone(), paths[0].clone()];
    assert_eq!(billed(&reversed, Asked::default()).unwrap().0, bill);
}

#[test]
fn nothing_is_read_of_what_is_not_proven_and_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (journal(0), journal(2));
    let paths =
        [of(&one, 'a', (1, 4)), of(&other, 'b', (1, 4))].map(|made| made.write(folder.path()));
    let output = folder.path().join("bill.json");
    let options = options(By::Account, Asked::default(), &output);
    let looked_at = RefCell::new(Vec::new());
    let verify = |path: &Path| {
        looked_at.borrow_mut().push(path.to_path_buf());
        anyhow::ensure!(*path != paths[1], "integrity failed");
        Ok(())
    };
    let error = bill_of_bundles(&options, &paths, &verify).unwrap_err();
    let words = format!("{error:#}");
    assert_eq!(words, format!("no bill: {} is not proven: integrity failed", paths[1].display()));
    assert_eq!(*looked_at.borrow(), paths);
    assert!(!output.exists());
    // Nor of what is no bundle.
    let words = refused(&[folder.path().to_path_buf()], Asked::default());
    assert!(words.contains("is not a bundle of gpu-ledger audit export"), "{words}");
}

#[test]
fn bundles_of_one_journal_continue_each_other_as_the_whole_would() {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(0);
    let seen_to_the_second_hour = 6;
    let mut first = of(&journal, 'a', (1, 2));
    first.entries.retain(|seq| *seq <= seen_to_the_second_hour);
    let mut second = of(&journal, 'a', (2, 4));
    // Of what came before no more than the edges, and the row that lasts beyond them.
    second.entries.retain(|seq| *seq <= 3 || *seq >= seen_to_the_second_hour);
    let parts = [first, second].map(|made| made.write(folder.path()));
    let whole = [of(&journal, 'a', (1, 4)).write(folder.path())];
    for asked in [Asked::default(), asked(1, 4), asked(1, 3), asked(2, 3)] {
        let (of_parts, status) = billed(&parts, asked.clone()).unwrap();
        let (of_whole, expected) = billed(&whole, asked).unwrap();
        assert_eq!((figures(&of_parts), status), (figures(&of_whole), expected));
        assert_eq!(of_parts["hosts"], Value::Null);
    }
    // The second alone says nothing of the first hour, though it has an entry of it.
    let (bill, status) = billed(&parts[1..], asked(1, 4)).unwrap();
    assert_eq!(status, 2);
    let uncovered: Vec<&Value> =
        bill["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["uncovered_ms"]).collect();
    assert_eq!(uncovered, [&Value::from(HOUR), &Value::from(HOUR)]);
    let unknown = bill["unknown"].to_string();
    assert!(unknown.contains("outside of what was given"), "{unknown}");
}

#[test]
fn bundles_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, mut again) = (journal(0), journal(0));
    let whole = of(&one, 'a', (1, 4)).write(folder.path());
    // The same twice, and one that is a part of the other.
    let twice = refused(&[whole.clone(), whole.clone()], Asked::default());
    assert!(twice.contains("are of one journal, and both are of the time from"), "{twice}");
    let part = of(&one, 'a', (2, 3)).write(folder.path());
    let words = refused(&[part, whole.clone()], Asked::default());
    assert!(words.contains("from 2026-11-30T02:00:00") && words.contains("T03:00:00"), "{words}");
    // A journal that was written again after the first was made.
    again.entries.truncate(4);
    again.end = Recovered::default();
    let drafts: Vec<_> = again.entries.drain(..).map(|entry| (entry.at, entry.figures)).collect();
    for (at, figures) in drafts {
        again.enter(at.stamp.wall.ms() - DAY_MS + 1, figures);
    }
    let other = of(&again, 'a', (4, 5)).write(folder.path());
    let words = refused(&[whole.clone(), other], Asked::default());
    assert!(words.contains("have two entries 1; one of them was made of a journal"), "{words}");
    // Another journal of the same GPUs.
    let stranger = of(&one, 'b', (1, 4)).write(folder.path());
    let words = refused(&[whole, stranger], Asked::default());
    assert!(words.contains("both tell of gpu GPU-0a2b3c4d"), "{words}");
}

#[test]
fn what_nobody_tells_the_end_of_is_no_free_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(0);
    let opened = journal.open(4 * HOUR + 30, OpenKind::Row, 0, 9, 4 * HOUR, program("serve"));
    journal.mark(5 * HOUR, 2);
    let first = of(&journal, 'a', (1, 5)).write(folder.path());
    let row = Row { opened: Some(opened), ..Row::of("serve", 9, 4 * HOUR, 2 * HOUR) };
    journal.settle(6 * HOUR + 10, row);
    journal.mark(7 * HOUR, 2);
    journal.mark(9 * HOUR, 2);
    let mut far = of(&journal, 'a', (8, 9));
    let whole = of(&journal, 'a', (5, 9)).write(folder.path());
    far.entries.retain(|seq| *seq <= 3 || *seq + 2 > u64::try_from(journal.entries.len()).unwrap());
    let far = far.write(folder.path());
    let words = refused(&[first.clone(), far], Asked::default());
    assert!(words.contains(&format!("what became of 1 open entries ({opened})")), "{words}");
    let (bill, _) = billed(&[first, whole], Asked::default()).unwrap();
    assert_eq!(bill["accounts"][0]["held_ms"], 2 * HOUR);
}

#[test]
fn a_gpu_is_asked_for_of_every_host_and_one_that_none_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (journal(0), journal(2));
    let paths =
        [of(&one, 'a', (1, 4)), of(&other, 'b', (1, 4))].map(|made| made.write(folder.path()));
    let output = folder.path().join("bill.json");
    let mut options = options(By::Account, Asked::default(), &output);
    options.gpus = vec![gpu(3).to_string()];
    bill_of_bundles(&options, &paths, PROVEN).unwrap();
    let bill: Value = serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap();
    let gpus: Vec<&Value> =
        bill["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["gpu_uuid"]).collect();
    assert_eq!(gpus, [&Value::from(gpu(3).to_string())]);
    assert_eq!(bill["left_out"]["gpus"], 3);
    options.gpus = vec!["7".to_owned()];
    let error = bill_of_bundles(&options, &paths, PROVEN).unwrap_err();
    assert!(error.downcast_ref::<BillError>().unwrap().is_usage());
    assert!(error.to_string().contains("0 of gpuhost (GPU-0a2b"), "{error}");
}
