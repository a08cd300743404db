-- count_until --
-- Messages from an offset on that have not aborted, without those of one transaction, counted by
-- how many of the ascending bounds they are at or above. Nothing at or above the last bound counts,
-- and at most limit entries are looked at, from the lowest on. A transaction is looked up by its
-- id, which only txn_index_txn_idx can do quickly (migration 0015), not the indexes of markers and
-- of aborted transactions.
SELECT width_bucket(e.first_offset, %(bounds)s::bigint[]) AS bucket,
    count(*) AS entries,
    coalesce(sum(e.last_offset - e.first_offset + 1) FILTER (WHERE
        e.kind = 'D'
        AND (%(tc_id)s::integer IS NULL OR e.tc_id IS NULL
            OR (e.tc_id, e.sequence) <> (%(tc_id)s, %(sequence)s::bigint))
        AND (e.tc_id IS NULL OR NOT EXISTS (
            SELECT FROM broker.txn_index i
            WHERE i.partition_id - 0 = e.partition_id AND i.tc_id + 0 = e.tc_id
            AND i.sequence + 0 = e.sequence AND i.aborted::integer = 1
            AND e.first_offset BETWEEN i.first_offset AND i.last_offset + 0
        ))
    ), 0)::bigint AS messages
FROM (
    SELECT * FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
    AND last_offset < (%(bounds)s::bigint[])[cardinality(%(bounds)s::bigint[])]
    ORDER BY last_offset LIMIT %(limit)s
) e GROUP BY 1

-- acks_of_txn --
-- What a transaction holds of the subscriptions named with it on this broker, and which part of it still
-- depends on which calls. This broker may have more of it: of what was deleted by force while it was away.
SELECT s.topic, s.name, a.partition_id, p.number, a.ack_type, a.ranges, t.calls, t.call_ranges
FROM broker.pending_ack a
JOIN broker.subscription s USING (subscription_id)
JOIN broker.partition p USING (partition_id)
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(t.call_id), '{}') AS calls,
        coalesce(array_agg(t.ranges), '{}') AS call_ranges
    FROM broker.tentative_ack t
    WHERE t.subscription_id = a.subscription_id AND t.partition_id = a.partition_id
    AND t.tc_id = a.tc_id AND t.sequence = a.sequence
) t
WHERE a.tc_id = %(tc_id)s AND a.sequence = %(sequence)s
AND (s.topic_id, s.name) IN (SELECT * FROM unnest(%(topic_ids)s::bigint[], %(names)s::text[]))
ORDER BY s.topic, s.name, p.number, a.ack_type

-- open_spans --
-- What transactions have open in partitions, from a place on. Fenced: the partition itself has
-- recorded their end. It is one statement, so that the fence and what is open are as of one moment.
-- What is open in a sidecar log counts for its partition, and hides and blocks nothing there.
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
-- What transactions hold of subscriptions, from a place on; like open_spans.
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
CROSS JOIN LATERAL (
    SELECT * FROM broker.ongoing_txn x WHERE x.partition_id = w.holder
    AND x.tc_id = w.tc_id AND x.sequence = w.sequence OFFSET 0
) o WHERE o.first_offset = w.first_offset

-- acks_still_open --
SELECT DISTINCT a.subscription_id AS holder, a.tc_id, a.sequence
FROM unnest(
    %(holders)s::bigint[], %(tc_ids)s::integer[], %(sequences)s::bigint[]
) AS w (holder, tc_id, sequence)
CROSS JOIN LATERAL (
    SELECT * FROM broker.pending_ack x WHERE x.subscription_id = w.holder
    AND x.tc_id = w.tc_id AND x.sequence = w.sequence OFFSET 0
) a

-- spans_of_txn --
-- The partitions of this broker in which a transaction is open, whether or not its coordinator
-- knows it.
SELECT p.partition_id, p.topic_id, p.topic, p.number, p.online
FROM broker.ongoing_txn o
JOIN broker.partition g USING (partition_id)
JOIN broker.partition p ON p.partition_id = coalesce(g.sidecar_of, g.partition_id)
WHERE o.tc_id = %(tc_id)s AND o.sequence = %(sequence)s ORDER BY p.partition_id

-- open_in_partitions --
-- What a transaction has written so far in some partitions of this broker, or in their sidecar
-- logs. Not alive: the log that would tell has lost its head in a crash.
SELECT p.topic_id, p.number, l.partition_id IS NOT NULL AS alive,
    o.first_offset, o.last_offset, o.messages
