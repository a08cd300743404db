-- A subscription has ended a transaction otherwise than its coordinator has decided: its fence says
-- so, or it made acknowledgements final. Coordinators are read after the brokers.
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
) s
JOIN {outcomes} o ON o.tc_id = s.tc_id AND o.sequence = s.sequence
WHERE o.status NOT IN (
    IF(s.aborted, 'ABORTING', 'COMMITTING'), IF(s.aborted, 'ABORTED', 'COMMITTED')
)
