//! A transaction: drafts become entries, with every row that is derived of them.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::database::{BookedRow, Database, argv_word, mode_word};
use super::error::StoreError;
use super::projection::{big, projection};
use super::segment::Growing;
use super::tree::INSERT_RUN;
use super::writer::{Outcome, State};
use crate::journal::Digest;
use crate::journal::chain::{Sealed, booking_key};
use crate::journal::entry::{
    ConflictFigures, Draft, Evidence, Figures, KeptArgv, SettlementEvidence, SettlementFigures,
};
use crate::settlement::contradicts;

/// A transaction at work.
pub(super) struct Entering<'a> {
    pub(super) database: &'a Database,
    pub(super) state: State,
    /// Of bodies and evidence, so far.
    pub(super) bytes: usize,
}

impl Entering<'_> {
    /// Enters a draft, or says why not.
    pub(super) fn draft(&mut self, draft: Draft) -> Result<Outcome, StoreError> {
        let Draft { at, figures, evidence, argv } = draft;
        let Figures::Settlement(settlement) = &figures else {
            let seq = self.enter(Draft { at, figures, evidence, argv })?;
            return Ok(Outcome::Entered { seq });
        };
        let key = booking_key(settlement, &evidence)?;
        let found = self.database.booked(&key, settlement.key().as_ref())?;
        let Some(booked) = found else {
            let held = settlement.held.0;
            let seq = self.enter(Draft { at, figures, evidence, argv })?;
            self.insert(
                "INSERT INTO booked VALUES (?, ?, ?)",
                vec![Value::Blob(key), big(seq), big(held)],
            )?;
            return Ok(Outcome::Entered { seq });
        };
        let of = booked.seq;
        let Evidence::Settlement(again) = evidence else { return Ok(Outcome::Reoffered { of }) };
        if !self.is_contradicted(booked, settlement, &again)? {
            return Ok(Outcome::Reoffered { of });
        }
        let read_at = settlement.read_at;
        let SettlementEvidence { row, seen, .. } = *again;
        let conflict = Evidence::Conflict { row: Box::new(row), seen };
        if self.is_known(of, &conflict)? {
            return Ok(Outcome::Conflicting { of, seq: None });
        }
        let figures = Figures::Conflict(ConflictFigures { of, read_at });
        let seq = self.enter(Draft { at, figures, evidence: conflict, argv: None })?;
        Ok(Outcome::Conflicting { of, seq: Some(seq) })
    }

    /// Whether a row says other figures than were booked under its key.
    fn is_contradicted(
        &self,
        booked: BookedRow,
        settlement: &SettlementFigures,
        again: &SettlementEvidence,
    ) -> Result<bool, StoreError> {
        if booked.seq <= self.database.origin.base {
            // Its evidence lies in an archive; its milliseconds were kept.
            return Ok(booked.held_ms != settlement.held.0);
        }
        let seq = booked.seq;
        match self.database.evidence(seq)? {
            Some(Evidence::Settlement(first)) => Ok(contradicts(&first.row, &again.row)),
            _ => Err(self.database.damaged(&format!("entry {seq} is booked and is no settlement"))),
        }
    }

    /// Whether a conflict of the same contents is entered already.
    fn is_known(&self, of: u64, conflict: &Evidence) -> Result<bool, StoreError> {
        let Evidence::Conflict { row, .. } = conflict else { return Ok(false) };
        let fail = |cause| self.database.fail(cause);
        let sql = "SELECT seq FROM conflict WHERE of = ? ORDER BY seq";
        let mut statement = self.database.connection.prepare_cached(sql).map_err(fail)?;
        let known = statement.query_map(params![big(of)], |row| row.get(0)).map_err(fail)?;
        for seq in known.collect::<rusqlite::Result<Vec<u64>>>().map_err(fail)? {
            match self.database.evidence(seq)? {
                Some(Evidence::Conflict { row: known, .. }) if known == *row => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Seals a draft and writes every row of it.
    fn enter(&mut self, draft: Draft) -> Result<u64, StoreError> {
        let (evidence, argv) = (draft.evidence.clone(), draft.argv.clone());
        let sealed = self.state.end.seal(draft)?;
        self.state.tree.add(sealed.kept().leaf()?);
        let Sealed { entry, body, evidence: bytes } = sealed;
        self.bytes = self.bytes.saturating_add(body.len()).saturating_add(bytes.len());
        let columns = projection(&entry, &evidence);
        self.insert(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
            vec![
                big(entry.seq),
                Value::Text(entry.figures.kind().to_owned()),
                big(entry.at.stamp.wall.0),
                Value::Blob(body),
                blob(entry.evidence),
                blob(entry.previous),
                blob(entry.hash),
            ],
        )?;
        let evidence = vec![big(entry.seq), Value::Blob(bytes)];
        self.insert("INSERT INTO evidence VALUES (?, ?)", evidence)?;
        self.insert(columns.table.insert, columns.columns)?;
        if let Some(kept) = argv {
            self.keep(&kept)?;
        }
        let named = self.database.named(&entry)?;
        self.state.growing.add(&entry, named.as_ref());
        self.seal_segment()?;
        Ok(entry.seq)
    }

    fn seal_segment(&mut self) -> Result<(), StoreError> {
        let Some(segment) = self.state.growing.fill(&self.state.end) else { return Ok(()) };
        let (body, digest) = segment.sealed()?;
        let columns = vec![big(segment.first), big(segment.last), Value::Blob(body), blob(digest)];
        self.insert("INSERT INTO segment VALUES (?, ?, ?, ?)", columns)?;
        let run = self.state.tree.fill().ok_or_else(|| {
            self.database.damaged("the segment that was filled is no subtree of the tree")
        })?;
        self.insert(INSERT_RUN, run.columns()?.to_vec())?;
        self.state.growing = Growing::after(segment.last, segment.end.hash, segment.last_mark);
        Ok(())
    }

    /// What was kept first under a mode stays; another mode keeps its own beside it. What somebody had erased is not
    /// kept again.
    fn keep(&self, kept: &KeptArgv) -> Result<(), StoreError> {
        let KeptArgv { commitment, mode, argv, text } = kept;
        let is_kept = self.database.argv(kept.place())?.is_some();
        if is_kept || self.database.is_erased(*commitment)? {
            return Ok(());
        }
        let columns = vec![
            blob(*commitment),
            Value::Text(mode_word(*mode).to_owned()),
            Value::Blob(argv.bytes.to_vec()),
            argv.true_length.map_or(Value::Null, big),
            Value::Text(argv_word(argv.state)?),
            Value::Text(text.as_str().to_owned()),
        ];
        self.insert("INSERT INTO argv VALUES (?, ?, ?, ?, ?, ?)", columns)
    }

    fn insert(&self, sql: &str, columns: Vec<Value>) -> Result<(), StoreError> {
        let fail = |cause| self.database.fail(cause);
        let mut statement = self.database.connection.prepare_cached(sql).map_err(fail)?;
        statement.execute(params_from_iter(columns)).map_err(fail)?;
        Ok(())
    }
}

fn blob(digest: Digest) -> Value {
    Value::Blob(digest.0.to_vec())
}
