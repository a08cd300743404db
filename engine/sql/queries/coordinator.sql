-- ensure_coordinators --
-- Make coordinators 0 .. count - 1; never removes one.
INSERT INTO coordinator.coordinator (tc_id)
SELECT generate_series(0, %(count)s::integer - 1)
ON CONFLICT DO NOTHING

-- count_coordinators --
SELECT coalesce(max(tc_id), -1) + 1 AS count FROM coordinator.coordinator

-- count_open_of_owner --
-- At most limit: what is above it need not be known. By the expression of its index.
SELECT count(*) AS count FROM (
    SELECT FROM coordinator.transaction
    WHERE CASE WHEN status = 'OPEN' THEN owner END = %(owner)s LIMIT %(limit)s
) open

-- open_txn --
-- NewTxn: takes the next id under the coordinator's row, so that ids appear in order.
WITH allocated AS MATERIALIZED (
    UPDATE coordinator.coordinator SET next_sequence = next_sequence + 1
    WHERE tc_id = %(tc_id)s
    RETURNING next_sequence - 1 AS sequence, clock_timestamp() AS opened_at
), logged AS (
    INSERT INTO coordinator.transaction_log (tc_id, sequence, metadata_op, new_status)
    SELECT %(tc_id)s, sequence, 'NEW', 'OPEN' FROM allocated
)
INSERT INTO coordinator.transaction
    (tc_id, sequence, owner, client, client_host, properties, opened_at, timeout_ms, deadline)
SELECT
    %(tc_id)s, sequence, %(owner)s, %(client)s, %(client_host)s, %(properties)s::jsonb, opened_at,
    %(timeout_ms)s::bigint, opened_at + %(timeout_ms)s::bigint * interval '1 millisecond'
FROM allocated
RETURNING
    tc_id, sequence, status, owner, client, client_host, properties, opened_at, timeout_ms,
    deadline, decided_at, ended_at, end_reason, end_detail, clock_timestamp() AS now

-- get_txns --
SELECT t.*, clock_timestamp() AS now
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS wanted (tc_id, sequence)
JOIN coordinator.transaction t USING (tc_id, sequence)

-- archived_txns --
-- Those of the ids that are in the archive (functions/coordinator/archive_txns.sql).
SELECT w.tc_id, w.sequence, a.owner, clock_timestamp() AS now,
    CASE get_bit(a.aborted, w.sequence & 16383) WHEN 1 THEN 'ABORTED' ELSE 'COMMITTED' END AS status
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.archive a ON a.tc_id = w.tc_id AND a.chunk = w.sequence >> 14
WHERE get_bit(a.ended, w.sequence & 16383) = 1
AND (%(owner)s::text IS NULL OR a.owner = %(owner)s)

-- archive_txns --
SELECT coordinator.archive_txns(
    %(after_ms)s::bigint * interval '1 millisecond', %(keep)s, %(limit)s
) AS moved

-- whole_txn --
-- With its participants, all of one moment.
SELECT
    tc_id, sequence, status, owner, client, client_host, properties, opened_at, timeout_ms,
    deadline, decided_at, ended_at, end_reason, end_detail, clock_timestamp() AS now, partitions, subscriptions
FROM coordinator.whole_txn WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s

-- txn_log --
SELECT * FROM coordinator.transaction_log
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s AND log_id > %(after)s
ORDER BY log_id LIMIT %(limit)s

