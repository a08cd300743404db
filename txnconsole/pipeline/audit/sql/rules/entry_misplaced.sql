-- An entry in a log where none of its kind belongs: in a sidecar-buffered partition itself a
-- transaction's message, which readers would get whatever became of it, or its abort; beside it what is
-- in no transaction; a marker among what compaction has moved. In any log a marker of no transaction,
-- or half of a transaction's id. Where there is no sidecar, a message that counts as of one: readers
-- in committed order would not get it.
SELECT e.broker, e.log_id, e.tc_id, e.sequence, e.first_offset AS at_offset,
    named_struct(
        'kind', e.kind, 'first_offset', e.first_offset, 'last_offset', e.last_offset
    ) AS evidence
FROM {entries} e JOIN {logs} l ON l.broker = e.broker AND l.log_id = e.log_id
WHERE l.layout = 'home' AND e.tc_id IS NOT NULL AND e.kind <> 'C'
OR l.layout IN ('sidecar', 'compacted') AND e.tc_id IS NULL
OR l.layout = 'compacted' AND e.kind <> 'D'
OR l.layout IN ('marker', 'home') AND e.tc_id IS NULL AND e.kind <> 'D'
OR (e.tc_id IS NULL) <> (e.sequence IS NULL)
OR l.layout = 'marker' AND e.txn_messages IS NOT NULL
