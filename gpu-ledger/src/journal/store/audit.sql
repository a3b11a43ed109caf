
CREATE TABLE signing_key(
  -- Keys that sign checkpoints, each from its entry on.
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  key         TEXT NOT NULL,              -- as a verifier key of a signed note
  previous    TEXT                        -- the one before it, which signed for it; NULL: the journal's first
) STRICT;
CREATE TRIGGER signing_key_insert BEFORE INSERT ON signing_key
  WHEN EXISTS (SELECT 1 FROM signing_key WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER signing_key_update BEFORE UPDATE ON signing_key
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER signing_key_delete BEFORE DELETE ON signing_key
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE closed(
  -- Periods whose bill is fixed.
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  name        TEXT NOT NULL,
  from_us     ANY NOT NULL,
  to_us       ANY NOT NULL,               -- the first moment after it
  zone        TEXT NOT NULL,
  through     INTEGER NOT NULL,           -- the last entry that the bill is made of
  tree        TEXT NOT NULL,              -- root of the tree of these, hex
  made_by     TEXT NOT NULL,              -- what a line stands for
  share       TEXT NOT NULL,
  prices      TEXT,                       -- SHA-256 of the file, hex; NULL: none
  documents   TEXT NOT NULL,              -- JSON array of [form, SHA-256]
  version     TEXT NOT NULL               -- of the program
) STRICT;
CREATE TRIGGER closed_insert BEFORE INSERT ON closed
  WHEN EXISTS (SELECT 1 FROM closed WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER closed_update BEFORE UPDATE ON closed
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER closed_delete BEFORE DELETE ON closed
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE TABLE erased(
  -- Commitments whose texts were deleted because somebody asked for it: they are not kept again.
  commitment  BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER erased_insert BEFORE INSERT ON erased
  WHEN EXISTS (SELECT 1 FROM erased WHERE commitment = NEW.commitment)
BEGIN SELECT RAISE(ABORT, 'what is erased is erased once'); END;
CREATE TRIGGER erased_update BEFORE UPDATE ON erased
BEGIN SELECT RAISE(ABORT, 'what is erased stays erased'); END;
CREATE TRIGGER erased_delete BEFORE DELETE ON erased
BEGIN SELECT RAISE(ABORT, 'what is erased stays erased'); END;

CREATE VIEW signing_keys AS
-- Which key signs checkpoints from when on.
SELECT k.seq, strftime('%Y-%m-%dT%H:%M:%fZ', e.at_us / 1000 / 1e3, 'unixepoch') AS at, k.key, k.previous
FROM signing_key AS k JOIN entry AS e ON e.seq = k.seq;

CREATE VIEW closings AS
-- Periods whose bill is fixed, and when that was done.
SELECT c.seq, strftime('%Y-%m-%dT%H:%M:%fZ', e.at_us / 1000 / 1e3, 'unixepoch') AS at, c.name,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.from_us / 1000 / 1e3, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.to_us / 1000 / 1e3, 'unixepoch') AS until,
  c.zone, c.through, c.tree, c.made_by, c.share, c.prices, c.documents, c.version
FROM closed AS c JOIN entry AS e ON e.seq = c.seq;

CREATE TABLE subtree(
  -- Of the Merkle tree over all entries (RFC 6962; leaf seq - 1), the root of each full run of 4096, those of archived
  -- entries included. Derived like segments, and part of no hash chain.
  number      INTEGER NOT NULL PRIMARY KEY, -- runs before it
  root        BLOB NOT NULL,
  digest      BLOB NOT NULL               -- SHA-256 of the canonical bytes of (domain, number, root)
) STRICT;
CREATE TRIGGER subtree_insert BEFORE INSERT ON subtree
  WHEN EXISTS (SELECT 1 FROM subtree WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a run has one root'); END;
CREATE TRIGGER subtree_update BEFORE UPDATE ON subtree
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER subtree_delete BEFORE DELETE ON subtree
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;
