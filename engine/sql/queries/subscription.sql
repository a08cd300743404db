-- create_subscription --
-- Does nothing when the subscription exists. The fence of a new one refuses some transactions, as if
-- they had aborted here.
WITH made AS (
    INSERT INTO broker.subscription
        (topic_id, topic, name, type, initial_position, ack_timeout_ms, consumer_lease_ms,
        max_redeliveries, dead_letter_topic, partitions_at_creation)
    VALUES (
        %(topic_id)s, %(topic)s, %(name)s, %(type)s, %(initial_position)s, %(ack_timeout_ms)s,
        %(consumer_lease_ms)s, %(max_redeliveries)s, %(dead_letter_topic)s,
        %(partitions_at_creation)s
    )
    ON CONFLICT (topic_id, name) DO NOTHING
    RETURNING subscription_id
), fenced AS (
    INSERT INTO broker.ended_ack_txn (subscription_id, tc_id, sequence, aborted, messages)
    SELECT m.subscription_id, t.tc_id, t.sequence, true, 0
    FROM made m, unnest(%(fenced_tcs)s::integer[], %(fenced_sequences)s::bigint[])
        AS t (tc_id, sequence)
)
SELECT subscription_id FROM made

-- get_subscription --
SELECT * FROM broker.subscription WHERE topic_id = %(topic_id)s AND name = %(name)s

-- subscription_complete --
UPDATE broker.subscription SET complete = true WHERE subscription_id = %(subscription_id)s

-- subscriptions_to_copy --
-- All subscriptions of a topic at its home, or one of them: everything from which their records on
-- other brokers are made (create_subscription). What aborted in one is refused in its copies.
SELECT s.topic_id, s.topic, s.name, s.type, s.initial_position, s.ack_timeout_ms,
    s.consumer_lease_ms, s.max_redeliveries, s.dead_letter_topic, s.partitions_at_creation,
    f.tcs AS fenced_tcs, f.sequences AS fenced_sequences
FROM broker.subscription s CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(e.tc_id), '{}') AS tcs,
        coalesce(array_agg(e.sequence), '{}') AS sequences
    FROM broker.ended_ack_txn e WHERE e.subscription_id = s.subscription_id AND e.aborted
) f
WHERE s.topic_id = %(topic_id)s AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
ORDER BY s.name

-- subscriptions_named --
-- Subscriptions with a text in their names, first those that begin with it; a limited number of
-- names is searched.
WITH looked AS MATERIALIZED (SELECT topic, name FROM broker.subscription LIMIT %(look_through)s)
SELECT (SELECT count(*) FROM looked) AS looked_through, ARRAY(
    SELECT topic || '/' || name FROM looked WHERE position(%(part)s IN lower(name)) > 0
    ORDER BY NOT starts_with(lower(name), %(part)s), name, topic LIMIT %(limit)s
) AS names

-- page_of_subscriptions --
-- Subscriptions of a topic after one, by name: by its bytes, as the pages of several brokers are put
-- together, whatever this server sorts by.
SELECT * FROM broker.subscription
WHERE topic_id = %(topic_id)s AND name COLLATE "C" > %(after)s
ORDER BY name COLLATE "C" LIMIT %(limit)s

-- delete_subscription --
-- The caller has locked the cursors (lock_cursors): whoever delivers or acknowledges holds such a
-- lock while storing.
WITH gone AS (
    DELETE FROM broker.subscription WHERE subscription_id = %(subscription_id)s
    RETURNING subscription_id
), dispatched AS (
    DELETE FROM broker.dispatch d USING gone WHERE d.subscription_id = gone.subscription_id
)
SELECT subscription_id FROM gone

-- hold_lease --
-- Makes a consumer the active one of an EXCLUSIVE or FAILOVER subscription, or keeps it so: if it
-- is that already, or nobody is any more. No row: another one is. The epoch distinguishes one turn
-- from the next.
UPDATE broker.subscription SET
    consumer = %(consumer)s,
    consumer_epoch = consumer_epoch + (consumer IS DISTINCT FROM %(consumer)s)::integer,
    consumer_until = clock_timestamp() + consumer_lease_ms * interval '1 millisecond'
