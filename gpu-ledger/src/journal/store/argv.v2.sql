CREATE TABLE argv(
  -- Text of arguments, which alone may be deleted: entries hold only its commitment (HMAC-SHA256).
  commitment  BLOB NOT NULL PRIMARY KEY,
  bytes       BLOB NOT NULL,              -- NUL-separated; as captured, or what may be kept of it
  true_length INTEGER,                    -- how many bytes there were; NULL where not known
  state       TEXT NOT NULL,              -- of the capture: whole, truncated, shed or unreadable
  text        TEXT NOT NULL               -- captured, redacted or exe: only what is captured can be proven
) STRICT, WITHOUT ROWID;
CREATE TRIGGER argv_insert BEFORE INSERT ON argv
  WHEN EXISTS (SELECT 1 FROM argv WHERE commitment = NEW.commitment)
BEGIN SELECT RAISE(ABORT, 'arguments are kept once'); END;
CREATE TRIGGER argv_update BEFORE UPDATE ON argv
BEGIN SELECT RAISE(ABORT, 'arguments are kept as they are, or deleted'); END;
