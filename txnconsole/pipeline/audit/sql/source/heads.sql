-- The logs by their heads; a partition that recovers has none. Of what compaction has written, the
-- partition's own head tells where it begins.
WITH head AS (
    SELECT broker, topic, partition AS number, concat(topic, ':', partition) AS home_id, log,
        log_start_offset AS log_start, head_start_offset AS head_start, next_offset,
        first_ongoing_offset, deduplication, online, buffer
    FROM {raw}
)
SELECT broker, IF(log = 'partition', home_id, concat(home_id, '/', log)) AS log_id, topic, number,
    CASE WHEN log <> 'partition' THEN log WHEN buffer = 'sidecar' THEN 'home' ELSE 'marker' END
        AS layout,
    home_id, log_start, head_start, next_offset, first_ongoing_offset, deduplication, online
FROM head
UNION ALL
SELECT broker, concat(home_id, '/compacted'), topic, number, 'compacted', home_id, log_start,
    NULL, NULL, NULL, deduplication, online
FROM head WHERE log = 'partition' AND buffer = 'sidecar'
