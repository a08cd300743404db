-- A subscription has ended a transaction otherwise than its coordinator has decided: its fence says
-- so, it made acknowledgements final, or it gave some back. A commit gives back what calls over several
-- brokers have claimed and never confirmed, but nothing that a call on one broker (0) has. Coordinators
-- are read after the brokers.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.at_offset,
    named_struct(
        'subscription', s.subscription, 'source', s.source,
        'outcome', IF(s.aborted, 'aborted', 'committed'), 'coordinator', o.status,
        'archived', o.archived
    ) AS evidence
FROM (
    SELECT broker, log_id, subscription, tc_id, sequence, aborted, 'fence' AS source,
        CAST(NULL AS bigint) AS at_offset
    FROM {ended_acks}
    UNION ALL
    SELECT broker, log_id, subscription, tc_id, sequence, false, 'pending-ack log', min(lower)
    FROM {ack_steps} WHERE op = 'COMMIT'
    GROUP BY broker, log_id, subscription, tc_id, sequence
    UNION ALL
    SELECT b.broker, b.log_id, b.subscription, b.tc_id, b.sequence, true, 'pending-ack log',
        min(greatest(b.lower, a.lower))
    FROM {ack_steps} b
    JOIN {ack_steps} a ON a.broker = b.broker AND a.log_id = b.log_id
        AND a.subscription = b.subscription AND a.tc_id = b.tc_id AND a.sequence = b.sequence
        AND a.step < b.step AND a.lower < b.upper AND b.lower < a.upper
    WHERE b.op = 'ABORT' AND b.call_id = 0 AND a.op = 'ACK' AND a.call_id = 0
    GROUP BY b.broker, b.log_id, b.subscription, b.tc_id, b.sequence
) s
JOIN {outcomes} o ON o.tc_id = s.tc_id AND o.sequence = s.sequence
WHERE o.status NOT IN (
    IF(s.aborted, 'ABORTING', 'COMMITTING'), IF(s.aborted, 'ABORTED', 'COMMITTED')
)
