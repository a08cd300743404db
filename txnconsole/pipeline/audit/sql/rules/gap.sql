-- An entry that does not begin where the one before it ends, or where the log starts. In a sidecar
-- log, and where compaction has moved it to, the one before it is that of its transaction.
-- Neighbours are compared in stretches of the log, then the stretches: no task has a whole hot log.
WITH e AS (
    SELECT e.broker, e.log_id, e.first_offset AS at_offset, e.tc_id, e.sequence, l.log_start,
        l.layout IN ('marker', 'home') AS one_line,
        e.last_offset - e.first_offset + 1 AS messages,
        IF(l.layout = 'sidecar', coalesce(e.txn_messages, 0), e.last_offset + 1) AS upper
    FROM {entries} e JOIN {logs} l ON l.broker = e.broker AND l.log_id = e.log_id
    WHERE l.layout IN ('marker', 'home') OR e.kind = 'D'
),
placed AS (
    SELECT broker, log_id, at_offset, IF(one_line, NULL, tc_id) AS tc_id,
        IF(one_line, NULL, sequence) AS sequence, IF(one_line, log_start, NULL) AS log_start,
        upper - messages AS first_offset, upper - 1 AS last_offset,
        (upper - messages) DIV 65536 AS stretch
    FROM e
),
within AS (
    SELECT broker, log_id, tc_id, sequence, at_offset, first_offset, lag(last_offset) OVER (
        PARTITION BY broker, log_id, tc_id, sequence, stretch ORDER BY first_offset, last_offset
    ) AS previous
    FROM placed
),
between_stretches AS (
    SELECT broker, log_id, tc_id, sequence, at_offset, first_offset,
        coalesce(lag(last_offset) OVER (
            PARTITION BY broker, log_id, tc_id, sequence ORDER BY stretch
        ), log_start - 1) AS previous
    FROM (
        SELECT broker, log_id, tc_id, sequence, stretch,
            min_by(at_offset, first_offset) AS at_offset, min(first_offset) AS first_offset,
            max(last_offset) AS last_offset, max(log_start) AS log_start
        FROM placed GROUP BY broker, log_id, tc_id, sequence, stretch
    )
)
SELECT broker, log_id, tc_id, sequence, at_offset,
    named_struct('begins_at', first_offset, 'previous_ends_at', previous) AS evidence
FROM (
    SELECT * FROM within WHERE previous IS NOT NULL
    UNION ALL SELECT * FROM between_stretches
)
WHERE first_offset <> previous + 1
