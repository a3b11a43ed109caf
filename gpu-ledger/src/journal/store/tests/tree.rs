//! The tree as it is kept, against one that is made of all entries in a row.

use super::older::make_version_4;
use super::{Folder, archiving, filled, settlement};
use crate::billing::JournalFiles;
use crate::journal::Digest;
use crate::journal::chain::Recovered;
use crate::journal::entry::{ClosedPeriod, Draft, Evidence, Figures};
use crate::journal::store::{
    Reader, Store, StoreError, archive, check, check_archives, check_file,
};
use crate::journal::tree::{Frontier, TreeError, check_consistency, check_inclusion};
use crate::unit::WallUs;

/// The leaves of all entries that are in a folder.
fn leaves(folder: &Folder) -> Vec<Digest> {
    let files = super::super::parts::archives_in(&folder.dir()).unwrap();
    let mut leaves = Vec::new();
    let mut paths: Vec<_> = files.into_iter().map(|file| file.path).collect();
    paths.push(folder.dir().journal());
    for path in paths {
        let reader = Reader::open_file(&path).unwrap();
        let first = reader.base() + 1;
        let take = &mut |kept: crate::journal::chain::Kept<'_>| {
            leaves.push(kept.proven_leaf()?);
            Ok(())
        };
        reader.database.raw((first, u64::MAX), take).unwrap();
    }
    leaves
}

fn naive(leaves: &[Digest]) -> Frontier {
    let mut tree = Frontier::default();
    for leaf in leaves {
        tree.append(*leaf);
    }
    tree
}

/// Every root, range and proof that a reader gives, against the leaves.
fn check_all(folder: &Folder, leaves: &[Digest]) {
    let files = JournalFiles::open(&folder.dir()).unwrap();
    let mut tree = files.tree().unwrap();
    let size = u64::try_from(leaves.len()).unwrap();
    assert_eq!(tree.size(), size);
    let root_of = |size: usize| naive(&leaves[..size]).root().unwrap();
    let head = root_of(leaves.len());
    for step in (0..=leaves.len()).step_by(7).chain([31, 32, 33, 64, leaves.len()]) {
        let from = u64::try_from(step).unwrap();
        assert_eq!(tree.root_at(from).unwrap(), root_of(step), "{step}");
        let path = tree.consistency(from, size).unwrap();
        check_consistency((from, root_of(step)), (size, head), &path).unwrap();
        let Some(leaf) = leaves.get(step) else { continue };
        let path = tree.inclusion(from + 1, size).unwrap();
        check_inclusion((from, *leaf), (size, head), &path).unwrap();
        // A range by itself, as a bundle of the entries around it has it.
        let mut whole = tree.range(0, from).unwrap();
        whole.append(*leaf);
        let right: Vec<Digest> = tree.range(from + 1, size).unwrap().hashes().collect();
        whole.append_range(size, &right).unwrap();
        assert_eq!(whole.root(), Some(head));
    }
    let outside = tree.root_at(size + 1);
    assert!(matches!(outside, Err(StoreError::Tree(TreeError::Outside { .. }))), "{outside:?}");
    assert!(matches!(tree.inclusion(0, size), Err(StoreError::Tree(_))));
}

#[test]
fn the_tree_is_that_of_all_entries_before_and_after_archiving_and_a_restart() {
    let folder = Folder::new();
    let (entries, _) = filled(&folder, 41, 300);
    let all = leaves(&folder);
    assert_eq!(all.len(), entries.len());
    check_all(&folder, &all);
    let store = folder.store();
    let head = store.tree_head().unwrap();
    assert_eq!(head, (u64::try_from(all.len()).unwrap(), naive(&all).root().unwrap()));
    drop(store);
    for place in [120, 240] {
        archive(&folder.dir(), entries[place].at.stamp.wall).unwrap();
        assert_eq!(leaves(&folder), all);
        check_all(&folder, &all);
    }
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole() && report.base > 0, "{:?}", report.faults);
    assert_eq!(report.root, Some(head.1));
    assert_eq!(folder.store().tree_head(), Some(head));
}

