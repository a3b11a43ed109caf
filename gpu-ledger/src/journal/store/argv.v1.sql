CREATE TABLE argv(
  -- Text of arguments, which alone may be deleted: entries hold only its commitment (HMAC-SHA256).
  commitment  BLOB NOT NULL PRIMARY KEY,
  bytes       BLOB NOT NULL,              -- as captured, NUL-separated
  true_length INTEGER,                    -- how many bytes there were; NULL where not known
  state       TEXT NOT NULL               -- whole, truncated, shed or unreadable
) STRICT, WITHOUT ROWID;
CREATE TRIGGER argv_insert BEFORE INSERT ON argv
  WHEN EXISTS (SELECT 1 FROM argv WHERE commitment = NEW.commitment)
BEGIN SELECT RAISE(ABORT, 'arguments are kept once'); END;
CREATE TRIGGER argv_update BEFORE UPDATE ON argv
BEGIN SELECT RAISE(ABORT, 'arguments are kept as captured, or deleted'); END;
