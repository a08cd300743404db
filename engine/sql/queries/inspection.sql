-- count_until --
-- Messages from an offset on that have not aborted, without those of one transaction, by how many
-- of the ascending bounds they are at or above; nothing at or above the last bound, and no more
-- than limit entries are looked at, from the lowest on.
SELECT width_bucket(e.first_offset, %(bounds)s::bigint[]) AS bucket,
    count(*) AS entries,
    coalesce(sum(e.last_offset - e.first_offset + 1) FILTER (WHERE
        e.kind = 'D'
        AND (%(tc_id)s::integer IS NULL OR e.tc_id IS NULL
            OR (e.tc_id, e.sequence) <> (%(tc_id)s, %(sequence)s::bigint))
        AND (e.tc_id IS NULL OR NOT EXISTS (
            SELECT FROM broker.txn_index i
            WHERE i.partition_id = e.partition_id AND i.tc_id = e.tc_id
            AND i.sequence = e.sequence AND i.aborted
            AND e.first_offset BETWEEN i.first_offset AND i.last_offset
        ))
    ), 0)::bigint AS messages
FROM (
    SELECT * FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
    AND last_offset < (%(bounds)s::bigint[])[cardinality(%(bounds)s::bigint[])]
    ORDER BY last_offset LIMIT %(limit)s
) e GROUP BY 1

-- acks_of_txn --
-- What a transaction holds of subscriptions on this broker.
SELECT s.topic, s.name, a.partition_id, p.number, a.ack_type, a.ranges
FROM broker.pending_ack a
JOIN broker.subscription s USING (subscription_id)
JOIN broker.partition p USING (partition_id)
WHERE a.tc_id = %(tc_id)s AND a.sequence = %(sequence)s
ORDER BY s.topic, s.name, p.number, a.ack_type

-- open_spans --
-- What transactions hold open in partitions, from a place on; fenced: the partition itself has
-- recorded their end. One statement: the fence and what is open are of one moment. What is open in
-- a sidecar log is its partition's, and hides and blocks nothing there.
WITH o AS MATERIALIZED (
    SELECT * FROM broker.ongoing_txn
    WHERE (partition_id, tc_id, sequence)
        > (%(holder)s::bigint, %(tc_id)s::integer, %(sequence)s::bigint)
    ORDER BY partition_id, tc_id, sequence LIMIT %(limit)s
)
SELECT o.*, p.topic_id, p.topic, p.number, p.online,
    CASE WHEN g.sidecar_of IS NULL THEN l.next_offset - o.first_offset ELSE 0 END AS hidden,
    g.sidecar_of IS NULL AND o.first_offset = l.first_ongoing_offset AS blocks,
    (extract(epoch FROM clock_timestamp() - o.first_append_at) * 1000)::bigint AS age_ms,
    coalesce((
        SELECT true FROM broker.ended_txn e WHERE e.partition_id = p.partition_id
        AND e.tc_id = o.tc_id AND e.sequence = o.sequence LIMIT 1
    ), (
        SELECT true FROM broker.low_water_mark w WHERE w.partition_id = p.partition_id
        AND w.tc_id = o.tc_id AND w.low_water_mark >= o.sequence LIMIT 1
    ), false) AS fenced
FROM o
JOIN broker.partition g USING (partition_id)
JOIN broker.partition p ON p.partition_id = coalesce(g.sidecar_of, g.partition_id)
JOIN broker.partition_live l ON l.partition_id = o.partition_id
ORDER BY o.partition_id, o.tc_id, o.sequence

-- open_acks --
-- What transactions hold of subscriptions, from a place on, as open_spans.
SELECT a.subscription_id, a.tc_id, a.sequence, s.topic_id, s.topic, s.name,
    sum(r.messages)::bigint AS messages,
    coalesce((
        SELECT true FROM broker.ended_ack_txn e WHERE e.subscription_id = a.subscription_id
        AND e.tc_id = a.tc_id AND e.sequence = a.sequence LIMIT 1
    ), (
        SELECT true FROM broker.ack_low_water_mark w WHERE w.subscription_id = a.subscription_id
        AND w.tc_id = a.tc_id AND w.low_water_mark >= a.sequence LIMIT 1
    ), false) AS fenced