WHERE subscription_id = %(subscription_id)s
AND (consumer IS NULL OR consumer = %(consumer)s
    OR broker.has_lapsed(consumer_until, consumer_lease_ms, clock_timestamp()))
RETURNING consumer_epoch

-- get_lease --
-- The active consumer of a subscription, asked at its home broker. there: its lease has not run out.
SELECT type, consumer, consumer_epoch, consumer_until, coalesce(
    NOT broker.has_lapsed(consumer_until, consumer_lease_ms, statement_timestamp()), false
) AS there
FROM broker.subscription WHERE topic_id = %(topic_id)s AND name = %(name)s

-- end_lease --
UPDATE broker.subscription SET consumer = NULL, consumer_until = NULL
WHERE subscription_id = %(subscription_id)s AND consumer = %(consumer)s
RETURNING consumer_epoch + 1 AS next_epoch

-- forget_ack_end --
-- What the fence says of one transaction on a subscription.
DELETE FROM broker.ended_ack_txn
WHERE subscription_id = %(subscription_id)s AND tc_id = %(tc_id)s AND sequence = %(sequence)s

-- ensure_cursors --
-- Makes a cursor for each partition of the topic. A partition that was added after the subscription
-- is read from its start. The log's end is looked up in the log, because the head may be gone.
INSERT INTO broker.cursor (subscription_id, partition_id, mark_delete)
SELECT %(subscription_id)s, p.partition_id,
    CASE WHEN p.number < %(latest_below)s THEN coalesce((
        SELECT max(e.last_offset) FROM broker.entry e WHERE e.partition_id = p.partition_id
    ), p.log_start_offset - 1) ELSE p.log_start_offset - 1 END
FROM broker.partition p
WHERE p.topic_id = %(topic_id)s AND NOT EXISTS (
    SELECT FROM broker.cursor c
    WHERE c.subscription_id = %(subscription_id)s AND c.partition_id = p.partition_id
)
ON CONFLICT DO NOTHING

-- deliverable --
-- Partitions that may have something to deliver (is_due). For a consumer that has just become the
-- active one, also those with something in flight, which its predecessor had. One row stands for
-- there being none: with number -1 there is no partition here at all, so the topic may be gone; with
-- -2 all partitions are offline.
SELECT p.partition_id, p.number, c.partition_id IS NULL AS needs_cursor
FROM broker.partition p
LEFT JOIN broker.cursor c
    ON c.partition_id = p.partition_id AND c.subscription_id = %(subscription_id)s
LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
LEFT JOIN broker.dispatch d
    ON d.partition_id = p.partition_id AND d.subscription_id = %(subscription_id)s
WHERE p.topic_id = %(topic_id)s AND p.online AND (
    broker.is_due(
        c.mark_delete, coalesce(l.first_ongoing_offset, l.next_offset), d.due_offset,
        d.next_deadline
    )
    OR (%(taken_over)s AND d.next_deadline IS NOT NULL)
)
UNION ALL
SELECT 0, -1, true
WHERE NOT EXISTS (SELECT FROM broker.partition WHERE topic_id = %(topic_id)s)
UNION ALL
SELECT 0, -2, false
WHERE NOT EXISTS (SELECT FROM broker.partition WHERE topic_id = %(topic_id)s AND online)
    AND EXISTS (SELECT FROM broker.partition WHERE topic_id = %(topic_id)s)
ORDER BY number

