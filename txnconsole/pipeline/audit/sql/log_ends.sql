-- Where each log ends and up to where it is stable, from its entries alone; one without any ends where
-- it starts.
SELECT l.broker, l.log_id, coalesce(e.log_end, l.log_start) AS log_end,
    coalesce(s.held_at, e.log_end, l.log_start) AS stable_end
FROM {logs} l
LEFT JOIN (
    SELECT broker, log_id, max(last_offset) + 1 AS log_end
    FROM {entries} GROUP BY broker, log_id
) e ON e.broker = l.broker AND e.log_id = l.log_id
LEFT JOIN (
    SELECT broker, log_id, min(first_offset) AS held_at
    FROM {spans} WHERE end_offset IS NULL GROUP BY broker, log_id
) s ON s.broker = l.broker AND s.log_id = l.log_id
