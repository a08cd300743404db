-- What the engine holds for an ongoing transaction differs from the log, or one of the two lacks it.
SELECT
    coalesce(s.broker, o.broker) AS broker, coalesce(s.log_id, o.log_id) AS log_id,
    coalesce(s.tc_id, o.tc_id) AS tc_id, coalesce(s.sequence, o.sequence) AS sequence,
    coalesce(s.first_offset, o.first_offset) AS at_offset,
    named_struct(
        'found', IF(o.tc_id IS NULL, NULL, named_struct(
            'first_offset', o.first_offset, 'last_offset', o.last_offset, 'messages', o.messages
        )),
        'recomputed', IF(s.tc_id IS NULL, NULL, named_struct(
            'first_offset', s.first_offset, 'last_offset', s.last_offset, 'messages', s.messages
        ))
    ) AS evidence
FROM (
    SELECT s.* FROM {spans} s
    JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE s.markers = 0 AND l.layout IN ('marker', 'sidecar') AND l.next_offset IS NOT NULL
) s
FULL OUTER JOIN (
    SELECT o.* FROM {ongoing} o
    JOIN {logs} l ON l.broker = o.broker AND l.log_id = o.log_id
) o ON o.broker = s.broker AND o.log_id = s.log_id AND o.tc_id = s.tc_id
    AND o.sequence = s.sequence
WHERE s.tc_id IS NULL OR o.tc_id IS NULL OR s.first_offset <> o.first_offset
    OR s.last_offset <> o.last_offset OR s.messages <> o.messages
