-- A subscription has acknowledged messages that are not in the log.
SELECT t.broker, t.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    max(t.upper) - 1 AS at_offset,
    named_struct(
        'subscription', t.subscription, 'last', max(t.upper) - 1, 'log_end', max(e.log_end)
    ) AS evidence
FROM (
    SELECT broker, log_id, subscription, mark_delete + 1 AS upper FROM {cursors}
    UNION ALL SELECT broker, log_id, subscription, upper FROM {acked}
    UNION ALL SELECT broker, log_id, subscription, upper FROM {pending_acks}
) t
JOIN {log_ends} e ON e.broker = t.broker AND e.log_id = t.log_id
WHERE t.upper > e.log_end
GROUP BY t.broker, t.log_id, t.subscription