-- list_txns --
-- Looks at scan_limit headers from the cursor on, in one index, then filters: a page's cost is
-- bounded whatever the filter. Of the three scans the order chooses one; the planner drops the other
-- two. The last header looked at is answered even when it does not match, to go on from.
WITH looked_at AS MATERIALIZED (
    (SELECT t AS header, opened_at AS at FROM coordinator.transaction t
        WHERE %(order)s::text = 'newest'
        AND coordinator.leads(t, %(lead_status)s, %(lead_owner)s, %(lead_client)s)
        AND opened_at >= coalesce(%(opened_after)s::timestamptz, '-infinity')
        AND opened_at < coalesce(%(opened_before)s::timestamptz, 'infinity')
        AND opened_at <= statement_timestamp()
            - coalesce(%(min_age_ms)s::bigint, 0) * interval '1 millisecond'
        AND (%(at)s::timestamptz IS NULL OR (opened_at, tc_id, sequence)
            < (%(at)s, %(at_tc)s::integer, %(at_sequence)s::bigint))
        ORDER BY opened_at DESC, tc_id DESC, sequence DESC LIMIT %(scan_limit)s)
    UNION ALL
    (SELECT t, opened_at FROM coordinator.transaction t
        WHERE %(order)s::text = 'oldest'
        AND coordinator.leads(t, %(lead_status)s, %(lead_owner)s, %(lead_client)s)
        AND opened_at >= coalesce(%(opened_after)s::timestamptz, '-infinity')
        AND opened_at < coalesce(%(opened_before)s::timestamptz, 'infinity')
        AND opened_at <= statement_timestamp()
            - coalesce(%(min_age_ms)s::bigint, 0) * interval '1 millisecond'
        AND (%(at)s::timestamptz IS NULL OR (opened_at, tc_id, sequence)
            > (%(at)s, %(at_tc)s::integer, %(at_sequence)s::bigint))
        ORDER BY opened_at, tc_id, sequence LIMIT %(scan_limit)s)
    UNION ALL
    (SELECT t, expires_at FROM coordinator.transaction t
        WHERE %(order)s::text = 'overdue' AND expires_at IS NOT NULL
        AND (%(at)s::timestamptz IS NULL OR (expires_at, tc_id, sequence)
            > (%(at)s, %(at_tc)s::integer, %(at_sequence)s::bigint))
        ORDER BY expires_at, tc_id, sequence LIMIT %(scan_limit)s)
), judged AS (
    SELECT header, at, row_number() OVER () AS place, coordinator.matches(
        header, %(statuses)s::text[]::coordinator.txn_status[], %(tc_id)s::integer, %(owner)s,
        %(client)s, %(topic)s, %(subscription)s, %(min_age_ms)s::bigint, %(overdue)s,
        %(timed_out)s, %(pending_acks)s,
        %(opened_after)s::timestamptz, %(opened_before)s::timestamptz
    ) AS matches
    FROM looked_at
)
SELECT (header).*, at, clock_timestamp() AS now, matches, place = %(scan_limit)s AS is_last_scanned
FROM judged
WHERE matches OR place = %(scan_limit)s
ORDER BY place LIMIT %(limit)s

-- join_partitions --
-- AddPartitionToTxn while OPEN, as a set; holds the header, so that an end waits or is seen, and lets a
-- deletion of a topic wait or sees it (migration 0011). Answers the header's status and owner, and
-- whether all topics are there, whether or not anything was added.
WITH header AS MATERIALIZED (
    SELECT status, owner FROM coordinator.transaction
    WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s FOR SHARE
), joining AS MATERIALIZED (
    SELECT FROM coordinator.joining FOR KEY SHARE
), topics AS MATERIALIZED (
    SELECT bool_and(t.topic_id IS NOT NULL) AS stand
    FROM unnest(%(topic_ids)s::bigint[]) AS w (topic_id)
    LEFT JOIN LATERAL (
        SELECT h.topic_id FROM coordinator.topic h WHERE h.topic_id = w.topic_id OFFSET 0
    ) t ON true
    WHERE NOT EXISTS (SELECT FROM joining)
), added AS (
    INSERT INTO coordinator.txn_partition (tc_id, sequence, topic_id, topic, partition, broker)
    SELECT %(tc_id)s, %(sequence)s, w.topic_id, w.topic, w.partition, w.broker
    FROM header, topics, unnest(
        %(topic_ids)s::bigint[], %(topics)s::text[], %(partitions)s::integer[],
        %(brokers)s::text[]
    ) AS w (topic_id, topic, partition, broker)
    WHERE topics.stand AND header.status = 'OPEN'
    AND (%(owner)s::text IS NULL OR header.owner = %(owner)s)
    ON CONFLICT DO NOTHING
    RETURNING topic, partition
), logged AS (
    INSERT INTO coordinator.transaction_log (tc_id, sequence, metadata_op, partitions)
    SELECT %(tc_id)s, %(sequence)s, 'ADD_PARTITION',
        array_agg(topic || ':' || partition ORDER BY topic, partition)
    FROM added HAVING count(*) > 0
)
SELECT status, owner, topics.stand FROM header, topics