#[test]
fn a_tree_that_grows_entry_by_entry_has_the_root_of_its_entries_each_time() {
    let folder = Folder::new();
    let mut store = folder.store();
    let (mut model, mut tree) = (Recovered::default(), Frontier::default());
    assert_eq!(store.tree_head(), Some((0, tree.root().unwrap())));
    for pid in 1..=100 {
        let draft = settlement(pid, None);
        tree.append(model.seal(draft.clone()).unwrap().kept().leaf().unwrap());
        store.append(vec![draft]).unwrap();
        assert_eq!(store.tree_head(), Some((tree.end(), tree.root().unwrap())));
        if pid % 37 == 0 {
            store.close().unwrap();
            store = folder.store();
        }
    }
}

#[test]
fn without_its_archive_the_root_is_known_and_a_proof_of_what_lies_there_is_not() {
    let (folder, entries, cut) = archiving::journal();
    let all = leaves(&folder);
    let archived = archive(&folder.dir(), cut).unwrap();
    std::fs::rename(&archived.file, folder.path().join("elsewhere")).unwrap();
    let files = JournalFiles::open(&folder.dir()).unwrap();
    let mut tree = files.tree().unwrap();
    let size = tree.size();
    let root = naive(&all).root().unwrap();
    assert_eq!(
        (usize::try_from(size).unwrap(), tree.root_at(size).unwrap()),
        (entries.len(), root)
    );
    let last = *all.last().unwrap();
    let path = tree.inclusion(size, size).unwrap();
    check_inclusion((size - 1, last), (size, root), &path).unwrap();
    let error = tree.inclusion(3, size).unwrap_err();
    assert!(matches!(error, StoreError::Archived { seq: 1, .. }), "{error}");
    assert!(check(&folder.dir()).unwrap().root == Some(root));
}

#[test]
fn a_journal_of_version_4_gets_its_tree_and_where_its_archive_is_missing_the_tree_is_unknown() {
    let (folder, entries, cut) = archiving::journal();
    let all = leaves(&folder);
    let archived = archive(&folder.dir(), cut).unwrap();
    make_version_4(&folder.dir().journal());
    make_version_4(&archived.file);
    assert!(check_file(&archived.file).unwrap().is_whole(), "an archive stays what it is");
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&archived.file, &elsewhere).unwrap();
    let (mut store, _) = Store::open(&folder.dir()).unwrap();
    assert_eq!(store.tree_head(), None);
    let warnings: Vec<String> = store.warnings().iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("entries 1 to 32 were archived")
            && warning.contains("put it there and start the daemon again")),
        "{warnings:?}"
    );
    let signer = store.signer(settlement(1, None).at, None).unwrap();
    let error = store.sign(&signer).unwrap_err();
    assert!(matches!(error, StoreError::TreeUnknown { .. }), "{error}");
    // All else goes on, over the ends of runs.
    let next: Vec<_> = (1..=70).map(|pid| settlement(7_000 + pid, None)).collect();
    store.append(next).unwrap();
    drop(store);
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole() && report.root.is_none(), "{:?}", report.faults);
    let files = JournalFiles::open(&folder.dir()).unwrap();
    let error = files.tree().unwrap().root_at(70).unwrap_err();
    assert!(matches!(error, StoreError::TreeUnknown { first: 1, last: 32, .. }), "{error}");
    drop(files);
    // With the archive in its place everything is known again, and kept.
    std::fs::rename(&elsewhere, &archived.file).unwrap();
    let store = folder.store();
    let now = leaves(&folder);
    assert_eq!(now[..all.len()], all);
    assert_eq!(now.len(), entries.len() + 71);
    assert_eq!(store.tree_head().unwrap().1, naive(&now).root().unwrap());
    drop(store);
    std::fs::rename(&archived.file, &elsewhere).unwrap();
    assert!(folder.store().tree_head().is_some(), "what was derived is kept");
    std::fs::rename(&elsewhere, &archived.file).unwrap();
    check_all(&folder, &now);
}

