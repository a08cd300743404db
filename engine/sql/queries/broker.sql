-- end_txns_on --
-- See functions/broker/end_txns_on.sql.
SELECT error, first_offset, last_offset, messages, marker_offset FROM broker.end_txns_on(
    %(topic_ids)s, %(numbers)s, %(upto)s, %(tc_ids)s, %(sequences)s, %(aborts)s, %(mark_tcs)s,
    %(marks)s
)

-- orphans_of_partition --
-- What is open in a partition at or below low water marks that have not passed it yet, by id and behind one; and
-- whether the same id has ended there before. In a sidecar-buffered partition only what was committed has entries.
SELECT p.partition_id, o.tc_id, o.sequence, EXISTS (
    SELECT FROM broker.entry e
    WHERE e.partition_id - 0 = p.partition_id AND e.tc_id - 0 = o.tc_id
    AND e.sequence - 0 = o.sequence AND (e.kind <> 'D' OR p.buffer = 'sidecar')
) AS ended_before
FROM broker.partition p
LEFT JOIN broker.partition log ON log.sidecar_of = p.partition_id
CROSS JOIN unnest(%(mark_tcs)s::integer[], %(marks)s::bigint[]) AS m (tc, reached)
LEFT JOIN broker.low_water_mark w ON w.partition_id = p.partition_id AND w.tc_id = m.tc
CROSS JOIN LATERAL (
    SELECT g.tc_id, g.sequence FROM broker.ongoing_txn g
    WHERE g.partition_id = coalesce(log.partition_id, p.partition_id) AND g.tc_id = m.tc
    AND g.sequence > coalesce(w.low_water_mark, -1) AND g.sequence <= m.reached OFFSET 0
) o
WHERE p.topic_id = %(topic_id)s AND p.number = %(number)s
AND (o.tc_id, o.sequence) > (%(after_tc)s, %(after_sequence)s)
ORDER BY o.tc_id, o.sequence LIMIT %(limit)s

-- head --
-- Positions of one partition. No row: it has to be rebuilt first, or does not exist.
SELECT
    l.*, p.topic, p.topic_id, p.number, p.buffer, clock_timestamp() AS now,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position
FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
WHERE l.partition_id = %(partition_id)s

-- awaited_heads --
-- How far partitions can be read, for those that somebody waits for
-- (engine/subscription/arrivals.py).
SELECT partition_id, next_offset - 1 AS last_offset,
    coalesce(first_ongoing_offset, next_offset) - 1 AS stable_position
FROM broker.partition_live WHERE partition_id = ANY (%(partition_ids)s::bigint[])

-- fetch --
-- The head of a marker-buffered partition, its entries with an offset in [from, upper), if asked up
-- to the stable position and then with the aborted transactions that meet them (as
-- aborted_overlapping finds them): one row, of one snapshot. It ends before the batch that would take
-- the stored bytes over max_bytes, but the first batch always comes: only there do the bytes so far
-- equal its own. No row: the partition has to be rebuilt first, or does not exist.
WITH head AS MATERIALIZED (
    SELECT online, next_offset, log_start_offset, ledger_id,
        coalesce(first_ongoing_offset, next_offset) - 1 AS stable_position
    FROM broker.partition_live WHERE partition_id = %(partition_id)s
), fence AS MATERIALIZED (
    SELECT least(
        %(upper)s::bigint, CASE WHEN %(committed)s THEN stable_position + 1 ELSE next_offset END
    ) AS upper FROM head
)
SELECT h.online, h.next_offset, h.log_start_offset, h.ledger_id, h.stable_position,
    e.kinds, e.first_offsets, e.last_offsets, e.ledger_ids, e.tcs, e.sequences, e.sequence_ids,
    e.publish_times, e.producer_names, e.bodies,
    a.aborted_tcs, a.aborted_sequences, a.aborted_firsts, a.aborted_lasts
