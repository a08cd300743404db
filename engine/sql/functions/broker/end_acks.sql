-- A whole end of transactions on a subscription that was decided on without a lock, all of it or nothing:
-- what store_cursors stores, and what conclude_ack_ends concludes, under the locks of all the subscription's
-- cursors on this broker. Answers 'stored', or 'orphans' where a low water mark had to stay below some as well;
-- else 'changed', and nothing is done: one of the transactions has been ended, or has claimed something, since
-- its state was read, or a state is not the one that was read any more. Then the caller begins anew under the
-- locks (open_ack_ends).
CREATE OR REPLACE FUNCTION broker.end_acks(
    p_subscription bigint,
    p_tcs integer[],
    p_sequences bigint[],
    p_aborts boolean[],
    p_messages bigint[],
    p_mark_tcs integer[],
    p_marks bigint[],
    p_partitions bigint[],
    p_cursor_versions bigint[],
    p_dispatch_versions bigint[],
    p_mark_deletes bigint[],
    p_acked int8multirange[],
    p_due_offsets bigint[],
    p_next_deadlines bigint[],
    p_states bytea[],
    p_dead int8multirange[],
    p_undead int8multirange[],
    p_targets integer[],
    p_step_partitions bigint[],
    p_step_tcs integer[],
    p_step_sequences bigint[],
    p_step_ops text[],
    p_step_types text[],
    p_step_ranges int8multirange[],
    p_step_calls bigint[]
) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    stored text;
    orphans_left boolean;
BEGIN
    PERFORM FROM broker.cursor c WHERE c.subscription_id = p_subscription
        ORDER BY c.partition_id FOR UPDATE;
    -- Statements of their own, which see what whoever had the locks has done; OFFSET 0 keeps each a look-up
    -- for each transaction or mark, as in open_ack_ends and conclude_ack_ends.
    PERFORM FROM unnest(p_tcs, p_sequences) AS w (tc, seq), LATERAL (
            SELECT FROM broker.ended_ack_txn e WHERE e.subscription_id = p_subscription
            AND e.tc_id = w.tc AND e.sequence = w.seq
        UNION ALL
            SELECT FROM broker.pending_ack a WHERE a.tc_id = w.tc AND a.sequence = w.seq
            AND a.subscription_id + 0 = p_subscription AND a.partition_id <> ALL (p_partitions)
        OFFSET 0
    ) h;
    IF FOUND THEN RETURN 'changed'; END IF;
    IF cardinality(p_partitions) > 0 THEN
        SELECT s.result INTO stored FROM broker.store_cursors(
            p_subscription, p_partitions, p_cursor_versions, p_dispatch_versions, p_mark_deletes,
            p_acked, p_due_offsets, p_next_deadlines, p_states, p_dead, p_undead, p_targets,
            p_step_partitions, p_step_tcs, p_step_sequences, p_step_ops, p_step_types, p_step_ranges,
            p_step_calls, true, false
        ) s;
        IF stored <> 'stored' THEN RETURN 'changed'; END IF;
    END IF;
    orphans_left := broker.conclude_ack_ends(
        p_subscription, p_tcs, p_sequences, p_aborts, p_messages, p_mark_tcs, p_marks
    );
    RETURN CASE WHEN orphans_left THEN 'orphans' ELSE 'stored' END;
END
$$;
