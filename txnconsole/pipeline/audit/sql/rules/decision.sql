-- A marker that its coordinator has not decided. Coordinators are read after the logs and a decision
-- is recorded before its markers, so every marker of a known transaction must agree with its header,
-- or with what the archive keeps of it.
SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset AS at_offset,
    named_struct(
        'marker', IF(s.outcome = 'A', 'aborted', 'committed'), 'coordinator', o.status,
        'archived', o.archived
    ) AS evidence
FROM {spans} s
JOIN {outcomes} o ON o.tc_id = s.tc_id AND o.sequence = s.sequence
WHERE s.markers > 0
AND o.status NOT IN (
    IF(s.outcome = 'A', 'ABORTING', 'COMMITTING'), IF(s.outcome = 'A', 'ABORTED', 'COMMITTED')
)
