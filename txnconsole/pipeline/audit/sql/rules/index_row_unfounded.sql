-- An index row at whose offset no marker of its transaction stands.
SELECT i.broker, i.log_id, i.tc_id, i.sequence, i.last_offset AS at_offset,
    named_struct(
        'first_offset', i.first_offset, 'last_offset', i.last_offset, 'aborted', i.aborted
    ) AS evidence
FROM {index} i
JOIN {logs} l ON l.broker = i.broker AND l.log_id = i.log_id
LEFT ANTI JOIN (
    SELECT broker, log_id, tc_id, sequence, first_offset
    FROM {entries} WHERE kind <> 'D'
) m ON m.broker = i.broker AND m.log_id = i.log_id AND m.tc_id = i.tc_id
    AND m.sequence = i.sequence AND m.first_offset = i.last_offset
WHERE i.last_offset >= l.log_start