FROM broker.pending_ack a
JOIN broker.subscription s USING (subscription_id)
CROSS JOIN LATERAL (
    SELECT sum(upper(r) - lower(r)) AS messages FROM unnest(a.ranges) AS r
) r
WHERE (a.subscription_id, a.tc_id, a.sequence)
    > (%(holder)s::bigint, %(tc_id)s::integer, %(sequence)s::bigint)
GROUP BY a.subscription_id, a.tc_id, a.sequence, s.topic_id, s.topic, s.name
ORDER BY a.subscription_id, a.tc_id, a.sequence LIMIT %(limit)s

-- spans_still_open --
SELECT o.partition_id AS holder, o.tc_id, o.sequence
FROM unnest(
    %(holders)s::bigint[], %(tc_ids)s::integer[], %(sequences)s::bigint[],
    %(first_offsets)s::bigint[]
) AS w (holder, tc_id, sequence, first_offset)
JOIN broker.ongoing_txn o ON o.partition_id = w.holder AND o.tc_id = w.tc_id
    AND o.sequence = w.sequence AND o.first_offset = w.first_offset

-- acks_still_open --
SELECT DISTINCT a.subscription_id AS holder, a.tc_id, a.sequence
FROM unnest(
    %(holders)s::bigint[], %(tc_ids)s::integer[], %(sequences)s::bigint[]
) AS w (holder, tc_id, sequence)
JOIN broker.pending_ack a ON a.subscription_id = w.holder AND a.tc_id = w.tc_id
    AND a.sequence = w.sequence

-- spans_of_txn --
-- Where a transaction is open on this broker, whoever knows of it.
SELECT p.partition_id, p.topic_id, p.topic, p.number, p.online
FROM broker.ongoing_txn o
JOIN broker.partition g USING (partition_id)
JOIN broker.partition p ON p.partition_id = coalesce(g.sidecar_of, g.partition_id)
WHERE o.tc_id = %(tc_id)s AND o.sequence = %(sequence)s ORDER BY p.partition_id

-- ack_holders_of_txn --
-- The subscriptions of this broker of which a transaction holds acknowledgements.
SELECT DISTINCT s.subscription_id, s.topic_id, s.topic, s.name
FROM broker.pending_ack a JOIN broker.subscription s USING (subscription_id)
WHERE a.tc_id = %(tc_id)s AND a.sequence = %(sequence)s ORDER BY s.subscription_id

-- partition_evidence --
-- What partitions say of transactions: open, fenced, markers. No id: the partition is not there.
SELECT w.tc_id, w.sequence, w.topic_id, w.member, p.partition_id, p.online, p.log_start_offset,
    p.buffer, l.partition_id IS NOT NULL AS alive,
    o.first_offset, o.last_offset, o.messages, e.aborted AS fence_aborted,
    m.commits, m.aborts, m.marker_offset, m.last_data
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[],
    %(numbers)s::integer[]
) AS w (tc_id, sequence, topic_id, member)
LEFT JOIN broker.partition p ON p.topic_id = w.topic_id AND p.number = w.member
LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
LEFT JOIN broker.partition g ON g.sidecar_of = p.partition_id
LEFT JOIN broker.ongoing_txn o ON o.partition_id = coalesce(g.partition_id, p.partition_id)
    AND o.tc_id = w.tc_id AND o.sequence = w.sequence
LEFT JOIN broker.ended_txn e ON e.partition_id = p.partition_id AND e.tc_id = w.tc_id
    AND e.sequence = w.sequence
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE n.kind = 'C') AS commits,
        count(*) FILTER (WHERE n.kind = 'A') AS aborts,
        min(n.first_offset) FILTER (WHERE n.kind <> 'D') AS marker_offset,
        max(n.last_offset) FILTER (WHERE n.kind = 'D') AS last_data
    FROM broker.entry n WHERE n.partition_id = p.partition_id AND n.tc_id = w.tc_id
    AND n.sequence = w.sequence
) m ON true