-- awaited_subscriptions --
-- Which of the subscriptions that somebody waits for may have something to deliver (is_due), and who
-- the active consumer is.
SELECT s.subscription_id, s.consumer, s.type = 'KEY_SHARED' AS keyed,
    coalesce(
        broker.has_lapsed(s.consumer_until, s.consumer_lease_ms, statement_timestamp()), false
    ) AS lapsed,
    EXISTS (
        SELECT FROM broker.partition p
        LEFT JOIN broker.cursor c
            ON c.partition_id = p.partition_id AND c.subscription_id = s.subscription_id
        LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
        LEFT JOIN broker.dispatch d
            ON d.partition_id = p.partition_id AND d.subscription_id = s.subscription_id
        WHERE p.topic_id = s.topic_id AND p.online AND broker.is_due(
            c.mark_delete, coalesce(l.first_ongoing_offset, l.next_offset), d.due_offset,
            d.next_deadline
        )
    ) AS due
FROM broker.subscription s WHERE s.subscription_id = ANY (%(subscription_ids)s::bigint[])

-- stamps --
-- What may be due on KEY_SHARED subscriptions may be other consumers'. A subscription's stamp is
-- another once anything has changed by which that could be decided anew.
SELECT s.subscription_id, (
    SELECT bit_xor(hash_record_extended(ROW(
        p.partition_id, l.first_ongoing_offset, l.next_offset, c.xmin, d.xmin,
        d.next_deadline < statement_timestamp()
    ), 0))
    FROM broker.partition p
    LEFT JOIN broker.cursor c
        ON c.partition_id = p.partition_id AND c.subscription_id = s.subscription_id
    LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
    LEFT JOIN broker.dispatch d
        ON d.partition_id = p.partition_id AND d.subscription_id = s.subscription_id
    WHERE p.topic_id = s.topic_id AND p.online
) AS stamp
FROM broker.subscription s WHERE s.subscription_id = ANY (%(subscription_ids)s::bigint[])

-- ledger --
-- The offsets of one of a partition's ledgers; the open ledger has no last offset.
SELECT s.first_offset, s.last_offset FROM broker.segment s
WHERE s.partition_id = %(partition_id)s AND s.ledger_id = %(ledger_id)s

-- named_by --
-- The ledger and the entry that the ids of messages at some offsets name; not of offsets that no
-- reader gets, which are markers and aborted messages. A subquery with a LIMIT is asked for each
-- row; NOT EXISTS would become a join that reads the whole index.
SELECT o.message_offset, e.ledger_id, e.first_offset AS entry_id
FROM unnest(%(offsets)s::bigint[]) o (message_offset)
CROSS JOIN LATERAL (
    SELECT b.ledger_id, b.first_offset, b.kind, b.txn_messages, b.tc_id, b.sequence
    FROM broker.entry b
    WHERE b.partition_id = %(partition_id)s AND b.last_offset >= o.message_offset
    ORDER BY b.last_offset LIMIT 1
) e
WHERE (e.kind = 'D' OR e.txn_messages > 0) AND (
    SELECT true FROM broker.txn_index i
    WHERE i.partition_id - 0 = %(partition_id)s AND i.tc_id + 0 = e.tc_id
    AND i.sequence + 0 = e.sequence AND i.aborted::integer = 1
    AND o.message_offset BETWEEN i.first_offset AND i.last_offset - 1 LIMIT 1
) IS NULL

-- read_cursors --
-- See functions/broker/read_cursors.sql.
SELECT
    partition_id, number, buffer, online, stable_position, now_ms, log_start_offset, open_ledger,
    open_since, cursor_version, mark_delete, acked, acked_lowers, acked_uppers, dead,
    dispatch_version, state, pending_tcs, pending_sequences, pending_cumulative, pending_lowers,
    pending_uppers, tentative_tcs, tentative_sequences, tentative_calls, tentative_lowers,
    tentative_uppers, window_from, window_upper, kinds::"char"[], first_offsets, last_offsets,
    ledger_ids, tcs, sequences, sequence_ids, publish_times, producer_names, bodies, aborted_tcs,
    aborted_sequences, aborted_firsts, aborted_lasts
FROM broker.read_cursors(
    %(subscription_id)s::bigint, %(partition_ids)s::bigint[], %(lock)s::boolean, %(room)s::bigint,
    %(ahead)s::bigint, %(max_bytes)s::bigint
)

