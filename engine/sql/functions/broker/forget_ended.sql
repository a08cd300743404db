-- Take a transaction out of a partition's fence if the low water mark has passed it: what was ended
-- late, as an orphan, is told from then on by the mark and by its entries (ended_before).
CREATE OR REPLACE FUNCTION broker.forget_ended(p_partition bigint, p_tc integer, p_sequence bigint)
RETURNS void LANGUAGE sql AS $$
    DELETE FROM broker.ended_txn e USING broker.low_water_mark w
        WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence
        AND w.partition_id = p_partition AND w.tc_id = p_tc AND w.low_water_mark >= p_sequence;
$$;
