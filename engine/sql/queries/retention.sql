-- A retention_ms above a century counts as a century (MAX_RETENTION_MS). Older databases may have
-- greater values, from which no time can be computed; the error would keep the whole broker from
-- dropping anything.

-- seal_due --
-- Open segments with a quarter of what their partition keeps, by age or by size. They are to be
-- sealed, because only sealed segments can be dropped.
SELECT l.partition_id, l.ledger_id FROM broker.partition p
JOIN broker.partition_live l USING (partition_id)
JOIN broker.segment s USING (partition_id, ledger_id)
WHERE l.next_offset > l.segment_first_offset AND (
    l.segment_bytes * 4 >= p.retention_bytes
    OR s.created_at
        < clock_timestamp() - least(p.retention_ms, 3153600000000) / 4 * interval '1 millisecond'
)

-- seal_segment --
-- See functions/broker/seal_segment.sql.
SELECT broker.seal_segment(%(partition_id)s, %(ledger_id)s) AS sealed

-- expirable --
-- Sealed segments, oldest first, that are past the time limit or beyond the size limit, and wholly
-- below the stable position and below what every subscription has acknowledged. Age and size only
-- grow towards the start, so everything before such a segment may go as well. A subscription
-- without a cursor here has acknowledged nothing. Partitions that an operator has taken offline are
-- left alone. The bound is computed once for each partition; otherwise PostgreSQL would compute it
-- again for each segment.
WITH bound AS MATERIALIZED (
    SELECT p.partition_id, p.topic, p.number, p.retention_ms, p.retention_bytes,
        p.log_start_offset, l.segment_bytes,
        least(coalesce(l.first_ongoing_offset, l.next_offset) - 1, (
            SELECT min(coalesce(c.mark_delete, -1)) FROM broker.subscription s
            LEFT JOIN broker.cursor c
                ON c.subscription_id = s.subscription_id AND c.partition_id = p.partition_id
            WHERE s.topic_id = p.topic_id
        )) AS last_offset
    FROM broker.partition p JOIN broker.partition_live l USING (partition_id)
    WHERE p.online AND (p.retention_ms IS NOT NULL OR p.retention_bytes IS NOT NULL)
    AND (%(partition_id)s::bigint IS NULL OR p.partition_id = %(partition_id)s)
), aged AS (
    SELECT b.partition_id, b.topic, b.number, s.last_offset,
        s.last_offset <= b.last_offset AND (
            s.sealed_at
                < clock_timestamp() - least(b.retention_ms, 3153600000000) * interval '1 millisecond'
            OR b.retention_bytes <= sum(coalesce(s.bytes, b.segment_bytes)) OVER (
                PARTITION BY b.partition_id ORDER BY s.first_offset DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        ) AS expired
    FROM bound b JOIN broker.segment s USING (partition_id)
    WHERE s.first_offset >= b.log_start_offset
)
SELECT partition_id, topic, number, last_offset + 1 AS log_start_offset
FROM aged WHERE expired ORDER BY partition_id, last_offset LIMIT %(limit)s

-- remember_producers --
-- Keeps the newest batch that each producer has in the part of the log that is dropped.
INSERT INTO broker.producer AS p
SELECT DISTINCT ON (e.producer_name)
    e.partition_id, e.producer_name, e.sequence_id, e.ledger_id, e.first_offset, e.last_offset,
    e.publish_time
FROM broker.entry e
WHERE e.partition_id = %(partition_id)s AND e.last_offset < %(log_start_offset)s
AND e.last_offset >= (
    SELECT log_start_offset FROM broker.partition WHERE partition_id = %(partition_id)s
)
AND e.tc_id IS NULL AND e.producer_name IS NOT NULL
ORDER BY e.producer_name, e.sequence_id DESC
ON CONFLICT (partition_id, producer_name) DO UPDATE SET
    sequence_id = excluded.sequence_id, ledger_id = excluded.ledger_id,
    first_offset = excluded.first_offset, last_offset = excluded.last_offset,
    published_at = excluded.published_at
WHERE excluded.sequence_id > p.sequence_id

-- forget_producers --
-- Forgets producers of which nothing has been dropped for so long. Those with batches in the log
-- are still known from these.
DELETE FROM broker.producer p USING (
    SELECT partition_id, producer_name FROM broker.producer
    WHERE published_at < statement_timestamp() - %(kept_ms)s::bigint * interval '1 millisecond'
    ORDER BY published_at LIMIT %(limit)s
) old
WHERE p.partition_id = old.partition_id AND p.producer_name = old.producer_name

-- hold_partition --
-- Locks the record, before the head is locked; inserts that refer to the partition go on.
SELECT * FROM broker.partition WHERE partition_id = %(partition_id)s FOR NO KEY UPDATE

-- hold_with_sidecar --
-- The same for the record of a partition and that of its sidecar log, which comes after it.
SELECT * FROM broker.partition
WHERE partition_id = %(partition_id)s OR sidecar_of = %(partition_id)s
ORDER BY partition_id FOR NO KEY UPDATE

-- move_log_start --
-- From now on everything below is gone for everybody. A snapshot from before would bring back
-- transactions whose marker is gone. So it is deleted too, and the buffer counts as changed, so
-- that the next sweep takes another.
WITH moved AS (
    UPDATE broker.partition SET log_start_offset = %(log_start_offset)s
    WHERE partition_id = %(partition_id)s AND log_start_offset < %(log_start_offset)s
    RETURNING partition_id
), unusable AS (
    DELETE FROM broker.snapshot s USING moved
    WHERE s.partition_id = moved.partition_id AND s.position < %(log_start_offset)s - 1
)
UPDATE broker.partition_live l SET
    log_start_offset = %(log_start_offset)s, changes = l.changes + %(changes)s
FROM moved WHERE l.partition_id = moved.partition_id

-- lock_cursors_behind --
-- Locks cursors that lie below their log's start, so that nobody acknowledges by them until they are
-- moved. In the order in which ends lock them (engine/coordinator/broker_ends.py).
SELECT c.subscription_id, c.partition_id
FROM broker.cursor c JOIN broker.partition p USING (partition_id)
JOIN broker.subscription s USING (subscription_id)
WHERE c.mark_delete < p.log_start_offset - 1
ORDER BY s.topic_id, s.name COLLATE "C", c.partition_id FOR UPDATE OF c

-- advance_cursors --
-- For cursors that the log's start has passed, as in a compacted log: everything below it counts as
-- acknowledged. What a transaction holds there waits for its end: it cannot be deleted and pending.
-- Of those that lock_cursors_behind has locked before: of another, which has fallen behind since,
-- somebody may be claiming something that is not seen here, and waiting for it would not show it.
WITH behind AS (
    SELECT c.subscription_id, c.partition_id, p.log_start_offset AS start,
        c.acked * int8multirange(int8range(p.log_start_offset, NULL)) AS acked
    FROM unnest(%(subscription_ids)s::bigint[], %(partition_ids)s::bigint[])
        AS l (subscription_id, partition_id)
    JOIN broker.cursor c USING (subscription_id, partition_id)
    JOIN broker.partition p USING (partition_id)
    WHERE c.mark_delete < p.log_start_offset - 1
    AND NOT EXISTS (
        SELECT FROM broker.pending_ack a WHERE a.subscription_id = c.subscription_id
        AND a.partition_id = c.partition_id AND lower(a.ranges) < p.log_start_offset
    )
    LIMIT %(limit)s
), moved AS (
    SELECT b.*, CASE WHEN lower(b.acked) = b.start
        THEN (SELECT r FROM unnest(b.acked) AS r ORDER BY r LIMIT 1) END AS run
    FROM behind b
)
UPDATE broker.cursor c SET
    mark_delete = coalesce(upper(l.run), l.start) - 1,
    acked = CASE WHEN l.run IS NULL THEN l.acked ELSE l.acked - int8multirange(l.run) END
FROM moved l
WHERE c.subscription_id = l.subscription_id AND c.partition_id = l.partition_id

-- expired_segments --
-- Partitions with sealed segments below the log's start, whose rows are still to be deleted; with
-- the second key of their sidecar log, where committed messages are at the same offsets. In any
-- order, so that none is always last.
SELECT p.partition_id, p.log_start_offset, min(s.first_offset) AS first_offset,
    (SELECT compacted_id FROM broker.partition WHERE sidecar_of = p.partition_id) AS compacted_id
FROM broker.segment s JOIN broker.partition p USING (partition_id)
WHERE p.log_start_offset > 0 AND s.last_offset < p.log_start_offset
GROUP BY p.partition_id, p.log_start_offset
ORDER BY random()

-- drop_entries --
-- Deletes the oldest entries in [from, upper); returns where the next step begins.
WITH oldest AS (
    SELECT last_offset FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
    AND last_offset < %(upper)s
    ORDER BY last_offset LIMIT %(limit)s
), dropped AS (
    DELETE FROM broker.entry e USING (SELECT max(last_offset) AS last_offset FROM oldest) o
    WHERE e.partition_id = %(partition_id)s AND e.last_offset >= %(from_offset)s
    AND e.last_offset <= o.last_offset
    RETURNING e.last_offset
)
SELECT count(*) AS entries, max(last_offset) + 1 AS next_offset FROM dropped

-- drop_index --
-- Deletes the oldest index rows below an offset, and counts them in the partition's record; returns
-- how many.
WITH dropped AS (
    DELETE FROM broker.txn_index i USING (
        SELECT last_offset FROM broker.txn_index
        WHERE partition_id = %(partition_id)s AND last_offset < %(upper)s
        ORDER BY last_offset LIMIT %(limit)s
    ) o
    WHERE i.partition_id = %(partition_id)s AND i.last_offset = o.last_offset
    RETURNING i.aborted
), counted AS (
    UPDATE broker.partition SET
        aborted_dropped = aborted_dropped + (SELECT count(*) FROM dropped WHERE aborted)
    WHERE partition_id = %(partition_id)s AND EXISTS (SELECT FROM dropped WHERE aborted)
)
SELECT count(*) AS rows FROM dropped

-- uncounted_segments --
-- Sealed segments, wholly at or below the stable position, that some subscription has not read, and
-- for which the number of offsets that no reader gets is not known yet. In a system topic that
-- number is never final, because it is compacted.
SELECT s.partition_id, s.ledger_id FROM broker.segment s
JOIN broker.partition p USING (partition_id)
JOIN broker.partition_live l USING (partition_id)
WHERE s.unseen IS NULL AND s.sealed_at IS NOT NULL AND p.online
AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%'
AND s.last_offset < coalesce(l.first_ongoing_offset, l.next_offset)
AND s.last_offset > (
    SELECT min(c.mark_delete) FROM broker.subscription u
    JOIN broker.cursor c USING (subscription_id)
    WHERE u.topic_id = p.topic_id AND c.partition_id = p.partition_id
)
ORDER BY s.partition_id, s.last_offset LIMIT %(limit)s

-- share_partition --
-- While this lock is held, nobody truncates the partition or takes it offline; appends and ends go
-- on.
SELECT FROM broker.partition WHERE partition_id = %(partition_id)s AND online FOR SHARE

-- uncounted_segment --
SELECT s.first_offset, s.last_offset FROM broker.segment s
JOIN broker.partition_live l USING (partition_id)
WHERE s.partition_id = %(partition_id)s AND s.ledger_id = %(ledger_id)s
AND s.unseen IS NULL AND s.last_offset < coalesce(l.first_ongoing_offset, l.next_offset)

-- count_segment --
UPDATE broker.segment SET unseen = %(unseen)s
WHERE partition_id = %(partition_id)s AND ledger_id = %(ledger_id)s

-- drop_segments --
DELETE FROM broker.segment WHERE partition_id = %(partition_id)s AND last_offset < %(upper)s

-- dropped_partitions --
SELECT partition_id FROM broker.dropped_partition ORDER BY dropped_at LIMIT %(limit)s

-- forget_dropped_partition --
DELETE FROM broker.dropped_partition WHERE partition_id = %(partition_id)s

-- system_partitions --
SELECT p.partition_id FROM broker.partition p
JOIN broker.partition_live l USING (partition_id)
WHERE split_part(p.topic, '/', 3) = %(topic)s

-- compact_snapshots --
-- Deletes entries of a system topic to which no partition's record of snapshots refers any more.
-- The last entry stays, because the log's end is found by it. A snapshot's entry and its record
-- become visible together.
DELETE FROM broker.entry e USING (
    SELECT last_offset FROM broker.entry o
    WHERE o.partition_id = %(partition_id)s
    AND o.last_offset < (
        SELECT max(last_offset) FROM broker.entry WHERE partition_id = %(partition_id)s
    )
    AND NOT EXISTS (
        SELECT FROM broker.snapshot s
        WHERE s.system_partition_id = o.partition_id AND s.system_offset = o.last_offset
    )
    ORDER BY last_offset LIMIT %(limit)s
) o
WHERE e.partition_id = %(partition_id)s AND e.last_offset = o.last_offset

-- emptied_until --
-- The first entry of a compacted log: segments wholly before it are empty.
SELECT s.first_offset AS log_start_offset FROM broker.segment s
WHERE s.partition_id = %(partition_id)s AND s.first_offset <= (
    SELECT min(e.first_offset) FROM broker.entry e WHERE e.partition_id = %(partition_id)s
)
ORDER BY s.first_offset DESC LIMIT 1

-- trim_pending_ack_log --
-- Deletes steps whose messages are all at or below the mark-delete position: they have no effect
-- any more. An array makes PostgreSQL find them by their key.
DELETE FROM broker.pending_ack_log WHERE log_id = ANY (ARRAY(
    SELECT g.log_id FROM broker.cursor c
    CROSS JOIN LATERAL (
        SELECT log_id FROM broker.pending_ack_log
        WHERE subscription_id = c.subscription_id AND partition_id = c.partition_id
        AND upper(ranges) <= c.mark_delete + 1 OFFSET 0
    ) g
    LIMIT %(limit)s
))

-- set_online --
-- Sets it in the record and in the head, which the caller has locked and which may be missing. A
-- sidecar log goes with its partition.
WITH live AS (
    UPDATE broker.partition_live SET online = %(online)s WHERE partition_id IN (
        SELECT %(partition_id)s
        UNION ALL SELECT partition_id FROM broker.partition WHERE sidecar_of = %(partition_id)s
    )
)
UPDATE broker.partition SET online = %(online)s, offline_reason = %(reason)s
WHERE partition_id IN (
    SELECT %(partition_id)s
    UNION ALL SELECT partition_id FROM broker.partition WHERE sidecar_of = %(partition_id)s
)

-- drop_head --
DELETE FROM broker.partition_live WHERE partition_id IN (
    SELECT %(partition_id)s
    UNION ALL SELECT partition_id FROM broker.partition WHERE sidecar_of = %(partition_id)s
)

-- truncate --
-- See functions/broker/truncate.sql.
SELECT * FROM broker.truncate(
    %(partition_id)s, %(offset)s::bigint, %(limit)s, %(decided)s::text[], %(end)s
)

-- end_orphans --
-- See functions/broker/end_orphans.sql.
SELECT * FROM broker.end_orphans(
    %(partition_id)s, %(tc_ids)s, %(sequences)s, %(aborts)s
)
