-- An entry in a log of a sidecar-buffered partition where none of its kind belongs: in the partition
-- itself a transaction's message, which readers would get whatever became of it, or its abort; beside
-- it what is in no transaction; a marker among what compaction has moved.
SELECT e.broker, e.log_id, e.tc_id, e.sequence, e.first_offset AS at_offset,
    named_struct(
        'kind', e.kind, 'first_offset', e.first_offset, 'last_offset', e.last_offset
    ) AS evidence
FROM {entries} e JOIN {logs} l ON l.broker = e.broker AND l.log_id = e.log_id
WHERE l.layout = 'home' AND e.tc_id IS NOT NULL AND e.kind <> 'C'
OR l.layout IN ('sidecar', 'compacted') AND e.tc_id IS NULL
OR l.layout = 'compacted' AND e.kind <> 'D'