-- join_subscriptions --
-- AddSubscriptionToTxn, as join_partitions.
WITH header AS MATERIALIZED (
    SELECT status, owner FROM coordinator.transaction
    WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s FOR SHARE
), joining AS MATERIALIZED (
    SELECT FROM coordinator.joining FOR KEY SHARE
), topics AS MATERIALIZED (
    SELECT bool_and(t.topic_id IS NOT NULL) AS stand
    FROM unnest(%(topic_ids)s::bigint[]) AS w (topic_id)
    LEFT JOIN LATERAL (
        SELECT h.topic_id FROM coordinator.topic h WHERE h.topic_id = w.topic_id OFFSET 0
    ) t ON true
    WHERE NOT EXISTS (SELECT FROM joining)
), added AS (
    INSERT INTO coordinator.txn_subscription
        (tc_id, sequence, topic_id, topic, subscription, broker)
    SELECT %(tc_id)s, %(sequence)s, w.topic_id, w.topic, w.subscription, w.broker
    FROM header, topics, unnest(
        %(topic_ids)s::bigint[], %(topics)s::text[], %(subscriptions)s::text[],
        %(brokers)s::text[]
    ) AS w (topic_id, topic, subscription, broker)
    WHERE topics.stand AND header.status = 'OPEN'
    AND (%(owner)s::text IS NULL OR header.owner = %(owner)s)
    ON CONFLICT DO NOTHING
    RETURNING topic, subscription
), logged AS (
    INSERT INTO coordinator.transaction_log (tc_id, sequence, metadata_op, subscriptions)
    SELECT %(tc_id)s, %(sequence)s, 'ADD_SUBSCRIPTION',
        array_agg(DISTINCT topic || '/' || subscription)
    FROM added HAVING count(*) > 0
)
SELECT status, owner, topics.stand FROM header, topics

-- confirm_ack --
-- An acknowledgement has been claimed on all its brokers: recorded while the transaction is OPEN, as
-- join_partitions.
WITH header AS MATERIALIZED (
    SELECT status, owner FROM coordinator.transaction
    WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s FOR SHARE
), added AS (
    INSERT INTO coordinator.confirmed_ack (tc_id, sequence, call_id)
    SELECT %(tc_id)s, %(sequence)s, %(call_id)s FROM header WHERE status = 'OPEN'
    ON CONFLICT DO NOTHING
)
SELECT status, owner FROM header

-- confirmed_acks --
SELECT a.tc_id, a.sequence, a.call_id
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.confirmed_ack a ON a.tc_id = w.tc_id AND a.sequence = w.sequence

-- txn_statuses --
-- What an append asks first (the strict fence, semantics §4), for all who ask at once; a row for
-- each, in order. OFFSET 0 keeps it a look-up by the key for each.
SELECT t.status::text, t.owner
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) WITH ORDINALITY
    AS w (tc_id, sequence, place)
LEFT JOIN LATERAL (
    SELECT h.status, h.owner FROM coordinator.transaction h
    WHERE h.tc_id = w.tc_id AND h.sequence = w.sequence OFFSET 0
) t ON true
ORDER BY w.place

