-- A transaction that has ended, by its coordinator before the snapshot or by the subscription's fence,
-- and still holds messages: nobody gets them.
SELECT p.broker, p.log_id, p.tc_id, p.sequence, min(p.lower) AS at_offset,
    named_struct(
        'subscription', p.subscription, 'messages', sum(p.upper - p.lower),
        'coordinator', o.status,
        'fence', CASE e.aborted WHEN true THEN 'aborted' WHEN false THEN 'committed' END
    ) AS evidence
FROM {pending_acks} p
JOIN {logs} l ON l.broker = p.broker AND l.log_id = p.log_id
LEFT JOIN {outcomes} o ON o.tc_id = p.tc_id AND o.sequence = p.sequence AND o.ended_before
LEFT JOIN {ended_acks} e ON e.broker = p.broker AND e.topic = l.topic
    AND e.subscription = p.subscription AND e.tc_id = p.tc_id AND e.sequence = p.sequence
WHERE o.status IS NOT NULL OR e.aborted IS NOT NULL
GROUP BY p.broker, p.log_id, p.tc_id, p.sequence, p.subscription, o.status, e.aborted
