-- Steps of the pending-ack log, in order; pending_ack and tentative_ack follow from them. ACK adds
-- ranges to what a transaction holds, COMMIT and ABORT take them away. ACK of a call makes them hang on
-- it as well, without one they hang on none any more; ABORT of a call ends the call. The caller
-- holds the cursors' locks.
DROP FUNCTION IF EXISTS broker.step_pending_acks(
    bigint, bigint[], integer[], bigint[], text[], text[], int8multirange[]
);
CREATE OR REPLACE FUNCTION broker.step_pending_acks(
    p_subscription bigint,
    p_partitions bigint[],
    p_tcs integer[],
    p_sequences bigint[],
    p_ops text[],
    p_types text[],
    p_ranges int8multirange[],
    p_calls bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    left_over int8multirange;
BEGIN
    FOR i IN 1 .. cardinality(p_ops) LOOP
        IF p_ops[i] = 'ACK' AND p_calls[i] <> 0 THEN
            INSERT INTO broker.tentative_ack AS t
                VALUES (p_subscription, p_partitions[i], p_tcs[i], p_sequences[i], p_calls[i],
                    p_ranges[i])
                ON CONFLICT (subscription_id, partition_id, tc_id, sequence, call_id) DO UPDATE
                    SET ranges = t.ranges + excluded.ranges;
        ELSE
            UPDATE broker.tentative_ack t SET ranges = t.ranges - p_ranges[i]
                WHERE t.subscription_id = p_subscription AND t.partition_id = p_partitions[i]
                AND t.tc_id = p_tcs[i] AND t.sequence = p_sequences[i];
            IF FOUND THEN
                DELETE FROM broker.tentative_ack t
                    WHERE t.subscription_id = p_subscription AND t.partition_id = p_partitions[i]
                    AND t.tc_id = p_tcs[i] AND t.sequence = p_sequences[i]
                    AND (isempty(t.ranges) OR t.call_id = p_calls[i]);
            END IF;
        END IF;
        CONTINUE WHEN isempty(p_ranges[i]);  -- other calls hold all that this one did
        INSERT INTO broker.pending_ack_log
            (subscription_id, partition_id, tc_id, sequence, op, ack_type, ranges, call_id)
            VALUES (p_subscription, p_partitions[i], p_tcs[i], p_sequences[i], p_ops[i],
                p_types[i], p_ranges[i], p_calls[i]);
        IF p_ops[i] = 'ACK' THEN
            INSERT INTO broker.pending_ack AS a
                (subscription_id, partition_id, tc_id, sequence, ack_type, ranges)
                VALUES (p_subscription, p_partitions[i], p_tcs[i], p_sequences[i], p_types[i],
                    p_ranges[i])
                ON CONFLICT (subscription_id, partition_id, tc_id, sequence, ack_type) DO UPDATE
                    SET ranges = a.ranges + excluded.ranges;
        ELSE
            UPDATE broker.pending_ack a SET ranges = a.ranges - p_ranges[i]
                WHERE a.subscription_id = p_subscription AND a.partition_id = p_partitions[i]
                AND a.tc_id = p_tcs[i] AND a.sequence = p_sequences[i]
                AND a.ack_type = p_types[i]
                RETURNING a.ranges INTO left_over;
            IF isempty(left_over) THEN
                DELETE FROM broker.pending_ack a
                    WHERE a.subscription_id = p_subscription AND a.partition_id = p_partitions[i]
                    AND a.tc_id = p_tcs[i] AND a.sequence = p_sequences[i]
                    AND a.ack_type = p_types[i];
            END IF;
        END IF;
    END LOOP;
END
$$;
