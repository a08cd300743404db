-- export --
SELECT pg_export_snapshot() AS id

-- now --
SELECT clock_timestamp() AS now

-- membership --
SELECT broker FROM broker.membership

-- brokers --
-- The brokers that topics have partitions on, according to the coordinators.
SELECT DISTINCT unnest(brokers) AS broker FROM coordinator.topic ORDER BY broker

-- logs --
-- Every log of a broker: of a partition; of its sidecar (sidecar_of), whose compacted part has a key
-- of its own (compacted_id). Positions are null while a partition recovers from a crash. What a
-- deletion has left of a topic is not part of the one made anew, which may have fewer partitions.
SELECT
    p.partition_id, p.topic, p.number, p.buffer, p.sidecar_of, p.compacted_id, p.online,
    p.created_at, p.log_start_offset, l.ledger_id, l.next_offset,
    coalesce(l.first_ongoing_offset, l.next_offset) AS stable_end
FROM broker.partition p
JOIN broker.partition h ON h.partition_id = coalesce(p.sidecar_of, p.partition_id)
JOIN (SELECT max(topic_id) AS topic_id FROM broker.partition GROUP BY topic) newest
    ON newest.topic_id = h.topic_id
LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
ORDER BY p.topic, p.number, p.partition_id

-- opened_at --
SELECT min(first_offset) AS first_offset FROM broker.segment
WHERE partition_id = %(log_id)s AND ledger_id > %(after)s

-- log_end --
-- Where a log without its head ends.
SELECT coalesce(max(last_offset), -1) + 1 AS next_offset FROM broker.entry
WHERE partition_id = %(log_id)s

-- log_there --
-- Where a log begins, and where the first of the ledgers does that were opened after one. No row: it
-- was deleted.
SELECT
    coalesce(l.log_start_offset, p.log_start_offset) AS log_start_offset,
    (SELECT min(s.first_offset) FROM broker.segment s
        WHERE s.partition_id = p.partition_id AND s.ledger_id > %(ledger)s) AS opened_at
FROM broker.partition p LEFT JOIN broker.partition_live l USING (partition_id)
WHERE p.partition_id = %(log_id)s

-- segments --
-- What the segments of some logs weigh; the open one's totals are in the head.
SELECT
    s.partition_id, s.first_offset, coalesce(s.last_offset + 1, l.next_offset) AS upper,
    coalesce(s.entries, l.segment_entries, 0) AS entries,
    coalesce(s.bytes, l.segment_bytes, 0) AS bytes
FROM broker.segment s LEFT JOIN broker.partition_live l USING (partition_id)
WHERE s.partition_id = ANY(%(log_ids)s)
ORDER BY s.partition_id, s.first_offset

-- entries_since --
-- From which offset on some logs hold all that was appended since a moment, and all of the
-- transactions that were open then: the oldest of them is what the next marker's index row tells, or
-- the head when there is none. While a log recovers, nobody knows. Logs without segments are not here.
SELECT s.partition_id, CASE WHEN l.partition_id IS NOT NULL THEN least(
    s.first_offset, CASE WHEN i.oldest IS NOT NULL THEN i.oldest ELSE l.first_ongoing_offset END
) ELSE 0 END AS lower
FROM (
    SELECT partition_id, min(first_offset) AS first_offset FROM broker.segment
    WHERE partition_id = ANY(%(log_ids)s) AND (sealed_at IS NULL OR sealed_at >= %(since)s)
    GROUP BY partition_id
) s
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN LATERAL (
    SELECT least(i.first_offset, i.last_stable_offset) AS oldest FROM broker.txn_index i
    WHERE i.partition_id = s.partition_id AND i.last_offset >= s.first_offset
    ORDER BY i.last_offset LIMIT 1
) i ON true

-- raw_entries --
-- Entries whose last offset is in [lower, upper), without their bodies.
SELECT
    first_offset, last_offset, ledger_id, kind::text AS kind, tc_id, sequence, sequence_id,
    publish_time, producer_name, txn_messages, txn_bytes, broker.body_bytes(body) AS body_bytes
FROM broker.entry
WHERE partition_id = %(log_id)s AND last_offset >= %(lower)s AND last_offset < %(upper)s
ORDER BY last_offset

