-- ensure_coordinators --
-- Makes coordinators 0 .. count - 1; never removes one.
INSERT INTO coordinator.coordinator (tc_id)
SELECT generate_series(0, %(count)s::integer - 1)
ON CONFLICT DO NOTHING

-- count_coordinators --
SELECT coalesce(max(tc_id), -1) + 1 AS count FROM coordinator.coordinator

-- count_open_of_owner --
-- Counts up to limit, since nobody needs to know what is above. The WHERE clause must be written
-- like the index's expression.
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
-- A transaction with its participants, all as of one moment.
SELECT
    tc_id, sequence, status, owner, client, client_host, properties, opened_at, timeout_ms,
    deadline, decided_at, ended_at, end_reason, end_detail, clock_timestamp() AS now, partitions, subscriptions
FROM coordinator.whole_txn WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s

-- txn_log --
SELECT * FROM coordinator.transaction_log
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s AND log_id > %(after)s
ORDER BY log_id LIMIT %(limit)s

-- list_txns --
-- Looks at scan_limit headers from the cursor on, in one index, and then filters them, so that the
-- cost of a page is bounded whatever the filter. The order chooses one of the three scans; the
-- planner drops the other two, and the filters that are not asked for. The last header looked at is
-- returned even when it does not match, to go on from. OFFSET 0 keeps the looks at participants
-- look-ups, one for each header: the planner could read all of a topic's instead.
WITH looked_at AS MATERIALIZED (
    (SELECT t AS header, opened_at AS at FROM coordinator.transaction t
        WHERE %(order)s::text = 'newest'
        AND coordinator.leads(t, %(lead_status)s, %(lead_owner)s, %(lead_client)s)
        AND opened_at >= coalesce(%(opened_after)s::timestamptz, '-infinity')
        AND opened_at < coalesce(%(opened_before)s::timestamptz, 'infinity')
        AND opened_at <= coalesce(
            statement_timestamp() - %(min_age_ms)s::bigint * interval '1 millisecond', 'infinity')
        AND (%(at)s::timestamptz IS NULL OR (opened_at, tc_id, sequence)
            < (%(at)s, %(at_tc)s::integer, %(at_sequence)s::bigint))
        ORDER BY opened_at DESC, tc_id DESC, sequence DESC LIMIT %(scan_limit)s)
    UNION ALL
    (SELECT t, opened_at FROM coordinator.transaction t
        WHERE %(order)s::text = 'oldest'
        AND coordinator.leads(t, %(lead_status)s, %(lead_owner)s, %(lead_client)s)
        AND opened_at >= coalesce(%(opened_after)s::timestamptz, '-infinity')
        AND opened_at < coalesce(%(opened_before)s::timestamptz, 'infinity')
        AND opened_at <= coalesce(
            statement_timestamp() - %(min_age_ms)s::bigint * interval '1 millisecond', 'infinity')
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
        %(client)s, %(min_age_ms)s::bigint, %(overdue)s, %(timed_out)s,
        %(opened_after)s::timestamptz, %(opened_before)s::timestamptz
    ) AND (NOT %(pending_acks)s::boolean OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = (header).tc_id AND p.sequence = (header).sequence AND p.state = 'pending'
        OFFSET 0
    )) AND (%(topic)s::text IS NULL OR EXISTS (
        SELECT FROM coordinator.txn_partition p
        WHERE p.tc_id = (header).tc_id AND p.sequence = (header).sequence AND p.topic = %(topic)s
        OFFSET 0
    ) OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = (header).tc_id AND p.sequence = (header).sequence AND p.topic = %(topic)s
        OFFSET 0
    )) AND (%(subscription)s::text IS NULL OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = (header).tc_id AND p.sequence = (header).sequence
        AND %(subscription)s IN (p.subscription, p.topic || '/' || p.subscription)
        OFFSET 0
    )) AS matches
    FROM looked_at
)
SELECT (header).*, at, clock_timestamp() AS now, matches, place = %(scan_limit)s AS is_last_scanned
FROM judged
WHERE matches OR place = %(scan_limit)s
ORDER BY place LIMIT %(limit)s

