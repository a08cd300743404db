-- What a broker has done with its end commands, and what follows for transactions that have nobody left
-- to ask: COMMITTING -> COMMITTED, ABORTING -> ABORTED for those whose participants are all done; the
-- others are tried again after a back-off that doubles up to the longest pause.
--
-- A result that is there already stays. A state that is null is not done: the error says why. Answers
-- the partitions that have been recorded (kind 'partition', with their state and the moment), and the
-- transactions that have ended ('transaction', with what they took).
--
-- Plans are kept whatever the arrays' lengths: to plan it anew would take as long as it takes itself.
CREATE OR REPLACE FUNCTION coordinator.record_ends(
    p_tcs integer[],
    p_sequences bigint[],
    p_topics bigint[],
    p_partitions integer[],
    p_states text[],
    p_first_offsets bigint[],
    p_last_offsets bigint[],
    p_messages bigint[],
    p_errors text[],
    p_ack_tcs integer[],
    p_ack_sequences bigint[],
    p_ack_topics bigint[],
    p_subscriptions text[],
    p_brokers text[],
    p_ack_states text[],
    p_acked_messages bigint[],
    p_ack_errors text[],
    p_concluded_tcs integer[],
    p_concluded_sequences bigint[]
) RETURNS TABLE (
    kind text, tc_id integer, sequence bigint, state text, at timestamptz,
    end_reason text, execution_seconds float8, finalize_seconds float8
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY UPDATE coordinator.txn_partition p SET
            state = coalesce(w.state, p.state),
            first_offset = coalesce(w.first_offset, p.first_offset),
            last_offset = coalesce(w.last_offset, p.last_offset),
            messages = coalesce(w.messages, p.messages),
            attempts = p.attempts + 1,
            last_error = w.error
        FROM unnest(
            p_tcs, p_sequences, p_topics, p_partitions, p_states, p_first_offsets, p_last_offsets,
            p_messages, p_errors
        ) AS w (tc, seq, topic, number, state, first_offset, last_offset, messages, error)
        WHERE p.tc_id = w.tc AND p.sequence = w.seq AND p.topic_id = w.topic
        AND p.partition = w.number AND p.state = 'pending'
        RETURNING 'partition', p.tc_id, p.sequence, p.state, clock_timestamp(),
            NULL::text, NULL::float8, NULL::float8;
    UPDATE coordinator.txn_subscription p SET
            state = coalesce(w.state, p.state),
            acked_messages = coalesce(w.messages, p.acked_messages),
            attempts = p.attempts + 1,
            last_error = w.error
        FROM unnest(
            p_ack_tcs, p_ack_sequences, p_ack_topics, p_subscriptions, p_brokers, p_ack_states,
            p_acked_messages, p_ack_errors
        ) AS w (tc, seq, topic, subscription, broker, state, messages, error)
        WHERE p.tc_id = w.tc AND p.sequence = w.seq AND p.topic_id = w.topic
        AND p.subscription = w.subscription AND p.broker = w.broker AND p.state = 'pending';
    -- LIMIT keeps it a look-up for each; EXISTS would be answered from a hash of the whole table. IS
    -- TRUE keeps it on the primary key: an index on the status would be walked whole when few were
    -- expected.
    RETURN QUERY WITH asked AS MATERIALIZED (
            SELECT w.tc, w.seq, coalesce(a.waits, b.waits, false) AS lagging
            FROM unnest(p_concluded_tcs, p_concluded_sequences) AS w (tc, seq)
            LEFT JOIN LATERAL (
                SELECT true AS waits FROM coordinator.txn_partition p
                WHERE p.tc_id = w.tc AND p.sequence = w.seq AND p.state = 'pending' LIMIT 1
            ) a ON true
            LEFT JOIN LATERAL (
                SELECT true AS waits FROM coordinator.txn_subscription p
                WHERE p.tc_id = w.tc AND p.sequence = w.seq AND p.state = 'pending' LIMIT 1
            ) b ON true
        ), postponed AS (
            UPDATE coordinator.transaction t SET
                attempts = t.attempts + 1,
                next_attempt_at = clock_timestamp() + least(
                    coordinator.longest_pause(),
                    0.1 * 2 ^ least(t.attempts, 10) * interval '1 second'
                )
            FROM asked a
            WHERE a.lagging AND t.tc_id = a.tc AND t.sequence = a.seq
            AND (t.status IN ('COMMITTING', 'ABORTING')) IS TRUE
        ), ended AS (
            UPDATE coordinator.transaction t SET
                status = CASE t.status
                    WHEN 'COMMITTING' THEN 'COMMITTED' ELSE 'ABORTED' END::coordinator.txn_status,
                ended_at = clock_timestamp(),
                next_attempt_at = NULL
            FROM asked a
            WHERE NOT a.lagging AND t.tc_id = a.tc AND t.sequence = a.seq
            AND (t.status IN ('COMMITTING', 'ABORTING')) IS TRUE
            RETURNING t.*
        ), logged AS (
            INSERT INTO coordinator.transaction_log
                (tc_id, sequence, metadata_op, expected_status, new_status)
            SELECT e.tc_id, e.sequence, 'UPDATE',
                CASE e.status
                    WHEN 'COMMITTED' THEN 'COMMITTING' ELSE 'ABORTING' END::coordinator.txn_status,
                e.status
            FROM ended e
        )
        SELECT 'transaction', e.tc_id, e.sequence, e.status::text, e.ended_at, e.end_reason::text,
            extract(epoch FROM e.decided_at - e.opened_at)::float8,
            extract(epoch FROM e.ended_at - e.decided_at)::float8
        FROM ended e;
END
$$;
