-- A transaction with data and a marker that the index does not know.
SELECT e.broker, e.log_id, e.tc_id, e.sequence, e.last_offset AS at_offset,
    named_struct(
        'first_offset', e.first_offset, 'last_offset', e.last_offset,
        'last_stable_offset', e.last_stable_offset, 'aborted', e.aborted
    ) AS evidence
FROM {expected_index} e
LEFT ANTI JOIN {index} i ON i.broker = e.broker AND i.log_id = e.log_id
    AND i.last_offset = e.last_offset