FROM unnest(%(topic_ids)s::bigint[], %(numbers)s::integer[]) AS w (topic_id, number)
JOIN broker.partition p ON p.topic_id = w.topic_id AND p.number = w.number
LEFT JOIN broker.partition g ON g.sidecar_of = p.partition_id
LEFT JOIN broker.partition_live l ON l.partition_id = coalesce(g.partition_id, p.partition_id)
LEFT JOIN LATERAL (
    SELECT * FROM broker.ongoing_txn x WHERE x.partition_id = coalesce(g.partition_id, p.partition_id)
    AND x.tc_id = %(tc_id)s AND x.sequence = %(sequence)s OFFSET 0
) o ON true

-- first_open_entries --
-- The first entry of what transactions have open in partitions of this broker, or in their sidecar
-- logs. OFFSET 0 makes PostgreSQL look each up by the key.
SELECT w.tc_id, w.sequence, p.topic, p.number, e.ledger_id, e.first_offset AS entry_id
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(numbers)s::integer[]
) AS w (tc_id, sequence, topic_id, number)
JOIN broker.partition p ON p.topic_id = w.topic_id AND p.number = w.number
LEFT JOIN broker.partition g ON g.sidecar_of = p.partition_id
CROSS JOIN LATERAL (
    SELECT o.partition_id, o.first_offset FROM broker.ongoing_txn o
    WHERE o.partition_id = coalesce(g.partition_id, p.partition_id)
    AND o.tc_id = w.tc_id AND o.sequence = w.sequence OFFSET 0
) o
CROSS JOIN LATERAL (
    SELECT e.ledger_id, e.first_offset FROM broker.entry e
    WHERE e.partition_id = o.partition_id AND e.last_offset >= o.first_offset
    ORDER BY e.last_offset LIMIT 1
) e

-- acks_held --
-- Where transactions hold acknowledgements, by partition, and the last entry that a cumulative one
-- covers there; of both kinds in one partition the cumulative one comes last.
SELECT a.tc_id, a.sequence, s.topic, s.name, p.number, e.ledger_id, e.first_offset AS entry_id
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN broker.pending_ack a ON a.tc_id = w.tc_id AND a.sequence = w.sequence
JOIN broker.subscription s USING (subscription_id)
JOIN broker.partition p USING (partition_id)
LEFT JOIN LATERAL (
    SELECT e.ledger_id, e.first_offset FROM broker.entry e
    WHERE a.ack_type = 'CUMULATIVE'
    AND e.partition_id = a.partition_id AND e.last_offset >= upper(a.ranges) - 1
    ORDER BY e.last_offset LIMIT 1
) e ON true
ORDER BY s.topic, s.name, p.number, a.ack_type DESC

-- ack_holders_of_txn --
-- The subscriptions of this broker on which a transaction has pending acknowledgements.
SELECT DISTINCT s.subscription_id, s.topic_id, s.topic, s.name
FROM broker.pending_ack a JOIN broker.subscription s USING (subscription_id)
WHERE a.tc_id = %(tc_id)s AND a.sequence = %(sequence)s ORDER BY s.subscription_id

-- partition_evidence --
-- What partitions say of transactions: open, fenced, markers. No id: the partition does not exist.
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
LEFT JOIN LATERAL (
    SELECT * FROM broker.ongoing_txn x WHERE x.partition_id = coalesce(g.partition_id, p.partition_id)
    AND x.tc_id = w.tc_id AND x.sequence = w.sequence OFFSET 0
) o ON true
LEFT JOIN LATERAL (
    SELECT * FROM broker.ended_txn x WHERE x.partition_id = p.partition_id
    AND x.tc_id = w.tc_id AND x.sequence = w.sequence OFFSET 0
) e ON true
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE n.kind = 'C') AS commits,
        count(*) FILTER (WHERE n.kind = 'A') AS aborts,
        min(n.first_offset) FILTER (WHERE n.kind <> 'D') AS marker_offset,
        max(n.last_offset) FILTER (WHERE n.kind = 'D') AS last_data
    FROM broker.entry n WHERE n.partition_id - 0 = p.partition_id AND n.tc_id - 0 = w.tc_id
    AND n.sequence - 0 = w.sequence
) m ON true

-- subscription_evidence --
-- What subscriptions say of transactions: held, ended. No id: the subscription does not exist.
SELECT w.tc_id, w.sequence, w.topic_id, w.member, s.subscription_id, e.aborted AS fence_aborted,
    (SELECT coalesce(sum(upper(r) - lower(r)), 0)::bigint
        FROM broker.pending_ack a, unnest(a.ranges) AS r
        WHERE a.subscription_id = s.subscription_id AND a.tc_id = w.tc_id
        AND a.sequence = w.sequence) AS held
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(names)s::text[]
) AS w (tc_id, sequence, topic_id, member)
LEFT JOIN broker.subscription s ON s.topic_id = w.topic_id AND s.name = w.member
LEFT JOIN LATERAL (
    SELECT * FROM broker.ended_ack_txn x WHERE x.subscription_id = s.subscription_id
    AND x.tc_id = w.tc_id AND x.sequence = w.sequence OFFSET 0
) e ON true

