-- An index row at whose offset no marker of its transaction stands, or of one without messages there.
SELECT i.broker, i.log_id, i.tc_id, i.sequence, i.last_offset AS at_offset,
    named_struct(
        'first_offset', i.first_offset, 'last_offset', i.last_offset, 'aborted', i.aborted
    ) AS evidence
FROM {index} i
JOIN {logs} l ON l.broker = i.broker AND l.log_id = i.log_id
LEFT ANTI JOIN (
    SELECT broker, log_id, tc_id, sequence, last_offset FROM {expected_index}
    UNION ALL
    SELECT e.broker, e.log_id, e.tc_id, e.sequence, e.last_offset FROM {entries} e
    JOIN {logs} l ON l.broker = e.broker AND l.log_id = e.log_id
    WHERE e.kind <> 'D' AND l.layout = 'sidecar'
) m ON m.broker = i.broker AND m.log_id = i.log_id AND m.tc_id = i.tc_id
    AND m.sequence = i.sequence AND m.last_offset = i.last_offset
WHERE i.last_offset >= l.log_start
