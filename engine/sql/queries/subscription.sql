-- create_subscription --
-- Does nothing to one that exists.
INSERT INTO broker.subscription
    (topic_id, topic, name, type, initial_position, ack_timeout_ms, created_at)
VALUES (
    %(topic_id)s, %(topic)s, %(name)s, %(type)s, %(initial_position)s, %(ack_timeout_ms)s,
    coalesce(%(created_at)s::timestamptz, clock_timestamp())
)
ON CONFLICT (topic_id, name) DO NOTHING
RETURNING subscription_id

-- get_subscription --
SELECT * FROM broker.subscription WHERE topic_id = %(topic_id)s AND name = %(name)s

-- list_subscriptions --
SELECT * FROM broker.subscription
WHERE (%(topic_id)s::bigint IS NULL OR topic_id = %(topic_id)s) ORDER BY topic, name LIMIT 1000

-- delete_subscription --
WITH gone AS (
    DELETE FROM broker.subscription WHERE topic_id = %(topic_id)s AND name = %(name)s
    RETURNING subscription_id
), dispatched AS (
    DELETE FROM broker.dispatch d USING gone WHERE d.subscription_id = gone.subscription_id
), delivered AS (
    DELETE FROM broker.delivery d USING gone WHERE d.subscription_id = gone.subscription_id
)
DELETE FROM broker.redelivered r USING gone WHERE r.subscription_id = gone.subscription_id

-- ensure_cursors --
-- One cursor for each partition of the topic; one that came after the subscription is read from its
-- start. The log's end is looked up in the log: the head may be gone.
INSERT INTO broker.cursor (subscription_id, partition_id, mark_delete)
SELECT %(subscription_id)s, p.partition_id,
    CASE WHEN %(latest)s AND p.created_at <= %(since)s THEN coalesce((
        SELECT max(e.last_offset) FROM broker.entry e WHERE e.partition_id = p.partition_id
    ), p.log_start_offset - 1) ELSE p.log_start_offset - 1 END
FROM broker.partition p
WHERE p.topic_id = %(topic_id)s AND NOT EXISTS (
    SELECT FROM broker.cursor c
    WHERE c.subscription_id = %(subscription_id)s AND c.partition_id = p.partition_id
)
ON CONFLICT DO NOTHING

-- deliverable --
-- Partitions with something to deliver: unread up to the stable position, to redeliver, or overdue;
-- and those that first need a cursor, or to be rebuilt.
SELECT p.partition_id, p.number, c.partition_id IS NULL AS needs_cursor,
    l.partition_id IS NULL AS needs_recovery
FROM broker.partition p
LEFT JOIN broker.cursor c
    ON c.partition_id = p.partition_id AND c.subscription_id = %(subscription_id)s
LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
LEFT JOIN broker.dispatch d
    ON d.partition_id = p.partition_id AND d.subscription_id = %(subscription_id)s
WHERE p.topic_id = %(topic_id)s AND p.online AND (
    c.partition_id IS NULL
    OR l.partition_id IS NULL
    OR coalesce(d.read_offset, c.mark_delete + 1) < coalesce(l.first_ongoing_offset, l.next_offset)
    OR d.redeliver <> '{}'
    OR EXISTS (
        SELECT FROM broker.delivery o
        WHERE o.subscription_id = %(subscription_id)s AND o.partition_id = p.partition_id
        AND o.deadline < statement_timestamp()
    )
)
ORDER BY p.number

-- lock_cursor --
-- The cursor's lock covers everything of one subscription in one partition.
SELECT c.mark_delete, c.acked, p.number, p.partition_id FROM broker.cursor c
JOIN broker.partition p USING (partition_id)
WHERE c.subscription_id = %(subscription_id)s AND c.partition_id = %(partition_id)s
FOR UPDATE OF c

-- write_cursor --
UPDATE broker.cursor SET mark_delete = %(mark_delete)s, acked = %(acked)s::int8multirange
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s

-- read_dispatch --
SELECT read_offset, redeliver FROM broker.dispatch
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s

-- write_dispatch --
INSERT INTO broker.dispatch (subscription_id, partition_id, read_offset, redeliver)
VALUES (%(subscription_id)s, %(partition_id)s, %(read_offset)s, %(redeliver)s::int8multirange)
ON CONFLICT (subscription_id, partition_id) DO UPDATE
    SET read_offset = excluded.read_offset, redeliver = excluded.redeliver