-- offset_at --
-- See functions/broker/offset_at.sql.
SELECT broker.offset_at(%(partition_id)s, %(at)s::timestamptz) AS last_offset

-- next_ended --
-- The first transaction to end after an offset was appended; what was open at that time follows
-- from it.
SELECT * FROM broker.txn_index WHERE partition_id = %(partition_id)s AND last_offset > %(offset)s
ORDER BY last_offset LIMIT 1

-- entry_at --
-- The entry that has an offset, or the first after it in a compacted log; without its body.
SELECT last_offset, first_offset, ledger_id, kind, tc_id, sequence, sequence_id, publish_time,
    producer_name, coalesce(txn_messages, 0) AS txn_messages
FROM broker.entry WHERE partition_id = %(partition_id)s AND last_offset >= %(offset)s
ORDER BY last_offset LIMIT 1

-- sample_before --
-- The last sample of a partition's positions up to a time.
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
-- The last transaction to end in each part of (from, upper], each part being width offsets, with
-- the time.
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
WHERE partition_id - 0 = %(partition_id)s AND tc_id + 0 = %(tc_id)s AND sequence + 0 = %(sequence)s
AND aborted::integer = 1 AND %(offset)s BETWEEN first_offset AND last_offset - 1 LIMIT 1

-- dead_letter_at --
-- Whether a message is on its way to the dead-letter topic; there are few such messages.
SELECT target, cause, sequence_id FROM broker.dead_letter
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND message_offset = %(offset)s

-- distance --
-- What a recovery would read from a position on; at most limit entries are counted.
SELECT count(*) AS entries, coalesce(sum(broker.body_bytes(body)), 0)::bigint AS bytes,
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
-- Partitions whose buffer has changed since their newest snapshot, those that have waited longest
-- first.
SELECT p.topic, p.number, p.sidecar_of IS NOT NULL AS is_sidecar, l.changes,
    extract(epoch FROM statement_timestamp() - coalesce(l.snapshot_at, p.created_at))::float8 * 1000
        AS age_ms
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.changes > 0 AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
ORDER BY coalesce(l.snapshot_at, p.created_at), partition_id LIMIT %(limit)s

-- waiting_letters --
-- Subscriptions with messages on their way to a dead-letter topic, parked ones aside, in steps from one
-- subscription to the next, and how many of its messages are, up to a limit.
WITH RECURSIVE waiting AS (
    (SELECT waiting_of FROM broker.dead_letter WHERE waiting_of IS NOT NULL
        ORDER BY waiting_of, partition_id, sequence_id LIMIT 1)
    UNION ALL
    SELECT next.waiting_of FROM waiting w, LATERAL (
        SELECT d.waiting_of FROM broker.dead_letter d WHERE d.waiting_of > w.waiting_of
        ORDER BY d.waiting_of, d.partition_id, d.sequence_id LIMIT 1
    ) next
)
SELECT s.topic, s.name, s.dead_letter_topic, (
    SELECT count(*) FROM (
        SELECT FROM broker.dead_letter d WHERE d.waiting_of = w.waiting_of LIMIT %(letters)s
    ) first
) AS letters
FROM waiting w JOIN broker.subscription s ON s.subscription_id = w.waiting_of LIMIT %(limit)s

-- standing --
-- The state of a broker over all its partitions, in one pass over their heads: how many are held
-- back, the most that is hidden in one, for how long the longest has been held back, how many have
-- a transaction open for longer than any may be, how many aborted transactions are remembered, and
-- for how long changes have waited for a snapshot. (The transaction with the lowest offset began
-- first.)
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
-- As standing, by partition; a sidecar log counts for its partition.
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
-- Transactions with pending acknowledgements, by subscription.
SELECT s.topic, s.name, count(a.subscription_id) AS pending_acks
FROM broker.subscription s LEFT JOIN broker.pending_ack a USING (subscription_id)
GROUP BY s.subscription_id ORDER BY s.subscription_id LIMIT %(limit)s