-- raw_bodies --
-- As raw_entries, with the bodies.
SELECT
    first_offset, last_offset, ledger_id, kind::text AS kind, tc_id, sequence, sequence_id,
    publish_time, producer_name, txn_messages, txn_bytes, broker.body_bytes(body) AS body_bytes,
    body
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
-- Positions and counts as the engine has them; none while the partition recovers. Where a log starts,
-- tells its record, which recovery makes the head of.
SELECT
    l.next_offset, p.log_start_offset, l.log_start_offset AS head_start_offset, l.first_ongoing_offset,
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

-- raw_subscriptions --
SELECT s.name AS subscription, s.type
FROM broker.partition p JOIN broker.subscription s ON s.topic_id = p.topic_id
WHERE p.partition_id = %(log_id)s

-- raw_cursors --
-- Where the subscriptions of a partition stand: everything up to mark_delete is acknowledged.
SELECT s.name AS subscription, s.type, c.mark_delete
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.cursor c ON c.subscription_id = s.subscription_id AND c.partition_id = p.partition_id
WHERE p.partition_id = %(log_id)s

-- raw_acked --
-- What they have acknowledged above that; all ranges are half open.
SELECT s.name AS subscription, lower(r) AS lower, upper(r) AS upper
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.cursor c ON c.subscription_id = s.subscription_id AND c.partition_id = p.partition_id
CROSS JOIN LATERAL unnest(c.acked) AS r
WHERE p.partition_id = %(log_id)s

-- raw_pending_acks --
-- What transactions hold of them.
SELECT s.name AS subscription, a.tc_id, a.sequence, a.ack_type, lower(r) AS lower, upper(r) AS upper
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.pending_ack a
    ON a.subscription_id = s.subscription_id AND a.partition_id = p.partition_id
CROSS JOIN LATERAL unnest(a.ranges) AS r
WHERE p.partition_id = %(log_id)s

-- raw_ack_steps --
-- The pending-ack log, as far as it is kept: a row for each range of a step.
SELECT
    s.name AS subscription, a.log_id AS step, a.tc_id, a.sequence, a.op, a.ack_type,
    a.call_id, lower(r) AS lower, upper(r) AS upper
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.pending_ack_log a
    ON a.subscription_id = s.subscription_id AND a.partition_id = p.partition_id
CROSS JOIN LATERAL unnest(a.ranges) AS r
WHERE p.partition_id = %(log_id)s

-- raw_ended_acks --
-- The fence of subscriptions, which is one for all partitions of a topic on a broker: it comes with
-- the first of them.
SELECT s.name AS subscription, e.tc_id, e.sequence, e.aborted, e.messages
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.ended_ack_txn e ON e.subscription_id = s.subscription_id
WHERE p.partition_id = %(log_id)s AND NOT EXISTS (
    SELECT FROM broker.partition f WHERE f.topic_id = p.topic_id AND f.number < p.number
)

-- raw_ack_low_water_marks --
-- As raw_ended_acks.
SELECT s.name AS subscription, w.tc_id, w.low_water_mark
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.ack_low_water_mark w ON w.subscription_id = s.subscription_id
WHERE p.partition_id = %(log_id)s AND NOT EXISTS (
    SELECT FROM broker.partition f WHERE f.topic_id = p.topic_id AND f.number < p.number
)

-- raw_dispatch --
-- What is on its way to consumers, as engine.model.dispatch packs it.
SELECT s.name AS subscription, d.state
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.dispatch d
    ON d.subscription_id = s.subscription_id AND d.partition_id = p.partition_id
WHERE p.partition_id = %(log_id)s

-- raw_dead_letters --
-- Messages on their way to a dead-letter topic.
SELECT s.name AS subscription, b.sequence_id, b.message_offset, b.cause IS NOT NULL AS parked
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.dead_letter b
    ON b.subscription_id = s.subscription_id AND b.partition_id = p.partition_id
WHERE p.partition_id = %(log_id)s

-- raw_letters --
-- How many dead letters a subscription has had of a partition, and which of them are on their way.
SELECT
    s.name AS subscription, s.dead_letter_topic, c.dead_letters AS issued,
    -- As engine/subscription/dead_letters.py names who sends them.
    CASE WHEN s.letters_by_topic THEN s.topic_id || '.' ELSE '' END || s.subscription_id AS serial,
    (
        SELECT string_agg(b.sequence_id::text, ',') FROM broker.dead_letter b
        WHERE b.subscription_id = c.subscription_id AND b.partition_id = c.partition_id
    ) AS waiting
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.cursor c ON c.subscription_id = s.subscription_id AND c.partition_id = p.partition_id
WHERE p.partition_id = %(log_id)s AND c.dead_letters > 0

