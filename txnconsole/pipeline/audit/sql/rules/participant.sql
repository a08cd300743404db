-- The coordinator was told another range or number of messages than the log holds, or of none at all;
-- or it does not list the partition, which then hears of no end. What it was told is compared where
-- the log has all from the first message to the marker: retention may have dropped the rest.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, coalesce(s.end_offset, s.first_offset) AS at_offset,
    named_struct(
        'found', named_struct(
            'first_offset', p.first_offset, 'last_offset', p.last_offset, 'messages', p.messages
        ),
        'recomputed', named_struct(
            'first_offset', s.first_offset, 'last_offset', s.last_offset, 'messages', s.messages
        )
    ) AS evidence
FROM (
    SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset, l.home_id, l.log_start,
        IF(l.layout = 'home', s.end_offset, s.first_offset) AS first_offset,
        IF(l.layout = 'home', s.commit_last, s.last_offset) AS last_offset,
        IF(l.layout = 'home', s.commit_messages, s.messages) AS messages,
        s.markers > 0 AND (l.layout = 'marker' OR l.layout = 'home' AND s.commit_messages > 0)
            AS ended
    FROM {spans} s JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE l.layout IN ('marker', 'home', 'sidecar')
) s
JOIN {headers} h ON h.tc_id = s.tc_id AND h.sequence = s.sequence
LEFT JOIN {participants} p
    ON p.broker = s.broker AND p.home_id = s.home_id AND p.tc_id = s.tc_id AND p.sequence = s.sequence
WHERE p.home_id IS NULL
OR s.ended AND p.messages IS NOT NULL AND coalesce(p.first_offset >= s.log_start, true)
AND NOT (
    s.first_offset <=> p.first_offset AND s.last_offset <=> p.last_offset
    AND s.messages <=> p.messages
)
