-- The filters of a list that its headers alone decide (api.md, console.md). Inlined by the planner, so
-- that 5000 headers take milliseconds: it holds no question about other rows, and is declared VOLATILE
-- because it asks the clock. The participants' filters stand in list_txns.
DROP FUNCTION IF EXISTS coordinator.matches(
    coordinator.transaction, coordinator.txn_status[], integer, text, text, text, bigint, boolean,
    timestamptz, timestamptz
);
DROP FUNCTION IF EXISTS coordinator.matches(
    coordinator.transaction, coordinator.txn_status[], integer, text, text, text, text, bigint, boolean,
    boolean, boolean, timestamptz, timestamptz
);
CREATE OR REPLACE FUNCTION coordinator.matches(
    t coordinator.transaction, p_statuses coordinator.txn_status[], p_tc integer, p_owner text,
    p_client text, p_min_age_ms bigint, p_overdue boolean, p_timed_out boolean,
    p_opened_after timestamptz, p_opened_before timestamptz
) RETURNS boolean LANGUAGE sql VOLATILE RETURN
    (p_statuses IS NULL OR t.status = ANY (p_statuses))
    AND (p_tc IS NULL OR t.tc_id = p_tc)
    AND (p_owner IS NULL OR t.owner = p_owner)
    AND (p_client IS NULL OR t.client = p_client)
    AND (p_opened_after IS NULL OR t.opened_at >= p_opened_after)
    AND (p_opened_before IS NULL OR t.opened_at < p_opened_before)
    AND (p_min_age_ms IS NULL OR coalesce(t.ended_at, clock_timestamp()) - t.opened_at
        >= p_min_age_ms * interval '1 millisecond')
    AND (NOT p_overdue OR coalesce(t.expires_at < clock_timestamp(), false))
    AND (NOT p_timed_out OR coalesce(t.end_reason = 'timeout', false));