-- store_cursors --
-- See functions/broker/store_cursors.sql.
SELECT result, cursor_version, dispatch_version, now_ms FROM broker.store_cursors(
    %(subscription_id)s::bigint, %(partition_ids)s::bigint[], %(cursor_versions)s::bigint[],
    %(dispatch_versions)s::bigint[], %(mark_deletes)s::bigint[], %(acked)s::int8multirange[],
    %(due_offsets)s::bigint[], %(next_deadlines)s::bigint[], %(states)s::bytea[],
    %(dead)s::int8multirange[], %(undead)s::int8multirange[], %(targets)s::integer[],
    %(step_partitions)s::bigint[], %(step_tcs)s::integer[], %(step_sequences)s::bigint[],
    %(step_ops)s::text[], %(step_types)s::text[], %(step_ranges)s::int8multirange[],
    %(step_calls)s::bigint[], %(durable)s::boolean, %(serving)s::boolean
)

-- store_dispatch --
-- As functions/broker/store_cursors.sql does for one partition, where the cursor stays as it is, and neither
-- dead letters nor steps of the pending-ack log come into it. No row: something is not as it was when it was
-- decided on, or the partition does not serve; the caller begins anew under the locks. The cursor is
-- locked before the dispatch state is touched, and read as it stands then; every writer of the dispatch
-- state holds that lock.
UPDATE broker.dispatch d SET
    due_offset = %(due_offset)s::bigint,
    next_deadline = to_timestamp(%(next_deadline)s::bigint / 1000.0),
    state = %(state)s::bytea
FROM (
    SELECT c.xmin::text::bigint AS version FROM broker.cursor c
    WHERE c.subscription_id = %(subscription_id)s::bigint
    AND c.partition_id = %(partition_id)s::bigint
    FOR UPDATE
) s, broker.partition_live l
WHERE s.version = %(cursor_version)s::bigint
AND l.partition_id = %(partition_id)s::bigint AND l.online
AND d.subscription_id = %(subscription_id)s::bigint
AND d.partition_id = %(partition_id)s::bigint
AND d.xmin::text::bigint = %(dispatch_version)s::bigint
RETURNING s.version, d.xmin::text::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    -- What is only about deliveries need not wait until it cannot be lost.
    CASE WHEN NOT %(durable)s::boolean
        THEN set_config('synchronous_commit', 'off', true) END

-- store_cursor --
-- As store_dispatch, with the cursor.
WITH stored AS (
    UPDATE broker.dispatch d SET
        due_offset = %(due_offset)s::bigint,
        next_deadline = to_timestamp(%(next_deadline)s::bigint / 1000.0),
        state = %(state)s::bytea
    FROM (
        SELECT c.xmin::text::bigint AS version FROM broker.cursor c
        WHERE c.subscription_id = %(subscription_id)s::bigint
        AND c.partition_id = %(partition_id)s::bigint
        FOR UPDATE
    ) s, broker.partition_live l
    WHERE s.version = %(cursor_version)s::bigint
    AND l.partition_id = %(partition_id)s::bigint AND l.online
    AND d.subscription_id = %(subscription_id)s::bigint
    AND d.partition_id = %(partition_id)s::bigint
    AND d.xmin::text::bigint = %(dispatch_version)s::bigint
    RETURNING d.xmin::text::bigint AS version
)
UPDATE broker.cursor c SET mark_delete = %(mark_delete)s::bigint, acked = %(acked)s::int8multirange
FROM stored s
WHERE c.subscription_id = %(subscription_id)s::bigint
AND c.partition_id = %(partition_id)s::bigint
RETURNING c.xmin::text::bigint, s.version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    CASE WHEN NOT %(durable)s::boolean
        THEN set_config('synchronous_commit', 'off', true) END

