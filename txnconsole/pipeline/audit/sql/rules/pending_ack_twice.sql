-- A message that two transactions have acknowledged, or that is acknowledged for good and by a
-- transaction as well. Ranges go by in their order, each beside the one that reaches furthest of
-- those before it.
WITH taken AS (
    SELECT broker, log_id, subscription, lower, upper, tc_id, sequence,
        concat(tc_id, ':', sequence) AS holder
    FROM {pending_acks}
    UNION ALL
    SELECT broker, log_id, subscription, lower, upper, NULL, NULL, 'acknowledged' FROM {acked}
    UNION ALL
    SELECT broker, log_id, subscription, 0, mark_delete + 1, NULL, NULL, 'acknowledged'
    FROM {cursors} WHERE mark_delete >= 0
),
seen AS (
    SELECT *, max(struct(upper, holder, tc_id, sequence)) OVER (
        PARTITION BY broker, log_id, subscription ORDER BY lower, upper, holder
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS furthest
    FROM taken
)
SELECT broker, log_id, coalesce(tc_id, furthest.tc_id) AS tc_id,
    coalesce(sequence, furthest.sequence) AS sequence, lower AS at_offset,
    named_struct(
        'subscription', subscription, 'first', lower, 'last', least(upper, furthest.upper) - 1,
        'taken_by', array(furthest.holder, holder)
    ) AS evidence
FROM seen WHERE furthest.upper > lower AND furthest.holder <> holder
