-- All filters of a list (api.md, console.md); lists bound how many headers they look at.
DROP FUNCTION IF EXISTS coordinator.matches(
    coordinator.transaction, coordinator.txn_status[], integer, text, text, text, bigint, boolean,
    timestamptz, timestamptz
);
CREATE OR REPLACE FUNCTION coordinator.matches(
    t coordinator.transaction, p_statuses coordinator.txn_status[], p_tc integer, p_owner text,
    p_client text, p_topic text, p_subscription text, p_min_age_ms bigint, p_overdue boolean,
    p_timed_out boolean, p_pending_acks boolean, p_opened_after timestamptz,
    p_opened_before timestamptz
) RETURNS boolean LANGUAGE sql STABLE RETURN
    (p_statuses IS NULL OR t.status = ANY (p_statuses))
    AND (p_tc IS NULL OR t.tc_id = p_tc)
    AND (p_owner IS NULL OR t.owner = p_owner)
    AND (p_client IS NULL OR t.client = p_client)
    AND (p_opened_after IS NULL OR t.opened_at >= p_opened_after)
    AND (p_opened_before IS NULL OR t.opened_at < p_opened_before)
    AND (p_min_age_ms IS NULL OR coalesce(t.ended_at, clock_timestamp()) - t.opened_at
        >= p_min_age_ms * interval '1 millisecond')
    AND (NOT p_overdue OR coalesce(t.expires_at < clock_timestamp(), false))
    AND (NOT p_timed_out OR coalesce(t.end_reason = 'timeout', false))
    AND (NOT p_pending_acks OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence AND p.state = 'pending'
    ))
    AND (p_topic IS NULL OR EXISTS (
        SELECT FROM coordinator.txn_partition p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence AND p.topic = p_topic
    ) OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence AND p.topic = p_topic
    ))
    AND (p_subscription IS NULL OR EXISTS (
        SELECT FROM coordinator.txn_subscription p
        WHERE p.tc_id = t.tc_id AND p.sequence = t.sequence
        AND p_subscription IN (p.subscription, p.topic || '/' || p.subscription)
    ));