-- open_holdings --
-- What transactions have open in the partitions named with them, and how many offsets are hidden
-- behind those that hold the stable position back. OFFSET 0 makes PostgreSQL look each up by the
-- key.
SELECT w.tc_id, w.sequence, o.messages,
    CASE WHEN g.partition_id IS NULL AND o.first_offset = l.first_ongoing_offset
        THEN l.next_offset - o.first_offset ELSE 0 END AS hidden
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[],
    %(numbers)s::integer[]
) AS w (tc_id, sequence, topic_id, number)
JOIN broker.partition p ON p.topic_id = w.topic_id AND p.number = w.number
JOIN broker.partition_live l ON l.partition_id = p.partition_id
LEFT JOIN broker.partition g ON g.sidecar_of = p.partition_id
CROSS JOIN LATERAL (
    SELECT * FROM broker.ongoing_txn t WHERE t.partition_id = coalesce(g.partition_id, p.partition_id)
    AND t.tc_id = w.tc_id AND t.sequence = w.sequence OFFSET 0
) o

-- acks_of_txns --
-- For how many messages transactions have pending acknowledgements on the subscriptions named with them on
-- this broker (see acks_of_txn).
SELECT a.tc_id, a.sequence, sum(r.messages)::bigint AS messages
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(names)s::text[]
) AS w (tc_id, sequence, topic_id, name)
JOIN broker.subscription s ON s.topic_id = w.topic_id AND s.name = w.name
CROSS JOIN LATERAL (
    SELECT * FROM broker.pending_ack h WHERE h.tc_id = w.tc_id AND h.sequence = w.sequence
    AND h.subscription_id + 0 = s.subscription_id OFFSET 0
) a
CROSS JOIN LATERAL (
    SELECT sum(upper(r) - lower(r)) AS messages FROM unnest(a.ranges) AS r
) r
GROUP BY a.tc_id, a.sequence

-- joint_effect --
-- What ending all of these transactions would change, by partition: the stable position would move
-- to the lowest transaction that is open and not among those that end there: one that has written
-- without joining does not. It is one statement, so all is as of one moment.
WITH mine AS MATERIALIZED (
    SELECT o.partition_id AS log_id, p.partition_id, p.topic, p.number, o.tc_id, o.sequence,
        o.messages
    FROM unnest(
        %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[],
        %(numbers)s::integer[]
    ) AS w (tc_id, sequence, topic_id, number)
    JOIN broker.partition p ON p.topic_id = w.topic_id AND p.number = w.number
    LEFT JOIN broker.partition g ON g.sidecar_of = p.partition_id
    CROSS JOIN LATERAL (
        SELECT * FROM broker.ongoing_txn t
        WHERE t.partition_id = coalesce(g.partition_id, p.partition_id)
        AND t.tc_id = w.tc_id AND t.sequence = w.sequence OFFSET 0
    ) o
), touched AS MATERIALIZED (
    SELECT log_id, partition_id, topic, number, count(*) AS transactions,
        sum(messages)::bigint AS messages
    FROM mine GROUP BY log_id, partition_id, topic, number
)
SELECT t.topic, t.number, t.transactions, t.messages,
    coalesce(l.next_offset - l.first_ongoing_offset, 0) AS hidden,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position,
    CASE WHEN l.first_ongoing_offset IS NULL THEN l.next_offset
        ELSE coalesce(n.first_offset, l.next_offset) END - 1 AS stable_position_after
FROM touched t
JOIN broker.partition_live l ON l.partition_id = t.partition_id
LEFT JOIN LATERAL (
    SELECT o.first_offset FROM broker.ongoing_txn o
    WHERE o.ordered_in = t.log_id
    AND (o.partition_id, o.tc_id, o.sequence) NOT IN (SELECT log_id, tc_id, sequence FROM mine)
    ORDER BY o.first_offset LIMIT 1
) n ON true

-- times_of_txn --
-- The times of the entries at a transaction's first and last offset in partitions, and of its
-- marker, which is looked for among the transactions that ended next. In a sidecar-buffered
-- partition the marker takes the offsets of the messages, which have no times of their own; before
-- there is a marker, their offsets are those of the sidecar log, and belong to other entries here.
SELECT p.topic_id, p.number, m.publish_time AS marker_at, m.first_offset AS marker_offset,
    CASE WHEN p.buffer = 'marker' THEN f.publish_time END AS first_at,
    CASE WHEN p.buffer = 'marker' THEN z.publish_time END AS last_at
