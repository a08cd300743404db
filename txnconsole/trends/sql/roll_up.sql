-- Wide spans from narrow ones, from a wide span's beginning on: ends add up, of moments the worst
-- counts, because a pile-up of a minute must not vanish in an average.
INSERT INTO trends_sample (
    width_s, at, committed, aborted, durations,
    open, committing, aborting, oldest_open_ms, held_partitions, held_offsets
)
SELECT %(coarse_s)s, w.at, w.committed, w.aborted, coalesce(d.durations, '{}'),
    w.open, w.committing, w.aborting, w.oldest_open_ms, w.held_partitions, w.held_offsets
FROM (
    SELECT date_bin(%(coarse)s::interval, at, timestamptz '2020-01-01') AS at,
        sum(committed) AS committed, sum(aborted) AS aborted,
        max(open) AS open, max(committing) AS committing, max(aborting) AS aborting,
        max(oldest_open_ms) AS oldest_open_ms, max(held_partitions) AS held_partitions,
        max(held_offsets) AS held_offsets
    FROM trends_sample WHERE width_s = %(fine_s)s AND at >= %(since)s::timestamptz GROUP BY 1
) w
LEFT JOIN LATERAL (
    SELECT jsonb_object_agg(step, count) AS durations FROM (
        SELECT e.key AS step, sum(e.value::bigint) AS count
        FROM trends_sample f, jsonb_each_text(f.durations) e
        WHERE f.width_s = %(fine_s)s AND f.at >= w.at AND f.at < w.at + %(coarse)s::interval
        GROUP BY 1
    ) steps
) d ON true
ON CONFLICT (width_s, at) DO UPDATE SET
    committed = excluded.committed, aborted = excluded.aborted, durations = excluded.durations,
    open = excluded.open, committing = excluded.committing, aborting = excluded.aborting,
    oldest_open_ms = excluded.oldest_open_ms, held_partitions = excluded.held_partitions,
    held_offsets = excluded.held_offsets