-- coordinators --
SELECT tc_id FROM coordinator.coordinator ORDER BY tc_id

-- raw_issued --
SELECT tc_id, next_sequence FROM coordinator.coordinator WHERE tc_id = %(tc_id)s

-- raw_headers --
SELECT
    tc_id, sequence, status::text AS status, owner, client, properties::text AS properties,
    opened_at, timeout_ms, deadline, decided_at, ended_at, end_reason
FROM coordinator.transaction WHERE tc_id = %(tc_id)s

-- raw_participants --
SELECT tc_id, sequence, topic, partition, broker, state, first_offset, last_offset, messages
FROM coordinator.txn_partition WHERE tc_id = %(tc_id)s

-- raw_acknowledgers --
SELECT tc_id, sequence, topic, subscription, broker, state, acked_messages
FROM coordinator.txn_subscription WHERE tc_id = %(tc_id)s

-- raw_archive --
-- What is left of transactions that ended long ago: bits of (sequence & 16383), a chunk of them for
-- each owner (engine/coordinator/archive.py).
SELECT tc_id, chunk, owner, ended, aborted FROM coordinator.archive WHERE tc_id = %(tc_id)s

-- raw_transaction_log --
SELECT
    log_id, tc_id, sequence, metadata_op, expected_status::text AS expected_status,
    new_status::text AS new_status, partitions, subscriptions, at
FROM coordinator.transaction_log WHERE tc_id = %(tc_id)s

-- published --
-- Data with an offset in [lower, upper), by offset; with committed = 1, without what was aborted.
-- A transaction is found in the index by its id, which only txn_index_txn_idx can serve: the rest is
-- written so that no other index can be taken for it, whatever has been counted of the tables.
SELECT
    e.first_offset, e.last_offset, e.first_offset AS entry_id, NULL::bigint AS readable_at,
    e.ledger_id, e.tc_id, e.sequence, e.sequence_id, e.publish_time, e.producer_name, {body}
FROM broker.entry e
WHERE e.partition_id = %(log_id)s AND e.kind = 'D'
AND e.last_offset >= %(lower)s AND e.first_offset < %(upper)s
AND e.last_offset <= coalesce((
    SELECT b.last_offset FROM broker.entry b
    WHERE b.partition_id = %(log_id)s AND b.last_offset >= %(upper)s - 1
    ORDER BY b.last_offset LIMIT 1
), %(upper)s)
AND (e.tc_id IS NULL OR %(committed)s = 0 OR NOT EXISTS (
    SELECT FROM broker.txn_index i
    WHERE i.partition_id - 0 = %(log_id)s AND i.tc_id + 0 = e.tc_id AND i.sequence + 0 = e.sequence
    AND i.aborted::integer = 1
    AND e.first_offset >= i.first_offset AND e.first_offset < i.last_offset + 0
))
AND e.publish_time BETWEEN
    'epoch'::timestamptz + %(since)s * interval '1 microsecond'
    AND 'epoch'::timestamptz + %(until)s * interval '1 microsecond'
ORDER BY e.last_offset

-- readable --
-- What became readable in [lower, upper), in that order: data outside transactions at its own offset,
-- a committed transaction's at its marker. Entries below log_start are gone for everybody.
-- What tells plain entries is written so that entry_readable_idx, which knows one end of a range
-- only, cannot be taken for it; so are the markers of the next statement. The transactions come by
-- their markers and the entries of each by their order, each from the one index that has it so.
SELECT e.* FROM (
    SELECT
        p.first_offset, p.last_offset, p.first_offset AS entry_id, NULL::bigint AS readable_at,
        p.ledger_id, p.tc_id, p.sequence, p.sequence_id, p.publish_time, p.producer_name, {body}
    FROM broker.entry p
    WHERE p.partition_id = %(log_id)s AND p.kind = 'D' AND coalesce(p.tc_id, -1) = -1
    AND p.last_offset >= %(lower)s AND p.first_offset < %(upper)s
    AND p.last_offset <= coalesce((
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(log_id)s AND b.last_offset >= %(upper)s - 1
        ORDER BY b.last_offset LIMIT 1
    ), %(upper)s)
    UNION ALL
    SELECT
        t.first_offset, t.last_offset, t.first_offset, i.last_offset, t.ledger_id, t.tc_id,
        t.sequence, t.sequence_id, t.publish_time, t.producer_name, {body}
    FROM (
        SELECT i.tc_id, i.sequence, i.first_offset, i.last_offset FROM broker.txn_index i
        WHERE i.partition_id = %(log_id)s AND NOT i.aborted
        AND i.last_offset >= %(lower)s AND i.last_offset < %(upper)s
        ORDER BY i.last_offset OFFSET 0
    ) i
    CROSS JOIN LATERAL (
        SELECT t.* FROM broker.entry t
        WHERE t.partition_id - 0 = %(log_id)s AND t.kind = 'D' AND t.txn_messages IS NULL
        AND t.tc_id - 0 = i.tc_id AND t.sequence - 0 = i.sequence
        AND t.first_offset >= i.first_offset AND t.first_offset < i.last_offset
        AND t.first_offset >= %(log_start)s
        ORDER BY t.first_offset OFFSET 0
    ) t
) e
WHERE e.publish_time BETWEEN
    'epoch'::timestamptz + %(since)s * interval '1 microsecond'
    AND 'epoch'::timestamptz + %(until)s * interval '1 microsecond'