FROM head h
CROSS JOIN (
    SELECT array_agg(e.kind) AS kinds, array_agg(e.first_offset) AS first_offsets,
        array_agg(e.last_offset) AS last_offsets, array_agg(e.ledger_id) AS ledger_ids,
        array_agg(e.tc_id) AS tcs, array_agg(e.sequence) AS sequences,
        array_agg(e.sequence_id) AS sequence_ids, array_agg(e.publish_time) AS publish_times,
        array_agg(e.producer_name) AS producer_names, array_agg(e.body) AS bodies
    FROM (
        SELECT e.*, coalesce(sum(broker.body_bytes(e.body)) OVER (
            ORDER BY e.last_offset ROWS UNBOUNDED PRECEDING), 0) AS bytes
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
    ) e WHERE e.bytes <= %(max_bytes)s OR e.bytes = broker.body_bytes(e.body)
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
-- A partition's entries with an offset in [from, upper), to the end of the log; it ends by max_bytes
-- as fetch does.
SELECT * FROM (
    SELECT e.*, e.first_offset AS entry_id,
        coalesce(sum(broker.body_bytes(e.body)) OVER (
            ORDER BY e.last_offset ROWS UNBOUNDED PRECEDING), 0) AS bytes
    FROM broker.entry e
    WHERE e.partition_id = %(partition_id)s
    AND e.last_offset >= %(from_offset)s
    AND e.last_offset <= coalesce((
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(partition_id)s AND b.last_offset >= %(upper)s - 1
        ORDER BY b.last_offset LIMIT 1
    ), %(upper)s)
) e WHERE bytes <= %(max_bytes)s OR bytes = broker.body_bytes(body)
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
-- Ended transactions spread over a partition: for each of so many places, the one with the next
-- marker. The order over partitions uses only the primary key, so the plan does not depend on
-- statistics.
SELECT DISTINCT i.last_offset, i.first_offset, i.aborted
FROM unnest(%(places)s::bigint[]) place
CROSS JOIN LATERAL (
    SELECT partition_id, last_offset, first_offset, aborted FROM broker.txn_index
    WHERE (partition_id, last_offset) >= (%(partition_id)s, place)
    ORDER BY partition_id, last_offset LIMIT 1
) i WHERE i.partition_id = %(partition_id)s ORDER BY i.last_offset

-- producers --
-- Producers by their names, each with its newest batch outside transactions; for a producer with
-- none in the log any more, the batch that retention remembers. It steps from name to name in the
-- index (the expression must be written as in migration 0014), however many batches there are.
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
-- Rows of the aborted-transaction index from a marker's offset on, of one segment or of all. It
-- looks at scan_limit ended transactions at most, and also returns the last of that many, to go on
-- after it.
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
-- Ordered by their first offset. For a sidecar-buffered partition, those of its sidecar log, with
-- the offsets there.
SELECT * FROM broker.ongoing_txn WHERE ordered_in = coalesce(
    (SELECT partition_id FROM broker.partition WHERE sidecar_of = %(partition_id)s),
    %(partition_id)s
) AND first_offset > %(above)s
ORDER BY first_offset LIMIT %(limit)s

-- ongoing_in_log --
-- The ongoing transactions of one log, which may be a sidecar log.
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
-- Positions of a topic's partitions on this broker, with numbers in a range; next_offset is null
-- while a partition recovers.
SELECT * FROM broker.partition_status
WHERE topic_id = %(topic_id)s AND number BETWEEN %(first)s AND %(last)s ORDER BY number

-- status --
-- As statuses, for one partition.
SELECT * FROM broker.partition_status WHERE partition_id = %(partition_id)s

-- held_back --
-- Partitions that an ongoing transaction holds back, those with the most hidden offsets first.
SELECT * FROM broker.partition_status WHERE first_ongoing_offset IS NOT NULL AND sidecar_of IS NULL
ORDER BY next_offset - first_ongoing_offset DESC, partition_id LIMIT %(limit)s

-- history --
-- A sample holds until the next one: the first may be older, and is told as of the beginning.
SELECT greatest(at, statement_timestamp() - %(since)s::interval) AS at, stable_position, last_offset
FROM broker.position_sample
WHERE partition_id = %(partition_id)s AND at >= coalesce(
    (SELECT max(at) FROM broker.position_sample
     WHERE partition_id = %(partition_id)s AND at <= statement_timestamp() - %(since)s::interval),
    '-infinity')
ORDER BY at DESC LIMIT 5000

-- sample_positions --
-- One sample of every partition that has moved, or in which something has ended, since its last one.
-- Heads that are locked are left to the next time. So this waits for nobody, and its lock order does
-- not matter.
WITH moved AS MATERIALIZED (
    SELECT l.partition_id FROM broker.partition_live l JOIN broker.partition p USING (partition_id)
    WHERE (l.sampled_last, l.sampled_stable, l.sampled_ends) IS DISTINCT FROM
        (l.next_offset - 1, coalesce(l.first_ongoing_offset, l.next_offset) - 1, l.ends)
    AND p.sidecar_of IS NULL
    FOR UPDATE OF l SKIP LOCKED
), sampled AS (
    UPDATE broker.partition_live l SET
        sampled_stable = coalesce(l.first_ongoing_offset, l.next_offset) - 1,
        sampled_last = l.next_offset - 1,
        sampled_ends = l.ends
    FROM moved WHERE l.partition_id = moved.partition_id
    RETURNING l.partition_id, l.sampled_stable, l.sampled_last, l.ends, l.aborts, l.markers
)
INSERT INTO broker.position_sample (partition_id, stable_position, last_offset, ends, aborts, markers)
SELECT * FROM sampled
ON CONFLICT DO NOTHING

-- trim_samples --
-- By a moment that does not change while the statement runs: only then does the index bound the search.
-- Rows are found again by their physical place (ctid), whatever the statistics: no sample is changed.
DELETE FROM broker.position_sample WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM broker.position_sample
    WHERE at < statement_timestamp() - %(keep)s::interval ORDER BY at LIMIT 5000
))