-- txn_status --
SELECT status, owner FROM coordinator.transaction
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s

-- decide --
-- See functions/coordinator/decide.sql.
SELECT
    tc_id, sequence, status, owner, client, client_host, properties, opened_at, timeout_ms,
    deadline, decided_at, ended_at, end_reason, end_detail, clock_timestamp() AS now, partitions, subscriptions
FROM coordinator.decide(
    %(tc_id)s, %(sequence)s, %(decision)s, %(reason)s, %(detail)s, %(owner)s, %(trace_parent)s
)

-- lock_headers --
-- For a group's decision: all headers, in the order of their ids.
SELECT tc_id, sequence, status, owner, end_reason FROM coordinator.transaction
WHERE (tc_id, sequence) IN (
    SELECT * FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[])
)
ORDER BY tc_id, sequence FOR UPDATE

-- find_group --
SELECT * FROM coordinator.txn_group WHERE group_key = %(group_key)s

-- claim_group --
-- No row: the group has been decided before, or is being decided by someone else.
INSERT INTO coordinator.txn_group (group_key, guard, owner, committed, aborted)
VALUES (%(group_key)s, %(guard)s, %(owner)s, %(committed)s, %(aborted)s)
ON CONFLICT DO NOTHING
RETURNING group_key

-- forget_groups --
DELETE FROM coordinator.txn_group g USING (
    SELECT group_key FROM coordinator.txn_group
    WHERE decided_at < statement_timestamp() - %(kept_ms)s::bigint * interval '1 millisecond'
    ORDER BY decided_at LIMIT %(limit)s
) old
WHERE g.group_key = old.group_key

-- decide_many --
-- Headers are locked before (lock_headers). IS TRUE keeps the planner off the indexes of OPEN ones,
-- all of which it would walk, and on the primary key.
WITH decided AS (
    UPDATE coordinator.transaction t SET
        status = w.decision::coordinator.txn_status,
        decided_at = clock_timestamp(),
        next_attempt_at = clock_timestamp(),
        end_reason = %(reason)s,
        end_detail = %(detail)s,
        trace_parent = %(trace_parent)s
    FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[], %(decisions)s::text[])
        AS w (tc_id, sequence, decision)
    WHERE t.tc_id = w.tc_id AND t.sequence = w.sequence AND (t.status = 'OPEN') IS TRUE
    RETURNING t.tc_id, t.sequence, t.status
)
INSERT INTO coordinator.transaction_log
    (tc_id, sequence, metadata_op, expected_status, new_status)
SELECT tc_id, sequence, 'UPDATE', 'OPEN', status FROM decided
RETURNING tc_id, sequence

-- extend --
-- Moves the deadline of an OPEN transaction. No row: it is not OPEN, or not the owner's.
UPDATE coordinator.transaction SET
    deadline = clock_timestamp() + %(timeout_ms)s::bigint * interval '1 millisecond'
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s AND status = 'OPEN'
AND (%(owner)s::text IS NULL OR owner = %(owner)s)
RETURNING *, clock_timestamp() AS now

-- expire_txns --
-- OPEN past its deadline -> ABORTING, once; rows that another worker or an end holds are left to it.
-- The statement's time, unlike the clock's, can be looked up in an index; it is never early. Rows are
-- found again by their place, which no statistics can talk the planner out of; one that has been
-- changed meanwhile stands elsewhere, and is the next sweep's.
WITH due AS MATERIALIZED (
    SELECT ctid AS place FROM coordinator.transaction
    WHERE expires_at < statement_timestamp()
    ORDER BY expires_at, tc_id, sequence LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), expired AS (
    UPDATE coordinator.transaction SET
        status = 'ABORTING',
        decided_at = clock_timestamp(),
        next_attempt_at = clock_timestamp(),
        end_reason = 'timeout'
    WHERE ctid = ANY (ARRAY(SELECT place FROM due))  -- locked, hence still OPEN
    RETURNING tc_id, sequence
), logged AS (
    INSERT INTO coordinator.transaction_log
        (tc_id, sequence, metadata_op, expected_status, new_status)
    SELECT tc_id, sequence, 'UPDATE', 'OPEN', 'ABORTING' FROM expired
)
SELECT tc_id, sequence FROM expired

