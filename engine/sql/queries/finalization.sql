-- due_coordinators --
-- Coordinators with a decided transaction to carry out now. Steps from one coordinator that has
-- decided transactions to the next: those without cost nothing, however many there are. What has not
-- been tried is due at once.
WITH RECURSIVE earliest AS (
    (SELECT tc_id, next_attempt_at FROM coordinator.transaction
        WHERE next_attempt_at IS NOT NULL
        ORDER BY tc_id, least(attempts, 1), next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.tc_id, next.next_attempt_at
    FROM earliest, LATERAL (
        SELECT t.tc_id, t.next_attempt_at FROM coordinator.transaction t
        WHERE t.next_attempt_at IS NOT NULL AND t.tc_id > earliest.tc_id
        ORDER BY t.tc_id, least(t.attempts, 1), t.next_attempt_at LIMIT 1
    ) next
)
SELECT tc_id FROM earliest WHERE next_attempt_at <= statement_timestamp() ORDER BY tc_id

-- due_txns --
-- What some coordinators have to carry out now: first what has not been tried, in the order of decision;
-- then repetitions. Those of a broker that is away, however many wait for it, keep no others waiting.
SELECT d.*
FROM unnest(%(tc_ids)s::integer[]) AS w (tc_id), unnest(ARRAY[0, 1]) AS tried (before), LATERAL (
    SELECT
        t.tc_id, t.sequence, t.status, t.decided_at, t.trace_parent, t.next_attempt_at,
        tried.before
    FROM coordinator.transaction t
    WHERE t.tc_id = w.tc_id AND least(t.attempts, 1) = tried.before
    AND t.next_attempt_at <= statement_timestamp()
    ORDER BY t.next_attempt_at LIMIT %(limit)s
) d
ORDER BY d.before, d.next_attempt_at LIMIT %(limit)s

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
-- See functions/coordinator/low_water_marks.sql.
SELECT tc_id, low_water_mark FROM coordinator.low_water_marks(%(tc_ids)s::integer[])

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
