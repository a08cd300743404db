-- create_partition --
-- Makes the record, its first segment and its head; does nothing to one that exists.
WITH made AS (
    INSERT INTO broker.partition (
        topic_id, topic, number, buffer, segment_max_messages, segment_max_bytes, retention_ms,
        retention_bytes, deduplication
    ) VALUES (
        %(topic_id)s, %(topic)s, %(number)s, %(buffer)s, %(segment_max_messages)s,
        %(segment_max_bytes)s, %(retention_ms)s, %(retention_bytes)s, %(deduplication)s
    )
    ON CONFLICT (topic_id, number) DO NOTHING
    RETURNING partition_id
), segment AS (
    INSERT INTO broker.segment (partition_id, ledger_id, first_offset)
    SELECT partition_id, nextval('broker.ledger_id_seq'), 0 FROM made
    RETURNING partition_id, ledger_id
)
INSERT INTO broker.partition_live (
    partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset, segment_entries,
    segment_bytes, ongoing_txns, aborted_txns, changes, online, segment_max_messages,
    segment_max_bytes, deduplication
)
SELECT
    partition_id, 0, 0, ledger_id, 0, 0, 0, 0, 0, 0, true, %(segment_max_messages)s,
    %(segment_max_bytes)s, %(deduplication)s
FROM segment

-- set_retention --
-- How long the partitions of a topic keep their messages.
UPDATE broker.partition SET
    retention_ms = %(retention_ms)s, retention_bytes = %(retention_bytes)s
WHERE topic_id = %(topic_id)s
AND (retention_ms, retention_bytes) IS DISTINCT FROM
    (%(retention_ms)s::bigint, %(retention_bytes)s::bigint)

-- first_entry --
-- Where the first entry from an offset on begins; a compacted log has gaps.
SELECT first_offset, ledger_id FROM broker.entry
WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
ORDER BY last_offset LIMIT 1

-- partition_ids --
SELECT topic_id, number, partition_id FROM broker.partition
WHERE topic_id = ANY (%(topic_ids)s::bigint[])

-- lock_topic_records --
-- The records of a topic's partitions on this broker: a subscription that is being made comes first.
-- An append that holds a head may still write what belongs to the record.
SELECT partition_id FROM broker.partition WHERE topic_id = %(topic_id)s
ORDER BY partition_id FOR NO KEY UPDATE

-- hold_topic_records --
-- Keeps a topic from being deleted on this broker.
SELECT partition_id FROM broker.partition WHERE topic_id = %(topic_id)s
ORDER BY partition_id FOR SHARE

-- lock_topic --
-- The heads of a topic's partitions on this broker: what is being appended is deleted with the rest.
-- A sidecar log is made after its partition, so its head comes after the partition's.
SELECT l.partition_id FROM broker.partition p
LEFT JOIN broker.partition s ON s.sidecar_of = p.partition_id
JOIN broker.partition_live l ON l.partition_id IN (p.partition_id, s.partition_id)
WHERE p.topic_id = %(topic_id)s ORDER BY l.partition_id FOR UPDATE OF l

-- delete_topic --
-- A topic on this broker. Its entries and index rows have no foreign key; nobody finds them any
-- more, and retention deletes them in bounded steps.
WITH gone AS (
    DELETE FROM broker.partition WHERE partition_id IN (
        SELECT partition_id FROM broker.partition WHERE topic_id = %(topic_id)s
        UNION ALL
        SELECT s.partition_id FROM broker.partition p
        JOIN broker.partition s ON s.sidecar_of = p.partition_id
        WHERE p.topic_id = %(topic_id)s
    ) RETURNING partition_id, compacted_id
), live AS (
    DELETE FROM broker.partition_live l USING gone WHERE l.partition_id = gone.partition_id
), ongoing AS (
    DELETE FROM broker.ongoing_txn o USING gone WHERE o.partition_id = gone.partition_id
), dispatched AS (
    DELETE FROM broker.dispatch d USING gone WHERE d.partition_id = gone.partition_id
), subscribed AS (
    DELETE FROM broker.subscription WHERE topic_id = %(topic_id)s
)
INSERT INTO broker.dropped_partition (partition_id)
SELECT partition_id FROM gone
UNION ALL SELECT compacted_id FROM gone WHERE compacted_id IS NOT NULL
ON CONFLICT DO NOTHING