-- store_claim --
-- See functions/broker/store_claim.sql.
SELECT dispatch_version, now_ms FROM broker.store_claim(
    %(subscription_id)s::bigint, %(partition_id)s::bigint, %(cursor_version)s::bigint,
    %(dispatch_version)s::bigint, %(due_offset)s::bigint, %(next_deadline)s::bigint, %(state)s::bytea,
    %(tc_id)s::integer, %(sequence)s::bigint, %(ack_type)s::text, %(ranges)s::int8multirange
)

-- dead_letter_cursors --
-- Cursors with messages on their way to a dead-letter topic, in steps from one cursor to the next:
-- however many messages of one wait, the others get their turn.
WITH RECURSIVE waiting AS (
    (SELECT waiting_of, partition_id FROM broker.dead_letter WHERE waiting_of IS NOT NULL
        ORDER BY waiting_of, partition_id LIMIT 1)
    UNION ALL
    SELECT next.waiting_of, next.partition_id
    FROM waiting w, LATERAL (
        SELECT b.waiting_of, b.partition_id FROM broker.dead_letter b
        WHERE (b.waiting_of, b.partition_id) > (w.waiting_of, w.partition_id)
        ORDER BY b.waiting_of, b.partition_id LIMIT 1
    ) next
)
SELECT s.subscription_id, w.partition_id, s.topic, s.name
FROM waiting w JOIN broker.subscription s ON s.subscription_id = w.waiting_of

-- dead_letters_of --
SELECT b.*, s.topic_id, s.topic, s.name, s.dead_letter_topic, s.letters_by_topic, p.number, p.buffer
FROM broker.dead_letter b
JOIN broker.subscription s USING (subscription_id)
JOIN broker.partition p USING (partition_id)
WHERE b.waiting_of = %(subscription_id)s AND b.partition_id = %(partition_id)s
ORDER BY b.sequence_id LIMIT %(limit)s

-- dead_letters_left --
-- Which of some letters of one partition are still on their way.
SELECT message_offset, sequence_id FROM broker.dead_letter
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND sequence_id = ANY (%(sequence_ids)s::bigint[])

-- parked_dead_letters --
-- Parked dead letters that are to be tried again.
SELECT b.*, s.topic_id, s.topic, s.name, s.dead_letter_topic, s.letters_by_topic, p.number, p.buffer
FROM broker.dead_letter b
JOIN broker.subscription s USING (subscription_id)
JOIN broker.partition p USING (partition_id)
WHERE b.retry_at <= statement_timestamp() ORDER BY b.retry_at LIMIT %(limit)s

-- park_dead_letter --
UPDATE broker.dead_letter SET cause = %(cause)s, retry_at = clock_timestamp() + %(pause)s::interval
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
AND sequence_id = %(sequence_id)s

-- seek_bounds --
-- The offsets that a partition keeps, and the last one at a given time.
SELECT log_start_offset, next_offset,
    CASE WHEN %(at)s::timestamptz IS NOT NULL
        THEN broker.offset_at(partition_id, %(at)s::timestamptz) END AS last_before
FROM broker.partition_live WHERE partition_id = %(partition_id)s

-- clear_pending_ack_log --
DELETE FROM broker.pending_ack_log
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s

-- ack_fence --
-- Whether a transaction has ended for a subscription, by the same rule as in store_cursors.
SELECT EXISTS (
    SELECT FROM broker.ended_ack_txn e WHERE e.subscription_id = %(subscription_id)s
    AND e.tc_id = %(tc_id)s AND e.sequence = %(sequence)s
) OR EXISTS (
    SELECT FROM broker.ack_low_water_mark w WHERE w.subscription_id = %(subscription_id)s
    AND w.tc_id = %(tc_id)s AND w.low_water_mark >= %(sequence)s
) AS ended

-- lock_cursors --
-- Locks all cursors of a subscription on this broker, in the order of the partitions.
SELECT c.partition_id FROM broker.cursor c WHERE c.subscription_id = %(subscription_id)s
ORDER BY c.partition_id FOR UPDATE