-- subscription_evidence --
-- What subscriptions say of transactions: held, ended. No id: the subscription is not there.
SELECT w.tc_id, w.sequence, w.topic_id, w.member, s.subscription_id, e.aborted AS fence_aborted,
    (SELECT coalesce(sum(upper(r) - lower(r)), 0)::bigint
        FROM broker.pending_ack a, unnest(a.ranges) AS r
        WHERE a.subscription_id = s.subscription_id AND a.tc_id = w.tc_id
        AND a.sequence = w.sequence) AS held
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(names)s::text[]
) AS w (tc_id, sequence, topic_id, member)
LEFT JOIN broker.subscription s ON s.topic_id = w.topic_id AND s.name = w.member
LEFT JOIN broker.ended_ack_txn e ON e.subscription_id = s.subscription_id
    AND e.tc_id = w.tc_id AND e.sequence = w.sequence

-- offset_at --
-- See functions/broker/offset_at.sql.
SELECT broker.offset_at(%(partition_id)s, %(at)s::timestamptz) AS last_offset

-- next_ended --
-- The first transaction to end after an offset stood; from it follows what was open then.
SELECT * FROM broker.txn_index WHERE partition_id = %(partition_id)s AND last_offset > %(offset)s
ORDER BY last_offset LIMIT 1

-- entry_at --
-- The entry that holds an offset, or the first after it in a compacted log; without its body.
SELECT last_offset, first_offset, ledger_id, kind, tc_id, sequence, sequence_id, publish_time,
    producer_name, coalesce(txn_messages, 0) AS txn_messages
FROM broker.entry WHERE partition_id = %(partition_id)s AND last_offset >= %(offset)s
ORDER BY last_offset LIMIT 1

-- sample_before --
-- Where a partition stood when it was last looked at, up to a moment.
SELECT at, stable_position, last_offset FROM broker.position_sample
WHERE partition_id = %(partition_id)s AND at <= %(at)s::timestamptz ORDER BY at DESC LIMIT 1

-- samples_between --
-- The last sample in each of a number of equal parts of (since, until].
SELECT s.at, s.stable_position, s.last_offset
FROM generate_series(0, %(parts)s::integer - 1) AS n
CROSS JOIN LATERAL (
    SELECT * FROM broker.position_sample p WHERE p.partition_id = %(partition_id)s
    AND p.at > %(since)s::timestamptz
        + n * (%(until)s::timestamptz - %(since)s::timestamptz) / %(parts)s::integer
    AND p.at <= %(since)s::timestamptz
        + (n + 1) * (%(until)s::timestamptz - %(since)s::timestamptz) / %(parts)s::integer
    ORDER BY p.at DESC LIMIT 1
) s ORDER BY s.at

-- ended_between --
-- The last transaction to end in each part of (from, upper], each of width offsets, with the moment.
SELECT i.*, e.publish_time AS at
FROM generate_series(0, %(parts)s::integer - 1) AS n
CROSS JOIN LATERAL (
    SELECT * FROM broker.txn_index t WHERE t.partition_id = %(partition_id)s
    AND t.last_offset > %(from_offset)s + n * %(width)s::bigint
    AND t.last_offset <= least(%(from_offset)s + (n + 1) * %(width)s::bigint, %(upper)s::bigint)
    ORDER BY t.last_offset DESC LIMIT 1
) i
JOIN broker.entry e ON e.partition_id = i.partition_id AND e.last_offset = i.last_offset
ORDER BY i.last_offset

-- aborted_span_of --
-- The aborted span of its transaction that an offset lies in.
SELECT first_offset, last_offset FROM broker.txn_index
WHERE partition_id = %(partition_id)s AND tc_id = %(tc_id)s AND sequence = %(sequence)s AND aborted
AND %(offset)s BETWEEN first_offset AND last_offset - 1 LIMIT 1

-- dead_letter_at --
-- Whether a message is on its way to the dead-letter topic; they are few.
SELECT target FROM broker.dead_letter
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND message_offset = %(offset)s

-- distance --
-- What a recovery would read from a position on; no more than limit entries are counted.
SELECT count(*) AS entries, coalesce(sum(length(body)), 0)::bigint AS bytes,
    count(DISTINCT (tc_id, sequence)) FILTER (WHERE tc_id IS NOT NULL) AS transactions
FROM (
    SELECT body, tc_id, sequence FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset > %(position)s
    ORDER BY last_offset LIMIT %(limit)s
) e

