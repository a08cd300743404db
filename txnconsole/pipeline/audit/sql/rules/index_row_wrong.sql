-- An index row that says something else than the log does.
SELECT i.broker, i.log_id, e.tc_id, e.sequence, i.last_offset AS at_offset,
    named_struct(
        'found', named_struct(
            'txn_id', concat(i.tc_id, ':', i.sequence), 'first_offset', i.first_offset,
            'last_stable_offset', i.last_stable_offset, 'aborted', i.aborted
        ),
        'recomputed', named_struct(
            'txn_id', concat(e.tc_id, ':', e.sequence), 'first_offset', e.first_offset,
            'last_stable_offset', e.last_stable_offset, 'aborted', e.aborted
        )
    ) AS evidence
FROM {expected_index} e
JOIN {index} i ON i.broker = e.broker AND i.log_id = e.log_id
    AND i.last_offset = e.last_offset
WHERE i.tc_id <> e.tc_id OR i.sequence <> e.sequence OR i.first_offset <> e.first_offset
    OR i.last_stable_offset <> e.last_stable_offset OR i.aborted <> e.aborted
