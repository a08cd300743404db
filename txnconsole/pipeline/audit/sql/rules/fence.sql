-- The fence remembers another outcome than the marker's.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset AS at_offset,
    named_struct(
        'marker', IF(s.outcome = 'A', 'aborted', 'committed'),
        'fence', IF(f.aborted, 'aborted', 'committed')
    ) AS evidence
FROM {spans} s
JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
JOIN {fence} f ON f.broker = s.broker AND f.log_id = l.home_id
    AND f.tc_id = s.tc_id AND f.sequence = s.sequence
WHERE s.markers > 0 AND f.aborted <> (s.outcome = 'A')