-- recoveries --
-- The newest measured recoveries of this broker.
SELECT entries, duration_ms FROM broker.recovery ORDER BY at DESC LIMIT 50

-- late_snapshots --
-- Partitions whose buffer has changed since their newest snapshot, those that waited longest first.
SELECT p.topic, p.number, p.sidecar_of IS NOT NULL AS is_sidecar, l.changes,
    extract(epoch FROM statement_timestamp() - coalesce(l.snapshot_at, p.created_at))::float8 * 1000
        AS age_ms
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.changes > 0 AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
ORDER BY coalesce(l.snapshot_at, p.created_at), partition_id LIMIT %(limit)s

-- standing --
-- Where a broker stands, over all its partitions, in one walk over their heads: how many are held
-- back and the most that is hidden there, for how long the longest, how many hold a transaction for
-- longer than any may be open, aborted transactions that are remembered, and for how long changes
-- have waited for a snapshot. The transaction with the lowest offset began first.
SELECT
    count(*) FILTER (WHERE p.sidecar_of IS NULL AND p.online AND l.partition_id IS NULL)
        AS recovering,
    count(*) FILTER (WHERE NOT p.online) AS offline,
    count(o.first_append_at) FILTER (WHERE p.sidecar_of IS NULL) AS held_back,
    coalesce(max(l.next_offset - l.first_ongoing_offset) FILTER (WHERE p.sidecar_of IS NULL), 0)
        AS lag_messages,
    coalesce(extract(epoch FROM statement_timestamp()
        - min(o.first_append_at) FILTER (WHERE p.sidecar_of IS NULL)), 0)::float8
        AS blocked_seconds,
    count(*) FILTER (WHERE o.first_append_at
        < statement_timestamp() - %(late_ms)s::bigint * interval '1 millisecond')
        AS late_partitions,
    coalesce(sum(l.aborted_txns - p.aborted_dropped), 0)::bigint AS aborted_txns,
    coalesce(extract(epoch FROM statement_timestamp()
        - min(coalesce(l.snapshot_at, p.created_at)) FILTER (
            WHERE l.changes > 0 AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
        )), 0)::float8
        AS snapshot_seconds,
    (SELECT count(*) FROM broker.pending_ack) AS pending_acks
FROM broker.partition p
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN LATERAL (
    SELECT n.first_append_at FROM broker.ongoing_txn n
    WHERE n.ordered_in = l.partition_id AND l.first_ongoing_offset IS NOT NULL
    ORDER BY n.first_offset LIMIT 1
) o ON true

-- standing_of_partitions --
-- As standing, by partition, a sidecar log's part at its partition.
SELECT p.topic, p.number,
    coalesce(l.next_offset - l.first_ongoing_offset, 0) AS lag_messages,
    coalesce(extract(epoch FROM statement_timestamp() - o.first_append_at), 0)::float8
        AS blocked_seconds,
    coalesce(t.aborted_txns - s.aborted_dropped, l.aborted_txns - p.aborted_dropped, 0)
        AS aborted_txns,
    coalesce(extract(epoch FROM statement_timestamp() - least(
        CASE WHEN l.changes > 0 THEN coalesce(l.snapshot_at, p.created_at) END,
        CASE WHEN t.changes > 0 THEN coalesce(t.snapshot_at, s.created_at) END
    )), 0)::float8 AS snapshot_seconds
FROM broker.partition p
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.partition s ON s.sidecar_of = p.partition_id
LEFT JOIN broker.partition_live t ON t.partition_id = s.partition_id
LEFT JOIN LATERAL (
    SELECT n.first_append_at FROM broker.ongoing_txn n
    WHERE n.ordered_in = l.partition_id AND l.first_ongoing_offset IS NOT NULL
    ORDER BY n.first_offset LIMIT 1
) o ON true
WHERE p.sidecar_of IS NULL AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
ORDER BY p.partition_id LIMIT %(limit)s

-- pending_acks_by_subscription --
-- Transactions that hold acknowledgements, by subscription.
SELECT s.topic, s.name, count(a.subscription_id) AS pending_acks
FROM broker.subscription s LEFT JOIN broker.pending_ack a USING (subscription_id)
GROUP BY s.subscription_id ORDER BY s.subscription_id LIMIT %(limit)s
