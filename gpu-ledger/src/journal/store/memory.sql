
CREATE TABLE memory(
  -- Memory held, in bytes × milliseconds; a number past 2^63 - 1 stands as decimal text.
  seq         INTEGER NOT NULL PRIMARY KEY REFERENCES entry(seq),
  gpu         TEXT NOT NULL,
  from_us     ANY NOT NULL,               -- a quarter of an hour of UTC, or the part of it that was covered
  to_us       ANY NOT NULL,
  period_us   ANY NOT NULL,
  cap_us      ANY NOT NULL,               -- the greatest age that a sample may have
  samples     ANY NOT NULL,
  age_max_us  ANY NOT NULL,
  used_byte_ms ANY NOT NULL,              -- of the device
  unattributed_byte_ms ANY NOT NULL,      -- of that, what no process explains
  beyond_byte_ms ANY,                     -- of holders that had no room of their own
  voids       TEXT NOT NULL,              -- JSON array of [reason, count]; any voids the whole hour
  holders     TEXT NOT NULL               -- JSON array of objects
) STRICT;
CREATE TRIGGER memory_insert BEFORE INSERT ON memory
  WHEN EXISTS (SELECT 1 FROM memory WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an entry has one row here'); END;
CREATE TRIGGER memory_update BEFORE UPDATE ON memory
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: a correction is a new entry'); END;
CREATE TRIGGER memory_delete BEFORE DELETE ON memory
BEGIN SELECT RAISE(ABORT, 'the journal is append-only: see gpu-ledger journal archive'); END;

CREATE VIEW memory_held AS
-- Per GPU, stretch and process, memory held in GiB·s; NULL in an hour that is void.
SELECT m.seq, m.gpu,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.from_us / 1000 / 1e3, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.to_us / 1000 / 1e3, 'unixepoch') AS until,
  h.value ->> 'account' AS account, h.value ->> 'named_by' AS named_by,
  h.value ->> 'program' AS program, h.value ->> 'pid' AS pid,
  CASE WHEN EXISTS (SELECT 1 FROM memory AS v WHERE v.gpu = m.gpu AND v.voids <> '[]'
      AND v.from_us / 3600000000 = m.from_us / 3600000000)
    THEN NULL ELSE (h.value ->> 'byte_ms') / 1073741824e3 END AS gib_s,
  h.value ->> 'known_ms' AS known_ms, h.value ->> 'unsaid_ms' AS unsaid_ms
FROM memory AS m, json_each(m.holders) AS h;
