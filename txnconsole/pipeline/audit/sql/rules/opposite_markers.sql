-- A transaction that has committed in one place and aborted in another. A row for each place, so
-- that each partition shows it; the evidence names them all.
WITH ended AS (
    SELECT s.*, l.topic, l.number FROM {spans} s
    JOIN {logs} l ON l.broker = s.broker AND l.log_id = s.log_id
    WHERE s.markers > 0
),
split AS (
    SELECT tc_id, sequence, sort_array(collect_list(named_struct(
        'topic', topic, 'partition', number, 'broker', broker,
        'first_outcome', outcome, 'first_marker', end_offset, 'last_marker', last_marker
    ))) AS places
    FROM ended GROUP BY tc_id, sequence
    HAVING min(lowest_outcome) <> max(highest_outcome)
)
SELECT e.broker, e.log_id, e.tc_id, e.sequence, e.end_offset AS at_offset,
    named_struct('places', slice(s.places, 1, 20), 'partitions', size(s.places)) AS evidence
FROM ended e JOIN split s ON s.tc_id = e.tc_id AND s.sequence = e.sequence
