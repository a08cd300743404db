-- live_txns --
-- Transactions that have not ended, from a place on; transactions that have ended cost nothing.
SELECT *, clock_timestamp() AS now FROM coordinator.transaction
WHERE (live_tc_id, sequence) > (%(tc_id)s::integer, %(sequence)s::bigint)
AND live_tc_id IS NOT NULL
ORDER BY live_tc_id, sequence LIMIT %(limit)s

-- whole_txns --
-- As whole_txn, for many, the oldest first.
SELECT t.*, clock_timestamp() AS now
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.whole_txn t ON t.tc_id = w.tc_id AND t.sequence = w.sequence
ORDER BY t.opened_at, t.tc_id, t.sequence

-- waiting_for --
-- The participants that decided transactions wait for, and why.
SELECT p.tc_id, p.sequence, p.topic || ':' || p.partition AS participant, p.attempts, p.last_error
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_partition p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending'
UNION ALL
SELECT p.tc_id, p.sequence, p.topic || '/' || p.subscription, p.attempts, p.last_error
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_subscription p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending'
LIMIT %(limit)s

-- partition_memberships --
-- Which of the given partitions are participants of which of the given transactions.
SELECT p.tc_id, p.sequence, p.topic_id, p.partition AS member, p.state
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[],
    %(members)s::integer[]
) AS w (tc_id, sequence, topic_id, member)
JOIN coordinator.txn_partition p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
    AND p.topic_id = w.topic_id AND p.partition = w.member

-- subscription_memberships --
-- As partition_memberships, for the subscriptions of one broker.
SELECT p.tc_id, p.sequence, p.topic_id, p.subscription AS member, p.state
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(members)s::text[]
) AS w (tc_id, sequence, topic_id, member)
JOIN coordinator.txn_subscription p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
    AND p.topic_id = w.topic_id AND p.subscription = w.member AND p.broker = %(broker)s

-- retry_now --
-- Makes a decided transaction due for the finalizer at once.
UPDATE coordinator.transaction SET next_attempt_at = clock_timestamp()
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s AND status IN ('COMMITTING', 'ABORTING')

-- lowest_live --
-- The lowest sequence that has not ended, and the next to be issued.
SELECT c.next_sequence, (
    SELECT min(t.sequence) FROM coordinator.transaction t
    WHERE t.live_tc_id = c.tc_id
) AS lowest
FROM coordinator.coordinator c WHERE c.tc_id = %(tc_id)s

-- headers_from --
-- Headers of a coordinator from a sequence on.
SELECT *, clock_timestamp() AS now FROM coordinator.transaction
WHERE tc_id = %(tc_id)s AND sequence >= %(sequence)s ORDER BY sequence LIMIT %(limit)s

-- participants_from --
-- Partitions that take part in transactions of a coordinator, within a range of sequences.
SELECT * FROM coordinator.txn_partition
WHERE tc_id = %(tc_id)s AND sequence BETWEEN %(first)s AND %(last)s

-- acknowledgers_from --
SELECT * FROM coordinator.txn_subscription
WHERE tc_id = %(tc_id)s AND sequence BETWEEN %(first)s AND %(last)s

-- participants_astray --
-- Participants that have joined according to the transaction log and are not recorded, or the other
-- way round, within a range of sequences. They are compared by name, since the log has their names.
WITH logged AS (
    SELECT DISTINCT l.sequence, p.participant FROM coordinator.transaction_log l
    CROSS JOIN LATERAL unnest(l.partitions || l.subscriptions) AS p (participant)
    WHERE l.tc_id = %(tc_id)s AND l.sequence BETWEEN %(first)s AND %(last)s
), named AS (
    SELECT sequence, topic || ':' || partition AS participant FROM coordinator.txn_partition
    WHERE tc_id = %(tc_id)s AND sequence BETWEEN %(first)s AND %(last)s
    UNION
    SELECT sequence, topic || '/' || subscription FROM coordinator.txn_subscription
    WHERE tc_id = %(tc_id)s AND sequence BETWEEN %(first)s AND %(last)s
)
SELECT %(tc_id)s::integer AS tc_id, sequence, participant, l.logged IS NOT NULL AS logged,
    n.named IS NOT NULL AS named
FROM (SELECT *, true AS logged FROM logged) l
FULL JOIN (SELECT *, true AS named FROM named) n USING (sequence, participant)
WHERE l.logged IS NULL OR n.named IS NULL ORDER BY sequence, participant LIMIT 20

