-- The logs of a broker: partitions, their sidecars, and what compaction has made of those. Topics of
-- the system itself are left out: their entries are deleted one by one, not from the start on.
SELECT
    p.partition_id, h.topic_id, p.topic, p.number,
    CASE WHEN p.sidecar_of IS NOT NULL THEN 'sidecar'
        WHEN p.buffer = 'sidecar' THEN 'home' ELSE 'marker' END AS layout,
    h.partition_id AS home_id, p.log_start_offset AS log_start,
    l.next_offset, l.first_ongoing_offset, p.deduplication,
    coalesce(l.next_offset, (
        SELECT e.last_offset + 1 FROM broker.entry e WHERE e.partition_id = p.partition_id
        ORDER BY e.last_offset DESC LIMIT 1
    ), 0) AS scan_end
FROM broker.partition p
JOIN broker.partition h ON h.partition_id = coalesce(p.sidecar_of, p.partition_id)
LEFT JOIN broker.partition_live l ON l.partition_id = p.partition_id
WHERE split_part(p.topic, '/', 3) NOT LIKE '\_\_%'
UNION ALL
SELECT
    s.compacted_id, h.topic_id, h.topic, h.number, 'compacted', h.partition_id, h.log_start_offset,
    NULL, NULL, s.deduplication,
    coalesce(l.next_offset, (
        SELECT e.last_offset + 1 FROM broker.entry e WHERE e.partition_id = s.compacted_id
        ORDER BY e.last_offset DESC LIMIT 1
    ), 0)
FROM broker.partition s
JOIN broker.partition h ON h.partition_id = s.sidecar_of
LEFT JOIN broker.partition_live l ON l.partition_id = h.partition_id