-- join_partitions --
-- AddPartitionToTxn while OPEN, for a set of partitions. It locks the header, so that an end either
-- waits or is seen, and lets the deletion of a topic wait or sees it (migration 0011). It returns
-- the header's status and owner, and whether all topics exist, whether or not anything was added.
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
-- AddSubscriptionToTxn, as join_partitions. A part that a deletion by force has aborted stays aborted on brokers that
-- the topic has grown onto since: the subscription that was made anew refuses the transaction there, too.
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
        (tc_id, sequence, topic_id, topic, subscription, broker, state, last_error)
    SELECT %(tc_id)s, %(sequence)s, w.topic_id, w.topic, w.subscription, w.broker,
        coalesce(g.state, 'pending'), g.last_error
    FROM header, topics, unnest(
        %(topic_ids)s::bigint[], %(topics)s::text[], %(subscriptions)s::text[],
        %(brokers)s::text[]
    ) AS w (topic_id, topic, subscription, broker)
    LEFT JOIN LATERAL (
        SELECT p.state, p.last_error FROM coordinator.txn_subscription p
        WHERE p.tc_id = %(tc_id)s AND p.sequence = %(sequence)s AND p.topic_id = w.topic_id
        AND p.subscription = w.subscription AND p.state = 'aborted' LIMIT 1
    ) g ON true
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
-- An acknowledgement has been claimed on all its brokers: record that while the transaction is
-- OPEN, as join_partitions does.
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
-- each, in order. OFFSET 0 keeps it a look-up by the key for each. The conditions, which always
-- hold, make PostgreSQL take an array that it does not know for one row instead of ten: otherwise
-- it finds a plan for the few that there are cheaper, and plans each call anew (0042).
SELECT t.status::text, t.owner
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) WITH ORDINALITY
    AS w (tc_id, sequence, place)
LEFT JOIN LATERAL (
    SELECT h.status, h.owner FROM coordinator.transaction h
    WHERE h.tc_id = w.tc_id AND h.sequence = w.sequence OFFSET 0
) t ON true
WHERE w.tc_id >= 0 AND w.sequence >= 0
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
-- For the decision on a group: all headers, in the order of their ids.
SELECT tc_id, sequence, status, owner, end_reason FROM coordinator.transaction
WHERE (tc_id, sequence) IN (
    SELECT * FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[])
)
ORDER BY tc_id, sequence FOR UPDATE

-- find_group --
SELECT * FROM coordinator.txn_group WHERE group_key = %(group_key)s

-- claim_group --
-- No row: the group has been decided before, or another call is deciding it.
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
-- The headers have been locked before (lock_headers). IS TRUE keeps the planner on the primary key,
-- off the indexes of OPEN headers, which it would walk completely.
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

-- extend --
-- Moves the deadline of an OPEN transaction. No row: it is not OPEN, or not the owner's.
UPDATE coordinator.transaction SET
    deadline = clock_timestamp() + %(timeout_ms)s::bigint * interval '1 millisecond'
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s AND status = 'OPEN'
AND (%(owner)s::text IS NULL OR owner = %(owner)s)
RETURNING tc_id

-- expire_txns --
-- OPEN past its deadline -> ABORTING, once; rows that another worker or an end has locked are left
-- to them. The statement's time, unlike the clock's, can be looked up in an index, and it is never
-- too early. Rows are found again by their physical place (ctid), whatever the statistics. A row
-- that has been changed meanwhile is at another place, and is left to the next sweep.
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

-- cluster_id --
SELECT cluster_id FROM coordinator.cluster

-- broker_known --
SELECT name FROM coordinator.broker WHERE name = %(name)s

-- know_broker --
INSERT INTO coordinator.broker (name) VALUES (%(name)s) ON CONFLICT DO NOTHING

-- compared --
-- See migration 0018.
SELECT EXISTS (
    SELECT FROM coordinator.compared c WHERE c.server_started_at = pg_postmaster_start_time()
    AND c.database_id = d.oid AND c.table_id = 'coordinator.compared'::regclass
) AS compared, u.cluster_id
FROM pg_database d, coordinator.cluster u WHERE d.datname = current_database()

-- note_compared --
INSERT INTO coordinator.compared (server_started_at, database_id, table_id)
SELECT pg_postmaster_start_time(), oid, 'coordinator.compared'::regclass FROM pg_database
WHERE datname = current_database()
ON CONFLICT (single) DO UPDATE SET server_started_at = excluded.server_started_at,
    database_id = excluded.database_id, table_id = excluded.table_id

