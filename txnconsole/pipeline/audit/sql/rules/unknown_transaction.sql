-- A transaction that its coordinator has never issued: it has neither a header nor a place in the
-- archive. Coordinators are read after the logs, and forget no transaction.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, coalesce(s.first_offset, s.end_offset) AS at_offset,
    named_struct(
        'first_message', s.first_offset, 'last_message', s.last_offset, 'messages', s.messages,
        'marker', s.end_offset
    ) AS evidence
FROM {spans} s
JOIN {outcomes} o ON o.tc_id = s.tc_id AND o.sequence = s.sequence
WHERE o.status IS NULL
