//! Bundles of made journals: the same bytes again, the same bill again, every proof, and nothing left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use super::bill::{BillAsked, BillMaker, zone_of};
use super::bundle::{ExportAsked, ExportFrom, Exported, export};
use super::layout::{self, CHECKPOINT, KEY, MANIFEST, MANIFEST_SIG, manifest_text};
use super::line::{LinePrinter, Parsed};
use super::manifest::Manifest;
use super::verify::{Known, verify};
use super::{Bundle, BundleError, Place};
use crate::bill::ledger::Ledger;
use crate::bill::period::Period;
use crate::bill::report::{Ask, report};
use crate::bill::{By, SharePolicy};
use crate::billing::{JournalFiles, Source};
use crate::journal::chain::{Kept, sha256};
use crate::journal::entry::Entry;
use crate::journal::note::{Checkpoint, Note, SigningKey};
use crate::journal::store::tests::Folder;
use crate::journal::store::tests::made::{self, DAY_MS, EPOCH_MS, Expected, Maker};
use crate::journal::store::{Extent, Files, archive};
use crate::journal::tree::{Frontier, check_consistency, check_inclusion};
use crate::journal::{Digest, Figures, Recovered};
use crate::prices::parse;
use crate::rendering::json;
use crate::unit::{Span, WallUs};

const PRICES: &str =
    "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"held\"\nper_hour = \"1.5\"\n";

/// A journal of `count` entries of a seed or a few more, of which a bill can be made: none is of more milliseconds than a
/// month has.
fn filled(folder: &Folder, seed: u64, count: u64) -> (Vec<Entry>, Recovered) {
    let mut store = folder.store();
    let mut maker = Maker::seeded(seed, Some(store.commitment_key().clone()));
    let mut model = Recovered::default();
    let (mut entries, mut drafts) = (Vec::new(), Vec::new());
    while model.head.seq < count {
        let (draft, expected) = maker.next(&model);
        let is_long =
            matches!(&draft.figures, Figures::Settlement(one) if one.held.0 > 30 * DAY_MS);
        if expected == Expected::Entered && !is_long {
            entries.push(model.seal(draft.clone()).unwrap().entry);
            drafts.push(draft);
        }
    }
    store.append(drafts).unwrap();
    assert_eq!(store.end(), &model);
    (entries, model)
}

fn key() -> SigningKey {
    SigningKey::from_seed("gpu-ledger/0123456789abcdef", &[7; 32]).unwrap()
}

fn asked(span: Span, size: u64) -> ExportAsked {
    let prices = parse(PRICES, &TimeZone::UTC).unwrap();
    ExportAsked {
        span,
        size,
        zone: TimeZone::UTC,
        by: By::Account,
        share: SharePolicy::Equal,
        prices: Some((prices, PRICES.to_owned())),
        witness: None,
    }
}

fn exported(folder: &Folder, asked: &ExportAsked, out: &Path) -> Result<Exported, BundleError> {
    let journal = JournalFiles::open(&folder.dir()).unwrap();
    let files = Files::of_reader(&folder.dir()).unwrap();
    let key = key();
    let from = ExportFrom { journal: &journal, files: files.as_ref(), seal: &key };
    export(&from, asked, out, &mut |_, _| true)
}

