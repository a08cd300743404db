-- Of some coordinators: (lowest sequence that has not ended) - 1, or the highest issued when there is
-- none. One statement, hence one snapshot: the header of an issued id is always there with it. Its plan
-- is kept whatever the array's length, as in record_ends.
CREATE OR REPLACE FUNCTION coordinator.low_water_marks(p_tcs integer[])
RETURNS TABLE (tc_id integer, low_water_mark bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT c.tc_id, coalesce(
        (SELECT t.sequence FROM coordinator.transaction t
            WHERE t.live_tc_id = c.tc_id
            ORDER BY t.live_tc_id, t.sequence LIMIT 1),
        c.next_sequence
    ) - 1
    FROM coordinator.coordinator c WHERE c.tc_id = ANY (p_tcs);
END
$$;