-- membership --
SELECT cluster_id, broker FROM broker.membership

-- become_member --
INSERT INTO broker.membership (cluster_id, broker) VALUES (%(cluster_id)s, %(broker)s)
ON CONFLICT DO NOTHING

-- evidence --
-- What this broker tells of the transactions of some coordinators, each from a sequence on: committed or aborted
-- somewhere here, or neither yet. Low water marks tell of ids alone. By the entries of each partition and sidecar
-- log; the derived state may have been lost.
SELECT w.tc AS tc_id, s.sequence, bool_or(s.committed) AS committed, bool_or(s.aborted) AS aborted
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc, first)
CROSS JOIN LATERAL (
    SELECT e.sequence, e.kind = 'C' AS committed, e.kind = 'A' AS aborted
    FROM broker.partition p CROSS JOIN LATERAL (
        SELECT n.sequence, n.kind FROM broker.entry n
        WHERE n.partition_id - 0 = p.partition_id AND n.tc_id - 0 = w.tc AND n.sequence - 0 >= w.first
        OFFSET 0
    ) e
    UNION ALL
    SELECT f.sequence, NOT f.aborted, f.aborted FROM broker.ended_txn f
    WHERE f.tc_id = w.tc AND f.sequence >= w.first
    UNION ALL
    SELECT f.sequence, NOT f.aborted, f.aborted FROM broker.ended_ack_txn f
    WHERE f.tc_id = w.tc AND f.sequence >= w.first
    UNION ALL
    SELECT a.sequence, false, false FROM broker.pending_ack a
    WHERE a.tc_id = w.tc AND a.sequence >= w.first
    UNION ALL
    SELECT m.low_water_mark, false, false FROM broker.low_water_mark m
    WHERE m.tc_id = w.tc AND m.low_water_mark >= w.first
    UNION ALL
    SELECT m.low_water_mark, false, false FROM broker.ack_low_water_mark m
    WHERE m.tc_id = w.tc AND m.low_water_mark >= w.first
) s GROUP BY 1, 2 ORDER BY 1, 2

