-- An entry that does not begin where the one before it ends, or where the log starts.
-- Neighbours are compared in stretches of the log, then the stretches: no task has a whole hot log.
WITH e AS (
    SELECT e.broker, e.log_id, e.first_offset, e.last_offset, l.log_start,
        e.first_offset DIV 65536 AS stretch
    FROM {entries} e JOIN {logs} l ON l.broker = e.broker AND l.log_id = e.log_id
    WHERE l.layout IN ('marker', 'home')
),
within AS (
    SELECT broker, log_id, first_offset, lag(last_offset) OVER (
        PARTITION BY broker, log_id, stretch ORDER BY first_offset, last_offset
    ) AS previous
    FROM e
),
between_stretches AS (
    SELECT broker, log_id, first_offset, coalesce(lag(last_offset) OVER (
        PARTITION BY broker, log_id ORDER BY stretch
    ), log_start - 1) AS previous
    FROM (
        SELECT broker, log_id, stretch, min(first_offset) AS first_offset,
            max(last_offset) AS last_offset, max(log_start) AS log_start
        FROM e GROUP BY broker, log_id, stretch
    )
)
SELECT broker, log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    first_offset AS at_offset,
    named_struct('begins_at', first_offset, 'previous_ends_at', previous) AS evidence
FROM (
    SELECT * FROM within WHERE previous IS NOT NULL
    UNION ALL SELECT * FROM between_stretches
)
WHERE first_offset <> previous + 1
