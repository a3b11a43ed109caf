-- The journal of gpu-ledger, schema version 5 (with argv.sql, memory.sql and audit.sql). See VIEWS.md for the views, which are for people:
-- `gpu-ledger journal check` proves that they say what the chain says; a bill reads the chain.
-- Nothing here is ever changed, and only text of arguments (table argv) is ever deleted: the triggers
-- hold for every writer, with or without recursive_triggers.

CREATE TABLE origin(
  -- Of this journal there is exactly one row. It says where the numbering begins.
  journal     BLOB NOT NULL PRIMARY KEY,  -- 16 random bytes: this journal, and every archive of it
  base        INTEGER NOT NULL,           -- number of the last entry that was archived away; 0: none
  last        INTEGER,                    -- of an archive: number of its last entry
  digest      BLOB NOT NULL               -- SHA-256 of the canonical bytes of the columns above
) STRICT, WITHOUT ROWID;
CREATE TRIGGER origin_insert BEFORE INSERT ON origin
  WHEN EXISTS (SELECT 1 FROM origin)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a journal has one origin'); END;
CREATE TRIGGER origin_update BEFORE UPDATE ON origin
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER origin_delete BEFORE DELETE ON origin
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE entry(
  -- The chain. hash = SHA-256 of (domain, version, seq, previous, body, evidence_digest), canonical.
  seq         INTEGER NOT NULL PRIMARY KEY,
  kind        TEXT NOT NULL,
  at_us       INTEGER NOT NULL,           -- when it was learnt, microseconds since 1970, UTC
  body        BLOB NOT NULL,              -- canonical bytes of moment and figures
  evidence_digest BLOB NOT NULL,          -- SHA-256 of evidence.bytes
  previous    BLOB NOT NULL,              -- hash of entry seq - 1
  hash        BLOB NOT NULL
) STRICT;
CREATE TRIGGER entry_insert BEFORE INSERT ON entry
  WHEN NEW.seq IS NOT coalesce((SELECT max(seq) FROM entry), (SELECT base FROM origin)) + 1
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry follows the last one by number'); END;
CREATE TRIGGER entry_update BEFORE UPDATE ON entry
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER entry_delete BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE evidence(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  bytes       BLOB NOT NULL               -- canonical bytes of what the entry rests on
) STRICT;
CREATE TRIGGER evidence_insert BEFORE INSERT ON evidence
  WHEN EXISTS (SELECT 1 FROM evidence WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one evidence'); END;
CREATE TRIGGER evidence_update BEFORE UPDATE ON evidence
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER evidence_delete BEFORE DELETE ON evidence
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE carried(
  -- Open entries from before the base that were not over when it was archived, as they stand there.
  seq         INTEGER NOT NULL PRIMARY KEY,
  kind        TEXT NOT NULL,
  at_us       INTEGER NOT NULL,
  body        BLOB NOT NULL,
  evidence_digest BLOB NOT NULL,
  previous    BLOB NOT NULL,
  hash        BLOB NOT NULL,
  bytes       BLOB NOT NULL               -- its evidence
) STRICT;
CREATE TRIGGER carried_insert BEFORE INSERT ON carried
  WHEN EXISTS (SELECT 1 FROM carried WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry is carried over once'); END;
CREATE TRIGGER carried_update BEFORE UPDATE ON carried
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER carried_delete BEFORE DELETE ON carried
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE booked(
  -- Every row of the driver that was ever booked, those of archived entries included. The key is the
  -- canonical bytes of (startTime, pid, GPU); of a row without a start, of everything the driver said.
  key         BLOB NOT NULL PRIMARY KEY,
  seq         INTEGER NOT NULL,           -- the settlement
  held_ms     ANY NOT NULL                -- its milliseconds
) STRICT, WITHOUT ROWID;
CREATE TRIGGER booked_insert BEFORE INSERT ON booked
  WHEN EXISTS (SELECT 1 FROM booked WHERE key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a row of the driver is booked once'); END;
CREATE TRIGGER booked_update BEFORE UPDATE ON booked
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER booked_delete BEFORE DELETE ON booked
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE segment(
  -- What stands in each run of 4096 entries, so that a reader of a period can pass over those that
  -- do not bear on it. Part of no hash chain: it is derived, and `journal check` derives it again.
  first       INTEGER NOT NULL PRIMARY KEY,
  last        INTEGER NOT NULL UNIQUE,
  body        BLOB NOT NULL,              -- canonical bytes
  digest      BLOB NOT NULL               -- SHA-256 of the canonical bytes of (domain, body)
) STRICT;
CREATE TRIGGER segment_insert BEFORE INSERT ON segment
  WHEN EXISTS (SELECT 1 FROM segment WHERE first = NEW.first OR last = NEW.last)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a segment is sealed once'); END;
CREATE TRIGGER segment_update BEFORE UPDATE ON segment
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER segment_delete BEFORE DELETE ON segment
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE settlement(
  -- Times are microseconds since 1970, UTC; a number past 2^63 - 1 stands as decimal text.
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  id          TEXT NOT NULL,
  gpu         TEXT NOT NULL,
  pid         INTEGER NOT NULL,
  start_us    ANY,                        -- NULL: the driver gave none
  held_ms     ANY NOT NULL,
  read_at_us  ANY NOT NULL,
  account_kind TEXT NOT NULL,             -- see VIEWS.md
  account     TEXT NOT NULL,              -- of an unattributed one the reason
  rule        INTEGER,
  program     TEXT,
  uid         INTEGER,
  basis       TEXT,                       -- exec, fork, procfs or journal; NULL: no name
  flags       TEXT NOT NULL,              -- JSON array
  dispute     TEXT,
  asleep_ms   ANY,
  busy_ms_low ANY,
  busy_ms_high ANY,
  busy_samples ANY,
  busy_source TEXT,
  memory_peak_bytes ANY,
  opened      INTEGER,                    -- the open entry that it replaces
  labels      TEXT NOT NULL,              -- JSON array of [dimension, value]
  booked_count ANY NOT NULL,              -- of this GPU, this settlement included
  booked_held_ms ANY NOT NULL
) STRICT;
CREATE UNIQUE INDEX settlement_by_row ON settlement(start_us, pid, gpu) WHERE start_us IS NOT NULL;
CREATE TRIGGER settlement_insert BEFORE INSERT ON settlement
  WHEN EXISTS (SELECT 1 FROM settlement WHERE seq = NEW.seq)
  OR EXISTS (SELECT 1 FROM settlement WHERE start_us = NEW.start_us AND pid = NEW.pid AND gpu = NEW.gpu)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a row of the driver is booked once'); END;
CREATE TRIGGER settlement_update BEFORE UPDATE ON settlement
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER settlement_delete BEFORE DELETE ON settlement
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE opened(
  seq         INTEGER NOT NULL PRIMARY KEY,
  kind        TEXT NOT NULL,              -- row, masked or no-driver-row
  gpu         TEXT NOT NULL,
  pid         INTEGER NOT NULL,
  start_us    ANY,
  first_seen_us ANY NOT NULL,
  account_kind TEXT NOT NULL,
  account     TEXT NOT NULL,
  rule        INTEGER,
  program     TEXT,
  uid         INTEGER,
  basis       TEXT,
  labels      TEXT NOT NULL
) STRICT;
CREATE TRIGGER opened_insert BEFORE INSERT ON opened
  WHEN EXISTS (SELECT 1 FROM opened WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER opened_update BEFORE UPDATE ON opened
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER opened_delete BEFORE DELETE ON opened
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE correction(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  of          INTEGER NOT NULL,
  change      TEXT NOT NULL,              -- ended or account
  last_seen_us ANY,
  cause       TEXT,                       -- how the row was lost; NULL: it merely ended
  account_kind TEXT,
  account     TEXT,
  rule        INTEGER
) STRICT;
CREATE INDEX correction_by_entry ON correction(of);
CREATE TRIGGER correction_insert BEFORE INSERT ON correction
  WHEN EXISTS (SELECT 1 FROM correction WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER correction_update BEFORE UPDATE ON correction
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER correction_delete BEFORE DELETE ON correction
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE conflict(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  of          INTEGER NOT NULL,
  read_at_us  ANY NOT NULL,
  held_ms     ANY                         -- what the row says now
) STRICT;
CREATE INDEX conflict_by_entry ON conflict(of);
CREATE TRIGGER conflict_insert BEFORE INSERT ON conflict
  WHEN EXISTS (SELECT 1 FROM conflict WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER conflict_update BEFORE UPDATE ON conflict
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER conflict_delete BEFORE DELETE ON conflict
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE gap(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  cause       TEXT NOT NULL,
  gpu         TEXT,                       -- NULL: process events, hence every GPU
  from_us     ANY NOT NULL,
  to_us       ANY NOT NULL,
  size        ANY                         -- NULL: not even that is known
) STRICT;
CREATE TRIGGER gap_insert BEFORE INSERT ON gap
  WHEN EXISTS (SELECT 1 FROM gap WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER gap_update BEFORE UPDATE ON gap
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER gap_delete BEFORE DELETE ON gap
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE epoch(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  gpu         TEXT NOT NULL,
  at_us       ANY NOT NULL,
  edge        TEXT NOT NULL,              -- began or ended
  gpu_index   INTEGER,
  gpu_name    TEXT,
  cause       TEXT
) STRICT;
CREATE TRIGGER epoch_insert BEFORE INSERT ON epoch
  WHEN EXISTS (SELECT 1 FROM epoch WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER epoch_update BEFORE UPDATE ON epoch
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER epoch_delete BEFORE DELETE ON epoch
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE covered(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  at_us       ANY NOT NULL,
  edge        TEXT NOT NULL,              -- began or ended
  host        TEXT,
  device_touch TEXT,                      -- yes or no
  process_events TEXT
) STRICT;
CREATE TRIGGER covered_insert BEFORE INSERT ON covered
  WHEN EXISTS (SELECT 1 FROM covered WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER covered_update BEFORE UPDATE ON covered
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER covered_delete BEFORE DELETE ON covered
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE mark(
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  processes_until_us ANY NOT NULL,
  unresolved  TEXT NOT NULL,              -- JSON array of open entries
  note        TEXT
) STRICT;
CREATE TRIGGER mark_insert BEFORE INSERT ON mark
  WHEN EXISTS (SELECT 1 FROM mark WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER mark_update BEFORE UPDATE ON mark
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER mark_delete BEFORE DELETE ON mark
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE VIEW settlements AS
-- Every final row, once. `account` is that of its latest correction; `state` is settled or disputed.
SELECT s.seq, s.id, s.gpu, s.pid,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.start_us / 1000 / 1e3, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', (s.start_us / 1000 + s.held_ms) / 1e3, 'unixepoch') AS ended,
  s.held_ms,
  coalesce(c.account_kind, s.account_kind) AS account_kind,
  coalesce(c.account, s.account) AS account,
  s.program, s.uid, s.basis, s.flags,
  CASE WHEN s.dispute IS NOT NULL OR EXISTS (SELECT 1 FROM conflict WHERE of = s.seq)
    THEN 'disputed' ELSE 'settled' END AS state,
  s.asleep_ms, s.busy_ms_low, s.busy_ms_high, s.busy_source, s.memory_peak_bytes, s.labels
FROM settlement AS s
LEFT JOIN correction AS c ON c.seq =
  (SELECT max(seq) FROM correction WHERE of = s.seq AND change = 'account');

CREATE VIEW open AS
-- What holds a GPU and neither settled nor ended, as far as it was journaled.
SELECT o.seq, o.kind, o.gpu, o.pid,
  strftime('%Y-%m-%dT%H:%M:%fZ', o.start_us / 1000 / 1e3, 'unixepoch') AS started,
  strftime('%Y-%m-%dT%H:%M:%fZ', o.first_seen_us / 1000 / 1e3, 'unixepoch') AS first_seen,
  coalesce(c.account_kind, o.account_kind) AS account_kind,
  coalesce(c.account, o.account) AS account,
  o.program, o.uid, o.basis, o.labels
FROM opened AS o
LEFT JOIN correction AS c ON c.seq =
  (SELECT max(seq) FROM correction WHERE of = o.seq AND change = 'account')
WHERE o.seq NOT IN (SELECT s.opened FROM settlement AS s WHERE s.opened IS NOT NULL)
  AND o.seq NOT IN (SELECT of FROM correction WHERE change = 'ended');

CREATE VIEW unattributed AS
-- Per GPU and reason, what has no identity.
SELECT gpu, account AS reason, count(*) AS settlements, sum(held_ms) AS held_ms
FROM settlements WHERE account_kind = 'unattributed' GROUP BY gpu, account;

CREATE VIEW accounts AS
-- Per account and GPU: settlements and the sum of their milliseconds (not the union: see `bill`).
SELECT account_kind, account, gpu, count(*) AS settlements, sum(held_ms) AS span_ms_total,
  min(started) AS first_started, max(ended) AS last_ended
FROM settlements GROUP BY account_kind, account, gpu;

CREATE VIEW gaps AS
-- What could not be seen: cause, interval, and how many events or rows (NULL: not known).
SELECT seq, cause, coalesce(gpu, 'every gpu') AS gpu,
  strftime('%Y-%m-%dT%H:%M:%fZ', from_us / 1000 / 1e3, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', to_us / 1000 / 1e3, 'unixepoch') AS until,
  (to_us - from_us) / 1000 AS length_ms, size
FROM gap;

CREATE VIEW coverage AS
-- When the agent began, and when it ended in order. A began without an ended was killed: see `gaps`.
SELECT seq, edge, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1000 / 1e3, 'unixepoch') AS at,
  host, device_touch, process_events
FROM covered;

CREATE VIEW epochs AS
-- Per GPU, when accounting was found on and when it was lost, and how.
SELECT seq, gpu, edge, strftime('%Y-%m-%dT%H:%M:%fZ', at_us / 1000 / 1e3, 'unixepoch') AS at,
  gpu_index, gpu_name, cause
FROM epoch;

CREATE VIEW conflicts AS
-- Booked rows that were read again with other contents.
SELECT c.seq, c.of, s.id, s.held_ms AS booked_held_ms, c.held_ms AS read_held_ms,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.read_at_us / 1000 / 1e3, 'unixepoch') AS read_at
FROM conflict AS c LEFT JOIN settlement AS s ON s.seq = c.of;

CREATE VIEW marks AS
-- What somebody had remembered (`gpu-ledger mark`), and when.
SELECT m.seq, strftime('%Y-%m-%dT%H:%M:%fZ', e.at_us / 1000 / 1e3, 'unixepoch') AS at, m.note
FROM mark AS m JOIN entry AS e ON e.seq = m.seq
WHERE m.note IS NOT NULL;

CREATE VIEW corrections AS
-- What an earlier entry says is to be read otherwise.
SELECT seq, of, change,
  strftime('%Y-%m-%dT%H:%M:%fZ', last_seen_us / 1000 / 1e3, 'unixepoch') AS last_seen,
  cause, account_kind, account, rule
FROM correction;