#[test]
fn a_check_finds_every_subtree_that_is_changed_missing_or_too_many() {
    let folder = Folder::new();
    filled(&folder, 43, 100);
    let other = Folder::new();
    filled(&other, 44, 100);
    let foreign = other.dir().journal().display().to_string();
    let damages = [
        // Another journal's root is right by its digest.
        format!(
            "ATTACH '{foreign}' AS o; DROP TRIGGER subtree_delete; DELETE FROM subtree WHERE number = 1; \
             INSERT INTO subtree SELECT * FROM o.subtree WHERE number = 1; DETACH o"
        ),
        "DROP TRIGGER subtree_update; UPDATE subtree SET root = zeroblob(32) WHERE number = 0"
            .into(),
        "DROP TRIGGER subtree_delete; DELETE FROM subtree WHERE number = 2".into(),
    ];
    for damage in damages {
        let copy = folder.copy();
        let connection = rusqlite::Connection::open(copy.dir().journal()).unwrap();
        let word = damage.split("TRIGGER ").nth(1).unwrap().split(';').next().unwrap().to_owned();
        let sql = "SELECT sql FROM sqlite_schema WHERE name = ?";
        let trigger: String = connection.query_row(sql, [word], |row| row.get(0)).unwrap();
        connection.execute_batch(&format!("{damage}; {trigger};")).unwrap();
        drop(connection);
        let report = check(&copy.dir()).unwrap();
        assert!(
            report.faults.iter().any(|fault| fault.what.contains("tree")),
            "{damage}: {:?}",
            report.faults
        );
    }
}

#[test]
fn an_archive_that_says_another_tree_than_the_journal_is_found() {
    let (folder, _, cut) = archiving::journal();
    archive(&folder.dir(), cut).unwrap();
    assert!(check_archives(&folder.dir()).unwrap().archives[0].report.is_whole());
    let other = Folder::new();
    filled(&other, 45, 40);
    let connection = rusqlite::Connection::open(folder.dir().journal()).unwrap();
    let sql = "SELECT sql FROM sqlite_schema WHERE name = 'subtree_delete'";
    let trigger: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let foreign = other.dir().journal().display().to_string();
    let damage = format!(
        "ATTACH '{foreign}' AS o; DROP TRIGGER subtree_delete; DELETE FROM subtree WHERE number = 0; \
         INSERT INTO subtree SELECT * FROM o.subtree WHERE number = 0; DETACH o; {trigger}"
    );
    connection.execute_batch(&damage).unwrap();
    drop(connection);
    let report = &check_archives(&folder.dir()).unwrap().archives[0].report;
    let told = "another tree than what follows it says";
    assert!(report.faults.iter().any(|fault| fault.what.contains(told)), "{:?}", report.faults);
}

#[test]
fn a_period_that_was_closed_with_another_root_than_its_entries_have_is_found() {
    let folder = Folder::new();
    let mut store = folder.store();
    store.append((1..=40).map(|pid| settlement(pid, None)).collect()).unwrap();
    let all = leaves(&folder);
    let closed = |through: usize, tree| {
        let at = settlement(90, None).at;
        let period = ClosedPeriod {
            name: "2023-10".into(),
            from: WallUs(0),
            to: WallUs(1),
            zone: "UTC".into(),
            through: u64::try_from(through).unwrap(),
            tree,
            by: "account".into(),
            share: "none".into(),
            prices: None,
            documents: Vec::new(),
            version: "0.1.0".into(),
        };
        let figures = Figures::Closed(Box::new(period));
        Draft { at, figures, evidence: Evidence::None, argv: None }
    };
    let root = |count: usize| naive(&all[..count]).root().unwrap();
    store.append(vec![closed(40, root(40)), closed(7, root(7))]).unwrap();
    let faults = |report: &crate::journal::store::CheckReport| -> Vec<_> {
        report.faults.iter().map(|fault| (fault.seq, fault.what.clone())).collect()
    };
    let found = faults(&check(&folder.dir()).unwrap());
    assert!(found.is_empty(), "{found:?}");
    store.append(vec![closed(7, root(8)), closed(50, root(40))]).unwrap();
    let found = faults(&check(&folder.dir()).unwrap());
    let other = "it closes a period with another root of the tree than its entries have";
    let later = "it closes a period over entries that come after it";
    // What is told first is what is seen before any entry.
    assert_eq!(found, [(Some(44), later.to_owned()), (Some(43), other.to_owned())]);
}
