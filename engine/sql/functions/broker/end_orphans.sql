-- End ongoing transactions of one partition the way their coordinator has decided, or abort them
-- when it knows nothing of them. Unlike end_txns it goes by the ongoing transaction itself: its
-- marker may have been truncated after the low water mark had passed it. What is not ongoing is
-- passed over. The caller has made sure that the partition is there and online.
CREATE OR REPLACE FUNCTION broker.end_orphans(
    p_partition bigint,
    p_tcs integer[],
    p_sequences bigint[],
    p_aborts boolean[]
) RETURNS TABLE (tc_id integer, sequence bigint, marker_offset bigint) LANGUAGE plpgsql AS $$
DECLARE
    head broker.partition_live;
    side broker.partition_live;
    log_id bigint;
    orphan record;
    done record;
    ended broker.ended_txn;
BEGIN
    SELECT * INTO head FROM broker.partition_live l
        WHERE l.partition_id = p_partition FOR UPDATE;
    IF head.partition_id IS NULL THEN RETURN; END IF;
    SELECT p.partition_id INTO log_id FROM broker.partition p WHERE p.sidecar_of = p_partition;
    IF FOUND THEN
        SELECT * INTO side FROM broker.partition_live l WHERE l.partition_id = log_id FOR UPDATE;
        IF NOT FOUND THEN RETURN; END IF;
    END IF;
    FOR orphan IN
        SELECT o.tc_id, o.sequence, t.abort FROM broker.ongoing_txn o
        JOIN unnest(p_tcs, p_sequences, p_aborts) AS t (tc, seq, abort)
            ON o.tc_id = t.tc AND o.sequence = t.seq
        WHERE o.partition_id = coalesce(log_id, p_partition) ORDER BY o.first_offset
    LOOP
        -- A fence that says the opposite of the decision: nothing carried that out, since it is open.
        DELETE FROM broker.ended_txn e
            WHERE e.partition_id = p_partition AND e.tc_id = orphan.tc_id
            AND e.sequence = orphan.sequence AND e.aborted <> orphan.abort;
        IF log_id IS NULL THEN
            done := broker.end_txn(head, orphan.tc_id, orphan.sequence, orphan.abort, true);
            ended := done.ended;
            marker_offset := ended.marker_offset;
        ELSE
            done := broker.end_sidecar_txn(
                head, side, orphan.tc_id, orphan.sequence, orphan.abort
            );
            -- An abort has its marker in the sidecar log only.
            marker_offset := CASE WHEN orphan.abort THEN side.next_offset ELSE head.next_offset END;
            side := done.new_side;
        END IF;
        head := done.new_head;
        PERFORM broker.forget_ended(p_partition, orphan.tc_id, orphan.sequence);
        tc_id := orphan.tc_id;
        sequence := orphan.sequence;
        RETURN NEXT;
    END LOOP;
    PERFORM broker.write_head(head);
    IF log_id IS NOT NULL THEN PERFORM broker.write_head(side); END IF;
END
$$;
