-- What ending transactions on a subscription begins with: all its cursors on this broker are locked, in
-- the order of the partitions; then it is looked up which of the transactions have been ended before,
-- how, and in which partitions they hold something. No row: there is no such subscription. Without
-- p_lock nothing is locked, and what is decided on it is stored by end_acks, which finds what has changed.
-- Plans are kept whatever the arrays' lengths, as in coordinator.record_ends.
DROP FUNCTION IF EXISTS broker.open_ack_ends(bigint, text, integer[], bigint[]);
CREATE OR REPLACE FUNCTION broker.open_ack_ends(
    p_topic bigint,
    p_name text,
    p_tcs integer[],
    p_sequences bigint[],
    p_lock boolean DEFAULT true
) RETURNS TABLE (
    subscription_id bigint, ended_tcs integer[], ended_sequences bigint[], ended_aborted boolean[],
    ended_messages bigint[], partition_ids bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT s.subscription_id INTO subscription_id FROM broker.subscription s
        WHERE s.topic_id = p_topic AND s.name = p_name;
    IF NOT FOUND THEN RETURN; END IF;
    IF p_lock THEN
        PERFORM FROM broker.cursor c WHERE c.subscription_id = open_ack_ends.subscription_id
            ORDER BY c.partition_id FOR UPDATE;
    END IF;
    -- Statements of their own, which see what whoever had the locks has done; OFFSET 0 keeps each a look-up
    -- for each transaction.
    SELECT array_agg(e.tc_id), array_agg(e.sequence), array_agg(e.aborted), array_agg(e.messages)
    INTO ended_tcs, ended_sequences, ended_aborted, ended_messages
    FROM unnest(p_tcs, p_sequences) AS w (tc, seq), LATERAL (
        SELECT t.* FROM broker.ended_ack_txn t
        WHERE t.subscription_id = open_ack_ends.subscription_id
        AND t.tc_id = w.tc AND t.sequence = w.seq OFFSET 0
    ) e;
    SELECT coalesce(array_agg(DISTINCT h.partition_id), '{}') INTO partition_ids
    FROM unnest(p_tcs, p_sequences) AS w (tc, seq), LATERAL (
        SELECT a.partition_id FROM broker.pending_ack a
        WHERE a.tc_id = w.tc AND a.sequence = w.seq
        AND a.subscription_id + 0 = open_ack_ends.subscription_id OFFSET 0
    ) h;
    RETURN NEXT;
END
$$;
