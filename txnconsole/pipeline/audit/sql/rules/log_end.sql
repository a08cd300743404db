-- The head says that the log ends elsewhere than it does, or that it starts elsewhere.
SELECT l.broker, l.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    IF(l.next_offset <> e.log_end, e.log_end, l.log_start) AS at_offset,
    named_struct(
        'next_offset', l.next_offset, 'recomputed', e.log_end,
        'head_start', l.head_start, 'log_start', l.log_start
    ) AS evidence
FROM {logs} l JOIN {log_ends} e ON e.broker = l.broker AND e.log_id = l.log_id
WHERE l.next_offset <> e.log_end OR l.head_start <> l.log_start