-- append --
-- See functions/broker/append.sql.
SELECT result, ledger_id, first_offset, last_offset, last_sequence_id, needs_snapshot
FROM broker.append(
    %(partition_id)s, %(messages)s::bigint[], %(bodies)s::bytea[], %(producers)s::text[],
    %(sequence_ids)s::bigint[], %(tc_ids)s::integer[], %(sequences)s::bigint[]
)

-- append_plain --
-- As functions/broker/append.sql does for one batch outside transactions whose producer is not asked for,
-- where nothing is to be judged: two thirds of its cost. No row: the partition takes nothing now, or
-- its segment is full, and that function has to see to it. The head's lock is waited for with the
-- UPDATE, which then takes the head as it stands.
WITH head AS (
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + %(messages)s::bigint,
        segment_entries = l.segment_entries + 1,
        segment_bytes = l.segment_bytes + length(%(body)s::bytea)
    WHERE l.partition_id = %(partition_id)s AND l.online AND (
        l.segment_entries = 0 OR (
            l.next_offset - l.segment_first_offset + %(messages)s::bigint <= l.segment_max_messages
            AND l.segment_bytes + length(%(body)s::bytea) <= l.segment_max_bytes
        )
    )
    RETURNING l.partition_id, l.next_offset, l.ledger_id
)
INSERT INTO broker.entry
    (partition_id, last_offset, first_offset, ledger_id, kind, publish_time, body)
SELECT partition_id, next_offset - 1, next_offset - %(messages)s::bigint, ledger_id, 'D',
    clock_timestamp(), %(body)s::bytea
FROM head
RETURNING ledger_id, first_offset, last_offset

-- append_ongoing --
-- As append_plain, in a transaction that is ongoing in the partition: what is ongoing has not ended, since
-- an end takes it out under the head's lock. The head is locked first, then all is read as it
-- stands; without the transaction nothing is taken.
WITH head AS MATERIALIZED (
    SELECT l.next_offset FROM broker.partition_live l
    WHERE l.partition_id = %(partition_id)s AND l.online AND (
        l.segment_entries = 0 OR (
            l.next_offset - l.segment_first_offset + %(messages)s::bigint <= l.segment_max_messages
            AND l.segment_bytes + length(%(body)s::bytea) <= l.segment_max_bytes
        )
    )
    FOR UPDATE
), noted AS (
    UPDATE broker.ongoing_txn o SET
        last_offset = head.next_offset + %(messages)s::bigint - 1,
        messages = o.messages + %(messages)s::bigint
    FROM head
    WHERE o.partition_id = %(partition_id)s AND o.tc_id = %(tc_id)s::integer
    AND o.sequence = %(sequence)s::bigint
    RETURNING o.last_offset
), taken AS (
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + %(messages)s::bigint,
        segment_entries = l.segment_entries + 1,
        segment_bytes = l.segment_bytes + length(%(body)s::bytea)
    FROM noted WHERE l.partition_id = %(partition_id)s
    RETURNING l.next_offset, l.ledger_id
)
INSERT INTO broker.entry (
    partition_id, last_offset, first_offset, ledger_id, kind, tc_id, sequence, publish_time, body
)
SELECT %(partition_id)s, next_offset - 1, next_offset - %(messages)s::bigint, ledger_id, 'D',
    %(tc_id)s::integer, %(sequence)s::bigint, clock_timestamp(), %(body)s::bytea
FROM taken
RETURNING ledger_id, first_offset, last_offset

-- end_txns_on --
-- See functions/broker/end_txns_on.sql.
SELECT error, first_offset, last_offset, messages, marker_offset FROM broker.end_txns_on(
    %(topic_ids)s, %(numbers)s, %(upto)s, %(tc_ids)s, %(sequences)s, %(aborts)s, %(mark_tcs)s,
    %(marks)s
)

