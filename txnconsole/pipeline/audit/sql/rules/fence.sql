-- The fence remembers another outcome than the marker's, or has forgotten an end that no low water mark
-- covers: what comes for the transaction from now on would be taken.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset AS at_offset,
    named_struct(
        'marker', IF(s.outcome = 'A', 'aborted', 'committed'),
        'fence', CASE f.aborted WHEN true THEN 'aborted' WHEN false THEN 'committed' END,
        'low_water_mark', m.low_water_mark
    ) AS evidence
FROM {spans} s
JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
LEFT JOIN {marks} m ON m.broker = s.broker AND m.log_id = l.home_id AND m.tc_id = s.tc_id
LEFT JOIN {fence} f ON f.broker = s.broker AND f.log_id = l.home_id
    AND f.tc_id = s.tc_id AND f.sequence = s.sequence
WHERE s.markers > 0
AND coalesce(f.aborted <> (s.outcome = 'A'), s.sequence > coalesce(m.low_water_mark, -1))
