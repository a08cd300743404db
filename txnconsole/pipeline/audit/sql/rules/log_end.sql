-- The head says that the log ends elsewhere than it does.
SELECT l.broker, l.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    e.log_end AS at_offset,
    named_struct('next_offset', l.next_offset, 'recomputed', e.log_end) AS evidence
FROM {logs} l JOIN {log_ends} e ON e.broker = l.broker AND e.log_id = l.log_id
WHERE l.next_offset <> e.log_end