-- issued --
-- The highest sequence that each coordinator has issued, and up to where all are decided.
SELECT c.tc_id, c.next_sequence - 1 AS sequence, coalesce(l.lowest, c.next_sequence) - 1 AS decided
FROM coordinator.coordinator c
LEFT JOIN LATERAL (
    SELECT t.sequence AS lowest FROM coordinator.transaction t
    WHERE t.live_tc_id = c.tc_id AND t.status = 'OPEN'
    ORDER BY t.sequence LIMIT 1
) l ON true

-- open_ids --
SELECT tc_id, sequence FROM coordinator.transaction WHERE live_tc_id IS NOT NULL AND status = 'OPEN'

-- open_though_ended --
-- Transactions that are OPEN, of some that have ended in a partition or on a subscription of a broker. A subscription
-- that was made anew after a deletion by force has ended those alone whose part that has aborted: no end of theirs.
SELECT DISTINCT t.tc_id, t.sequence
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(subscriptions)s::text[]
) AS w (tc_id, sequence, topic_id, subscription)
JOIN coordinator.transaction t USING (tc_id, sequence)
WHERE t.status = 'OPEN' AND NOT EXISTS (
    SELECT FROM coordinator.txn_subscription p
    WHERE p.tc_id = w.tc_id AND p.sequence = w.sequence AND p.topic_id = w.topic_id
    AND p.subscription = w.subscription AND p.state = 'aborted'
)

-- hold_coordinators --
-- Locks all coordinators, so that none issues an id meanwhile.
SELECT tc_id, next_sequence FROM coordinator.coordinator ORDER BY tc_id FOR UPDATE

-- adopt_txns --
-- Headers for ids that a coordinator has issued and does not know any more, ended as the brokers tell; then it
-- issues higher ones only.
WITH lost AS (
    SELECT * FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[], %(aborted)s::boolean[])
        AS w (tc_id, sequence, aborted)
), logged AS (
    INSERT INTO coordinator.transaction_log (tc_id, sequence, metadata_op, expected_status, new_status)
    SELECT l.tc_id, l.sequence, op.name, op.expected, op.new FROM lost l CROSS JOIN LATERAL (VALUES
        (1, 'NEW', NULL::coordinator.txn_status, 'OPEN'::coordinator.txn_status),
        (2, 'UPDATE', 'OPEN', CASE WHEN l.aborted THEN 'ABORTED' ELSE 'COMMITTED' END::coordinator.txn_status)
    ) AS op (step, name, expected, new)
    ORDER BY l.tc_id, l.sequence, op.step
), made AS (
    INSERT INTO coordinator.transaction (
        tc_id, sequence, status, owner, client, properties, opened_at, timeout_ms, deadline, decided_at,
        ended_at, end_reason, end_detail
    )
    SELECT tc_id, sequence, CASE WHEN aborted THEN 'ABORTED' ELSE 'COMMITTED' END::coordinator.txn_status,
        '', '', '{}', now(), 1, now(), now(), now(), 'operator', %(detail)s
    FROM lost
)
UPDATE coordinator.coordinator c SET next_sequence = n.next
FROM (SELECT tc_id, max(sequence) + 1 AS next FROM lost GROUP BY tc_id) n
WHERE c.tc_id = n.tc_id AND c.next_sequence < n.next

-- pass_over_topics --
-- No topic gets an id that the brokers know.
SELECT setval(
    pg_get_serial_sequence('coordinator.topic', 'topic_id'),
    greatest(nextval(pg_get_serial_sequence('coordinator.topic', 'topic_id')), %(topic_id)s)
) AS topic_id

-- committing_acks --
-- Transactions whose commit is decided and still to be carried out on a subscription.
SELECT DISTINCT tc_id, sequence FROM coordinator.txn_subscription p
JOIN coordinator.transaction t USING (tc_id, sequence)
WHERE p.state = 'pending' AND t.status = 'COMMITTING'

-- abandon_parts --
-- As abandon_subscription, for single transactions.
UPDATE coordinator.txn_subscription p SET state = 'aborted', last_error = %(error)s
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(subscriptions)s::text[]
) AS w (tc_id, sequence, topic_id, subscription)
WHERE p.tc_id = w.tc_id AND p.sequence = w.sequence AND p.topic_id = w.topic_id
AND p.subscription = w.subscription AND p.state = 'pending'
