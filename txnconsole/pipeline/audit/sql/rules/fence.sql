-- The fence remembers another outcome than the marker's, or the transaction elsewhere than the log has it;
-- or it has forgotten an end that no low water mark covers: what comes for the transaction from now on
-- would be taken. Where its messages were is compared where the log has them all.
WITH ended AS (
    SELECT s.broker, s.log_id, l.home_id, l.layout, l.log_start, s.tc_id, s.sequence, s.outcome,
        s.markers, s.end_offset,
        CASE WHEN l.layout <> 'home' THEN s.first_offset WHEN s.commit_messages > 0 THEN s.end_offset
            END AS first_offset,
        CASE WHEN l.layout <> 'home' THEN s.last_offset WHEN s.commit_messages > 0 THEN s.commit_last
            END AS last_offset,
        IF(l.layout = 'home', s.commit_messages, s.messages) AS messages
    FROM {spans} s JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE s.markers > 0
),
remembered AS (
    SELECT s.*, m.low_water_mark, f.aborted, f.marker_offset, f.first_offset AS fence_first,
        f.last_offset AS fence_last, f.messages AS fence_messages,
        -- Of an abort a sidecar-buffered partition remembers no place.
        f.aborted IS NOT NULL AND s.layout <> 'sidecar' AND s.markers = 1 AND NOT (
            f.marker_offset <=> s.end_offset AND (
                coalesce(f.first_offset < s.log_start, false)
                OR f.first_offset <=> s.first_offset AND f.last_offset <=> s.last_offset
                AND f.messages <=> s.messages
            )
        ) AS elsewhere
    FROM ended s
    LEFT JOIN {marks} m ON m.broker = s.broker AND m.log_id = s.home_id AND m.tc_id = s.tc_id
    LEFT JOIN {fence} f ON f.broker = s.broker AND f.log_id = s.home_id
        AND f.tc_id = s.tc_id AND f.sequence = s.sequence
)
SELECT broker, log_id, tc_id, sequence, end_offset AS at_offset,
    named_struct(
        'marker', IF(outcome = 'A', 'aborted', 'committed'),
        'fence', CASE aborted WHEN true THEN 'aborted' WHEN false THEN 'committed' END,
        'low_water_mark', low_water_mark,
        'found', IF(elsewhere, named_struct(
            'marker_offset', marker_offset, 'first_offset', fence_first, 'last_offset', fence_last,
            'messages', fence_messages
        ), NULL),
        'recomputed', IF(elsewhere, named_struct(
            'marker_offset', end_offset, 'first_offset', first_offset, 'last_offset', last_offset,
            'messages', messages
        ), NULL)
    ) AS evidence
FROM remembered
WHERE elsewhere OR coalesce(aborted <> (outcome = 'A'), sequence > coalesce(low_water_mark, -1))
