-- As store_cursors does for one partition whose cursor stays as it is while a transaction claims messages of
-- it, by a call on one broker: the common acknowledgement in a transaction. No row: something is not as
-- it was when it was decided on, the partition does not serve, or the transaction has ended for the
-- subscription; then nothing is stored, and the caller begins anew under the locks.
-- The cursor is locked first. What the second statement sees committed while the lock was waited for.
CREATE OR REPLACE FUNCTION broker.store_claim(
    p_subscription bigint,
    p_partition bigint,
    p_cursor_version bigint,
    p_dispatch_version bigint,
    p_due_offset bigint,
    p_next_deadline bigint,
    p_state bytea,
    p_tc integer,
    p_sequence bigint,
    p_ack_type text,
    p_ranges int8multirange
) RETURNS TABLE (dispatch_version bigint, now_ms bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM broker.cursor c
        WHERE c.subscription_id = p_subscription AND c.partition_id = p_partition
        AND c.xmin::text::bigint = p_cursor_version
        FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    RETURN QUERY WITH stored AS (
            UPDATE broker.dispatch d SET
                due_offset = p_due_offset,
                next_deadline = to_timestamp(p_next_deadline / 1000.0),
                state = p_state
            FROM broker.partition_live l
            WHERE l.partition_id = p_partition AND l.online
            AND d.subscription_id = p_subscription AND d.partition_id = p_partition
            AND d.xmin::text::bigint = p_dispatch_version
            AND NOT EXISTS (
                SELECT FROM broker.ended_ack_txn e WHERE e.subscription_id = p_subscription
                AND e.tc_id = p_tc AND e.sequence = p_sequence
            )
            AND NOT EXISTS (
                SELECT FROM broker.ack_low_water_mark w WHERE w.subscription_id = p_subscription
                AND w.tc_id = p_tc AND w.low_water_mark >= p_sequence
            )
            RETURNING d.xmin::text::bigint AS version
        ), logged AS (
            INSERT INTO broker.pending_ack_log
                (subscription_id, partition_id, tc_id, sequence, op, ack_type, ranges, call_id)
            SELECT p_subscription, p_partition, p_tc, p_sequence, 'ACK', p_ack_type, p_ranges, 0
            FROM stored
        ), held AS (
            INSERT INTO broker.pending_ack AS a
                (subscription_id, partition_id, tc_id, sequence, ack_type, ranges)
            SELECT p_subscription, p_partition, p_tc, p_sequence, p_ack_type, p_ranges FROM stored
            ON CONFLICT ON CONSTRAINT pending_ack_pkey DO UPDATE SET ranges = a.ranges + excluded.ranges
        )
        SELECT s.version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM stored s;
END
$$;
