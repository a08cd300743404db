-- Messages that a committed transaction has acknowledged, by the pending-ack log, and that are not
-- acknowledged: they would be delivered again. Acknowledged ranges do not touch one another, so the
-- nearest that begins before an offset is the one that may cover it.
WITH event AS (
    SELECT broker, log_id, subscription, CAST(NULL AS int) AS tc_id,
        CAST(NULL AS bigint) AS sequence, lower, upper, upper AS acked_until
    FROM {acked}
    UNION ALL
    SELECT s.broker, s.log_id, s.subscription, s.tc_id, s.sequence,
        greatest(s.lower, c.mark_delete + 1), s.upper, NULL
    FROM {ack_steps} s
    JOIN {cursors} c ON c.broker = s.broker AND c.log_id = s.log_id
        AND c.subscription = s.subscription
    WHERE s.op = 'COMMIT' AND s.upper > c.mark_delete + 1
),
walked AS (
    SELECT *, max(acked_until) OVER (
        PARTITION BY broker, log_id, subscription ORDER BY lower, acked_until DESC NULLS LAST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS covered
    FROM event
)
SELECT broker, log_id, tc_id, sequence, min(greatest(lower, coalesce(covered, lower))) AS at_offset,
    named_struct(
        'subscription', subscription, 'ranges', count(*),
        'first', min(greatest(lower, coalesce(covered, lower))), 'last', max(upper) - 1
    ) AS evidence
FROM walked WHERE tc_id IS NOT NULL AND (covered IS NULL OR covered < upper)
GROUP BY broker, log_id, subscription, tc_id, sequence