-- head --
-- Positions of one partition. No row: it has to be rebuilt first, or does not exist.
SELECT
    l.*, p.topic, p.topic_id, p.number, p.buffer, clock_timestamp() AS now,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.partition_id = %(partition_id)s

-- awaited_heads --
-- How far the partitions can be read that somebody waits for (engine/subscription/arrivals.py).
SELECT partition_id, next_offset - 1 AS last_offset,
    coalesce(first_ongoing_offset, next_offset) - 1 AS stable_position
FROM broker.partition_live WHERE partition_id = ANY (%(partition_ids)s::bigint[])

-- fetch --
-- The head of a marker-buffered partition, its entries with an offset in [from, upper), if asked up
-- to the stable position and then with the aborted transactions that meet them (as
-- aborted_overlapping finds them): one row, of one snapshot. Bodies are cut at max_bytes, but the
-- first is always whole. No row: the partition has to be rebuilt first, or does not exist.
WITH head AS MATERIALIZED (
    SELECT online, next_offset, log_start_offset,
        coalesce(first_ongoing_offset, next_offset) - 1 AS stable_position
    FROM broker.partition_live WHERE partition_id = %(partition_id)s
), fence AS MATERIALIZED (
    SELECT least(
        %(upper)s::bigint, CASE WHEN %(committed)s THEN stable_position + 1 ELSE next_offset END
    ) AS upper FROM head
)
SELECT h.online, h.next_offset, h.log_start_offset, h.stable_position,
    e.kinds, e.first_offsets, e.last_offsets, e.ledger_ids, e.tcs, e.sequences, e.sequence_ids,
    e.publish_times, e.producer_names, e.bodies,
    a.aborted_tcs, a.aborted_sequences, a.aborted_firsts, a.aborted_lasts
