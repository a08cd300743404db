-- What the index of a marker or sidecar log must say, recomputed: a row for each transaction with
-- data and a marker, with the stable offset at that moment. Compaction takes transactions out of a
-- sidecar log in the order of their markers: none that is gone was open at a marker that is left.
--
-- The oldest transaction that is open at a marker is one whose end lies further out than that of
-- every transaction which began before it ("record"). So the answer at a marker is the record with
-- the nearest end above it: one pass from the end of the log backwards, without any frame that looks
-- ahead, which costs the square of what one open transaction covers.
WITH span AS (
    -- Of a transaction whose beginning retention has dropped, or compaction has moved, the index alone
    -- knows where it was.
    SELECT
        s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset, s.outcome,
        coalesce(i.first_offset, s.first_offset) AS first_offset,
        coalesce(s.end_offset, 9223372036854775807) AS until
    FROM {spans} s
    JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    LEFT JOIN {index} i ON i.broker = s.broker AND i.log_id = s.log_id
        AND i.last_offset = s.end_offset
        AND (i.first_offset < l.log_start OR s.first_message > 0)
    WHERE l.layout IN ('marker', 'sidecar')
),
seen AS (
    SELECT broker, log_id, first_offset, until, max(until) OVER (
        PARTITION BY broker, log_id ORDER BY first_offset
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS furthest
    FROM span WHERE first_offset IS NOT NULL
),
event AS (
    SELECT broker, log_id, until AS at, 1 AS after, first_offset AS record,
        CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
        CAST(NULL AS bigint) AS first_offset, CAST(NULL AS string) AS outcome
    FROM seen WHERE furthest IS NULL OR until > furthest
    UNION ALL
    SELECT broker, log_id, end_offset, 0, NULL, tc_id, sequence, first_offset, outcome
    FROM span WHERE end_offset IS NOT NULL AND first_offset IS NOT NULL
),
walked AS (
    SELECT *, last_value(record) IGNORE NULLS OVER (
        PARTITION BY broker, log_id ORDER BY at DESC, after ASC
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS oldest
    FROM event
)
SELECT broker, log_id, at AS last_offset, tc_id, sequence, first_offset,
    outcome = 'A' AS aborted,
    CASE WHEN oldest <= at THEN oldest ELSE at + 1 END AS last_stable_offset
FROM walked WHERE tc_id IS NOT NULL
