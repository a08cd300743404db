-- A commit marker of a sidecar-buffered partition that stands for another number of messages than
-- the sidecar log and its compacted part hold.
SELECT c.broker, c.log_id, c.tc_id, c.sequence, c.end_offset AS at_offset,
    named_struct('marker_says', c.commit_messages, 'found', coalesce(d.messages, 0)) AS evidence
FROM (
    SELECT s.* FROM {spans} s
    JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE l.layout = 'home' AND s.commit_messages > 0
) c
LEFT JOIN (
    SELECT s.broker, l.home_id, s.tc_id, s.sequence, sum(s.messages) AS messages
    FROM {spans} s JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE l.layout IN ('sidecar', 'compacted')
    GROUP BY s.broker, l.home_id, s.tc_id, s.sequence
) d ON d.broker = c.broker AND d.home_id = c.log_id AND d.tc_id = c.tc_id
    AND d.sequence = c.sequence
WHERE coalesce(d.messages, 0) <> c.commit_messages