FROM unnest(
    %(topic_ids)s::bigint[], %(numbers)s::integer[], %(first_offsets)s::bigint[],
    %(last_offsets)s::bigint[]
) AS w (topic_id, number, first_offset, last_offset)
JOIN broker.partition p ON p.topic_id = w.topic_id AND p.number = w.number
LEFT JOIN LATERAL (
    SELECT e.publish_time FROM broker.entry e
    WHERE e.partition_id = p.partition_id AND e.last_offset >= w.first_offset
    ORDER BY e.last_offset LIMIT 1
) f ON true
LEFT JOIN LATERAL (
    SELECT e.publish_time FROM broker.entry e
    WHERE e.partition_id = p.partition_id AND e.last_offset >= w.last_offset
    ORDER BY e.last_offset LIMIT 1
) z ON true
LEFT JOIN LATERAL (
    SELECT i.last_offset FROM (
        SELECT * FROM broker.txn_index t
        WHERE t.partition_id = p.partition_id AND t.last_offset > w.last_offset
        ORDER BY t.last_offset LIMIT %(look)s
    ) i
    WHERE i.tc_id = %(tc_id)s AND i.sequence = %(sequence)s AND p.buffer = 'marker'
    UNION ALL SELECT w.last_offset WHERE p.buffer = 'sidecar'
) i ON true
LEFT JOIN LATERAL (
    SELECT e.publish_time, e.first_offset, e.tc_id, e.sequence FROM broker.entry e
    WHERE e.partition_id = p.partition_id AND e.last_offset >= i.last_offset
    AND i.last_offset IS NOT NULL ORDER BY e.last_offset LIMIT 1
) m ON m.tc_id = %(tc_id)s AND m.sequence = %(sequence)s

-- steps_of_txn --
-- A transaction's steps in the pending-ack logs of subscriptions, as far as those are kept; only
-- the newest steps of a log are looked at.
SELECT s.topic_id, s.topic, s.name, p.number, g.partition_id, g.op, g.ack_type, g.ranges, g.call_id,
    g.at
FROM unnest(%(topic_ids)s::bigint[], %(names)s::text[]) AS w (topic_id, name)
JOIN broker.subscription s ON s.topic_id = w.topic_id AND s.name = w.name
CROSS JOIN LATERAL (
    SELECT * FROM broker.pending_ack_log l WHERE l.subscription_id = s.subscription_id
    ORDER BY l.log_id DESC LIMIT %(look)s
) g
JOIN broker.partition p ON p.partition_id = g.partition_id
WHERE g.tc_id = %(tc_id)s AND g.sequence = %(sequence)s
ORDER BY g.log_id LIMIT %(limit)s

-- takers --
-- Transactions that acknowledged messages of a range, as far as the pending-ack logs are kept.
SELECT DISTINCT s.topic, s.name, g.tc_id, g.sequence
FROM broker.partition p
JOIN broker.subscription s ON s.topic_id = p.topic_id
CROSS JOIN LATERAL (
    SELECT * FROM broker.pending_ack_log l WHERE l.subscription_id = s.subscription_id
    AND l.partition_id = p.partition_id AND upper(l.ranges) > %(lower)s
    ORDER BY upper(l.ranges) LIMIT %(look)s
) g
WHERE p.partition_id = %(partition_id)s AND g.op = 'ACK'
AND g.ranges && int8multirange(int8range(%(lower)s, %(upper)s))
ORDER BY s.topic, s.name, g.tc_id, g.sequence LIMIT %(limit)s

-- writers --
-- Transactions that wrote messages of a range; only a limited number of entries is looked at.
SELECT DISTINCT tc_id, sequence FROM (
    SELECT * FROM broker.entry WHERE partition_id = %(partition_id)s AND last_offset >= %(lower)s
    ORDER BY last_offset LIMIT %(look)s
) e
WHERE first_offset < %(upper)s AND tc_id IS NOT NULL AND (kind = 'D' OR txn_messages > 0)
ORDER BY tc_id, sequence LIMIT %(limit)s

-- messages_of_txn --
-- A marker-buffered partition's entries from an offset on, with the bodies of one transaction only.
-- It looks at a limited number of entries, whatever they are.
SELECT e.last_offset, e.first_offset, e.ledger_id, e.first_offset AS entry_id, e.kind, e.tc_id,
    e.sequence, e.sequence_id, e.publish_time, e.producer_name, e.matches,
    CASE WHEN e.matches THEN e.body END AS body
FROM (
    SELECT *, coalesce(tc_id = %(tc_id)s AND sequence = %(sequence)s AND kind = 'D', false)
        AS matches
    FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
    ORDER BY last_offset LIMIT %(look)s
) e ORDER BY e.last_offset

-- partitions_of_ledger --
-- Partitions of that number with a segment of that ledger; ledger ids are unique on a broker.
SELECT p.topic, p.number FROM broker.segment s JOIN broker.partition p USING (partition_id)
WHERE s.ledger_id = %(ledger_id)s AND p.number = %(number)s LIMIT 5