-- ids_out_of_order --
-- Ids that come after a higher id of their coordinator in the order of the transaction log.
SELECT sequence, log_id, log_id_before FROM (
    SELECT l.sequence, l.log_id, lag(l.log_id) OVER (ORDER BY l.sequence) AS log_id_before
    FROM coordinator.transaction_log l WHERE l.tc_id = %(tc_id)s
    AND l.sequence BETWEEN %(first)s::bigint - 1 AND %(last)s AND l.metadata_op = 'NEW'
) l WHERE log_id < log_id_before ORDER BY sequence LIMIT 20

-- ids_astray --
-- Issued ids that have neither a header nor a bit in the archive, or more than one of these; and
-- ids that were never issued and have any; within a range of the archive's chunks. They are counted
-- for each chunk. Only in the first chunk whose counts differ each id is checked.
WITH wrong AS MATERIALIZED (
    SELECT c.tc_id, c.next_sequence, chunk, chunk << 14 AS first
    FROM coordinator.coordinator c
    CROSS JOIN generate_series(%(first)s::bigint, %(last)s::bigint) AS chunk
    WHERE c.tc_id = %(tc_id)s AND greatest(0, least(c.next_sequence - (chunk << 14), 16384)) <> (
        SELECT count(*) FROM coordinator.transaction t
        WHERE t.tc_id = c.tc_id AND t.sequence >= chunk << 14 AND t.sequence < (chunk + 1) << 14
    ) + (
        SELECT coalesce(sum(bit_count(a.ended)), 0) FROM coordinator.archive a
        WHERE a.tc_id = c.tc_id AND a.chunk = chunk.chunk
    )
    ORDER BY chunk LIMIT 1
), archived AS MATERIALIZED (
    SELECT a.ended || ''::bytea AS ended  -- decompressed once, not for each id
    FROM wrong JOIN coordinator.archive a USING (tc_id, chunk)
)
SELECT * FROM (
    SELECT tc_id, sequence, sequence < next_sequence AS issued, (
        SELECT count(*) FROM coordinator.transaction t
        WHERE t.tc_id = wrong.tc_id AND t.sequence = n.sequence
    ) AS headers, (
        SELECT coalesce(sum(get_bit(ended, sequence & 16383)), 0) FROM archived
    ) AS archived
    FROM wrong CROSS JOIN generate_series(first, first + 16383) AS n (sequence)
) n
WHERE headers + archived <> issued::integer ORDER BY sequence LIMIT 20

-- write_check --
-- A step of a pass. Counter-examples are collected until the pass is complete, and then replace
-- those of the last one.
INSERT INTO coordinator.invariant_check AS c
    (name, subject, invariant, position, found, counter_examples, detail, completed_at)
VALUES (
    %(name)s, %(subject)s, %(invariant)s, %(position)s,
    CASE WHEN %(whole)s THEN '[]' ELSE %(found)s::jsonb END,
    CASE WHEN %(whole)s THEN %(found)s::jsonb ELSE '[]' END,
    %(detail)s, CASE WHEN %(whole)s THEN clock_timestamp() END
)
ON CONFLICT (name, subject) DO UPDATE SET
    position = excluded.position,
    found = CASE WHEN %(whole)s THEN '[]' WHEN %(begins)s THEN %(found)s::jsonb
        ELSE jsonb_path_query_array(c.found || %(found)s::jsonb, '$[0 to 19]') END,
    counter_examples = CASE WHEN NOT %(whole)s THEN c.counter_examples
        WHEN %(begins)s THEN %(found)s::jsonb
        ELSE jsonb_path_query_array(c.found || %(found)s::jsonb, '$[0 to 19]') END,
    detail = excluded.detail,
    checked_at = clock_timestamp(),
    completed_at = coalesce(excluded.completed_at, c.completed_at)

-- check_positions --
SELECT name, position FROM coordinator.invariant_check WHERE subject = %(subject)s

-- checks --
-- What is known of invariants, broken ones first and then by invariant, after a place; only the
-- broken ones if asked for, only those of subjects with a text in their names. Of two names that
-- differ in their numbers the shorter comes first. The expressions are those of the index
-- (migration 0015).
SELECT * FROM coordinator.invariant_check
WHERE (
    (counter_examples = '[]' AND found = '[]'), invariant, name,
    split_part(subject, ':', 1), length(subject), subject
) > (
    %(holds)s::boolean, %(invariant)s::smallint, %(name)s::text,
    split_part(%(subject)s::text, ':', 1), length(%(subject)s::text), %(subject)s::text
)
AND (counter_examples = '[]' AND found = '[]') <= NOT %(broken)s::boolean
AND subject NOT LIKE 'round:%%'
AND position(%(part)s::text IN lower(subject)) > 0
ORDER BY (counter_examples = '[]' AND found = '[]'), invariant, name,
    split_part(subject, ':', 1), length(subject), subject
