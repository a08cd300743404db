-- A marker, or a fence without one, that its coordinator has not decided. Coordinators are read after the
-- logs and a decision is recorded before it is carried out, so each of a known transaction must agree
-- with its header, or with what the archive keeps of it.
SELECT e.broker, e.log_id, e.tc_id, e.sequence, e.at_offset,
    named_struct(
        'marker', IF(e.by_fence, NULL, e.outcome), 'fence', IF(e.by_fence, e.outcome, NULL),
        'coordinator', o.status, 'archived', o.archived
    ) AS evidence
FROM (
    SELECT broker, log_id, tc_id, sequence, end_offset AS at_offset, false AS by_fence,
        IF(outcome = 'A', 'aborted', 'committed') AS outcome
    FROM {spans} WHERE markers > 0
    UNION ALL
    SELECT f.broker, f.log_id, f.tc_id, f.sequence, NULL, true,
        IF(f.aborted, 'aborted', 'committed')
    FROM {fence} f
    LEFT ANTI JOIN {spans} s ON s.broker = f.broker AND s.log_id = f.log_id AND s.tc_id = f.tc_id
        AND s.sequence = f.sequence AND s.markers > 0
) e
JOIN {outcomes} o ON o.tc_id = e.tc_id AND o.sequence = e.sequence
WHERE o.status NOT IN (
    IF(e.outcome = 'aborted', 'ABORTING', 'COMMITTING'),
    IF(e.outcome = 'aborted', 'ABORTED', 'COMMITTED')
)
