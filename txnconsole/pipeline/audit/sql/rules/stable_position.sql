-- The stable position is not where the oldest transaction without a marker holds it: in the
-- partition, or in its sidecar log; then none holds the partition's.
SELECT l.broker, l.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    e.stable_end - 1 AS at_offset,
    named_struct(
        'stable_position', coalesce(l.first_ongoing_offset, l.next_offset) - 1,
        'recomputed', e.stable_end - 1
    ) AS evidence
FROM {logs} l JOIN {log_ends} e ON e.broker = l.broker AND e.log_id = l.log_id
WHERE l.next_offset = e.log_end
AND coalesce(l.first_ongoing_offset, l.next_offset) <> e.stable_end
