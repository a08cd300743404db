-- A commit of a sidecar-buffered partition whose messages no reader finds where its marker has them:
-- the sidecar's index leads elsewhere, entries stand at other places, or the partition has no marker.
-- Compaction moves a transaction's entries in their order: what it has moved comes first.
WITH home AS (
    SELECT s.broker, s.log_id, s.tc_id, s.sequence, s.end_offset, s.commit_last, s.commit_messages
    FROM {spans} s JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE l.layout = 'home' AND s.commit_messages > 0
),
part AS (
    SELECT l.home_id, l.layout, l.log_start, s.* FROM {spans} s
    JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE l.layout IN ('sidecar', 'compacted') AND s.messages > 0
),
waiting AS (
    SELECT p.*, i.tc_id IS NOT NULL AS indexed, i.commit_offset, i.aborted,
        i.first_offset AS index_first, i.last_offset AS index_last
    FROM part p
    LEFT JOIN {index} i ON i.broker = p.broker AND i.log_id = p.log_id AND i.tc_id = p.tc_id
        AND i.sequence = p.sequence
    WHERE p.layout = 'sidecar' AND p.outcome = 'C'
),
moved AS (SELECT * FROM part WHERE layout = 'compacted'),
places AS (
    SELECT coalesce(w.broker, m.broker) AS broker, coalesce(w.home_id, m.home_id) AS log_id,
        coalesce(w.tc_id, m.tc_id) AS tc_id, coalesce(w.sequence, m.sequence) AS sequence,
        w.tc_id IS NOT NULL AS waits, w.messages AS waiting, w.indexed, w.commit_offset, w.aborted,
        w.first_offset >= w.index_first AND w.last_offset < w.index_last AS within,
        w.first_message, w.last_message, coalesce(m.messages, 0) AS moved,
        m.first_offset AS moved_first, m.last_offset AS moved_last
    FROM waiting w FULL OUTER JOIN moved m
    ON m.broker = w.broker AND m.home_id = w.home_id AND m.tc_id = w.tc_id
        AND m.sequence = w.sequence
)
SELECT p.broker, p.log_id, p.tc_id, p.sequence,
    coalesce(h.end_offset, p.commit_offset, p.moved_first) AS at_offset,
    named_struct(
        'marker', IF(h.tc_id IS NULL, NULL, named_struct(
            'first_offset', h.end_offset, 'last_offset', h.commit_last,
            'messages', h.commit_messages
        )),
        'sidecar', IF(p.waits, named_struct(
            'messages', p.waiting, 'first_message', p.first_message,
            'last_message', p.last_message, 'indexed', p.indexed,
            'commit_offset', p.commit_offset, 'aborted', p.aborted, 'within_index', p.within
        ), NULL),
        'compacted', IF(p.moved = 0, NULL, named_struct(
            'messages', p.moved, 'first_offset', p.moved_first, 'last_offset', p.moved_last
        ))
    ) AS evidence
FROM places p
JOIN {logs} l ON l.broker = p.broker AND l.log_id = p.log_id
LEFT JOIN home h ON h.broker = p.broker AND h.log_id = p.log_id AND h.tc_id = p.tc_id
    AND h.sequence = p.sequence
-- Entries of what retention has dropped are swept later.
WHERE coalesce(h.end_offset, p.commit_offset, p.moved_last, l.log_start) >= l.log_start
AND (
    h.tc_id IS NULL
    OR h.commit_last - h.end_offset + 1 <> h.commit_messages
    OR p.waits AND (
        NOT p.indexed OR p.commit_offset <> h.end_offset OR p.aborted OR NOT p.within
        OR p.first_message <> p.moved OR p.last_message <> h.commit_messages
    )
    OR p.moved > 0 AND (
        p.moved_first <> h.end_offset OR p.moved_last <> h.end_offset + p.moved - 1
    )
)
