//! The database itself refuses what a journal must not do, whoever asks it.

use rusqlite::{Connection, OpenFlags};

use super::{Folder, filled, made, settlement};
use crate::journal::entry::Figures;
use crate::journal::store::{StoreError, check};
use crate::unit::{Ms, WallUs};

/// A connection of another program: none of our pragmas.
fn stranger(folder: &Folder) -> Connection {
    let connection = Connection::open(folder.dir().journal()).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection
}

#[test]
fn update_delete_and_every_form_of_replace_are_refused_to_any_program() {
    let folder = Folder::new();
    let (mut entries, _) = filled(&folder, 3, 200);
    let job = made::Job::of(7, made::EPOCH_MS, 500);
    let longer = made::Job { held_ms: 501, ..job.clone() };
    let mut store = folder.store();
    let argv_key = store.commitment_key().clone();
    let appended = store.append(vec![job.draft(Some(&argv_key)), longer.draft(None)]).unwrap();
    assert_eq!(appended.conflicts(), 1);
    let kept = job.draft(Some(&argv_key)).argv.unwrap();
    assert_eq!(store.forget_argv(&[kept.commitment]).unwrap().texts, 1);
    drop(store);
    entries.extend(super::read(&folder.reader(), 0, u64::MAX).unwrap().split_off(entries.len()));
    let stranger = stranger(&folder);
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut statement = stranger.prepare(tables).unwrap();
    let tables = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let tables: Vec<String> = tables.map(Result::unwrap).collect();
    assert_eq!(tables.len(), 20, "{tables:?}");
    let mut tried = 0;
    for table in &tables {
        let columns = stranger.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let first = columns.column_names().next().unwrap().to_owned();
        let count = |table: &str| -> u64 {
            stranger
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
                .unwrap()
        };
        let before = count(table);
        if before == 0 {
            assert!(table == "carried", "{table} is not tried");
            continue;
        }
        let mut statements = vec![
            format!("UPDATE {table} SET {first} = {first}"),
            format!("UPDATE OR REPLACE {table} SET {first} = {first}"),
            format!("INSERT OR REPLACE INTO {table} SELECT * FROM {table}"),
            format!("REPLACE INTO {table} SELECT * FROM {table}"),
            format!("INSERT OR IGNORE INTO {table} SELECT * FROM {table}"),
            format!(
                "INSERT INTO {table} SELECT * FROM {table} WHERE true ON CONFLICT DO UPDATE SET {first} = {first}"
            ),
        ];
        if table != "argv" {
            statements.push(format!("DELETE FROM {table}"));
        }
        for statement in statements {
            let error = stranger.execute(&statement, []).expect_err(&statement).to_string();
            let said = ["append-only", "argu", "erased"].iter().any(|word| error.contains(word));
            assert!(said, "{statement}: {error}");
            tried += 1;
        }
        assert_eq!(count(table), before);
    }
    assert!(tried >= 90, "{tried}");
    // A replaced row that only its other unique key gives away.
    for statement in [
        "INSERT OR REPLACE INTO settlement SELECT seq + 100000, id, gpu, pid, start_us, held_ms, read_at_us, \
         account_kind, account, rule, program, uid, basis, flags, dispute, asleep_ms, busy_ms_low, \
         busy_ms_high, busy_samples, busy_source, memory_peak_bytes, opened, labels, booked_count, \
         booked_held_ms FROM settlement WHERE start_us IS NOT NULL LIMIT 1",
        "INSERT OR REPLACE INTO segment SELECT first + 1, last, body, digest FROM segment LIMIT 1",
        // A number left out.
        "INSERT INTO entry SELECT seq + 2, kind, at_us, body, evidence_digest, previous, hash FROM entry \
         ORDER BY seq DESC LIMIT 1",
    ] {
        let error = stranger.execute(statement, []).expect_err(statement).to_string();
        assert!(error.contains("append-only"), "{statement}: {error}");
    }
    drop(statement);
    drop(stranger);
    assert_eq!(super::read(&folder.reader(), 0, u64::MAX).unwrap(), entries);
    assert!(check(&folder.dir()).unwrap().is_whole());
}