ORDER BY coalesce(e.readable_at, e.first_offset), e.first_offset

-- sidecar --
-- As published, of a sidecar-buffered partition: in place of a commit marker stand the entries of its
-- transaction, at the offsets that the marker gives them. They are in the sidecar log (side_id), found
-- by the marker, or in its compacted part (compacted_id), found by the offset; which, may change
-- between two statements and not within one.
SELECT e.* FROM (
    SELECT
        p.first_offset, p.last_offset, p.first_offset AS entry_id, NULL::bigint AS readable_at,
        p.ledger_id, p.tc_id, p.sequence, p.sequence_id, p.publish_time, p.producer_name, {body}
    FROM broker.entry p
    WHERE p.partition_id = %(log_id)s AND p.kind = 'D'
    AND p.last_offset >= %(lower)s AND p.first_offset < %(upper)s
    AND p.last_offset <= coalesce((
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(log_id)s AND b.last_offset >= %(upper)s - 1
        ORDER BY b.last_offset LIMIT 1
    ), %(upper)s)
    UNION ALL
    SELECT
        t.first_offset, t.last_offset, m.first_offset, NULL, m.ledger_id, m.tc_id, m.sequence,
        t.sequence_id, t.publish_time, t.producer_name, t.body
    FROM broker.entry m
    CROSS JOIN LATERAL (
        SELECT
            m.first_offset + s.txn_messages - 1 - (s.last_offset - s.first_offset) AS first_offset,
            m.first_offset + s.txn_messages - 1 AS last_offset,
            s.sequence_id, s.publish_time, s.producer_name, {body}
        FROM broker.txn_index i
        JOIN broker.entry s
            ON s.partition_id + 0 = %(side_id)s AND s.tc_id::bigint = m.tc_id
            AND s.sequence + 0 = m.sequence AND s.txn_messages IS NOT NULL
        WHERE i.partition_id + 0 = %(side_id)s AND i.commit_offset = m.first_offset
        AND s.last_offset - i.first_offset BETWEEN 0 AND i.last_offset - i.first_offset - 1
        AND s.txn_messages > %(lower)s - m.first_offset
        AND s.txn_messages <= coalesce((
            SELECT b.txn_messages FROM broker.entry b
            WHERE b.partition_id + 0 = %(side_id)s AND b.tc_id::bigint = m.tc_id
            AND b.sequence + 0 = m.sequence AND b.txn_messages >= %(upper)s - m.first_offset
            ORDER BY b.txn_messages LIMIT 1
        ), m.txn_messages)
        UNION ALL
        SELECT
            c.first_offset, c.last_offset, c.sequence_id, c.publish_time, c.producer_name, {body}
        FROM broker.entry c
        WHERE c.partition_id = %(compacted_id)s
        AND c.last_offset >= greatest(m.first_offset, %(lower)s)
        AND c.last_offset <= least(m.last_offset, coalesce((
            SELECT b.last_offset FROM broker.entry b
            WHERE b.partition_id = %(compacted_id)s AND b.last_offset >= %(upper)s - 1
            ORDER BY b.last_offset LIMIT 1
        ), m.last_offset))
    ) t
    -- The index of a sidecar's entries, all of them, would serve "txn_messages > 0".
    WHERE m.partition_id = %(log_id)s AND m.kind::text = 'C' AND coalesce(m.txn_messages, 0) > 0
    AND m.last_offset >= %(lower)s AND m.first_offset < %(upper)s
    AND m.last_offset <= coalesce((
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(log_id)s AND b.last_offset >= %(upper)s - 1
        ORDER BY b.last_offset LIMIT 1
    ), %(upper)s)
) e
WHERE e.last_offset >= %(lower)s AND e.first_offset < %(upper)s
AND e.publish_time BETWEEN
    'epoch'::timestamptz + %(since)s * interval '1 microsecond'
    AND 'epoch'::timestamptz + %(until)s * interval '1 microsecond'
