-- Store what was decided about one subscription in some partitions, all of it or nothing, under the
-- cursors' locks. Answers 'stored', with the versions that each partition's state has now, in their
-- order; else one row: 'changed' when a state is not the one that was read; 'ended' when a
-- transaction that claims something has ended for this subscription; 'gone' when a cursor is.
--
-- p_mark_deletes: null leaves a cursor as it is. Steps go to the pending-ack log, and pending_ack
-- follows from them: ACK adds ranges to what a transaction holds, COMMIT and ABORT take them away.
-- p_dead: offsets that go to the dead-letter topic, to partition p_targets there, in their order.
-- p_undead: offsets that have got there. p_durable: wait until it cannot be lost; what is only about
-- deliveries need not. p_serving: 'changed' also when a partition is offline or has to be rebuilt,
-- which who decides on a remembered state has not seen. p_step_calls: see step_pending_acks.
DROP FUNCTION IF EXISTS broker.store_cursors(
    bigint, bigint[], bigint[], bigint[], bigint[], int8multirange[], bigint[], bigint[], bytea[],
    int8multirange[], int8multirange[], integer[], bigint[], integer[], bigint[], text[], text[],
    int8multirange[], boolean
);
DROP FUNCTION IF EXISTS broker.store_cursors(
    bigint, bigint[], bigint[], bigint[], bigint[], int8multirange[], bigint[], bigint[], bytea[],
    int8multirange[], int8multirange[], integer[], bigint[], integer[], bigint[], text[], text[],
    int8multirange[], bigint[], boolean
);
CREATE OR REPLACE FUNCTION broker.store_cursors(
    p_subscription bigint,
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
    p_step_calls bigint[],
    p_durable boolean,
    p_serving boolean
) RETURNS TABLE (
    result text, cursor_version bigint, dispatch_version bigint, now_ms bigint
) LANGUAGE plpgsql AS $$
DECLARE
    versions bigint[];
BEGIN
    IF NOT p_durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    PERFORM FROM broker.cursor c
        WHERE c.subscription_id = p_subscription AND c.partition_id = ANY (p_partitions)
        ORDER BY c.partition_id FOR UPDATE;

    FOR i IN 1 .. cardinality(p_partitions) LOOP
        SELECT ARRAY[c.xmin::text::bigint, d.xmin::text::bigint] INTO versions
        FROM broker.cursor c LEFT JOIN broker.dispatch d
            ON d.subscription_id = c.subscription_id AND d.partition_id = c.partition_id
        WHERE c.subscription_id = p_subscription AND c.partition_id = p_partitions[i];
        IF NOT FOUND THEN result := 'gone'; RETURN NEXT; RETURN; END IF;
        IF versions IS DISTINCT FROM ARRAY[p_cursor_versions[i], p_dispatch_versions[i]] THEN
            result := 'changed'; RETURN NEXT; RETURN;
        END IF;
        CONTINUE WHEN NOT p_serving;
        PERFORM FROM broker.partition_live l WHERE l.partition_id = p_partitions[i] AND l.online;
        IF NOT FOUND THEN result := 'changed'; RETURN NEXT; RETURN; END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(p_step_ops) LOOP
        CONTINUE WHEN p_step_ops[i] <> 'ACK';
        PERFORM FROM broker.ended_ack_txn e WHERE e.subscription_id = p_subscription
            AND e.tc_id = p_step_tcs[i] AND e.sequence = p_step_sequences[i];
        IF FOUND THEN result := 'ended'; RETURN NEXT; RETURN; END IF;
        PERFORM FROM broker.ack_low_water_mark w WHERE w.subscription_id = p_subscription
            AND w.tc_id = p_step_tcs[i] AND w.low_water_mark >= p_step_sequences[i];
        IF FOUND THEN result := 'ended'; RETURN NEXT; RETURN; END IF;
    END LOOP;

    result := 'stored';
    now_ms := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        cursor_version := p_cursor_versions[i];
        UPDATE broker.dispatch d SET
            due_offset = p_due_offsets[i],
            next_deadline = to_timestamp(p_next_deadlines[i] / 1000.0),
            state = p_states[i]
            WHERE d.subscription_id = p_subscription AND d.partition_id = p_partitions[i]
            RETURNING d.xmin::text::bigint INTO dispatch_version;
        IF NOT FOUND THEN
            INSERT INTO broker.dispatch AS d VALUES (
                p_subscription, p_partitions[i], p_due_offsets[i],
                to_timestamp(p_next_deadlines[i] / 1000.0), p_states[i]
            ) RETURNING d.xmin::text::bigint INTO dispatch_version;
        END IF;
        IF p_mark_deletes[i] IS NOT NULL THEN
            UPDATE broker.cursor c SET mark_delete = p_mark_deletes[i], acked = p_acked[i]
                WHERE c.subscription_id = p_subscription AND c.partition_id = p_partitions[i]
                RETURNING c.xmin::text::bigint INTO cursor_version;
        END IF;
        IF p_dead[i] IS NOT NULL THEN
            INSERT INTO broker.dead_letter
                SELECT p_subscription, p_partitions[i],
                    c.dead_letters + row_number() OVER (ORDER BY o) - 1, o, p_targets[i]
                FROM broker.cursor c, unnest(p_dead[i]) AS r,
                    generate_series(lower(r), upper(r) - 1) AS o
                WHERE c.subscription_id = p_subscription AND c.partition_id = p_partitions[i];
            UPDATE broker.cursor c SET dead_letters = c.dead_letters + (
                SELECT sum(upper(r) - lower(r)) FROM unnest(p_dead[i]) AS r
            ) WHERE c.subscription_id = p_subscription AND c.partition_id = p_partitions[i]
                RETURNING c.xmin::text::bigint INTO cursor_version;
        END IF;
        IF p_undead[i] IS NOT NULL THEN
            DELETE FROM broker.dead_letter b
                WHERE b.subscription_id = p_subscription AND b.partition_id = p_partitions[i]
                AND p_undead[i] @> b.message_offset;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF cardinality(p_step_ops) > 0 THEN
        PERFORM broker.step_pending_acks(
            p_subscription, p_step_partitions, p_step_tcs, p_step_sequences, p_step_ops,
            p_step_types, p_step_ranges, p_step_calls
        );
    END IF;
END
$$;
