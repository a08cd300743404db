-- For how long each owner's transactions held readers back, in milliseconds of each minute, summed
-- over partitions. Of the open transactions of a partition the one that began first holds; when it
-- ends, the next that is still open takes over. Those that ever hold are the ones whose end lies
-- further out than that of all that began before them. One that is open holds until now.
WITH span AS (
    SELECT broker, topic, partition, tc_id, sequence,
        min(first_offset) FILTER (WHERE kind = 'D') AS first_offset,
        min(publish_time) FILTER (WHERE kind = 'D') AS began,
        coalesce(min(publish_time) FILTER (WHERE kind <> 'D'), timestamp {now}) AS ended
    FROM {entries} WHERE log = 'partition' AND tc_id IS NOT NULL
    GROUP BY broker, topic, partition, tc_id, sequence
),
seen AS (
    SELECT *, max(ended) OVER (
        PARTITION BY broker, topic, partition ORDER BY first_offset
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS others_ended
    FROM span WHERE first_offset IS NOT NULL
),
holding AS (
    SELECT tc_id, sequence,
        greatest(began, others_ended, timestamp {since}) AS held_from, least(ended, timestamp {until}) AS held_to
    FROM seen WHERE others_ended IS NULL OR ended > others_ended
),
each_minute AS (
    SELECT h.*, explode(sequence(
        date_trunc('minute', held_from), date_trunc('minute', held_to), INTERVAL 1 MINUTE
    )) AS at
    FROM holding h WHERE held_from < held_to
)
SELECT m.at, 'owner' AS dimension, t.owner AS name,
    sum(
        unix_millis(least(m.held_to, m.at + INTERVAL 1 MINUTE))
        - unix_millis(greatest(m.held_from, m.at))
    ) AS held_ms
FROM each_minute m JOIN {headers} t ON t.tc_id = m.tc_id AND t.sequence = m.sequence
WHERE m.at < m.held_to
GROUP BY m.at, t.owner