/// The bytes of every file, by name.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(
                bytes_of(&path)
                    .into_iter()
                    .map(|(name, bytes)| (Path::new(path.file_name().unwrap()).join(name), bytes)),
            );
        } else {
            let name = PathBuf::from(path.file_name().unwrap());
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Periods of a made journal: none of it, a part, all, and one in which nothing happened.
fn spans(entries: &[Entry]) -> Vec<Span> {
    let last = entries.last().unwrap().at.stamp.wall.ms();
    let part = (last - EPOCH_MS) / 3;
    let of = |from, to| Span::new(from, to).unwrap();
    vec![
        of(EPOCH_MS + part, EPOCH_MS + 2 * part),
        of(0, last),
        of(EPOCH_MS - 9 * DAY_MS, EPOCH_MS - 8 * DAY_MS),
        of(last - part / 9, last),
    ]
}

/// Proves a bundle as a stranger would, and makes its bill again.
fn prove(out: &Path) -> Bundle {
    let bundle = Bundle::open(out).unwrap();
    let key = key();
    let manifest = std::fs::read(out.join(MANIFEST)).unwrap();
    let note = std::fs::read(out.join(MANIFEST_SIG)).unwrap();
    let signed = Note::parse(&note).unwrap().verify(&[key.public()]).unwrap().to_owned();
    assert_eq!(signed, manifest_text(sha256(&manifest)));
    for file in &bundle.manifest().files {
        let bytes = std::fs::read(out.join(&file.name)).unwrap();
        assert_eq!(sha256(&bytes).to_string(), file.sha256, "{}", file.name);
    }
    assert_eq!(bundle.document(KEY).unwrap(), format!("{}\n", key.public()).as_bytes());
    let checkpoint =
        Checkpoint::open(&bundle.document(CHECKPOINT).unwrap(), &[key.public()]).unwrap();
    let Manifest { first, last, size, .. } = *bundle.manifest();
    assert_eq!(checkpoint.size, size);
    let mut frontier = Frontier::of(0, first - 1, &bundle.range().left).unwrap();
    let mut printer = LinePrinter::default();
    for place in [Place::Range, Place::Context] {
        let text = String::from_utf8(bundle.document(place.file()).unwrap()).unwrap();
        for line in text.lines() {
            let parsed = Parsed::of(line.as_bytes()).unwrap();
            let raw = parsed.raw(sha256(&parsed.evidence));
            let leaf = raw.kept.proven_leaf().unwrap();
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            let proof = json.get("proof").map(|proof| {
                let hashes = proof.as_array().unwrap().iter();
                hashes
                    .map(|hash| Digest::of_hex(hash.as_str().unwrap()).unwrap())
                    .collect::<Vec<_>>()
            });
            let mut again = String::new();
            printer.print(raw, proof.as_deref(), &mut again).unwrap();
            assert_eq!(again.trim_end(), line);
            match proof {
                None => {
                    assert_eq!(parsed.seq, frontier.end() + 1);
                    frontier.append(leaf);
                }
                Some(proof) => {
                    assert!(!(first..=last).contains(&parsed.seq));
                    let at = (parsed.seq - 1, leaf);
                    check_inclusion(at, (size, checkpoint.root), &proof).unwrap();
                }
            }
        }
    }
    assert_eq!(frontier.end(), last);
    frontier.append_range(size, &bundle.range().right).unwrap();
    assert_eq!(frontier.root(), Some(checkpoint.root));
    let again = billed_again(&bundle, checkpoint.root);
    assert_eq!(again, String::from_utf8(bundle.document(layout::BILL_JSON).unwrap()).unwrap());
    bundle
}

/// The bill, from nothing but the bundle.
fn billed_again(bundle: &Bundle, root: Digest) -> String {
    let manifest = bundle.manifest();
    let by = By::ALL.into_iter().find(|by| by.as_str() == manifest.bill.by).unwrap();
    let mut maker = BillMaker::new(by);
    for one in bundle.all().unwrap() {
        let one = one.unwrap();
        maker.take(&one.entry, || one.because().map_err(|_| unreachable!())).unwrap();
    }
    let prices = bundle.below(layout::PRICES_DIR).unwrap().into_values().next();
    let zone = zone_of(&manifest.period.zone).unwrap();
    let (since, until) = manifest.span_ms().unwrap();
    let asked = BillAsked {
        span: Span::new(since, until).unwrap(),
        now_ms: manifest.now_ms().unwrap(),
        by,
        share: manifest.bill.share.parse().unwrap(),
        prices: prices.map(|bytes| parse(std::str::from_utf8(&bytes).unwrap(), &zone).unwrap()),
        zone,
    };
    let finished = maker.finish().unwrap();
    json(&finished.report(asked, root, manifest.bill.users.clone()).unwrap()).unwrap()
}

/// The bill as it is made of the journal itself.
fn billed(folder: &Folder, asked: &ExportAsked, entries: &[Entry]) -> String {
    let mut journal = JournalFiles::open(&folder.dir()).unwrap();
    let mut ledger = Ledger::for_bill_by(asked.by);
    let head = journal.read(asked.span, Extent::at(asked.size), &mut ledger).unwrap();
    let outside = journal.outside(&ledger).unwrap();
    let now_ms = entries[usize::try_from(asked.size).unwrap() - 1].at.stamp.wall.ms();
    let latest =
        ledger.latest_ms().filter(|latest| *latest > now_ms && asked.span.to_ms() > now_ms);
    let ask = Ask {
        period: Period {
            span: asked.span,
            begins_with_journal: asked.span.from_ms() == 0,
            is_open_ended: asked.span.to_ms() >= now_ms,
            beyond_now: latest.map(|latest_ms| crate::bill::period::Beyond { now_ms, latest_ms }),
            zone: asked.zone.clone(),
        },
        by: asked.by,
        share: asked.share,
        gpus: Vec::new(),
        accounts: Vec::new(),
        prices: asked.prices.as_ref().map(|(prices, _)| prices.clone()),
    };
    json(&report(&ledger, &ask, head, &outside).unwrap()).unwrap()
}

#[test]
fn a_bundle_proves_itself_and_its_bill_is_that_of_the_journal() {
    for seed in 0..6 {
        let folder = Folder::new();
        let (entries, _) = filled(&folder, seed, 400);
        let size = u64::try_from(entries.len()).unwrap();
        for (place, span) in spans(&entries).into_iter().enumerate() {
            let out = made::folder();
            let asked = asked(span, size);
            let out = out.path().join("bundle");
            let done = exported(&folder, &asked, &out).unwrap();
            let bundle = prove(&out);
            assert_eq!(done.range.2, size);
            let from_journal = billed(&folder, &asked, &entries);
            let in_bundle = String::from_utf8(bundle.document(layout::BILL_JSON).unwrap()).unwrap();
            assert_eq!(in_bundle, from_journal, "seed {seed} period {place}");
        }
    }
}

/// Makes the bundle that later versions must still verify: only where the format has a new version, beside the older ones.
#[test]
#[ignore = "writes tests/data/audit, which is what is tested"]
fn write_the_golden_bundle() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 11, 30);
    let size = u64::try_from(entries.len()).unwrap();
    let span = spans(&entries)[0];
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/audit/v1");
    std::fs::create_dir_all(out.parent().unwrap()).unwrap();
    exported(&folder, &asked(span, size), &out).unwrap();
    let verdict = verify(&out, &Known { key: Some(key().public().clone()), witness: None });
    let page = json(&verdict).unwrap();
    std::fs::write(out.with_file_name("v1.verdict.json"), page).unwrap();
}

