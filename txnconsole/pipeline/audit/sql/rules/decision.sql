-- A marker that its coordinator has not decided. Headers are read after the logs and a decision is
-- recorded before its markers, so every marker of a known transaction must agree with its header.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset AS at_offset,
    named_struct(
        'marker', IF(s.outcome = 'A', 'aborted', 'committed'), 'coordinator', h.status
    ) AS evidence
FROM {spans} s
JOIN {headers} h ON h.tc_id = s.tc_id AND h.sequence = s.sequence
WHERE s.markers > 0
AND h.status NOT IN (
    IF(s.outcome = 'A', 'ABORTING', 'COMMITTING'), IF(s.outcome = 'A', 'ABORTED', 'COMMITTED')
)
