-- Where each log ends and up to where it is stable, from its entries alone.
SELECT l.broker, l.partition_id, l.log_end, coalesce(s.held_at, l.log_end) AS stable_end
FROM (
    SELECT broker, partition_id, max(last_offset) + 1 AS log_end
    FROM {entries} GROUP BY broker, partition_id
) l
LEFT JOIN (
    SELECT broker, partition_id, min(first_offset) AS held_at
    FROM {spans} WHERE end_offset IS NULL GROUP BY broker, partition_id
) s ON s.broker = l.broker AND s.partition_id = l.partition_id