#[test]
fn the_same_checkpoint_gives_the_same_bytes_whatever_came_later_and_wherever_entries_lie() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 3, 300);
    let span = spans(&entries)[0];
    let size = u64::try_from(entries.len()).unwrap();
    let outs = made::folder();
    let names = ["first", "earlier", "again", "archived", "all"].map(|name| outs.path().join(name));
    let [first, earlier, again, archived, all] = &names;
    exported(&folder, &asked(span, size), first).unwrap();
    exported(&folder, &asked(span, size - 70), earlier).unwrap();
    assert_ne!(bytes_of(first), bytes_of(earlier));
    let mut store = folder.store();
    let last_ms = entries.last().unwrap().at.stamp.wall.ms();
    for pid in 90_000..90_100 {
        store.append(vec![made::Job::of(pid, last_ms + 10, 5).draft(None)]).unwrap();
    }
    drop(store);
    exported(&folder, &asked(span, size), again).unwrap();
    assert_eq!(bytes_of(first), bytes_of(again));
    // In two archives and the journal.
    for part in [3, 2] {
        let before = EPOCH_MS + (last_ms - EPOCH_MS) / part;
        archive(&folder.dir(), WallUs(before * 1_000)).unwrap();
    }
    let parts = std::fs::read_dir(folder.path()).unwrap();
    let parts = parts.filter(|part| {
        part.as_ref().unwrap().file_name().to_string_lossy().starts_with("archive-")
    });
    assert_eq!(parts.count(), 2);
    exported(&folder, &asked(span, size), archived).unwrap();
    assert_eq!(bytes_of(first), bytes_of(archived));
    let whole = Span::new(0, last_ms).unwrap();
    exported(&folder, &asked(whole, size + 100), all).unwrap();
    prove(all);
    prove(first);
}