-- read_deliveries --
SELECT delivery_id, consumer, ranges, deadline < clock_timestamp() AS overdue
FROM broker.delivery
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
ORDER BY delivery_id

-- add_delivery --
INSERT INTO broker.delivery (subscription_id, partition_id, consumer, ranges, deadline)
VALUES (
    %(subscription_id)s, %(partition_id)s, %(consumer)s, %(ranges)s::int8multirange,
    clock_timestamp() + %(ack_timeout_ms)s * interval '1 millisecond'
)

-- shrink_deliveries --
-- Takes offsets out of what is in flight.
WITH shrunk AS (
    UPDATE broker.delivery SET ranges = ranges - %(ranges)s::int8multirange
    WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
    AND ranges && %(ranges)s::int8multirange AND NOT ranges <@ %(ranges)s::int8multirange
)
DELETE FROM broker.delivery
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND ranges <@ %(ranges)s::int8multirange

-- read_redelivered --
SELECT times, ranges FROM broker.redelivered
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s ORDER BY times

-- write_redelivered --
INSERT INTO broker.redelivered (subscription_id, partition_id, times, ranges)
VALUES (%(subscription_id)s, %(partition_id)s, %(times)s, %(ranges)s::int8multirange)
ON CONFLICT (subscription_id, partition_id, times) DO UPDATE SET ranges = excluded.ranges

-- drop_redelivered --
DELETE FROM broker.redelivered
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND times = %(times)s

-- pending_acks --
SELECT tc_id, sequence, ack_type, ranges FROM broker.pending_ack
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
ORDER BY tc_id, sequence

-- write_pending_ack --
INSERT INTO broker.pending_ack
    (subscription_id, partition_id, tc_id, sequence, ack_type, ranges)
VALUES (
    %(subscription_id)s, %(partition_id)s, %(tc_id)s, %(sequence)s, %(ack_type)s,
    %(ranges)s::int8multirange
)
ON CONFLICT (subscription_id, partition_id, tc_id, sequence, ack_type) DO UPDATE
    SET ranges = excluded.ranges

-- shrink_pending_acks --
-- Gives back what a refused call had claimed on this broker.
WITH shrunk AS (
    UPDATE broker.pending_ack SET ranges = ranges - %(ranges)s::int8multirange
    WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
    AND tc_id = %(tc_id)s AND sequence = %(sequence)s AND ack_type = %(ack_type)s
    AND NOT ranges <@ %(ranges)s::int8multirange
)
DELETE FROM broker.pending_ack
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND tc_id = %(tc_id)s AND sequence = %(sequence)s AND ack_type = %(ack_type)s
AND ranges <@ %(ranges)s::int8multirange

-- log_pending_ack --
INSERT INTO broker.pending_ack_log
    (subscription_id, partition_id, tc_id, sequence, op, ack_type, ranges)
VALUES (
    %(subscription_id)s, %(partition_id)s, %(tc_id)s, %(sequence)s, %(op)s, %(ack_type)s,
    %(ranges)s::int8multirange
)

-- ack_fence --
-- Has the transaction ended for this subscription?
SELECT EXISTS (
    SELECT FROM broker.ended_ack_txn WHERE subscription_id = %(subscription_id)s
    AND tc_id = %(tc_id)s AND sequence = %(sequence)s
) OR EXISTS (
    SELECT FROM broker.ack_low_water_mark WHERE subscription_id = %(subscription_id)s
    AND tc_id = %(tc_id)s AND low_water_mark >= %(sequence)s
) AS ended

-- ended_acks --
SELECT tc_id, sequence, aborted, messages FROM broker.ended_ack_txn
WHERE subscription_id = %(subscription_id)s AND (tc_id, sequence) IN (
    SELECT * FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[])
)

-- lock_cursors --
-- All cursors of a subscription on this broker, in the order of the partitions.
SELECT c.partition_id FROM broker.cursor c WHERE c.subscription_id = %(subscription_id)s
ORDER BY c.partition_id FOR UPDATE

-- pending_acks_of --
SELECT a.partition_id, a.tc_id, a.sequence, a.ack_type, a.ranges FROM broker.pending_ack a
WHERE a.subscription_id = %(subscription_id)s AND (a.tc_id, a.sequence) IN (
    SELECT * FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[])
)
ORDER BY a.partition_id, a.tc_id, a.sequence

