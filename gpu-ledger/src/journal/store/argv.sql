CREATE TABLE argv(
  -- Texts of arguments, which alone may be deleted: entries hold only their commitment (HMAC-SHA256), and the mode
  -- that was in force, which says which text is theirs.
  commitment  BLOB NOT NULL,
  mode        TEXT NOT NULL,              -- full, redacted or exe; unknown: of entries that do not say theirs
  bytes       BLOB NOT NULL,              -- NUL-separated; as captured, or what may be kept of it
  true_length INTEGER,                    -- how many bytes there were; NULL where not known
  state       TEXT NOT NULL,              -- of the capture: whole, truncated, shed or unreadable
  text        TEXT NOT NULL,              -- captured, redacted or exe: only what is captured can be proven
  PRIMARY KEY (commitment, mode)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER argv_insert BEFORE INSERT ON argv
  WHEN EXISTS (SELECT 1 FROM argv WHERE commitment = NEW.commitment AND mode = NEW.mode)
BEGIN SELECT RAISE(ABORT, 'arguments are kept once for each mode'); END;
CREATE TRIGGER argv_update BEFORE UPDATE ON argv
BEGIN SELECT RAISE(ABORT, 'arguments are kept as they are, or deleted'); END;
