-- What readers ask for: a partition's positions in one place, and the log in committed order.

-- Where a partition stands, with the ongoing transaction that holds it back; next_offset is null
-- while the partition recovers. Of a sidecar-buffered one, the transactions are counted in its
-- sidecar log.
CREATE VIEW broker.partition_status AS
SELECT
    p.partition_id, p.number, p.topic, p.topic_id, p.sidecar_of, p.online, p.offline_reason,
    CASE WHEN (s.partition_id IS NULL) = (t.partition_id IS NULL) THEN l.next_offset
        END AS next_offset,
    p.log_start_offset, coalesce(t.ongoing_txns, l.ongoing_txns) AS ongoing_txns,
    coalesce(t.aborted_txns - s.aborted_dropped, l.aborted_txns - p.aborted_dropped)
        AS aborted_txns,
    l.first_ongoing_offset, coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position,
    clock_timestamp() AS now,
    o.tc_id, o.sequence, o.first_offset, o.last_offset, o.messages, o.first_append_at
FROM broker.partition p
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.partition s ON s.sidecar_of = p.partition_id
LEFT JOIN broker.partition_live t ON t.partition_id = s.partition_id
LEFT JOIN LATERAL (
    SELECT * FROM broker.ongoing_txn WHERE ordered_in = l.partition_id
    ORDER BY first_offset LIMIT 1
) o ON true;

-- Committed order: at which offsets something becomes readable (a message outside transactions at
-- its own, a transaction at its commit marker), then a transaction's messages in their order. By
-- the first offset, which no other index is ordered by, so that a plan made while the table was
-- small cannot take another.
CREATE INDEX entry_readable_idx ON broker.entry (partition_id, first_offset)
    WHERE tc_id IS NULL OR kind = 'C';
CREATE INDEX entry_txn_order_idx ON broker.entry (partition_id, tc_id, sequence, first_offset)
    WHERE kind = 'D' AND tc_id IS NOT NULL AND txn_messages IS NULL;
