-- due_coordinators --
-- Coordinators with a decided transaction to carry out now. Steps from one coordinator that has
-- decided transactions to the next: those without cost nothing, however many there are. What is due
-- is due_ends' to say. The coordinator is written as it is in the index (migration 0013).
WITH RECURSIVE earliest AS (
    (SELECT tc_id, attempts, next_attempt_at FROM coordinator.transaction
        WHERE next_attempt_at IS NOT NULL
        ORDER BY tc_id + 0, least(attempts, 1), next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.*
    FROM earliest, LATERAL (
        SELECT t.tc_id, t.attempts, t.next_attempt_at FROM coordinator.transaction t
        WHERE t.next_attempt_at IS NOT NULL AND t.tc_id + 0 > earliest.tc_id
        ORDER BY t.tc_id + 0, least(t.attempts, 1), t.next_attempt_at LIMIT 1
    ) next
)
SELECT tc_id FROM earliest e
WHERE attempts = 0 OR next_attempt_at <= statement_timestamp() OR EXISTS (
    SELECT FROM coordinator.transaction t
    WHERE t.tc_id + 0 = e.tc_id AND least(t.attempts, 1) = 1
    AND t.next_attempt_at > statement_timestamp() + coordinator.longest_pause()
)
ORDER BY tc_id

-- due_ends --
-- See functions/coordinator/due_ends.sql.
SELECT kind, tc_id, sequence, status, decided_at, trace_parent, topic_id, topic, partition,
    subscription, broker, number
FROM coordinator.due_ends(%(tc_ids)s, %(limit)s)

-- note_finalizer --
INSERT INTO coordinator.finalizer AS f (tc_id, worker)
SELECT tc_id, %(worker)s FROM unnest(%(tc_ids)s::integer[]) AS w (tc_id)
ORDER BY tc_id
ON CONFLICT (tc_id) DO UPDATE SET worker = excluded.worker

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

-- begin_recovery_of --
UPDATE coordinator.coordinator SET recover_started_at = clock_timestamp(), recover_ended_at = NULL
WHERE tc_id = %(tc_id)s RETURNING tc_id

-- try_now --
-- Decided transactions of a coordinator that wait for their next attempt are due at once. Rows that a
-- finalizer has locked are left to it. The coordinator is written as it is in the index (migration 0013).
WITH waiting AS MATERIALIZED (
    SELECT ctid AS place FROM coordinator.transaction
    WHERE tc_id + 0 = %(tc_id)s AND least(attempts, 1) = 1 AND next_attempt_at > statement_timestamp()
    ORDER BY next_attempt_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE coordinator.transaction SET next_attempt_at = statement_timestamp()
WHERE ctid = ANY (ARRAY(SELECT place FROM waiting))

-- end_recovery --
UPDATE coordinator.coordinator SET recover_ended_at = clock_timestamp()
WHERE tc_id = ANY (%(tc_ids)s::integer[])

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

-- torn_participants --
-- Participants of some transactions that have to be ended and have carried out the opposite end, as
-- record_ends has just recorded it.
SELECT p.tc_id, p.sequence, p.topic FROM coordinator.txn_partition p
JOIN unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
    USING (tc_id, sequence)
WHERE p.state = 'pending' AND p.last_error = 'opposite'
UNION ALL
SELECT p.tc_id, p.sequence, p.topic FROM coordinator.txn_subscription p
JOIN unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
    USING (tc_id, sequence)
WHERE p.state = 'pending' AND p.last_error = 'opposite'
