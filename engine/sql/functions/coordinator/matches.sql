-- The filters of a list that no index serves; lists bound how many rows they look at.
CREATE OR REPLACE FUNCTION coordinator.matches(
    t coordinator.transaction, p_tc integer, p_min_age_ms bigint, p_overdue boolean, p_topic text
) RETURNS boolean LANGUAGE sql STABLE RETURN
    (p_tc IS NULL OR t.tc_id = p_tc)
    AND (p_min_age_ms IS NULL OR coalesce(t.ended_at, clock_timestamp()) - t.opened_at
        >= p_min_age_ms * interval '1 millisecond')
    AND (NOT p_overdue OR t.status = 'OPEN' AND t.deadline < clock_timestamp())
    AND (p_topic IS NULL OR EXISTS (
        SELECT FROM coordinator.txn_partition p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence AND p.topic = p_topic
    ) OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence AND p.topic = p_topic
    ));
