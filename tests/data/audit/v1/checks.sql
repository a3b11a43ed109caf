-- Checks the figures of a bundle in SQL: sums, uniqueness, order and gaps, on entries.parquet in the bundle's folder.
--
--     cd BUNDLE; duckdb < checks.sql          or in the shell of DuckDB: .read checks.sql
--
-- One row a check: `ok` is false where something is wrong. That the entries are those of the journal is for verify.py to
-- prove; gaps are no fault, and are listed with their sizes.

WITH entries AS (SELECT * FROM 'entries.parquet'),
settlements AS (SELECT * FROM entries WHERE kind = 'settlement'),
ordered AS (
    SELECT seq, previous, lag(seq) OVER (ORDER BY seq) AS seq_before, lag(hash) OVER (ORDER BY seq) AS hash_before
    FROM entries
),
sums AS (
    SELECT seq, gpu, held_ms, booked_count, booked_held_ms,
        lag(booked_count) OVER (PARTITION BY gpu ORDER BY seq) AS count_before,
        lag(booked_held_ms) OVER (PARTITION BY gpu ORDER BY seq) AS held_before
    FROM settlements
),
-- Of each GPU what the last settlement carries, less what was booked before the first, is what its settlements add up to.
closing AS (
    SELECT gpu, sum(held_ms) AS held, count(*) AS settled,
        max(booked_held_ms) - min_by(booked_held_ms - held_ms, seq) AS carried,
        max(booked_count) - min_by(booked_count - 1, seq) AS counted
    FROM settlements GROUP BY gpu
),
keys AS (
    SELECT gpu, pid, start_us, count(*) AS times FROM settlements WHERE start_us IS NOT NULL
    GROUP BY gpu, pid, start_us HAVING count(*) > 1
),
checks AS (
    SELECT 1 AS place, 'order' AS name, count(*) = 0 AS ok,
        count(*) || ' entries that do not follow the one before them' AS detail
    FROM ordered WHERE seq_before IS NOT NULL AND (seq <> seq_before + 1 OR previous <> hash_before)
    UNION ALL
    SELECT 2, 'balance', count(*) = 0, count(*) || ' settlements that carry other sums than those before them'
    FROM sums WHERE count_before IS NOT NULL
        AND (booked_count <> count_before + 1 OR booked_held_ms <> held_before + held_ms)
    UNION ALL
    SELECT 3, 'closing', count(*) = 0, count(*) || ' GPUs whose settlements add up to something else than was carried'
    FROM closing WHERE held IS DISTINCT FROM carried OR settled IS DISTINCT FROM counted
    UNION ALL
    SELECT 4, 'uniqueness', count(*) = 0, count(*) || ' rows of the driver that are booked more than once' FROM keys
    UNION ALL
    SELECT 5, 'final rows', count(*) = 0, count(*) || ' settlements whose row is not final, or says something else'
    FROM settlements WHERE row_running IS DISTINCT FROM false OR row_gpu IS DISTINCT FROM gpu
        OR row_pid IS DISTINCT FROM pid OR row_start_us IS DISTINCT FROM start_us
        OR row_held_ms IS DISTINCT FROM held_ms
    UNION ALL
    SELECT 6, 'cut-off', count(*) = 0, count(*) || ' settlements that were read before their row ended'
    FROM settlements WHERE dispute IS NULL AND start_us + held_ms * 1000 > read_at_us + 1000
    UNION ALL
    SELECT 7, 'gaps', true, count(*) || ' gaps in what was seen'
        || coalesce(': ' || string_agg(cause || ' of ' || coalesce(gpu, 'every GPU') || ' from ' || "from" || ' to ' || "to"
            || ', size ' || coalesce(size::VARCHAR, 'unknown'), '; ' ORDER BY seq), '')
    FROM entries WHERE kind = 'gap'
    UNION ALL
    SELECT 8, 'seen until', count(*) > 0, 'the last mark says that everything was seen up to '
        || coalesce(max_by(seen_until, seq), 'no moment')
    FROM entries WHERE kind = 'mark'
)
SELECT name, ok, detail FROM checks ORDER BY place;