#[test]
fn a_writer_that_finds_a_strangers_entry_stops_acknowledging() {
    let folder = Folder::new();
    let mut store = folder.store();
    store.append(vec![settlement(1, None)]).unwrap();
    let copied = "INSERT INTO entry SELECT seq + 1, kind, at_us, body, evidence_digest, previous, hash FROM entry";
    stranger(&folder).execute(copied, []).unwrap();
    assert!(store.append(vec![settlement(2, None)]).is_err());
    let error = store.append(vec![settlement(3, None)]).unwrap_err();
    assert!(matches!(error, StoreError::Poisoned { .. }), "{error}");
    drop(store);
    let error = super::Store::open(&folder.dir()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// SQLite's own rounding of microseconds gave .571 here, where a bill has the row begin at .570.
#[test]
fn a_view_shows_the_millisecond_that_is_billed() {
    let folder = Folder::new();
    let mut store = folder.store();
    let mut draft = settlement(7, None);
    let Figures::Settlement(figures) = &mut draft.figures else { unreachable!() };
    (figures.start, figures.held) = (Some(WallUs(1_796_040_686_570_494)), Ms(1_431));
    store.append(vec![draft]).unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags(folder.dir().journal(), flags).unwrap();
    let shown: (String, String) = reader
        .query_row("SELECT started, ended FROM settlements", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((&*shown.0, &*shown.1), ("2026-11-30T12:11:26.570Z", "2026-11-30T12:11:28.001Z"));
}

#[test]
fn the_views_say_what_the_document_says_they_do() {
    let folder = Folder::new();
    let (entries, end) = filled(&folder, 5, 300);
    let noted: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.figures {
            Figures::Mark(mark) => Some((entry.at, mark.note.clone()?)),
            _ => None,
        })
        .collect();
    assert!(noted.len() > 2, "{noted:?}");
    let last: Vec<_> = noted.iter().rev().take(2).cloned().collect();
    assert_eq!(folder.reader().notes(2).unwrap(), last);
    drop(entries);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags(folder.dir().journal(), flags).unwrap();
    let number = |sql: &str| -> u64 { reader.query_row(sql, [], |row| row.get(0)).unwrap() };
    let booked: u64 = end.head.booked.values().map(|balance| balance.count).sum();
    assert_eq!(number("SELECT count(*) FROM settlements"), booked);
    assert_eq!(number("SELECT sum(settlements) FROM accounts"), booked);
    let open = u64::try_from(end.unresolved.len()).unwrap();
    assert_eq!(number("SELECT count(*) FROM open"), open);
    assert!(number("SELECT sum(settlements) FROM unattributed") > 0);
    assert_eq!(number("SELECT count(*) FROM marks"), u64::try_from(noted.len()).unwrap());
    for view in ["gaps", "coverage", "epochs", "corrections"] {
        assert!(number(&format!("SELECT count(*) FROM {view}")) > 0, "{view}");
    }
    // The account of the latest correction, and the state that a conflict makes.
    assert!(number("SELECT count(*) FROM settlements WHERE account = 'team-a'") > 0);
    let document = include_str!("../VIEWS.md");
    let views = "SELECT name FROM sqlite_schema WHERE type = 'view'";
    let mut statement = reader.prepare(views).unwrap();
    let views = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for view in views.map(Result::unwrap) {
        assert!(document.contains(&format!("## `{view}`")), "VIEWS.md lacks {view}");
        let columns = reader.prepare(&format!("SELECT * FROM {view}")).unwrap();
        for column in columns.column_names() {
            assert!(document.contains(&format!("`{column}`")), "VIEWS.md lacks {view}.{column}");
        }
    }
}