ORDER BY e.last_offset

-- offload_due --
-- Sealed segments whose batches can be offloaded, the oldest first: broker.offload_segment judges
-- them again. In a sidecar-buffered partition nothing that was committed may wait for compaction.
SELECT
    p.topic, p.number, p.partition_id, coalesce(c.compacted_id, -1) AS compacted_id, s.ledger_id,
    s.first_offset, s.last_offset
FROM broker.segment s
JOIN broker.partition p USING (partition_id)
JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.partition c ON c.sidecar_of = p.partition_id
WHERE s.sealed_at < clock_timestamp() - %(hours)s * interval '1 hour'
AND p.online AND p.sidecar_of IS NULL AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
AND s.first_offset >= p.log_start_offset AND s.first_offset <= s.last_offset
AND s.last_offset < coalesce(l.first_ongoing_offset, l.next_offset)
AND NOT EXISTS (
    SELECT FROM broker.offloaded_segment o
    WHERE o.partition_id = s.partition_id AND o.ledger_id = s.ledger_id
)
AND NOT EXISTS (
    SELECT FROM broker.txn_index i
    -- As in broker.next_of_txn: a difference, so that the log's own order cannot serve it.
    CROSS JOIN LATERAL (
        SELECT FROM broker.entry e
        WHERE e.partition_id + 0 = c.partition_id AND e.tc_id::bigint = i.tc_id
        AND e.sequence + 0 = i.sequence AND e.txn_messages IS NOT NULL AND e.kind = 'D'
        AND e.last_offset - i.first_offset BETWEEN 0 AND i.last_offset - i.first_offset
        LIMIT 1
    ) e
    WHERE i.partition_id + 0 = c.partition_id
    AND i.commit_offset BETWEEN s.first_offset AND s.last_offset
)
ORDER BY s.sealed_at, s.partition_id, s.ledger_id

-- offload_entries --
-- A segment as it is written down; in a sidecar-buffered partition with the committed messages at the
-- offsets that they have there.
SELECT
    e.last_offset, e.first_offset, e.ledger_id, e.kind, e.tc_id, e.sequence, e.producer_name,
    e.sequence_id, e.publish_time, e.readable_at, e.aborted, e.body
FROM (
    SELECT
        e.last_offset, e.first_offset, e.ledger_id, e.kind::text AS kind, e.tc_id, e.sequence,
        e.producer_name, e.sequence_id, e.publish_time,
        CASE WHEN e.kind <> 'D' OR i.aborted THEN NULL
            ELSE coalesce(i.last_offset, e.first_offset) END AS readable_at,
        coalesce(e.kind = 'D' AND i.aborted, false) AS aborted, e.body
    FROM broker.entry e
    LEFT JOIN LATERAL (
        SELECT i.last_offset, i.aborted FROM broker.txn_index i
        WHERE i.partition_id - 0 = e.partition_id AND i.tc_id + 0 = e.tc_id
        AND i.sequence + 0 = e.sequence
        AND e.first_offset >= i.first_offset AND e.first_offset < i.last_offset + 0
        LIMIT 1
    ) i ON true
    WHERE e.partition_id = %(log_id)s AND e.last_offset BETWEEN %(lower)s AND %(last)s
    UNION ALL
    SELECT
        c.last_offset, c.first_offset, c.ledger_id, c.kind::text, c.tc_id, c.sequence,
        c.producer_name, c.sequence_id, c.publish_time, c.first_offset, false, c.body
    FROM broker.entry c
    WHERE c.partition_id = %(compacted_id)s AND c.last_offset BETWEEN %(lower)s AND %(last)s
) e ORDER BY e.last_offset, e.body IS NULL

-- offload_segment --
-- See engine/sql/functions/broker/offload_segment.sql.
SELECT broker.offload_segment(
    %(partition_id)s, %(ledger_id)s, %(last_offset)s, %(file)s, %(data_entries)s, %(data_bytes)s,
    %(file_bytes)s, %(sha256)s
)

-- identity --
-- What tells this database from every other: its cluster's number and its own.
SELECT c.system_identifier || ':' || d.oid AS identity
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()

-- offload_files --
SELECT file FROM broker.offloaded_segment
