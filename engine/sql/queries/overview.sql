-- topic_summaries --
-- A few figures for each topic on this broker, with the partition of it that hides most.
SELECT t.topic_id, v.*, a.oldest_snapshot_ms, a.without_snapshot,
    w.number AS worst, w.next_offset - w.first_ongoing_offset AS worst_hidden,
    w.tc_id, w.sequence,
    (extract(epoch FROM w.now - w.first_append_at) * 1000)::bigint AS worst_age_ms
FROM unnest(%(topic_ids)s::bigint[]) AS t (topic_id)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT s.online) AS offline,
        count(*) FILTER (WHERE s.online AND s.next_offset IS NULL) AS recovering,
        coalesce(sum(s.next_offset - s.log_start_offset), 0)::bigint AS offsets,
        coalesce(sum(s.stable_position - s.log_start_offset + 1), 0)::bigint AS readable,
        coalesce(sum(s.ongoing_txns), 0)::bigint AS ongoing,
        coalesce(sum(s.aborted_txns), 0)::bigint AS aborted,
        count(s.first_ongoing_offset) AS held
    FROM broker.partition_status s WHERE s.topic_id = t.topic_id
) v
CROSS JOIN LATERAL (
    SELECT (extract(epoch FROM clock_timestamp() - min(l.snapshot_at)) * 1000)::bigint
            AS oldest_snapshot_ms,
        count(*) FILTER (WHERE l.snapshot_at IS NULL AND l.changes > 0) AS without_snapshot
    FROM broker.partition p JOIN broker.partition_live l USING (partition_id)
    WHERE p.topic_id = t.topic_id
) a
LEFT JOIN LATERAL (
    SELECT * FROM broker.partition_status s
    WHERE s.topic_id = t.topic_id AND s.first_ongoing_offset IS NOT NULL
    ORDER BY s.next_offset - s.first_ongoing_offset DESC, s.number LIMIT 1
) w ON true

-- topic_traffic --
-- How many messages topics on this broker got in each of a number of equal parts of a recent period,
-- and how many transactions ended there, according to the samples; only for the first partitions of
-- a topic.
WITH known AS (
    SELECT p.topic_id, p.partition_id, n.part, s.last_offset - s.markers AS messages, s.ends, s.aborts
    FROM broker.partition p
    CROSS JOIN generate_series(0, %(parts)s::integer) AS n (part)
    CROSS JOIN LATERAL (
        SELECT x.last_offset, x.markers, x.ends, x.aborts FROM broker.position_sample x
        WHERE x.partition_id = p.partition_id
        AND x.at <= statement_timestamp()
            - (%(parts)s::integer - n.part) * %(seconds)s::integer * interval '1 second'
        ORDER BY x.at DESC LIMIT 1
    ) s
    WHERE p.topic_id = ANY (%(topic_ids)s::bigint[]) AND p.number < %(partitions)s::integer
), grown AS (
    SELECT topic_id, part, messages - lag(messages) OVER earlier AS messages,
        ends - lag(ends) OVER earlier AS ends, aborts - lag(aborts) OVER earlier AS aborts
    FROM known WINDOW earlier AS (PARTITION BY partition_id ORDER BY part)
)
SELECT topic_id, part, coalesce(sum(greatest(messages, 0)), 0)::bigint AS messages,
    coalesce(sum(greatest(ends, 0)), 0)::bigint AS ends,
    coalesce(sum(greatest(aborts, 0)), 0)::bigint AS aborts
FROM grown WHERE part > 0 GROUP BY topic_id, part

