-- A transaction that has ended, by its coordinator before the snapshot or by the fence, and whose
-- messages have no marker. Not one that a truncation has opened again in a partition that is offline:
-- bringing it online ends it, and the fence has forgotten it until then.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.first_offset AS at_offset,
    named_struct(
        'first_message', s.first_offset, 'last_message', s.last_offset, 'messages', s.messages,
        'coordinator', o.status, 'archived', o.archived,
        'fence', CASE f.aborted WHEN true THEN 'aborted' WHEN false THEN 'committed' END
    ) AS evidence
FROM {spans} s
JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
LEFT JOIN {outcomes} o ON o.tc_id = s.tc_id AND o.sequence = s.sequence AND o.ended_before
LEFT JOIN {fence} f ON f.broker = s.broker AND f.log_id = l.home_id
    AND f.tc_id = s.tc_id AND f.sequence = s.sequence
WHERE s.markers = 0 AND l.layout IN ('marker', 'sidecar')
AND (o.status IS NOT NULL AND l.online IS NOT FALSE OR f.aborted IS NOT NULL)