#[test]
fn a_witness_is_shown_to_be_continued_and_another_journals_is_refused() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 5, 200);
    let span = spans(&entries)[0];
    let outs = made::folder();
    exported(&folder, &asked(span, 50), &outs.path().join("old")).unwrap();
    let old = std::fs::read(outs.path().join("old").join(CHECKPOINT)).unwrap();
    let with = |witness: &[u8]| ExportAsked { witness: Some(witness.to_vec()), ..asked(span, 150) };
    let out = outs.path().join("new");
    exported(&folder, &with(&old), &out).unwrap();
    let bundle = prove(&out);
    assert_eq!(bundle.document(layout::WITNESS).unwrap(), old);
    let opened = |bytes: &[u8]| Checkpoint::open(bytes, &[key().public()]).unwrap();
    let (old_point, new_point) = (opened(&old), opened(&bundle.document(CHECKPOINT).unwrap()));
    let [proof] = bundle.range().consistency.as_slice() else { panic!("one proof") };
    check_consistency((50, old_point.root), (150, new_point.root), &proof.hashes).unwrap();
    let sign = |origin: &str, size, root| {
        let key = SigningKey::from_seed(origin, &[7; 32]).unwrap();
        Checkpoint { origin: origin.into(), size, root }.sign(&key).unwrap().into_bytes()
    };
    let own = "gpu-ledger/0123456789abcdef";
    for (witness, told) in [
        (sign(own, 50, Digest([1; 32])), "was changed after it"),
        (sign(own, 151, old_point.root), "is of 151 entries"),
        (sign("gpu-ledger/0000000000000000", 50, old_point.root), "give one of this journal"),
        (b"nothing".to_vec(), "is no checkpoint"),
    ] {
        let out = outs.path().join("refused");
        let error = exported(&folder, &with(&witness), &out).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert!(!out.exists());
    }
    assert_eq!(std::fs::read_dir(outs.path()).unwrap().count(), 2, "nothing is left behind");
}

/// Only a later checkpoint has the entry of today's key in it.
#[test]
fn a_checkpoint_of_before_another_key_signed_is_refused_with_what_to_give() {
    let folder = Folder::new();
    let (entries, model) = filled(&folder, 5, 60);
    let now_ms = entries.last().unwrap().at.stamp.wall.ms() + 1_000;
    let mut other = made::key(now_ms);
    let Figures::Key(change) = &mut other.figures else { unreachable!() };
    let old = SigningKey::from_seed("gpu-ledger/0123456789abcdef", &[8; 32]).unwrap();
    change.key = old.public().to_string().into();
    folder.store().append(vec![other, made::key(now_ms + 1)]).unwrap();
    let size = model.head.seq + 1;
    let span = Span::new(0, now_ms).unwrap();
    let out = folder.path().join("out");
    let error = exported(&folder, &asked(span, size), &out).unwrap_err();
    let is_told = matches!(&error, BundleError::OtherKey { size: at, then, .. }
        if *at == size && *then == old.public().to_string());
    assert!(is_told && !out.exists(), "{error}");
    exported(&folder, &asked(span, size + 1), &out).unwrap();
}