-- partitions_of_topic --
-- As statuses, for some partitions, with the snapshot that recovery would start from, with how many
-- segments the log has (so many at most are counted), and in which of its equal parts an aborted
-- transaction lies: a look-up for each part, however long the log is.
SELECT s.*, l.snapshot_position AS position, l.snapshot_at AS taken_at,
    (extract(epoch FROM s.now - l.snapshot_at) * 1000)::bigint AS age_ms,
    (
        SELECT count(*) FROM (
            SELECT FROM broker.segment g WHERE g.partition_id = s.partition_id
            LIMIT %(segments)s::integer
        ) counted
    ) AS segments,
    ARRAY(
        SELECT part FROM generate_series(0, %(parts)s::integer - 1) part
        CROSS JOIN LATERAL (
            SELECT FROM broker.txn_index i
            WHERE i.aborted AND int8range(i.partition_id, i.partition_id, '[]') @> s.partition_id
            AND int8range(i.first_offset, i.last_offset, '[]') && int8range(
                s.log_start_offset
                    + part * (s.next_offset - s.log_start_offset) / %(parts)s::integer,
                s.log_start_offset + ((part + 1) * (s.next_offset - s.log_start_offset)
                    + %(parts)s::integer - 1) / %(parts)s::integer,
                '[)'
            )
            LIMIT 1  -- One look-up for each part: without it all are read and compared with each.
        ) aborted
        ORDER BY part
    ) AS aborted_parts
FROM broker.partition_status s LEFT JOIN broker.partition_live l USING (partition_id)
WHERE s.topic_id = %(topic_id)s AND s.number >= %(lower)s AND s.number < %(upper)s
ORDER BY s.number

-- subscription_summaries --
-- Subscriptions after a place, by name, with what is left for them on this broker: unacknowledged
-- offsets up to the stable position, those above it, and what transactions hold. Only those with a
-- text in their topic's or their own name.
WITH page AS MATERIALIZED (
    SELECT * FROM broker.subscription
    WHERE (topic COLLATE "C", name COLLATE "C") > (%(topic)s::text, %(name)s::text)
    AND position(%(part)s::text IN lower(topic || '/' || name)) > 0
    ORDER BY topic COLLATE "C", name COLLATE "C" LIMIT %(limit)s
)
SELECT s.*, c.*, a.*, b.dead_letters, b.parked
FROM page s
CROSS JOIN LATERAL (
    SELECT coalesce(sum(g.unacknowledged), 0)::bigint AS unacknowledged,
        coalesce(sum(g.blocked), 0)::bigint AS blocked,
        count(*) FILTER (WHERE d.next_deadline IS NOT NULL) AS delivering,
        min(d.next_deadline) < statement_timestamp() AS overdue,
        count(*) AS partitions,
        count(*) FILTER (WHERE NOT p.online) AS offline,
        count(*) FILTER (WHERE p.online AND f.stable IS NULL) AS recovering,
        max(h.held_ms) FILTER (WHERE p.online) AS held_ms,
        count(*) FILTER (WHERE w.is_held) AS held_partitions,
        count(*) FILTER (WHERE w.is_starved) AS starved,
        count(*) FILTER (WHERE p.online AND NOT w.is_starved
            AND (g.unacknowledged > 0 OR g.blocked > 0)) AS going,
        coalesce(sum(g.unacknowledged) FILTER (WHERE p.online), 0)::bigint AS remaining
    FROM broker.cursor c
    JOIN broker.partition p USING (partition_id)
    LEFT JOIN broker.partition_live l USING (partition_id)
    LEFT JOIN broker.dispatch d
        ON d.subscription_id = c.subscription_id AND d.partition_id = c.partition_id
    CROSS JOIN LATERAL (
        SELECT coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable,
            l.next_offset - 1 AS last_offset
    ) f
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(upper(r) - lower(r)), 0) AS offsets FROM unnest(c.acked) AS r
    ) acked
    CROSS JOIN LATERAL (
        SELECT greatest(0, f.stable - greatest(c.mark_delete, p.log_start_offset - 1)
                - acked.offsets) AS unacknowledged,
            greatest(0, f.last_offset - greatest(f.stable, c.mark_delete)) AS blocked
    ) g
    LEFT JOIN LATERAL (
        SELECT (extract(epoch FROM statement_timestamp() - o.first_append_at) * 1000)::bigint
            AS held_ms
        FROM broker.ongoing_txn o
        WHERE o.ordered_in = l.partition_id AND o.first_offset = l.first_ongoing_offset LIMIT 1
    ) h ON true
    CROSS JOIN LATERAL (
        SELECT p.online AND coalesce(h.held_ms > %(long_ms)s, false) AS is_held,
            p.online AND coalesce(h.held_ms > %(long_ms)s AND g.unacknowledged = 0, false)
                AS is_starved
    ) w
    WHERE c.subscription_id = s.subscription_id
) c
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(DISTINCT a.tc_id || ':' || a.sequence), '{}') AS holders,
        coalesce(sum(h.messages), 0)::bigint AS held
    FROM broker.pending_ack a
    CROSS JOIN LATERAL (
        SELECT sum(upper(r) - lower(r)) AS messages FROM unnest(a.ranges) AS r
    ) h
    WHERE a.subscription_id = s.subscription_id
) a
CROSS JOIN LATERAL (
    SELECT count(*) AS dead_letters, count(b.cause) AS parked FROM broker.dead_letter b
    WHERE b.subscription_id = s.subscription_id
) b
ORDER BY s.topic COLLATE "C", s.name COLLATE "C"

