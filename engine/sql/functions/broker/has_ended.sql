-- The fence: has a transaction ended in a partition? Its marker stands there or its abort has been
-- remembered, or the low water mark has covered it. The caller holds the partition's lock.
CREATE OR REPLACE FUNCTION broker.has_ended(p_partition bigint, p_tc integer, p_sequence bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM broker.ended_txn e
        WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence
    ) OR EXISTS (
        SELECT FROM broker.low_water_mark w
        WHERE w.partition_id = p_partition AND w.tc_id = p_tc AND w.low_water_mark >= p_sequence
    );
END
$$;
