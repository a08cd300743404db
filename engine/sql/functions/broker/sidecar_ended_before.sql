-- As ended_before, for a sidecar-buffered partition: a commit has left its marker in the partition,
-- an abort its marker in the sidecar log until that is swept.
CREATE OR REPLACE FUNCTION broker.sidecar_ended_before(
    p_partition bigint,
    p_log bigint,
    p_tc integer,
    p_sequence bigint,
    p_abort boolean
) RETURNS broker.ended_txn LANGUAGE plpgsql AS $$
DECLARE
    ended broker.ended_txn;
    marker broker.entry;
BEGIN
    SELECT * INTO ended FROM broker.ended_txn e
        WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence;
    IF FOUND THEN RETURN ended; END IF;
    PERFORM FROM broker.low_water_mark w
        WHERE w.partition_id = p_partition AND w.tc_id = p_tc AND w.low_water_mark >= p_sequence;
    IF NOT FOUND THEN RETURN NULL; END IF;
    ended.partition_id := p_partition;
    ended.tc_id := p_tc;
    ended.sequence := p_sequence;
    ended.aborted := p_abort;
    ended.messages := 0;
    SELECT * INTO marker FROM broker.entry e
        WHERE e.partition_id - 0 = p_partition AND e.tc_id - 0 = p_tc AND e.sequence - 0 = p_sequence
        LIMIT 1;
    IF FOUND THEN
        ended.aborted := false;
        ended.marker_offset := marker.first_offset;
        ended.messages := marker.txn_messages;
        IF marker.txn_messages > 0 THEN
            ended.first_offset := marker.first_offset;
            ended.last_offset := marker.last_offset;
        END IF;
        RETURN ended;
    END IF;
    -- Written so that neither the markers' order nor the index of what aborted can serve it.
    PERFORM FROM broker.txn_index i
        WHERE i.partition_id - 0 = p_log AND i.tc_id + 0 = p_tc AND i.sequence + 0 = p_sequence
        AND i.aborted::integer = 1;
    IF FOUND THEN
        ended.aborted := true;
        SELECT coalesce(max(e.txn_messages), 0) INTO ended.messages FROM broker.entry e
            WHERE e.partition_id + 0 = p_log AND e.tc_id::bigint = p_tc
            AND e.sequence + 0 = p_sequence AND e.txn_messages IS NOT NULL;
    END IF;
    RETURN ended;
END
$$;
