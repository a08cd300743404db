-- A subscription has acknowledged messages that are not in the log.
SELECT t.broker, t.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    max(t.upper) - 1 AS at_offset,
    named_struct(
        'subscription', t.subscription, 'last', max(t.upper) - 1, 'log_end', max(t.log_end)
    ) AS evidence
FROM (
    SELECT a.broker, a.log_id, a.subscription, a.upper, coalesce(e.log_end, l.next_offset) AS log_end
    FROM (
        SELECT broker, log_id, subscription, mark_delete + 1 AS upper FROM {cursors}
        UNION ALL SELECT broker, log_id, subscription, upper FROM {acked}
        UNION ALL SELECT broker, log_id, subscription, upper FROM {pending_acks}
    ) a
    JOIN {logs} l ON l.broker = a.broker AND l.log_id = a.log_id
    LEFT JOIN {log_ends} e ON e.broker = a.broker AND e.log_id = a.log_id
) t
WHERE t.upper > t.log_end
GROUP BY t.broker, t.log_id, t.subscription
