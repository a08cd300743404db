-- head_and_ongoing --
-- What the head says of ongoing transactions, and which there are.
SELECT l.first_ongoing_offset, l.ongoing_txns, min(o.first_offset) AS lowest, count(o.tc_id) AS ongoing
FROM broker.partition_live l LEFT JOIN broker.ongoing_txn o ON o.ordered_in = l.partition_id
WHERE l.partition_id = %(partition_id)s GROUP BY l.first_ongoing_offset, l.ongoing_txns

-- samples_backwards --
-- Newest samples whose stable position is below that of an earlier one; the present counts as a
-- sample.
SELECT * FROM (
    SELECT at, stable_position, last_offset, max(stable_position) OVER (
        ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS stable_before
    FROM (
        (SELECT at, stable_position, last_offset FROM broker.position_sample
            WHERE partition_id = %(partition_id)s ORDER BY at DESC LIMIT 1000)
        UNION ALL
        SELECT clock_timestamp(), coalesce(first_ongoing_offset, next_offset) - 1, next_offset - 1
        FROM broker.partition_live WHERE partition_id = %(partition_id)s
    ) s
) s WHERE stable_position < stable_before ORDER BY at LIMIT 20

-- log_window --
-- The end of a window of entries from an offset on, and how many there are in it.
SELECT coalesce(max(last_offset), %(from_offset)s::bigint - 1) AS last_offset, count(*) AS entries
FROM (
    SELECT last_offset FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
    ORDER BY last_offset LIMIT %(limit)s
) e

-- gaps --
-- Entries that do not begin where the one before them ends, or where the log starts.
SELECT * FROM (
    SELECT first_offset, last_offset, lag(last_offset) OVER (ORDER BY last_offset) AS previous
    FROM broker.entry WHERE partition_id = %(partition_id)s
    AND last_offset >= coalesce((
        SELECT max(b.last_offset) FROM broker.entry b
        WHERE b.partition_id = %(partition_id)s AND b.last_offset < %(from_offset)s
    ), %(from_offset)s)
    AND last_offset <= %(to_offset)s
) e WHERE last_offset >= %(from_offset)s
AND first_offset <> coalesce(previous, %(log_start)s::bigint - 1) + 1
ORDER BY last_offset LIMIT 20

-- odd_markers --
-- Markers that are not the only one of their transaction, or that are followed by messages of it,
-- or that the fence contradicts, or that the fence does not know although no low water mark covers
-- them. A sidecar log has no fence of its own.
SELECT m.tc_id, m.sequence, m.kind::text, m.last_offset AS marker_offset, o.other_marker, o.data_after,
    f.aborted AS fence_aborted, w.low_water_mark
FROM broker.entry m
JOIN broker.partition p ON p.partition_id = m.partition_id
CROSS JOIN LATERAL (
    SELECT min(e.last_offset) FILTER (WHERE e.kind <> 'D') AS other_marker,
        max(e.last_offset) FILTER (WHERE e.kind = 'D' AND e.last_offset > m.last_offset) AS data_after
    FROM broker.entry e WHERE e.partition_id - 0 = m.partition_id AND e.tc_id - 0 = m.tc_id
    AND e.sequence - 0 = m.sequence AND e.last_offset <> m.last_offset
) o
LEFT JOIN LATERAL (
    SELECT * FROM broker.ended_txn x WHERE x.partition_id = m.partition_id
    AND x.tc_id = m.tc_id AND x.sequence = m.sequence OFFSET 0
) f ON true
LEFT JOIN broker.low_water_mark w ON w.partition_id = m.partition_id AND w.tc_id = m.tc_id
WHERE m.partition_id = %(partition_id)s AND m.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
AND m.kind <> 'D'
AND (
    o.other_marker IS NOT NULL OR o.data_after IS NOT NULL OR f.aborted <> (m.kind = 'A')
    OR (p.sidecar_of IS NULL AND f.tc_id IS NULL AND m.sequence > coalesce(w.low_water_mark, -1))
)
ORDER BY m.last_offset LIMIT 20

-- unindexed_markers --
-- Markers of transactions with messages that have no row in the index.
SELECT m.tc_id, m.sequence, m.kind::text, m.last_offset AS marker_offset, d.first_offset
FROM broker.entry m
CROSS JOIN LATERAL (
    SELECT e.first_offset FROM broker.entry e WHERE e.partition_id - 0 = m.partition_id
    AND e.tc_id - 0 = m.tc_id AND e.sequence - 0 = m.sequence AND e.kind = 'D' LIMIT 1
) d
WHERE m.partition_id = %(partition_id)s AND m.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
AND m.kind <> 'D' AND NOT EXISTS (
    SELECT FROM broker.txn_index i WHERE i.partition_id = m.partition_id
    AND i.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
    AND i.last_offset = m.last_offset AND i.tc_id = m.tc_id AND i.sequence = m.sequence
)
ORDER BY m.last_offset LIMIT 20

-- odd_index_rows --
-- Index rows without their marker, or with another outcome, or that do not begin with a message of
-- their transaction, or whose stable offset is below that of the row before, or whose stable offset
-- is not where the transactions begin that were open at the marker. The next row tells which those
-- were, or else what is open now.
SELECT * FROM (
    SELECT i.tc_id, i.sequence, i.aborted, i.first_offset, i.last_offset, i.last_stable_offset,
        m.kind::text AS marker_kind, (m.tc_id, m.sequence) = (i.tc_id, i.sequence) AS own_marker,
        i.first_offset < %(log_start)s OR EXISTS (
            SELECT FROM (
                SELECT e.* FROM broker.entry e WHERE e.partition_id = i.partition_id
                AND e.last_offset >= i.first_offset ORDER BY e.last_offset LIMIT 1
            ) e WHERE e.first_offset = i.first_offset AND e.kind = 'D'
            AND (e.tc_id, e.sequence) = (i.tc_id, i.sequence)
        ) AS own_first,
        lag(i.last_stable_offset) OVER (ORDER BY i.last_offset) AS stable_before,
        coalesce((
            SELECT min(began) FROM unnest(
                CASE WHEN n.last_offset IS NULL THEN ARRAY[l.first_ongoing_offset, o.first_offset]
                ELSE ARRAY[n.first_offset, n.last_stable_offset] END
            ) AS began WHERE began < i.last_offset
        ), i.last_offset + 1) AS stable_expected
    FROM broker.txn_index i
    LEFT JOIN broker.entry m ON m.partition_id = i.partition_id AND m.last_offset = i.last_offset
    LEFT JOIN LATERAL (
        SELECT * FROM broker.txn_index x
        WHERE x.partition_id = i.partition_id AND x.last_offset > i.last_offset
        ORDER BY x.last_offset LIMIT 1
    ) n ON true
    LEFT JOIN broker.partition_live l ON l.partition_id = i.partition_id
    LEFT JOIN LATERAL (
        SELECT x.first_offset FROM broker.ongoing_txn x WHERE x.ordered_in = i.partition_id
        ORDER BY x.first_offset LIMIT 1
    ) o ON true
    WHERE i.partition_id = %(partition_id)s
    AND i.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
) i
WHERE own_marker IS NOT TRUE OR (marker_kind = 'A') <> aborted OR NOT own_first
    OR last_stable_offset < stable_before OR last_stable_offset <> stable_expected
ORDER BY last_offset LIMIT 20

-- damaged_batches --
-- Batches that do not begin as every batch does (engine/model/batch.py): the encoding's version, where
-- an offloaded one stands, a zstd frame. What follows is not looked at.
SELECT first_offset, last_offset, encode(substr(body, 1, 5), 'hex') AS begins
FROM broker.entry
WHERE partition_id = %(partition_id)s AND last_offset BETWEEN %(from_offset)s AND %(to_offset)s
AND kind = 'D' AND substr(body, 1, 5) <> '\x0128b52ffd'
AND NOT (substr(body, 1, 1) = '\x02' AND substr(body, 22, 4) = '\x28b52ffd')
ORDER BY last_offset LIMIT 20

-- offloaded_from --
-- The files of the offloaded segments from that of an offset on, in the order of the log.
SELECT o.file, o.file_bytes, s.first_offset, s.last_offset
FROM broker.offloaded_segment o JOIN broker.segment s USING (partition_id, ledger_id)
WHERE o.partition_id = %(partition_id)s AND o.ledger_id >= (
    SELECT e.ledger_id FROM broker.entry e
    WHERE e.partition_id = %(partition_id)s AND e.last_offset >= %(from_offset)s
    ORDER BY e.last_offset LIMIT 1
)
ORDER BY o.ledger_id LIMIT %(limit)s

-- still_offloaded --
SELECT file FROM broker.offloaded_segment WHERE file = ANY(%(files)s::uuid[])

-- undecided_below_stable --
-- Messages of transactions that readers can read, although the index does not have their outcome.
SELECT e.tc_id, e.sequence, e.first_offset, e.last_offset FROM broker.entry e
WHERE e.partition_id = %(partition_id)s AND e.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
AND e.last_offset <= %(stable_position)s AND e.kind = 'D' AND e.tc_id IS NOT NULL
AND NOT EXISTS (
    SELECT FROM broker.txn_index i WHERE i.partition_id - 0 = e.partition_id
    AND i.tc_id + 0 = e.tc_id AND i.sequence + 0 = e.sequence
    AND e.first_offset >= i.first_offset AND e.last_offset < i.last_offset + 0
)
ORDER BY e.last_offset LIMIT 20

-- undecided_in_partition --
-- In a sidecar-buffered partition: messages of transactions that are in the partition itself.
SELECT e.tc_id, e.sequence, e.first_offset, e.last_offset FROM broker.entry e
WHERE e.partition_id = %(partition_id)s AND e.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
AND e.kind = 'D' AND e.tc_id IS NOT NULL
ORDER BY e.last_offset LIMIT 20

-- odd_commits --
-- In a sidecar-buffered partition: commit markers that stand for another number of messages than
-- readers find, under either key of the sidecar log (sidecar.sql, sidecar_entries).
WITH log AS MATERIALIZED (
    SELECT partition_id AS log_id, compacted_id FROM broker.partition
    WHERE sidecar_of = %(partition_id)s
)
SELECT m.tc_id, m.sequence, m.first_offset, m.last_offset, m.txn_messages, f.messages
FROM broker.entry m
CROSS JOIN LATERAL (
    SELECT coalesce(sum(n.messages), 0)::bigint AS messages FROM (
        SELECT e.last_offset - e.first_offset + 1 AS messages
        FROM broker.txn_index i
        JOIN broker.entry e
            ON e.partition_id + 0 = (SELECT log_id FROM log) AND e.tc_id::bigint = m.tc_id
            AND e.sequence + 0 = m.sequence AND e.txn_messages IS NOT NULL
        WHERE i.partition_id + 0 = (SELECT log_id FROM log) AND i.commit_offset = m.first_offset
        AND e.last_offset BETWEEN i.first_offset AND i.last_offset
        UNION ALL
        SELECT c.last_offset - c.first_offset + 1 FROM broker.entry c
        WHERE c.partition_id = (SELECT compacted_id FROM log)
        AND c.last_offset BETWEEN m.first_offset AND m.last_offset
        AND (c.tc_id, c.sequence) = (m.tc_id, m.sequence)
    ) n
) f
WHERE m.partition_id = %(partition_id)s AND m.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
AND m.kind = 'C' AND (f.messages <> m.txn_messages
    OR m.last_offset - m.first_offset + 1 <> greatest(m.txn_messages, 1))
ORDER BY m.last_offset LIMIT 20

-- odd_sidecar_rows --
-- Index rows of a sidecar log without their marker, or with another outcome, or that name a commit
-- which is not in the partition, or whose stable offset is below that of the row before.
SELECT * FROM (
    SELECT i.tc_id, i.sequence, i.aborted, i.first_offset, i.last_offset, i.commit_offset,
        m.kind::text AS marker_kind, (m.tc_id, m.sequence) = (i.tc_id, i.sequence) AS own_marker,
        i.commit_offset < p.log_start_offset OR EXISTS (
            SELECT FROM broker.entry h WHERE h.partition_id - 0 = p.partition_id
            AND h.tc_id - 0 = i.tc_id AND h.sequence - 0 = i.sequence
            AND h.first_offset = i.commit_offset AND h.kind = 'C'
        ) AS own_commit,
        i.last_stable_offset, lag(i.last_stable_offset) OVER (ORDER BY i.last_offset) AS stable_before
    FROM broker.txn_index i
    JOIN broker.partition p ON p.partition_id = %(home_id)s
    LEFT JOIN broker.entry m ON m.partition_id = i.partition_id AND m.last_offset = i.last_offset
    WHERE i.partition_id = %(partition_id)s
    AND i.last_offset BETWEEN %(from_offset)s AND %(to_offset)s
) i
WHERE own_marker IS NOT TRUE OR (marker_kind = 'A') <> aborted
    OR aborted <> (commit_offset IS NULL) OR NOT (aborted OR own_commit)
    OR last_stable_offset < stable_before
ORDER BY last_offset LIMIT 20

-- with_entries --
-- Those of the transactions that still have messages in a log.
SELECT w.tc_id, w.sequence
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
CROSS JOIN LATERAL (
    SELECT FROM broker.entry e WHERE e.partition_id - 0 = %(partition_id)s
    AND e.tc_id - 0 = w.tc_id AND e.sequence - 0 = w.sequence LIMIT 1
) e

-- cursors_of_partition --
SELECT c.subscription_id, s.name, c.mark_delete, c.acked FROM broker.cursor c
JOIN broker.subscription s USING (subscription_id)
WHERE c.partition_id = %(partition_id)s AND s.topic_id = %(topic_id)s ORDER BY c.subscription_id

-- ack_steps --
-- The pending-ack log of one subscription in one partition; one row beyond the limit means that it
-- is too long.
SELECT tc_id, sequence, op, ack_type, ranges, call_id FROM broker.pending_ack_log
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
ORDER BY log_id LIMIT %(limit)s

-- unfenced_acks --
-- Which of some transactions have not ended for a subscription, according to its fence.
SELECT w.tc_id, w.sequence
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
WHERE NOT EXISTS (
    SELECT FROM broker.ended_ack_txn e WHERE e.subscription_id = %(subscription_id)s
    AND e.tc_id = w.tc_id AND e.sequence = w.sequence
) AND NOT EXISTS (
    SELECT FROM broker.ack_low_water_mark m WHERE m.subscription_id = %(subscription_id)s
    AND m.tc_id = w.tc_id AND m.low_water_mark >= w.sequence
)
ORDER BY w.tc_id, w.sequence

-- tentative_acks --
SELECT tc_id, sequence, call_id, ranges FROM broker.tentative_ack
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s

-- partitions_from --
-- Partitions in the order in which they are checked, without sidecar logs and system topics.
SELECT partition_id, topic, number FROM broker.partition
WHERE partition_id > %(partition_id)s AND topic_id IS NOT NULL
AND split_part(topic, '/', 3) NOT LIKE '\_\_%%'
ORDER BY partition_id LIMIT %(limit)s

-- highest_marks --
-- The highest low water mark, by coordinator, anywhere on this broker.
SELECT tc_id, max(low_water_mark) AS low_water_mark FROM (
    SELECT tc_id, low_water_mark FROM broker.low_water_mark
    UNION ALL SELECT tc_id, low_water_mark FROM broker.ack_low_water_mark
) w GROUP BY tc_id