LIMIT %(limit)s

-- check_totals --
SELECT count(*) FILTER (WHERE counter_examples <> '[]' OR found <> '[]') AS broken,
    count(*) AS checks, min(checked_at) AS oldest, max(checked_at) AS newest
FROM coordinator.invariant_check WHERE subject NOT LIKE 'round:%%'

-- forget_checks --
-- Forgets the checks of what has been deleted, which is not checked any more and so is among the
-- oldest: at once where all held, after a day what was broken.
DELETE FROM coordinator.invariant_check WHERE (name, subject) IN (
    SELECT c.name, c.subject
    FROM (SELECT * FROM coordinator.invariant_check ORDER BY checked_at LIMIT 1000) c
    CROSS JOIN LATERAL string_to_array(split_part(c.subject, ':', 1), '/') AS topic (part)
    WHERE c.checked_at < clock_timestamp() - interval '1 day'
    OR cardinality(topic.part) = 3 AND c.counter_examples = '[]' AND c.found = '[]'
    AND NOT EXISTS (
        SELECT FROM coordinator.topic t
        WHERE (t.tenant, t.namespace, t.topic) = (topic.part[1], topic.part[2], topic.part[3])
    )
)

-- recent_ends --
-- How the newest transactions to end have ended.
SELECT status::text, count(*) AS count FROM (
    SELECT status FROM coordinator.transaction
    WHERE ended_at > statement_timestamp() - %(seconds)s::bigint * interval '1 second'
    ORDER BY ended_at DESC LIMIT %(limit)s
) e GROUP BY status

-- recovering --
-- Coordinators in recovery, and for how long.
SELECT tc_id, extract(epoch FROM clock_timestamp() - recover_started_at)::float8 * 1000 AS age_ms
FROM coordinator.coordinator WHERE recover_started_at IS NOT NULL AND recover_ended_at IS NULL

-- holdings_of_txns --
-- What transactions took part in, as recorded. Messages and acknowledgements are known for
-- participants that have ended.
SELECT w.tc_id, w.sequence, p.partitions, p.messages, s.subscriptions, s.acks
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions, coalesce(sum(messages), 0)::bigint AS messages
    FROM coordinator.txn_partition t WHERE t.tc_id = w.tc_id AND t.sequence = w.sequence
) p
CROSS JOIN LATERAL (
    SELECT count(DISTINCT (topic_id, subscription)) AS subscriptions,
        coalesce(sum(acked_messages), 0)::bigint AS acks
    FROM coordinator.txn_subscription t WHERE t.tc_id = w.tc_id AND t.sequence = w.sequence
) s

-- open_members --
-- The partitions in which transactions may still be open, and those that wait for their end.
SELECT p.tc_id, p.sequence, p.topic_id, p.partition AS number, p.broker
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_partition p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending' LIMIT %(limit)s

-- open_subscriptions --
-- The subscriptions of which transactions may still hold acknowledgements, and those that wait for their end.
SELECT p.tc_id, p.sequence, p.topic_id, p.subscription AS name, p.broker
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_subscription p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending' LIMIT %(limit)s

-- durations_by_owner --
-- How long the transactions that ended last took until their decision, by owner. For those that
-- timed out this is the length of their timeout, not the time that they would have needed.
SELECT owner, count(*) AS transactions,
    count(*) FILTER (WHERE timed_out) AS timed_out,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY took_ms) FILTER (WHERE NOT timed_out) AS p50_ms,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY took_ms) FILTER (WHERE NOT timed_out) AS p99_ms,
    max(took_ms) FILTER (WHERE NOT timed_out) AS longest_ms,
    min(timeout_ms) AS shortest_timeout_ms, max(timeout_ms) AS longest_timeout_ms,
    coalesce(sum(took_ms) FILTER (WHERE timed_out), 0)::bigint AS wasted_ms,
    min(ended_at) AS since, max(ended_at) AS until
FROM (
    SELECT owner, timeout_ms, ended_at, coalesce(end_reason = 'timeout', false) AS timed_out,
        (extract(epoch FROM decided_at - opened_at) * 1000)::bigint AS took_ms
    FROM coordinator.transaction WHERE ended_at IS NOT NULL
    ORDER BY ended_at DESC, tc_id DESC, sequence DESC LIMIT %(sample)s
) t
GROUP BY owner ORDER BY count(*) DESC, owner LIMIT %(limit)s