-- readers_of_partitions --
-- How many subscriptions have read in each of some partitions, and how many of these have
-- acknowledged everything that can be read there.
SELECT p.number, count(*) AS subscriptions, count(*) FILTER (WHERE acked.offsets
    >= coalesce(l.first_ongoing_offset, l.next_offset) - 1
        - greatest(c.mark_delete, p.log_start_offset - 1)) AS caught_up
FROM broker.partition p
JOIN broker.partition_live l USING (partition_id)
JOIN broker.subscription s ON s.topic_id = p.topic_id
JOIN broker.cursor c
    ON c.subscription_id = s.subscription_id AND c.partition_id = p.partition_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(upper(r) - lower(r)), 0) AS offsets FROM unnest(c.acked) AS r
) acked
WHERE p.topic_id = %(topic_id)s AND p.number = ANY (%(numbers)s::integer[])
GROUP BY p.number

-- recoveries_of --
-- What recoveries of a partition took, the newest first.
SELECT at, snapshot_position, entries, duration_ms FROM broker.recovery
WHERE partition_id = %(partition_id)s ORDER BY at DESC LIMIT 10

-- snapshot_distances --
-- Partitions and sidecar logs, ordered by how many offsets recovery would read, the most first, and
-- by name and number where it would read as many, after a place; with the cost of their newest
-- snapshot and of their last recovery. Only partitions with a text in their names.
SELECT d.*, length(e.body) AS bytes, r.at AS recovered_at, r.snapshot_position AS recovered_from,
    r.entries AS recovered_entries, r.duration_ms AS recovered_ms
FROM (
    SELECT p.partition_id, p.topic, p.number, p.online, p.sidecar_of IS NOT NULL AS is_sidecar,
        l.next_offset - 1 AS last_offset, l.snapshot_position, l.snapshot_at,
        (extract(epoch FROM clock_timestamp() - l.snapshot_at) * 1000)::bigint AS age_ms,
        (extract(epoch FROM clock_timestamp() - coalesce(l.snapshot_at, p.created_at)) * 1000)
            ::bigint AS without_ms,
        l.ongoing_txns, l.aborted_txns - p.aborted_dropped AS aborted_txns, l.changes,
        l.next_offset - 1 - coalesce(l.snapshot_position, p.log_start_offset - 1) AS distance
    FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
    WHERE split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
    AND position(%(part)s::text IN lower(p.topic || ':' || p.number)) > 0
) d
LEFT JOIN broker.snapshot s
    ON s.partition_id = d.partition_id AND s.position = d.snapshot_position
LEFT JOIN broker.entry e
    ON e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset
