-- What is known of a transaction that has ended in a partition: the fence's row or, once the low
-- water mark has covered it and the fence has forgotten it, what its entries say. A null row: it
-- has not ended here. Below the mark it has ended everywhere, so a late repetition must not write
-- a second marker; one that left no entry answers the end that is asked for.
CREATE OR REPLACE FUNCTION broker.ended_before(
    p_partition bigint,
    p_tc integer,
    p_sequence bigint,
    p_abort boolean
) RETURNS broker.ended_txn LANGUAGE plpgsql AS $$
DECLARE
    ended broker.ended_txn;
BEGIN
    SELECT * INTO ended FROM broker.ended_txn e
        WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence;
    IF FOUND THEN RETURN ended; END IF;
    PERFORM FROM broker.low_water_mark w
        WHERE w.partition_id = p_partition AND w.tc_id = p_tc AND w.low_water_mark >= p_sequence;
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT
        p_partition, p_tc, p_sequence,
        coalesce(bool_or(e.kind = 'A') FILTER (WHERE e.kind <> 'D'), p_abort),
        max(e.last_offset) FILTER (WHERE e.kind <> 'D'),
        min(e.first_offset) FILTER (WHERE e.kind = 'D'),
        max(e.last_offset) FILTER (WHERE e.kind = 'D'),
        coalesce(sum(e.last_offset - e.first_offset + 1) FILTER (WHERE e.kind = 'D'), 0)
        INTO ended FROM broker.entry e
        WHERE e.partition_id - 0 = p_partition AND e.tc_id - 0 = p_tc AND e.sequence - 0 = p_sequence;
    RETURN ended;
END
$$;