-- pending_orphans --
-- Transactions that the low water mark says have ended, and that still hold acknowledgements.
SELECT DISTINCT a.tc_id, a.sequence FROM broker.pending_ack a
JOIN broker.ack_low_water_mark w
    ON w.subscription_id = a.subscription_id AND w.tc_id = a.tc_id
    AND a.sequence <= w.low_water_mark
WHERE a.subscription_id = %(subscription_id)s

-- drop_pending_acks --
DELETE FROM broker.pending_ack
WHERE subscription_id = %(subscription_id)s AND (tc_id, sequence) IN (
    SELECT * FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[])
)

-- remember_ended_acks --
INSERT INTO broker.ended_ack_txn (subscription_id, tc_id, sequence, aborted, messages)
SELECT %(subscription_id)s, * FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(aborts)s::boolean[], %(messages)s::bigint[]
)
ON CONFLICT DO NOTHING

-- raise_ack_low_water_marks --
INSERT INTO broker.ack_low_water_mark AS w
SELECT %(subscription_id)s, m.tc, m.mark
FROM unnest(%(mark_tcs)s::integer[], %(marks)s::bigint[]) AS m (tc, mark) WHERE m.mark >= 0
ON CONFLICT (subscription_id, tc_id) DO UPDATE SET low_water_mark = excluded.low_water_mark
WHERE excluded.low_water_mark > w.low_water_mark

-- ack_low_water_marks --
SELECT tc_id, low_water_mark FROM broker.ack_low_water_mark
WHERE subscription_id = %(subscription_id)s ORDER BY tc_id

-- forget_ended_acks --
DELETE FROM broker.ended_ack_txn e USING broker.ack_low_water_mark w
WHERE e.subscription_id = %(subscription_id)s AND w.subscription_id = e.subscription_id
AND w.tc_id = e.tc_id AND e.sequence <= w.low_water_mark

-- cursors --
-- State of a subscription in all partitions of this broker.
SELECT c.partition_id, p.number, c.mark_delete, c.acked,
    coalesce(d.redeliver, '{}') AS redeliver,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position,
    l.next_offset - 1 AS last_offset
FROM broker.cursor c
JOIN broker.partition p USING (partition_id)
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.dispatch d
    ON d.subscription_id = c.subscription_id AND d.partition_id = c.partition_id
WHERE c.subscription_id = %(subscription_id)s ORDER BY p.number

-- all_pending_acks --
SELECT partition_id, tc_id, sequence, ack_type, ranges FROM broker.pending_ack
WHERE subscription_id = %(subscription_id)s ORDER BY partition_id, tc_id, sequence

-- all_deliveries --
SELECT partition_id, consumer, range_agg(r) AS ranges
FROM broker.delivery, unnest(ranges) AS r
WHERE subscription_id = %(subscription_id)s GROUP BY partition_id, consumer
ORDER BY partition_id, consumer

-- invisible --
-- Offsets in (mark_delete, stable] that no reader ever gets: markers, but for those that stand for
-- the messages of their transaction, and aborted messages.
SELECT coalesce(range_agg(r), '{}') AS ranges FROM (
    SELECT int8range(e.first_offset, e.last_offset, '[]') AS r FROM broker.entry e
    WHERE e.partition_id = %(partition_id)s AND e.last_offset > %(mark_delete)s
    AND e.first_offset <= %(stable_position)s AND e.kind <> 'D'
    AND coalesce(e.txn_messages, 0) = 0
    UNION ALL
    SELECT int8range(e.first_offset, e.last_offset, '[]') FROM broker.txn_index i
    JOIN broker.entry e ON e.partition_id = i.partition_id AND e.tc_id = i.tc_id
        AND e.sequence = i.sequence AND e.first_offset >= i.first_offset
        AND e.last_offset < i.last_offset
    WHERE i.aborted AND int8range(i.partition_id, i.partition_id, '[]') @> %(partition_id)s::bigint
    AND int8range(i.first_offset, i.last_offset, '[]')
        && int8range(%(mark_delete)s, %(stable_position)s, '(]')
    AND e.kind = 'D' AND e.last_offset > %(mark_delete)s
    AND e.first_offset <= %(stable_position)s
) invisible