-- told_by_acks --
-- How transactions of some coordinators, each from a sequence on, have ended on subscriptions here, by the steps of
-- the pending-ack logs, which tell it longer than the fence. A commit may have given something back as well.
SELECT g.tc_id, g.sequence, bool_or(g.op = 'COMMIT') AS committed, bool_or(g.op = 'ABORT') AS aborted
FROM broker.subscription s
CROSS JOIN LATERAL (
    SELECT * FROM broker.pending_ack_log l WHERE l.subscription_id = s.subscription_id OFFSET 0
) g
JOIN unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc, first)
    ON w.tc = g.tc_id AND w.first <= g.sequence
WHERE g.op <> 'ACK' AND g.call_id = 0
GROUP BY 1, 2

-- ended_among --
-- Which of some transactions have ended anywhere on this broker, and on which subscriptions; null for partitions. Low
-- water marks have passed all below a first sequence of each coordinator.
SELECT DISTINCT e.tc_id, e.sequence, s.topic_id, s.name AS subscription
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc, first)
CROSS JOIN LATERAL (
    SELECT f.tc_id, f.sequence, NULL::bigint AS subscription_id FROM broker.ended_txn f
    WHERE f.tc_id = w.tc AND f.sequence >= w.first
    UNION ALL
    SELECT f.tc_id, f.sequence, f.subscription_id FROM broker.ended_ack_txn f
    WHERE f.tc_id = w.tc AND f.sequence >= w.first
) e
LEFT JOIN broker.subscription s USING (subscription_id)
WHERE (e.tc_id, e.sequence) IN (
    SELECT * FROM unnest(%(open_tc_ids)s::integer[], %(open_sequences)s::bigint[])
)

-- acks_aborted_among --
-- Which of some transactions have aborted on a subscription of this broker, on which, and whether that has given
-- anything back. The LIMIT keeps them from being joined, which would read all that has ever ended.
SELECT w.tc_id, w.sequence, s.topic_id, s.name AS subscription, f.messages > 0 AS gave_back
FROM broker.subscription s
CROSS JOIN unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
CROSS JOIN LATERAL (
    SELECT e.aborted, e.messages FROM broker.ended_ack_txn e
    WHERE e.subscription_id = s.subscription_id AND e.tc_id = w.tc_id AND e.sequence = w.sequence
    LIMIT 1
) f
WHERE f.aborted

-- highest_ids --
-- The highest id of a topic that is known here, and of a coordinator; where there is much, the last of each
-- partition and subscription.
SELECT (SELECT coalesce(max(topic_id), 0) FROM broker.partition) AS topic_id, coalesce(max(tc_id), -1) AS tc_id
FROM (
    SELECT tc_id FROM broker.low_water_mark UNION ALL SELECT tc_id FROM broker.ack_low_water_mark
    UNION ALL SELECT tc_id FROM broker.pending_ack
    UNION ALL SELECT l.tc_id FROM broker.partition p CROSS JOIN LATERAL (
        SELECT e.tc_id - 0 AS tc_id FROM broker.entry e
        WHERE e.partition_id - 0 = p.partition_id AND e.tc_id - 0 IS NOT NULL
        ORDER BY e.tc_id - 0 DESC LIMIT 1
    ) l
    UNION ALL SELECT l.tc_id FROM broker.partition p CROSS JOIN LATERAL (
        SELECT f.tc_id FROM broker.ended_txn f WHERE f.partition_id = p.partition_id
        ORDER BY f.tc_id DESC LIMIT 1
    ) l
    UNION ALL SELECT l.tc_id FROM broker.subscription s CROSS JOIN LATERAL (
        SELECT f.tc_id FROM broker.ended_ack_txn f WHERE f.subscription_id = s.subscription_id
        ORDER BY f.tc_id DESC LIMIT 1
    ) l
) t