#[test]
fn what_is_there_is_not_touched_and_what_is_stopped_leaves_nothing() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 8, 600);
    let asked = asked(spans(&entries)[1], 600);
    let outs = made::folder();
    let out = outs.path().join("bundle");
    std::fs::create_dir(&out).unwrap();
    assert!(matches!(exported(&folder, &asked, &out), Err(BundleError::Exists { .. })));
    std::fs::remove_dir(&out).unwrap();
    std::os::unix::fs::symlink("/nonexistent", &out).unwrap();
    assert!(matches!(exported(&folder, &asked, &out), Err(BundleError::Exists { .. })));
    std::fs::remove_file(&out).unwrap();
    let partial = outs.path().join("bundle.partial");
    std::fs::create_dir(&partial).unwrap();
    let error = exported(&folder, &asked, &out).unwrap_err();
    assert!(matches!(error, BundleError::Partial { .. }), "{error}");
    assert!(partial.exists());
    std::fs::remove_dir(&partial).unwrap();
    let journal = JournalFiles::open(&folder.dir()).unwrap();
    let key = key();
    let from = ExportFrom { journal: &journal, files: None, seal: &key };
    let stopped = export(&from, &asked, &out, &mut |_, _| false);
    assert!(matches!(stopped, Err(BundleError::Interrupted)));
    let too_far = ExportAsked { size: 9_999, ..asked };
    export(&from, &too_far, &out, &mut |_, _| true).unwrap_err();
    assert_eq!(std::fs::read_dir(outs.path()).unwrap().count(), 0);
}

#[test]
fn modes_and_names_are_those_of_the_layout() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 2, 100);
    let outs = made::folder();
    let out = outs.path().join("bundle");
    exported(&folder, &asked(spans(&entries)[1], 100), &out).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&out), 0o750);
    assert_eq!(mode(&out.join(layout::PRICES_DIR)), 0o750);
    let names: BTreeSet<String> =
        bytes_of(&out).into_keys().map(|name| name.display().to_string()).collect();
    for name in &names {
        assert_eq!(mode(&out.join(name)), 0o640, "{name}");
        assert!(layout::is_name(name) || [MANIFEST, MANIFEST_SIG].contains(&name.as_str()));
    }
    let readme = std::fs::read_to_string(out.join(layout::README)).unwrap();
    for name in names {
        assert!(
            readme.contains(&format!("`{name}`")) || name == layout::README,
            "{name}: {readme}"
        );
    }
    for bad in
        ["", "/a", "../a", "a/../b", "a/b/c", ".a", "A", "a//b", "manifest.json", "a\\b", "a b"]
    {
        assert!(!layout::is_name(bad), "{bad}");
    }
}

/// A change of a bundle, and what is said of it.
type Case<'c> = (&'c dyn Fn(&Path), &'c str);

/// Replaces a text in the manifest once.
fn manifest(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path.join(MANIFEST)).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(path.join(MANIFEST), text.replacen(from, to, 1)).unwrap();
}