-- open_ack_ends --
-- See functions/broker/open_ack_ends.sql; beside it, in a row each, the states of the partitions in which the
-- transactions hold something, under the locks that it has taken, if any.
SELECT o.subscription_id, o.ended_tcs, o.ended_sequences, o.ended_aborted, o.ended_messages,
    r.partition_id, r.number, r.buffer, r.online, r.stable_position, r.now_ms, r.log_start_offset,
    r.open_ledger, r.open_since, r.cursor_version, r.mark_delete, r.acked, r.acked_lowers,
    r.acked_uppers, r.dead, r.dispatch_version, r.state, r.pending_tcs, r.pending_sequences,
    r.pending_cumulative, r.pending_lowers, r.pending_uppers, r.tentative_tcs,
    r.tentative_sequences, r.tentative_calls, r.tentative_lowers, r.tentative_uppers,
    r.window_from, r.window_upper, r.kinds::"char"[], r.first_offsets,
    r.last_offsets, r.ledger_ids, r.tcs, r.sequences, r.sequence_ids, r.publish_times,
    r.producer_names, r.bodies, r.aborted_tcs, r.aborted_sequences, r.aborted_firsts, r.aborted_lasts
FROM broker.open_ack_ends(%(topic_id)s, %(name)s, %(tc_ids)s, %(sequences)s, %(lock)s) o
LEFT JOIN LATERAL broker.read_cursors(
    o.subscription_id, o.partition_ids, false, 0::bigint, 0::bigint, 0::bigint
) r ON true

-- end_acks --
-- See functions/broker/end_acks.sql.
SELECT broker.end_acks(
    %(subscription_id)s, %(tc_ids)s, %(sequences)s, %(aborts)s, %(messages)s, %(mark_tcs)s,
    %(marks)s, %(partition_ids)s, %(cursor_versions)s, %(dispatch_versions)s, %(mark_deletes)s,
    %(acked)s, %(due_offsets)s, %(next_deadlines)s, %(states)s, %(dead)s, %(undead)s,
    %(targets)s, %(step_partitions)s, %(step_tcs)s, %(step_sequences)s, %(step_ops)s,
    %(step_types)s, %(step_ranges)s, %(step_calls)s
)

-- conclude_ack_ends --
-- See functions/broker/conclude_ack_ends.sql.
SELECT broker.conclude_ack_ends(
    %(subscription_id)s, %(tc_ids)s, %(sequences)s, %(aborts)s, %(messages)s, %(mark_tcs)s, %(marks)s
)

-- orphans_of_subscription --
-- What holds acknowledgements of a subscription on this broker at or below low water marks that have not passed
-- it yet, by id and behind one. OFFSET 0 and the sum keep it a look-up for each mark.
SELECT DISTINCT a.tc_id, a.sequence
FROM broker.subscription s
CROSS JOIN unnest(%(mark_tcs)s::integer[], %(marks)s::bigint[]) AS m (tc, reached)
LEFT JOIN broker.ack_low_water_mark w ON w.subscription_id = s.subscription_id AND w.tc_id = m.tc
CROSS JOIN LATERAL (
    SELECT o.tc_id, o.sequence FROM broker.pending_ack o
    WHERE o.tc_id = m.tc AND o.subscription_id + 0 = s.subscription_id
    AND o.sequence > coalesce(w.low_water_mark, -1) AND o.sequence <= m.reached OFFSET 0
) a
WHERE s.topic_id = %(topic_id)s AND s.name = %(name)s
AND (a.tc_id, a.sequence) > (%(after_tc)s, %(after_sequence)s)
ORDER BY 1, 2 LIMIT %(limit)s

-- ack_low_water_marks --
SELECT tc_id, low_water_mark FROM broker.ack_low_water_mark
WHERE subscription_id = %(subscription_id)s ORDER BY tc_id

-- newest_ack_step --
-- The last record of the pending-ack log of a subscription in a partition.
SELECT log_id FROM broker.pending_ack_log
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
ORDER BY log_id DESC LIMIT 1

