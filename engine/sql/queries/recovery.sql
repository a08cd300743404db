-- lock_partition --
-- Allows one recovery at a time, by locking the record, since the head may be gone.
SELECT * FROM broker.partition WHERE partition_id = %(partition_id)s FOR UPDATE

-- has_head --
SELECT 1 FROM broker.partition_live WHERE partition_id = %(partition_id)s

-- snapshots --
-- The newest snapshots, each with the entry of the system topic that has its content.
SELECT s.position, s.taken_at, e.body FROM broker.snapshot s
LEFT JOIN broker.entry e
    ON e.partition_id = s.system_partition_id AND e.last_offset = s.system_offset
WHERE s.partition_id = %(partition_id)s ORDER BY s.position DESC LIMIT 3

-- headers_after --
-- What the entries after a position mean for the buffer, by transaction; bodies are not read. What
-- retention has dropped is gone, also where its rows are not deleted yet.
SELECT tc_id, sequence,
    min(first_offset) FILTER (WHERE kind = 'D') AS first_offset,
    max(last_offset) FILTER (WHERE kind = 'D') AS last_offset,
    coalesce(sum(last_offset - first_offset + 1) FILTER (WHERE kind = 'D'), 0)::bigint AS messages,
    min(publish_time) FILTER (WHERE kind = 'D') AS first_append_at,
    max(last_offset) FILTER (WHERE kind <> 'D') AS marker_offset
FROM broker.entry
WHERE partition_id = %(partition_id)s AND last_offset >= greatest(%(position)s + 1, (
    SELECT p.log_start_offset FROM broker.partition p WHERE p.partition_id = %(partition_id)s
)) AND tc_id IS NOT NULL
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
-- What it has counted since its last sample is lost.
INSERT INTO broker.partition_live (
    partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset, segment_entries,
    segment_bytes, first_ongoing_offset, ongoing_txns, aborted_txns, changes, snapshot_position,
    snapshot_at, online, segment_max_messages, segment_max_bytes, deduplication, ends, aborts, markers
)
SELECT
    p.partition_id, %(next_offset)s, %(log_start_offset)s, %(ledger_id)s,
    %(segment_first_offset)s, %(segment_entries)s, %(segment_bytes)s, %(first_ongoing_offset)s,
    %(ongoing_txns)s, %(aborted_txns)s, %(changes)s, %(snapshot_position)s, %(snapshot_at)s,
    p.online, p.segment_max_messages, p.segment_max_bytes, p.deduplication,
    coalesce(s.ends, 0), coalesce(s.aborts, 0), coalesce(s.markers, 0)
FROM broker.partition p
LEFT JOIN LATERAL (
    SELECT * FROM broker.position_sample x WHERE x.partition_id = p.partition_id
    ORDER BY x.at DESC LIMIT 1
) s ON true
WHERE p.partition_id = %(partition_id)s

-- clear_ongoing --
DELETE FROM broker.ongoing_txn WHERE partition_id = %(partition_id)s

-- restore_ongoing --
INSERT INTO broker.ongoing_txn
SELECT %(partition_id)s, * FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(first_offsets)s::bigint[],
    %(last_offsets)s::bigint[], %(messages)s::bigint[], %(first_append_ats)s::timestamptz[]
)

-- record_recovery --
-- How long a recovery took; the last twenty of a partition are kept.
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
-- Partitions that a crash of the database has left without their derived state. In another order each
-- time, here and below: those that cannot be helped, however many, do not come before the same others
-- in the next sweep.
SELECT p.partition_id, p.topic, p.number, p.sidecar_of IS NOT NULL AS is_sidecar
FROM broker.partition p
WHERE NOT EXISTS (SELECT FROM broker.partition_live l WHERE l.partition_id = p.partition_id)
ORDER BY random() LIMIT %(limit)s

-- snapshot_due --
-- Partitions whose buffer has changed often enough, or long enough ago (semantics §5); and those
-- whose log has grown far beyond their snapshot, so that recovery never has far to read. One that was taken
-- later than now is of before the clock has gone back.
SELECT l.partition_id, p.topic, p.number, p.sidecar_of IS NOT NULL AS is_sidecar
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.changes >= %(max_changes)s OR (l.changes > 0 AND (l.snapshot_at IS NULL
    OR l.snapshot_at NOT BETWEEN clock_timestamp() - %(interval_ms)s * interval '1 millisecond'
        AND clock_timestamp()))
OR (l.next_offset - coalesce(l.snapshot_position, l.log_start_offset - 1) > %(max_distance)s
    AND split_part(p.topic, '/', 3) NOT LIKE '\_\_%%')
ORDER BY random() LIMIT %(limit)s

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

-- stands_still --
-- Whether what a snapshot covers up to a position is in the log still: not cut since (the ledger that
-- was open then reaches up to it), nor gone with older segments: whose first messages are gone has ended,
-- and may be open again, by those that are left, since its end was cut. The caller holds the head's lock.
SELECT FROM broker.segment s JOIN broker.partition_live l USING (partition_id)
WHERE s.partition_id = %(partition_id)s AND s.ledger_id = %(ledger_id)s
AND (s.sealed_at IS NULL OR s.last_offset >= %(position)s)
AND %(stable_position)s >= l.log_start_offset - 1

-- note_snapshot --
-- Changes that came while it was taken count for the next one.
UPDATE broker.partition_live SET
    changes = greatest(changes - %(changes)s, 0), snapshot_position = %(position)s, snapshot_at = %(taken_at)s
WHERE partition_id = %(partition_id)s
