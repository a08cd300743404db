-- A batch that stands in a log more than once: the same producer and sequence id, inside one
-- transaction or outside any. What compaction has moved counts with the log it came from.
SELECT broker, min(log_id) AS log_id, tc_id, sequence, max(first_offset) AS at_offset,
    named_struct(
        'producer', producer_name, 'sequence_id', sequence_id, 'times', count(*),
        'first', min(first_offset), 'last', max(first_offset)
    ) AS evidence
FROM (
    SELECT e.*, l.home_id FROM {entries} e
    JOIN {logs} l ON l.broker = e.broker AND l.log_id = e.log_id
    WHERE l.deduplication AND e.kind = 'D'
    AND e.producer_name IS NOT NULL AND e.sequence_id IS NOT NULL
)
GROUP BY broker, home_id, tc_id, sequence, producer_name, sequence_id
HAVING count(*) > 1