#[test]
fn what_is_no_bundle_or_was_changed_is_refused_by_name() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 4, 120);
    let outs = made::folder();
    let good = outs.path().join("good");
    exported(&folder, &asked(spans(&entries)[1], 120), &good).unwrap();
    let told = |change: &dyn Fn(&Path)| {
        let bad = outs.path().join("bad");
        for (name, bytes) in bytes_of(&good) {
            std::fs::create_dir_all(bad.join(&name).parent().unwrap()).unwrap();
            std::fs::write(bad.join(name), bytes).unwrap();
        }
        change(&bad);
        let error = Bundle::open(&bad).and_then(|bundle| {
            bundle.all()?.try_for_each(|one| one.map(drop))?;
            Ok(())
        });
        std::fs::remove_dir_all(&bad).unwrap();
        error.unwrap_err().to_string()
    };
    let cases: &[Case<'_>] = &[
        (&|path| std::fs::remove_file(path.join(MANIFEST)).unwrap(), "no manifest.json"),
        (
            &|path| std::fs::remove_file(path.join(MANIFEST_SIG)).unwrap(),
            "manifest.sig of the bundle is missing",
        ),
        (
            &|path| std::fs::remove_file(path.join("bill.csv")).unwrap(),
            "bill.csv of the bundle is missing",
        ),
        (&|path| std::fs::write(path.join("more"), "").unwrap(), "more of the bundle is not named"),
        (&|path| std::fs::write(path.join("bill.csv"), "").unwrap(), "has another size"),
        (
            &|path| {
                std::fs::remove_file(path.join("bill.csv")).unwrap();
                std::os::unix::fs::symlink("bill.txt", path.join("bill.csv")).unwrap();
            },
            "is no plain file",
        ),
        (&|path| manifest(path, "\"version\":1", "\"version\":2"), "of version 2"),
        (&|path| manifest(path, "gpu-ledger-audit", "other"), "is not of the format"),
        (&|path| manifest(path, "\"bill.csv\"", "\"../bill.csv\""), "no bundle has"),
        (&|path| manifest(path, "{\"name\"", "{ \"name\""), "not written as this format writes it"),
        (
            &|path| {
                let first = Bundle::open(path).unwrap().manifest().first;
                let (old, new) =
                    (format!("\"first\":{first},"), format!("\"first\":{},", first + 1));
                manifest(path, &old, &new);
            },
            "is of another range",
        ),
        (
            &|path| {
                let name = path.join("entries.jsonl");
                let text = std::fs::read_to_string(&name).unwrap();
                std::fs::write(&name, text.replacen("\"hash\":\"", "\"hash\":\"0", 1)).unwrap();
                let of = |bytes: usize| format!("\"bytes\":\"{bytes}\"");
                manifest(path, &of(text.len()), &of(text.len() + 1));
            },
            "has a line that is no entry's",
        ),
    ];
    for (change, expected) in cases {
        let error = told(*change);
        assert!(error.contains(expected), "{error}");
    }
    let error = Bundle::open(&good.join("bill.csv")).unwrap_err().to_string();
    assert!(error.contains("it is no folder"), "{error}");
    let evidence = Parsed::of(b"{\"seq\":01,\"hash\":\"").is_none();
    assert!(evidence);
}

#[test]
fn a_line_of_more_than_sixteen_mebibytes_is_not_read() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 4, 40);
    let outs = made::folder();
    let out = outs.path().join("bundle");
    exported(&folder, &asked(spans(&entries)[1], 40), &out).unwrap();
    let bundle = Bundle::open(&out).unwrap();
    std::fs::write(out.join("entries.jsonl"), vec![b'x'; (16 << 20) + 2]).unwrap();
    let error = bundle.entries(Place::Range).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("a line of more than 16 MiB"), "{error}");
}

/// What the parts of a line are, told apart by their tags.
#[test]
fn a_line_says_what_was_kept_and_a_readers_parse_gives_it_back() {
    let folder = Folder::new();
    filled(&folder, 1, 60);
    let journal = JournalFiles::open(&folder.dir()).unwrap();
    let mut printer = LinePrinter::default();
    let mut seen = 0;
    journal
        .raw::<BundleError>((1, 60), &mut |raw| {
            let mut line = String::new();
            printer.print(
                super::line::Raw { kept: raw.kept, evidence: raw.evidence },
                None,
                &mut line,
            )?;
            let parsed = Parsed::of(line.trim_end().as_bytes()).unwrap();
            let Kept { seq, body, previous, hash, .. } = raw.kept;
            assert_eq!((parsed.seq, parsed.body.as_slice()), (seq, body));
            assert_eq!((parsed.previous, parsed.hash), (previous, hash));
            assert_eq!(parsed.evidence, raw.evidence);
            seen += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 60);
}