LEFT JOIN LATERAL (
    SELECT * FROM broker.recovery x WHERE x.partition_id = d.partition_id
    ORDER BY x.at DESC LIMIT 1
) r ON true
WHERE d.distance < %(distance)s OR (
    d.distance = %(distance)s AND (d.topic COLLATE "C", d.number, d.is_sidecar)
        > (%(topic)s::text, %(number)s::integer, %(sidecar)s::boolean)
)
ORDER BY d.distance DESC, d.topic COLLATE "C", d.number, d.is_sidecar LIMIT %(limit)s

-- cursor_summaries --
-- Subscriptions of a topic after one, by name, as they stand in one of its partitions.
SELECT s.name, s.type, c.mark_delete, c.acked, d.next_deadline IS NOT NULL AS delivering,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position,
    p.log_start_offset, a.holders, a.held
FROM broker.subscription s
JOIN broker.cursor c
    ON c.subscription_id = s.subscription_id AND c.partition_id = %(partition_id)s
JOIN broker.partition p ON p.partition_id = %(partition_id)s
LEFT JOIN broker.partition_live l ON l.partition_id = %(partition_id)s
LEFT JOIN broker.dispatch d
    ON d.subscription_id = c.subscription_id AND d.partition_id = %(partition_id)s
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(DISTINCT a.tc_id || ':' || a.sequence), '{}') AS holders,
        coalesce(sum(h.messages), 0)::bigint AS held
    FROM broker.pending_ack a
    CROSS JOIN LATERAL (
        SELECT sum(upper(r) - lower(r)) AS messages FROM unnest(a.ranges) AS r
    ) h
    WHERE a.subscription_id = s.subscription_id AND a.partition_id = %(partition_id)s
) a
WHERE s.topic_id = %(topic_id)s AND s.name > %(after)s
ORDER BY s.name LIMIT %(limit)s

-- ended_within --
-- Transactions with their marker in a range of offsets, committed and aborted.
SELECT * FROM broker.txn_index WHERE partition_id = %(partition_id)s
AND last_offset >= %(from_offset)s AND last_offset <= %(to_offset)s ORDER BY last_offset

-- cursors_between --
-- A subscription in some partitions of this broker, by number, with what is in flight.
SELECT p.number, p.online, c.mark_delete, c.acked, d.state, p.log_start_offset,
    (extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now_ms,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position,
    l.next_offset - 1 AS last_offset,
    (SELECT (extract(epoch FROM statement_timestamp() - o.first_append_at) * 1000)::bigint
        FROM broker.ongoing_txn o
        WHERE o.ordered_in = l.partition_id AND o.first_offset = l.first_ongoing_offset LIMIT 1
    ) AS held_ms,
    (SELECT coalesce(array_agg(b.message_offset), '{}') FROM broker.dead_letter b
        WHERE b.subscription_id = c.subscription_id AND b.partition_id = c.partition_id
    ) AS dead
FROM broker.subscription s
JOIN broker.cursor c USING (subscription_id)
JOIN broker.partition p USING (partition_id)
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.dispatch d
    ON d.subscription_id = c.subscription_id AND d.partition_id = c.partition_id
WHERE s.topic_id = %(topic_id)s AND s.name = %(name)s
AND p.number >= %(lower)s AND p.number < %(upper)s
ORDER BY p.number

-- held_by_transactions --
-- What transactions hold of a subscription on this broker, and for how long.
SELECT p.number, a.tc_id, a.sequence, a.ack_type, a.ranges,
    (extract(epoch FROM clock_timestamp() - a.since) * 1000)::bigint AS held_ms
FROM broker.subscription s
JOIN broker.pending_ack a USING (subscription_id)
JOIN broker.partition p USING (partition_id)
WHERE s.topic_id = %(topic_id)s AND s.name = %(name)s
ORDER BY a.partition_id, a.tc_id, a.sequence, a.ack_type LIMIT %(limit)s