FROM head h
CROSS JOIN (
    SELECT array_agg(e.kind::text) AS kinds, array_agg(e.first_offset) AS first_offsets,
        array_agg(e.last_offset) AS last_offsets, array_agg(e.ledger_id) AS ledger_ids,
        array_agg(e.tc_id) AS tcs, array_agg(e.sequence) AS sequences,
        array_agg(e.sequence_id) AS sequence_ids, array_agg(e.publish_time) AS publish_times,
        array_agg(e.producer_name) AS producer_names, array_agg(e.body) AS bodies
    FROM (
        SELECT e.*, coalesce(sum(broker.body_bytes(e.body)) OVER (ORDER BY e.last_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
        FROM broker.entry e
        WHERE e.partition_id = %(partition_id)s
        AND e.last_offset >= %(from_offset)s
        AND e.last_offset <= (
            SELECT b.last_offset FROM broker.entry b
            WHERE b.partition_id = %(partition_id)s
            AND b.last_offset >= (SELECT upper FROM fence) - 1
            ORDER BY b.last_offset LIMIT 1
        )
        AND e.first_offset < (SELECT upper FROM fence)
        ORDER BY e.last_offset
    ) e WHERE e.bytes_before < %(max_bytes)s OR e.bytes_before = 0
) e
CROSS JOIN (
    SELECT array_agg(x.tc_id) AS aborted_tcs, array_agg(x.sequence) AS aborted_sequences,
        array_agg(x.first_offset) AS aborted_firsts, array_agg(x.last_offset) AS aborted_lasts
    FROM (
        SELECT tc_id, sequence, first_offset, last_offset FROM broker.txn_index
        WHERE %(committed)s AND aborted
        AND int8range(partition_id, partition_id, '[]') @> %(partition_id)s::bigint
        AND int8range(first_offset, last_offset, '[]')
            && int8range(%(from_offset)s, %(upper)s, '[)')
        ORDER BY last_offset
    ) x
) a

-- all_entries --
-- A partition's entries with an offset in [from, upper), to the end of the log; bodies are cut as
-- fetch cuts them.
SELECT * FROM (
    SELECT e.*, e.first_offset AS entry_id,
        coalesce(sum(broker.body_bytes(e.body)) OVER (ORDER BY e.last_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
    FROM broker.entry e
    WHERE e.partition_id = %(partition_id)s
    AND e.last_offset >= %(from_offset)s
    AND e.last_offset <= coalesce((
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(partition_id)s AND b.last_offset >= %(upper)s - 1
        ORDER BY b.last_offset LIMIT 1
    ), %(upper)s)
) e WHERE bytes_before < %(max_bytes)s OR bytes_before = 0
ORDER BY last_offset

-- committed_order --
-- See functions/broker/committed_order.sql.
SELECT readable_at, (entry).*, (entry).first_offset AS entry_id FROM broker.committed_order(
    %(partition_id)s, %(from_offset)s, %(within)s, %(max_messages)s, %(max_bytes)s
)

-- aborted_overlapping --
-- The aborted transactions whose span from first offset to marker meets [from, upper). After the
-- first row with last_stable_offset >= upper no later one can start below upper, so this is what
-- Kafka's scan with its stop rule answers, at the cost of the answer alone (semantics §4.2).
SELECT * FROM broker.txn_index
WHERE aborted AND int8range(partition_id, partition_id, '[]') @> %(partition_id)s::bigint
AND int8range(first_offset, last_offset, '[]') && int8range(%(from_offset)s, %(upper)s, '[)')
ORDER BY last_offset

-- ended_along --
-- Ended transactions along a partition: at each of so many places the one with the next marker. The
-- order over partitions is the primary key's alone, whatever has been counted.
SELECT DISTINCT i.last_offset, i.first_offset, i.aborted
FROM unnest(%(places)s::bigint[]) place
CROSS JOIN LATERAL (
    SELECT partition_id, last_offset, first_offset, aborted FROM broker.txn_index
    WHERE (partition_id, last_offset) >= (%(partition_id)s, place)
    ORDER BY partition_id, last_offset LIMIT 1
) i WHERE i.partition_id = %(partition_id)s ORDER BY i.last_offset

-- producers --
-- Producers by their names, each with its newest batch outside transactions; of one that has none
-- in the log any more, what retention remembers. From name to name by the index (written as it is,
-- migration 0014), however many batches there are.
WITH RECURSIVE named AS (
    (
        SELECT producer_name, 1 AS place FROM broker.entry
        WHERE partition_id + 0 = %(partition_id)s AND tc_id IS NULL AND producer_name IS NOT NULL
        ORDER BY producer_name LIMIT 1
    )
    UNION ALL
    SELECT following.producer_name, n.place + 1 FROM named n
    CROSS JOIN LATERAL (
        SELECT e.producer_name FROM broker.entry e
        WHERE e.partition_id + 0 = %(partition_id)s AND e.tc_id IS NULL
        AND e.producer_name > n.producer_name
        ORDER BY e.producer_name LIMIT 1
    ) following
    WHERE n.place < %(limit)s::integer
)
(
    SELECT n.producer_name, newest.sequence_id, newest.last_offset, newest.publish_time,
        false AS dropped
    FROM named n
    CROSS JOIN LATERAL (
        SELECT e.sequence_id, e.last_offset, e.publish_time FROM broker.entry e
        WHERE e.partition_id + 0 = %(partition_id)s AND e.tc_id IS NULL
        AND e.producer_name = n.producer_name
        ORDER BY e.sequence_id DESC LIMIT 1
    ) newest
)
UNION ALL
(
    SELECT p.producer_name, p.sequence_id, p.last_offset, p.published_at, true
    FROM broker.producer p
    WHERE p.partition_id = %(partition_id)s AND NOT EXISTS (
        SELECT FROM broker.entry e
        WHERE e.partition_id + 0 = p.partition_id AND e.tc_id IS NULL
        AND e.producer_name = p.producer_name
    )
    ORDER BY p.producer_name LIMIT %(limit)s::integer
)
ORDER BY producer_name LIMIT %(limit)s::integer

-- aborted_index --
-- Rows of the aborted-transaction index from a marker's offset on, of one segment or of all. Looks
-- at scan_limit ended transactions at most; the last of so many comes too, to go on after it.
SELECT * FROM (
    SELECT *, row_number() OVER (ORDER BY last_offset) = %(scan_limit)s AS scanned
    FROM broker.txn_index
    WHERE partition_id = %(partition_id)s
    AND last_offset >= greatest(%(from_offset)s, (
        SELECT s.first_offset FROM broker.segment s
        WHERE s.partition_id = %(partition_id)s AND s.ledger_id = %(ledger_id)s
    ))
    AND last_offset <= CASE WHEN %(ledger_id)s::bigint IS NULL THEN %(max_offset)s ELSE (
        SELECT coalesce(s.last_offset, %(max_offset)s) FROM broker.segment s
        WHERE s.partition_id = %(partition_id)s AND s.ledger_id = %(ledger_id)s
    ) END
    ORDER BY last_offset LIMIT %(scan_limit)s
) i WHERE aborted OR scanned ORDER BY last_offset LIMIT %(limit)s

-- ongoing --
-- By their first offset; in a sidecar-buffered partition, those of its sidecar log, at its offsets.
SELECT * FROM broker.ongoing_txn WHERE ordered_in = coalesce(
    (SELECT partition_id FROM broker.partition WHERE sidecar_of = %(partition_id)s),
    %(partition_id)s
) AND first_offset > %(above)s
ORDER BY first_offset LIMIT %(limit)s

-- ongoing_in_log --
-- Those of one log, which may be a sidecar.
SELECT * FROM broker.ongoing_txn WHERE ordered_in = %(partition_id)s ORDER BY first_offset

-- ongoing_overlapping --
SELECT tc_id, sequence, first_offset FROM broker.ongoing_txn
WHERE ordered_in = %(partition_id)s
AND first_offset < %(upper)s AND last_offset >= %(from_offset)s

-- ongoing_of_txn --
-- What a transaction has written so far in a partition, or in its sidecar log.
SELECT * FROM broker.ongoing_txn
WHERE partition_id = coalesce(
    (SELECT partition_id FROM broker.partition WHERE sidecar_of = %(partition_id)s),
    %(partition_id)s
)
AND tc_id = %(tc_id)s AND sequence = %(sequence)s

-- segments --
SELECT s.partition_id, s.ledger_id, s.first_offset, s.created_at, s.sealed_at, o.offloaded_at,
    coalesce(s.last_offset, l.next_offset - 1) AS last_offset,
    coalesce(s.entries, l.segment_entries) AS entries,
    coalesce(s.bytes, l.segment_bytes) AS bytes
FROM broker.segment s JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.offloaded_segment o
    ON o.partition_id = s.partition_id AND o.ledger_id = s.ledger_id
WHERE s.partition_id = %(partition_id)s AND s.first_offset >= l.log_start_offset
ORDER BY s.first_offset DESC LIMIT 500

-- low_water_marks --
SELECT tc_id, low_water_mark FROM broker.low_water_mark
WHERE partition_id = %(partition_id)s ORDER BY tc_id

-- newest_snapshot --
SELECT s.*, (extract(epoch FROM clock_timestamp() - s.taken_at) * 1000)::bigint AS age_ms
FROM broker.snapshot s WHERE s.partition_id = %(partition_id)s
ORDER BY s.position DESC LIMIT 1

-- statuses --
-- Positions of all partitions of a topic on this broker; next_offset is null while one recovers.
SELECT * FROM broker.partition_status WHERE topic_id = %(topic_id)s ORDER BY number

-- status --
-- As statuses, of one partition.
SELECT * FROM broker.partition_status WHERE partition_id = %(partition_id)s

-- held_back --
-- Partitions that an ongoing transaction holds back, the most hidden offsets first.
SELECT * FROM broker.partition_status WHERE first_ongoing_offset IS NOT NULL AND sidecar_of IS NULL
ORDER BY next_offset - first_ongoing_offset DESC, partition_id LIMIT %(limit)s

-- history --
SELECT at, stable_position, last_offset FROM broker.position_sample
WHERE partition_id = %(partition_id)s AND at > clock_timestamp() - %(since)s::interval
ORDER BY at DESC LIMIT 5000

-- sample_positions --
-- One sample of every partition that has moved since its last one. A head that is locked is left
-- to the next time: this waits for nobody, so its lock order does not matter.
WITH moved AS MATERIALIZED (
    SELECT l.partition_id FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
    WHERE (l.sampled_last, l.sampled_stable) IS DISTINCT FROM
        (l.next_offset - 1, coalesce(l.first_ongoing_offset, l.next_offset) - 1)
    AND p.sidecar_of IS NULL
    FOR UPDATE OF l SKIP LOCKED
), sampled AS (
    UPDATE broker.partition_live l SET
        sampled_stable = coalesce(l.first_ongoing_offset, l.next_offset) - 1,
        sampled_last = l.next_offset - 1
    FROM moved WHERE l.partition_id = moved.partition_id
    RETURNING l.partition_id, l.sampled_stable, l.sampled_last
)
INSERT INTO broker.position_sample (partition_id, stable_position, last_offset)
SELECT partition_id, sampled_stable, sampled_last FROM sampled
ON CONFLICT DO NOTHING

-- trim_samples --
DELETE FROM broker.position_sample
WHERE (partition_id, at) IN (
    SELECT partition_id, at FROM broker.position_sample
    WHERE at < clock_timestamp() - %(keep)s::interval LIMIT 5000
)

-- lock_partition --
-- One recovery at a time; the record's lock, since the head may be gone.
SELECT * FROM broker.partition WHERE partition_id = %(partition_id)s FOR UPDATE

-- has_head --
SELECT 1 FROM broker.partition_live WHERE partition_id = %(partition_id)s

-- snapshots --
-- The newest snapshots, with the system topic's entry that holds the content.
SELECT s.position, s.system_offset, s.taken_at, e.body FROM broker.snapshot s
LEFT JOIN broker.entry e
    ON e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset
WHERE s.partition_id = %(partition_id)s ORDER BY s.position DESC LIMIT 3

-- headers_after --
-- What the entries after a position mean for the buffer, by transaction; bodies are not read.
SELECT tc_id, sequence,
    min(first_offset) FILTER (WHERE kind = 'D') AS first_offset,
    max(last_offset) FILTER (WHERE kind = 'D') AS last_offset,
    coalesce(sum(last_offset - first_offset + 1) FILTER (WHERE kind = 'D'), 0)::bigint AS messages,
    min(publish_time) FILTER (WHERE kind = 'D') AS first_append_at,
    max(last_offset) FILTER (WHERE kind <> 'D') AS marker_offset
FROM broker.entry
WHERE partition_id = %(partition_id)s AND last_offset > %(position)s AND tc_id IS NOT NULL
GROUP BY tc_id, sequence

-- log_end --
SELECT
    coalesce((SELECT max(e.last_offset) FROM broker.entry e
        WHERE e.partition_id = %(partition_id)s), s.first_offset - 1) AS last_offset,
    s.ledger_id, s.first_offset AS segment_first_offset,
    (SELECT count(*) FROM broker.entry e WHERE e.partition_id = %(partition_id)s
        AND e.last_offset >= s.first_offset AND e.last_offset > %(position)s) AS entries_after,
    (SELECT coalesce(sum(coalesce(length(e.body), e.txn_bytes)), 0)::bigint FROM broker.entry e
        WHERE e.partition_id = %(partition_id)s
        AND e.last_offset >= s.first_offset AND e.last_offset > %(position)s) AS bytes_after,
    (SELECT count(*) FROM broker.txn_index i WHERE i.partition_id = %(partition_id)s
        AND i.last_offset > CASE WHEN p.sidecar_of IS NULL THEN %(position)s ELSE -1 END
        AND i.aborted) AS aborted_after,
    p.log_start_offset, p.aborted_dropped, p.sidecar_of IS NOT NULL AS is_sidecar
FROM broker.segment s JOIN broker.partition p USING (partition_id)
WHERE s.partition_id = %(partition_id)s AND s.sealed_at IS NULL

-- restore_head --
INSERT INTO broker.partition_live (
    partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset, segment_entries,
    segment_bytes, first_ongoing_offset, ongoing_txns, aborted_txns, changes, snapshot_position,
    snapshot_at, online, segment_max_messages, segment_max_bytes, deduplication
)
SELECT
    p.partition_id, %(next_offset)s, %(log_start_offset)s, %(ledger_id)s,
    %(segment_first_offset)s, %(segment_entries)s, %(segment_bytes)s, %(first_ongoing_offset)s,
    %(ongoing_txns)s, %(aborted_txns)s, %(changes)s, %(snapshot_position)s, %(snapshot_at)s,
    p.online, p.segment_max_messages, p.segment_max_bytes, p.deduplication
FROM broker.partition p WHERE p.partition_id = %(partition_id)s

-- clear_ongoing --
DELETE FROM broker.ongoing_txn WHERE partition_id = %(partition_id)s

-- restore_ongoing --
INSERT INTO broker.ongoing_txn
SELECT %(partition_id)s, * FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(first_offsets)s::bigint[],
    %(last_offsets)s::bigint[], %(messages)s::bigint[], %(first_append_ats)s::timestamptz[]
)

-- record_recovery --
-- How long a recovery took; a partition's last twenty are kept.
WITH old AS (
    DELETE FROM broker.recovery WHERE partition_id = %(partition_id)s AND at < (
        SELECT at FROM broker.recovery WHERE partition_id = %(partition_id)s
        ORDER BY at DESC OFFSET 19 LIMIT 1
    )
)
INSERT INTO broker.recovery (partition_id, snapshot_position, entries, duration_ms)
SELECT %(partition_id)s, %(snapshot_position)s, count(*), %(duration_ms)s FROM broker.entry
WHERE partition_id = %(partition_id)s AND last_offset > %(snapshot_position)s

-- headless --
-- Partitions that a crash of the database has left without their derived state.
SELECT p.partition_id, p.topic, p.number, p.sidecar_of IS NOT NULL AS is_sidecar
FROM broker.partition p
WHERE NOT EXISTS (SELECT FROM broker.partition_live l WHERE l.partition_id = p.partition_id)
LIMIT %(limit)s

-- snapshot_due --
-- Partitions whose buffer changed: often enough, or long enough ago (semantics §5); and those whose
-- log has grown far beyond their snapshot, so that recovery never has far to read.
SELECT l.partition_id, p.topic, p.number, p.sidecar_of IS NOT NULL AS is_sidecar
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.changes >= %(max_changes)s OR (l.changes > 0 AND (l.snapshot_at IS NULL
    OR l.snapshot_at < clock_timestamp() - %(interval_ms)s * interval '1 millisecond'))
OR (l.next_offset - coalesce(l.snapshot_position, l.log_start_offset - 1) > %(max_distance)s
    AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%')
LIMIT %(limit)s

-- lock_head --
SELECT * FROM broker.partition_live WHERE partition_id = %(partition_id)s FOR UPDATE

-- system_partition --
SELECT partition_id, number FROM broker.partition WHERE topic = %(topic)s LIMIT 1

-- record_snapshot --
WITH old AS (
    DELETE FROM broker.snapshot WHERE partition_id = %(partition_id)s
    AND position < (
        SELECT position FROM broker.snapshot WHERE partition_id = %(partition_id)s
        AND position <> %(position)s ORDER BY position DESC OFFSET 1 LIMIT 1
    )
)
INSERT INTO broker.snapshot AS s (partition_id, position, system_partition_id, system_offset)
VALUES (%(partition_id)s, %(position)s, %(system_partition_id)s, %(system_offset)s)
ON CONFLICT (partition_id, position) DO UPDATE
    SET system_offset = excluded.system_offset, taken_at = excluded.taken_at
RETURNING taken_at

-- note_snapshot --
UPDATE broker.partition_live SET
    changes = 0, snapshot_position = %(position)s, snapshot_at = %(taken_at)s
WHERE partition_id = %(partition_id)s
