-- The coordinator was told another number of acknowledgements than the subscription's fence holds; or it
-- does not list a subscription that a transaction holds messages of, which then hears of no end.
SELECT e.broker, e.log_id, e.tc_id, e.sequence, CAST(NULL AS bigint) AS at_offset,
    named_struct(
        'subscription', e.subscription, 'coordinator', a.acked_messages, 'fence', e.messages,
        'held', CAST(NULL AS bigint)
    ) AS evidence
FROM {ended_acks} e
JOIN {acknowledgers} a ON a.tc_id = e.tc_id AND a.sequence = e.sequence AND a.topic = e.topic
    AND a.subscription = e.subscription AND a.broker = e.broker
WHERE a.acked_messages <> e.messages
UNION ALL
SELECT p.broker, p.log_id, p.tc_id, p.sequence, min(p.lower),
    named_struct(
        'subscription', p.subscription, 'coordinator', CAST(NULL AS bigint),
        'fence', CAST(NULL AS bigint), 'held', sum(p.upper - p.lower)
    )
FROM {pending_acks} p
JOIN {logs} l ON l.broker = p.broker AND l.log_id = p.log_id
JOIN {headers} h ON h.tc_id = p.tc_id AND h.sequence = p.sequence
LEFT ANTI JOIN {acknowledgers} a ON a.tc_id = p.tc_id AND a.sequence = p.sequence
    AND a.topic = l.topic AND a.subscription = p.subscription AND a.broker = p.broker
GROUP BY p.broker, p.log_id, p.tc_id, p.sequence, p.subscription
