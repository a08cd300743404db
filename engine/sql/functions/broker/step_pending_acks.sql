-- Steps of the pending-ack log, in order; pending_ack follows from them. ACK adds ranges to what a
-- transaction holds, COMMIT and ABORT take them away. The caller holds the cursors' locks.
CREATE OR REPLACE FUNCTION broker.step_pending_acks(
    p_subscription bigint,
    p_partitions bigint[],
    p_tcs integer[],
    p_sequences bigint[],
    p_ops text[],
    p_types text[],
    p_ranges int8multirange[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    left_over int8multirange;
BEGIN
    FOR i IN 1 .. cardinality(p_ops) LOOP
        INSERT INTO broker.pending_ack_log
            (subscription_id, partition_id, tc_id, sequence, op, ack_type, ranges)
            VALUES (p_subscription, p_partitions[i], p_tcs[i], p_sequences[i], p_ops[i],
                p_types[i], p_ranges[i]);
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
