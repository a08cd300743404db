-- export --
SELECT pg_export_snapshot() AS id

-- now --
SELECT clock_timestamp() AS now

-- logs --
-- Every log of a broker: of a partition; of its sidecar (sidecar_of), whose compacted part has a key
-- of its own (compacted_id). Positions are null while a partition recovers from a crash.
SELECT
    p.partition_id, p.topic, p.number, p.buffer, p.sidecar_of, p.compacted_id, p.online,
    coalesce(l.log_start_offset, p.log_start_offset) AS log_start_offset, l.next_offset,
    coalesce(l.first_ongoing_offset, l.next_offset) AS stable_end
FROM broker.partition p LEFT JOIN broker.partition_live l USING (partition_id)
ORDER BY p.topic, p.number, p.partition_id

-- log_end --
-- Where a log without its head ends.
SELECT coalesce(max(last_offset), -1) + 1 AS next_offset FROM broker.entry
WHERE partition_id = %(log_id)s

-- segments --
-- What the segments of some logs weigh; the open one's totals are in the head.
SELECT
    s.partition_id, s.first_offset, coalesce(s.last_offset + 1, l.next_offset) AS upper,
    coalesce(s.entries, l.segment_entries, 0) AS entries,
    coalesce(s.bytes, l.segment_bytes, 0) AS bytes
FROM broker.segment s LEFT JOIN broker.partition_live l USING (partition_id)
WHERE s.partition_id = ANY(%(log_ids)s)
ORDER BY s.partition_id, s.first_offset

-- raw_entries --
-- Entries whose last offset is in [lower, upper), without their bodies.
SELECT
    first_offset, last_offset, ledger_id, kind::text AS kind, tc_id, sequence, sequence_id,
    publish_time, producer_name, txn_messages, txn_bytes, length(body) AS body_bytes
FROM broker.entry
WHERE partition_id = %(log_id)s AND last_offset >= %(lower)s AND last_offset < %(upper)s
ORDER BY last_offset

-- raw_bodies --
-- As raw_entries, with the bodies.
SELECT
    first_offset, last_offset, ledger_id, kind::text AS kind, tc_id, sequence, sequence_id,
    publish_time, producer_name, txn_messages, txn_bytes, length(body) AS body_bytes, body
FROM broker.entry
WHERE partition_id = %(log_id)s AND last_offset >= %(lower)s AND last_offset < %(upper)s
ORDER BY last_offset

-- raw_index --
-- The index of ended transactions, by the offset of their marker.
SELECT
    first_offset, last_offset, last_stable_offset, ledger_id, tc_id, sequence, aborted, version,
    commit_offset
FROM broker.txn_index
WHERE partition_id = %(log_id)s AND last_offset >= %(lower)s AND last_offset < %(upper)s
ORDER BY last_offset

-- raw_heads --
-- Positions and counts as the engine has them; none while the partition recovers.
SELECT
    l.next_offset, l.log_start_offset, l.first_ongoing_offset,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position, l.ongoing_txns,
    l.aborted_txns, p.aborted_dropped, p.buffer, p.online, p.deduplication
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.partition_id = %(log_id)s

-- raw_ongoing --
SELECT tc_id, sequence, first_offset, last_offset, messages, first_append_at
FROM broker.ongoing_txn WHERE partition_id = %(log_id)s

-- raw_ended --
-- The fence: transactions that have ended here, until the low water mark covers them.
SELECT tc_id, sequence, aborted, marker_offset, first_offset, last_offset, messages
FROM broker.ended_txn WHERE partition_id = %(log_id)s

-- raw_low_water_marks --
SELECT tc_id, low_water_mark FROM broker.low_water_mark WHERE partition_id = %(log_id)s

-- raw_segments --
SELECT ledger_id, first_offset, last_offset, entries, bytes, created_at, sealed_at
FROM broker.segment WHERE partition_id = %(log_id)s

-- coordinators --
SELECT tc_id FROM coordinator.coordinator ORDER BY tc_id

-- raw_headers --
SELECT
    tc_id, sequence, status::text AS status, owner, client, properties::text AS properties,
    opened_at, timeout_ms, deadline, decided_at, ended_at, end_reason
FROM coordinator.transaction WHERE tc_id = %(tc_id)s

-- raw_participants --
SELECT tc_id, sequence, topic, partition, broker, state, first_offset, last_offset, messages
FROM coordinator.txn_partition WHERE tc_id = %(tc_id)s

-- raw_transaction_log --
SELECT
    log_id, tc_id, sequence, metadata_op, expected_status::text AS expected_status,
    new_status::text AS new_status, partitions, subscriptions, at
FROM coordinator.transaction_log WHERE tc_id = %(tc_id)s
