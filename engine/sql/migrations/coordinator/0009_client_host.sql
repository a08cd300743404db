-- From where a transaction was opened: an address, as the program that opened it was seen by; NULL when
-- that is not known. No list asks for it, so that it needs no index.
ALTER TABLE coordinator.transaction ADD COLUMN client_host text;

-- As in 0008, with the host, which may only stand last.
CREATE OR REPLACE VIEW coordinator.whole_txn AS
SELECT
    t.tc_id, t.sequence, t.status, t.owner, t.client, t.properties, t.opened_at, t.timeout_ms,
    t.deadline, t.decided_at, t.ended_at, t.end_reason, t.end_detail,
    (SELECT json_agg(p ORDER BY p.topic, p.partition) FROM coordinator.txn_partition p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence) AS partitions,
    (SELECT json_agg(s ORDER BY s.topic, s.subscription, s.broker)
        FROM coordinator.txn_subscription s
        WHERE s.tc_id = t.tc_id AND s.sequence = t.sequence) AS subscriptions,
    t.client_host
FROM coordinator.transaction t;