-- due_coordinators --
-- Coordinators with a decided transaction to carry out now. Steps from one coordinator that has
-- decided transactions to the next: those without cost nothing, however many there are.
WITH RECURSIVE earliest AS (
    (SELECT tc_id, next_attempt_at FROM coordinator.transaction
        WHERE next_attempt_at IS NOT NULL
        ORDER BY tc_id, next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.tc_id, next.next_attempt_at
    FROM earliest, LATERAL (
        SELECT t.tc_id, t.next_attempt_at FROM coordinator.transaction t
        WHERE t.next_attempt_at IS NOT NULL AND t.tc_id > earliest.tc_id
        ORDER BY t.tc_id, t.next_attempt_at LIMIT 1
    ) next
)
SELECT tc_id FROM earliest WHERE next_attempt_at <= statement_timestamp() ORDER BY tc_id

-- due_txns --
-- What some coordinators have to carry out now, in the order of decision.
SELECT d.*
FROM unnest(%(tc_ids)s::integer[]) AS w (tc_id), LATERAL (
    SELECT t.tc_id, t.sequence, t.status, t.decided_at, t.trace_parent, t.next_attempt_at
    FROM coordinator.transaction t
    WHERE t.tc_id = w.tc_id AND t.next_attempt_at <= statement_timestamp()
    ORDER BY t.next_attempt_at LIMIT %(limit)s
) d
ORDER BY d.next_attempt_at LIMIT %(limit)s

-- due_partitions --
SELECT p.tc_id, p.sequence, p.topic_id, p.topic, p.partition, p.broker
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_partition p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending'

-- due_subscriptions --
SELECT p.tc_id, p.sequence, p.topic_id, p.topic, p.subscription, p.broker
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_subscription p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending'

-- note_finalizer --
INSERT INTO coordinator.finalizer AS f (tc_id, worker, at)
SELECT tc_id, %(worker)s, clock_timestamp() FROM unnest(%(tc_ids)s::integer[]) AS w (tc_id)
ORDER BY tc_id
ON CONFLICT (tc_id) DO UPDATE SET worker = excluded.worker, at = excluded.at

-- begin_recovery --
-- Steps from one coordinator that has live transactions to the next.
WITH RECURSIVE live AS (
    (SELECT live_tc_id AS tc_id FROM coordinator.transaction
        WHERE live_tc_id IS NOT NULL ORDER BY live_tc_id, sequence LIMIT 1)
    UNION ALL
    SELECT next.live_tc_id FROM live, LATERAL (
        SELECT t.live_tc_id FROM coordinator.transaction t
        WHERE t.live_tc_id > live.tc_id
        ORDER BY t.live_tc_id, t.sequence LIMIT 1
    ) next
)
UPDATE coordinator.coordinator c SET
    recover_started_at = clock_timestamp(), recover_ended_at = NULL
FROM live WHERE c.tc_id = live.tc_id
RETURNING c.tc_id

-- end_recovery --
UPDATE coordinator.coordinator SET recover_ended_at = clock_timestamp()
WHERE tc_id = ANY (%(tc_ids)s::integer[])

-- low_water_marks_of --
-- (lowest sequence that has not ended) - 1, or the highest issued when there is none. One snapshot:
-- the header of an issued id is always there with it.
SELECT c.tc_id, coalesce(
    (SELECT t.sequence FROM coordinator.transaction t
        WHERE t.live_tc_id = c.tc_id
        ORDER BY t.live_tc_id, t.sequence LIMIT 1),
    c.next_sequence
) - 1 AS low_water_mark
FROM coordinator.coordinator c WHERE c.tc_id = ANY (%(tc_ids)s::integer[])

-- record_ends --
-- See functions/coordinator/record_ends.sql.
SELECT kind, tc_id, sequence, state, at, end_reason, execution_seconds, finalize_seconds
FROM coordinator.record_ends(
    %(tc_ids)s, %(sequences)s, %(topic_ids)s, %(partitions)s, %(states)s, %(first_offsets)s,
    %(last_offsets)s, %(messages)s, %(errors)s,
    %(ack_tc_ids)s, %(ack_sequences)s, %(ack_topic_ids)s, %(subscriptions)s, %(brokers)s,
    %(ack_states)s, %(acked_messages)s, %(ack_errors)s,
    %(concluded_tc_ids)s, %(concluded_sequences)s
)

-- live_counts --
SELECT status::text, count(*) AS count FROM coordinator.transaction
WHERE live_tc_id IS NOT NULL GROUP BY status

-- coordinator_stats --
SELECT
    c.tc_id, c.next_sequence - 1 AS sequence, c.recover_started_at, c.recover_ended_at,
    coalesce(live.lowest, c.next_sequence) - 1 AS low_water_mark,
    coalesce(live.ongoing, 0) AS ongoing, coalesce(live.finalizing, 0) AS finalizing,
    (extract(epoch FROM clock_timestamp() - live.oldest_open_at) * 1000)::bigint
        AS oldest_open_age_ms,
    f.worker AS owner
FROM coordinator.coordinator c
LEFT JOIN coordinator.finalizer f ON f.tc_id = c.tc_id
LEFT JOIN (
    SELECT live_tc_id AS tc_id, min(sequence) AS lowest,
        count(*) FILTER (WHERE status = 'OPEN') AS ongoing,
        count(*) FILTER (WHERE status <> 'OPEN') AS finalizing,
        min(opened_at) FILTER (WHERE status = 'OPEN') AS oldest_open_at
    FROM coordinator.transaction
    WHERE live_tc_id IS NOT NULL GROUP BY live_tc_id
) live ON live.tc_id = c.tc_id
WHERE c.tc_id > %(after)s
ORDER BY c.tc_id LIMIT %(limit)s

-- timeout_wheel --
-- A coordinator's open transactions by how many of the bounds (seconds) their time left has passed.
SELECT width_bucket(
        extract(epoch FROM expires_at - clock_timestamp())::float8, %(bounds)s::float8[]
    ) AS slot,
    count(*) AS count
FROM coordinator.transaction
WHERE live_tc_id = %(tc_id)s AND expires_at IS NOT NULL GROUP BY 1

-- ends_between --
-- What ended in a while, by status, width and how long it took, in steps of a root of two. It reads
-- what ended then and nothing else.
SELECT date_bin(%(width)s::interval, ended_at, timestamptz '2020-01-01') AS since,
    status::text AS status,
    floor(%(steps)s::integer * log(2.0, greatest(1.0,
        extract(epoch FROM ended_at - opened_at) * 1000)))::integer AS step,
    count(*) AS count
FROM coordinator.transaction
WHERE ended_at >= %(since)s::timestamptz AND ended_at < %(until)s::timestamptz
GROUP BY 1, 2, 3

-- ends_of_coordinators --
-- What ended in a while, by coordinator, as ends_between.
SELECT date_bin(%(width)s::interval, ended_at, timestamptz '2020-01-01') AS since, tc_id,
    count(*) FILTER (WHERE status = 'COMMITTED') AS committed,
    count(*) FILTER (WHERE status = 'ABORTED') AS aborted,
    count(*) FILTER (WHERE end_reason = 'timeout') AS timed_out
FROM coordinator.transaction
WHERE ended_at >= %(since)s::timestamptz AND ended_at < %(until)s::timestamptz
GROUP BY 1, 2

-- create_topic --
INSERT INTO coordinator.topic (
    tenant, namespace, topic, buffer, brokers, retention_ms, retention_bytes,
    segment_max_messages, segment_max_bytes, deduplication
) VALUES (
    %(tenant)s, %(namespace)s, %(topic)s, %(buffer)s, %(brokers)s, %(retention_ms)s,
    %(retention_bytes)s, %(segment_max_messages)s, %(segment_max_bytes)s, %(deduplication)s
)
ON CONFLICT (tenant, namespace, topic) DO NOTHING
RETURNING *

-- get_topic --
SELECT * FROM coordinator.topic
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND topic = %(topic)s

-- hold_topic --
-- A topic as it stands, kept so: what is told to its brokers is what stands here, however many change
-- it at once.
SELECT * FROM coordinator.topic WHERE topic_id = %(topic_id)s FOR NO KEY UPDATE

-- grow_topic --
-- Compare-and-set on the brokers that were read.
UPDATE coordinator.topic SET brokers = %(brokers)s
WHERE topic_id = %(topic_id)s AND brokers = %(expected)s
RETURNING *

-- change_retention --
UPDATE coordinator.topic SET
    retention_ms = %(retention_ms)s, retention_bytes = %(retention_bytes)s
WHERE topic_id = %(topic_id)s RETURNING *

-- list_topics --
SELECT * FROM coordinator.topic
WHERE (tenant, namespace, topic) > (%(tenant)s, %(namespace)s, %(topic)s)
AND (%(include_system)s OR topic NOT LIKE '\_\_%%')
ORDER BY tenant, namespace, topic LIMIT %(limit)s

-- topics_named --
-- Those whose names hold a text, first those whose last part begins with it; of so many as are looked
-- through.
WITH looked AS MATERIALIZED (
    SELECT topic, tenant || '/' || namespace || '/' || topic AS name FROM coordinator.topic
    WHERE (%(include_system)s OR topic NOT LIKE '\_\_%%') LIMIT %(look_through)s
)
SELECT (SELECT count(*) FROM looked) AS looked_through, ARRAY(
    SELECT name FROM looked WHERE position(%(part)s IN lower(name)) > 0
    ORDER BY NOT starts_with(lower(topic), %(part)s), name LIMIT %(limit)s
) AS names

-- hold_for_deletion --
-- Waits for who makes its partitions, before anybody waits for the deletion.
SELECT topic_id FROM coordinator.topic WHERE topic_id = %(topic_id)s FOR UPDATE

-- topic_in_use --
-- The pending index's own way to write its predicate, here and below (migration 0005).
SELECT tc_id, sequence FROM coordinator.txn_partition
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
UNION
SELECT tc_id, sequence FROM coordinator.txn_subscription
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
LIMIT 5

-- abandon_partitions --
-- The part that transactions have in a topic that is deleted by force: aborted, and they say why.
UPDATE coordinator.txn_partition SET state = 'aborted', last_error = %(error)s
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
RETURNING tc_id, sequence, topic || ':' || partition AS participant

-- abandon_subscriptions --
UPDATE coordinator.txn_subscription SET state = 'aborted', last_error = %(error)s
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
RETURNING tc_id, sequence, topic || '/' || subscription AS participant

-- abandon_subscription --
-- As abandon_subscriptions, of one that is deleted by force.
UPDATE coordinator.txn_subscription SET state = 'aborted', last_error = %(error)s
WHERE topic_id = %(topic_id)s AND subscription = %(subscription)s AND state = 'pending'
RETURNING tc_id, sequence, topic || '/' || subscription AS participant

-- subscription_in_use --
SELECT tc_id, sequence FROM coordinator.txn_subscription
WHERE topic_id = %(topic_id)s AND subscription = %(subscription)s AND state || '' = 'pending'
LIMIT 5

-- abandoned_txns --
-- Those, not ended yet, whose part in a subscription has been aborted by deleting it. By the index's
-- own way to write its predicate (migration 0010).
SELECT DISTINCT s.tc_id, s.sequence FROM coordinator.txn_subscription s
JOIN coordinator.transaction t USING (tc_id, sequence)
WHERE s.topic_id = %(topic_id)s AND s.subscription = %(subscription)s
AND s.state || '' = 'aborted' AND s.last_error IS NOT NULL AND t.ended_at IS NULL

-- delete_topic --
-- What its brokers have of it is still to be deleted.
WITH gone AS (
    DELETE FROM coordinator.topic WHERE topic_id = %(topic_id)s RETURNING topic_id, brokers
)
INSERT INTO coordinator.dropped_topic (topic_id, broker)
SELECT DISTINCT topic_id, unnest(brokers) FROM gone

-- dropped_topics --
SELECT topic_id, broker FROM coordinator.dropped_topic
WHERE broker = %(broker)s ORDER BY topic_id LIMIT %(limit)s

-- forget_dropped_topic --
DELETE FROM coordinator.dropped_topic WHERE topic_id = %(topic_id)s AND broker = %(broker)s

-- add_figures --
-- Adds to what has been counted. Rows are locked ascending, so that writers of one shard queue up.
INSERT INTO coordinator.figure AS f (name, label, shard, count, seconds, buckets)
SELECT w.name, w.label, %(shard)s, w.count, w.seconds, w.buckets::bigint[]
FROM unnest(
    %(names)s::text[], %(labels)s::text[], %(counts)s::bigint[], %(seconds)s::float8[],
    %(buckets)s::text[]
) AS w (name, label, count, seconds, buckets)
ORDER BY w.name, w.label
ON CONFLICT (name, label, shard) DO UPDATE SET
    count = f.count + excluded.count,
    seconds = f.seconds + excluded.seconds,
    buckets = (
        SELECT coalesce(array_agg(coalesce(b.old, 0) + coalesce(b.new, 0) ORDER BY b.place), '{}')
        FROM unnest(f.buckets, excluded.buckets) WITH ORDINALITY AS b (old, new, place)
    )

-- figures --
SELECT name, label, count, seconds, buckets FROM coordinator.figure

-- live_of_coordinators --
-- What each coordinator has issued, and what of it has not ended, by status. From the index of what
-- has not ended alone.
SELECT c.tc_id, c.next_sequence AS issued, live.status::text, coalesce(live.count, 0) AS count
FROM coordinator.coordinator c
LEFT JOIN (
    SELECT live_tc_id AS tc_id, status, count(*) AS count FROM coordinator.transaction
    WHERE live_tc_id IS NOT NULL GROUP BY live_tc_id, status
) live ON live.tc_id = c.tc_id
ORDER BY c.tc_id

-- live_ages --
-- How many are past their deadline, and for how long the oldest has been open, or decided; of those
-- that are decided no more than ten thousand are looked at.
SELECT
    (SELECT count(*) FROM coordinator.transaction WHERE expires_at < statement_timestamp())
        AS overdue,
    coalesce(extract(epoch FROM statement_timestamp() - (
        SELECT opened_at FROM coordinator.transaction WHERE status = 'OPEN'
        ORDER BY opened_at LIMIT 1
    )), 0)::float8 AS oldest_open_seconds,
    coalesce(extract(epoch FROM statement_timestamp() - (
        SELECT min(d.decided_at) FROM (
            SELECT decided_at FROM coordinator.transaction WHERE next_attempt_at IS NOT NULL
            ORDER BY tc_id, next_attempt_at LIMIT 10000
        ) d
    )), 0)::float8 AS oldest_decided_seconds

-- broken_checks --
SELECT count(*) AS broken FROM coordinator.invariant_check
WHERE counter_examples <> '[]' OR found <> '[]'