-- cursors --
-- The state of a subscription in all partitions of this broker.
SELECT c.partition_id, p.number, c.mark_delete, c.acked, d.state,
    (extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now_ms,
    coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position,
    l.next_offset - 1 AS last_offset
FROM broker.cursor c
JOIN broker.partition p USING (partition_id)
LEFT JOIN broker.partition_live l USING (partition_id)
LEFT JOIN broker.dispatch d
    ON d.subscription_id = c.subscription_id AND d.partition_id = c.partition_id
WHERE c.subscription_id = %(subscription_id)s ORDER BY p.number

-- pending_acks --
SELECT tc_id, sequence, ack_type, ranges FROM broker.pending_ack
WHERE subscription_id = %(subscription_id)s AND partition_id = %(partition_id)s
ORDER BY tc_id, sequence

-- all_pending_acks --
SELECT partition_id, tc_id, sequence, ack_type, ranges FROM broker.pending_ack
WHERE subscription_id = %(subscription_id)s ORDER BY partition_id, tc_id, sequence

-- counted_segments --
-- Sealed segments wholly in (after, until] for which the number of offsets that no reader gets is
-- known. Those of system topics were counted before they were compacted.
SELECT first_offset, last_offset, unseen FROM broker.segment
WHERE partition_id = %(partition_id)s AND last_offset > %(after)s AND last_offset <= %(until)s
AND unseen IS NOT NULL AND first_offset > %(after)s
AND NOT EXISTS (
    SELECT FROM broker.partition
    WHERE partition_id = %(partition_id)s AND split_part(topic, '/', 3) LIKE '\_\_%%'
)
ORDER BY last_offset

-- invisible --
-- Offsets in (mark_delete, stable] that no reader ever gets: aborted messages, and markers except
-- those that stand for the messages of their transaction; in a system topic also what compaction
-- has deleted.
SELECT coalesce(range_agg(r), '{}') AS ranges FROM (
    SELECT int8range(e.first_offset, e.last_offset, '[]') AS r FROM broker.entry e
    WHERE e.partition_id = %(partition_id)s AND e.last_offset > %(mark_delete)s
    AND e.last_offset <= (
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(partition_id)s AND b.last_offset >= %(stable_position)s
        ORDER BY b.last_offset LIMIT 1
    )
    AND e.first_offset <= %(stable_position)s AND e.kind <> 'D'
    AND coalesce(e.txn_messages, 0) = 0
    UNION ALL
    SELECT int8range(e.first_offset, e.last_offset, '[]') FROM broker.txn_index i
    JOIN broker.entry e ON e.partition_id - 0 = i.partition_id AND e.tc_id - 0 = i.tc_id
        AND e.sequence - 0 = i.sequence AND e.first_offset >= i.first_offset
        AND e.first_offset < i.last_offset
    WHERE i.aborted AND int8range(i.partition_id, i.partition_id, '[]') @> %(partition_id)s::bigint
    AND int8range(i.first_offset, i.last_offset, '[]')
        && int8range(%(mark_delete)s, %(stable_position)s, '(]')
    AND e.kind = 'D' AND e.last_offset + 0 > %(mark_delete)s
    AND e.first_offset <= %(stable_position)s
    UNION ALL
    SELECT unnest(
        int8multirange(int8range(%(mark_delete)s, %(stable_position)s, '(]')) - coalesce(k.kept, '{}')
    )
    FROM broker.partition p CROSS JOIN LATERAL (
        SELECT range_agg(int8range(e.first_offset, e.last_offset, '[]')) AS kept
        FROM broker.entry e WHERE e.partition_id = p.partition_id
        AND e.last_offset > %(mark_delete)s AND e.last_offset <= %(stable_position)s
    ) k
    WHERE p.partition_id = %(partition_id)s AND split_part(p.topic, '/', 3) LIKE '\_\_%%'
) invisible
