-- A transaction with its participants as one row: for who asks for it, and for who has just decided it.
CREATE VIEW coordinator.whole_txn AS
SELECT
    t.tc_id, t.sequence, t.status, t.owner, t.client, t.properties, t.opened_at, t.timeout_ms,
    t.deadline, t.decided_at, t.ended_at, t.end_reason, t.end_detail,
    (SELECT json_agg(p ORDER BY p.topic, p.partition) FROM coordinator.txn_partition p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence) AS partitions,
    (SELECT json_agg(s ORDER BY s.topic, s.subscription, s.broker)
        FROM coordinator.txn_subscription s
        WHERE s.tc_id = t.tc_id AND s.sequence = t.sequence) AS subscriptions
FROM coordinator.transaction t;
