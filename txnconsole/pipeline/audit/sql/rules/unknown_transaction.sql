-- A transaction that its coordinator has never issued: it has neither a header nor a place in the
-- archive. Coordinators are read after the logs, and forget no transaction. What it holds of a
-- subscription nobody gets, nor what it has acknowledged for good.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, coalesce(s.first_offset, s.end_offset) AS at_offset,
    named_struct(
        'first_message', s.first_offset, 'last_message', s.last_offset, 'messages', s.messages,
        'marker', s.end_offset, 'subscription', CAST(NULL AS string)
    ) AS evidence
FROM {spans} s
JOIN {outcomes} o ON o.tc_id = s.tc_id AND o.sequence = s.sequence
WHERE o.status IS NULL
UNION ALL
SELECT p.broker, p.log_id, p.tc_id, p.sequence, min(p.lower),
    named_struct(
        'first_message', min(p.lower), 'last_message', max(p.upper) - 1,
        'messages', sum(p.upper - p.lower), 'marker', CAST(NULL AS bigint),
        'subscription', p.subscription
    )
FROM (
    SELECT broker, log_id, subscription, tc_id, sequence, lower, upper FROM {pending_acks}
    UNION ALL
    SELECT broker, log_id, subscription, tc_id, sequence, lower, upper FROM {ack_steps}
    WHERE op = 'COMMIT'
) p
JOIN {outcomes} o ON o.tc_id = p.tc_id AND o.sequence = p.sequence
WHERE o.status IS NULL
GROUP BY p.broker, p.log_id, p.tc_id, p.sequence, p.subscription
