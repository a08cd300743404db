-- live_counts --
SELECT status::text, count(*) AS count FROM coordinator.transaction
WHERE live_tc_id IS NOT NULL GROUP BY status

-- coordinator_stats --
SELECT
    c.tc_id, c.next_sequence - 1 AS sequence, c.recover_started_at, c.recover_ended_at,
    coalesce(live.lowest, c.next_sequence) - 1 AS low_water_mark,
    coalesce(live.ongoing, 0) AS ongoing, coalesce(live.finalizing, 0) AS finalizing,
    (extract(epoch FROM clock_timestamp() - live.oldest_open_at) * 1000)::bigint
        AS oldest_open_age_ms,
    f.worker AS owner
FROM coordinator.coordinator c
LEFT JOIN coordinator.finalizer f ON f.tc_id = c.tc_id
LEFT JOIN (
    SELECT live_tc_id AS tc_id, min(sequence) AS lowest,
        count(*) FILTER (WHERE status = 'OPEN') AS ongoing,
        count(*) FILTER (WHERE status <> 'OPEN') AS finalizing,
        min(opened_at) FILTER (WHERE status = 'OPEN') AS oldest_open_at
    FROM coordinator.transaction
    WHERE live_tc_id IS NOT NULL GROUP BY live_tc_id
) live ON live.tc_id = c.tc_id
WHERE c.tc_id > %(after)s
ORDER BY c.tc_id LIMIT %(limit)s

-- timeout_wheel --
-- A coordinator's open transactions, counted by how many of the bounds (seconds) their remaining
-- time exceeds.
SELECT width_bucket(
        extract(epoch FROM expires_at - clock_timestamp())::float8, %(bounds)s::float8[]
    ) AS slot,
    count(*) AS count
FROM coordinator.transaction
WHERE live_tc_id = %(tc_id)s AND expires_at IS NOT NULL GROUP BY 1

-- ends_between --
-- Transactions that ended in a period, counted by status, by span of that width, and by duration in
-- steps of a root of two. It reads only transactions that ended in the period.
SELECT date_bin(%(width)s::interval, ended_at, timestamptz '2020-01-01') AS since,
    status::text AS status,
    floor(%(steps)s::integer * log(2.0, greatest(1.0,
        extract(epoch FROM ended_at - opened_at) * 1000)))::integer AS step,
    count(*) AS count
FROM coordinator.transaction
WHERE ended_at >= %(since)s::timestamptz AND ended_at < %(until)s::timestamptz
GROUP BY 1, 2, 3

-- ends_of_coordinators --
-- As ends_between, by coordinator.
SELECT date_bin(%(width)s::interval, ended_at, timestamptz '2020-01-01') AS since, tc_id,
    count(*) FILTER (WHERE status = 'COMMITTED') AS committed,
    count(*) FILTER (WHERE status = 'ABORTED') AS aborted,
    count(*) FILTER (WHERE end_reason = 'timeout') AS timed_out
FROM coordinator.transaction
WHERE ended_at >= %(since)s::timestamptz AND ended_at < %(until)s::timestamptz
GROUP BY 1, 2

-- add_figures --
-- Adds to the counts. Rows are locked in ascending order, so that writers of one shard queue up.
INSERT INTO coordinator.figure AS f (name, label, shard, count, seconds, buckets)
SELECT w.name, w.label, %(shard)s, w.count, w.seconds, w.buckets::bigint[]
FROM unnest(
    %(names)s::text[], %(labels)s::text[], %(counts)s::bigint[], %(seconds)s::float8[],
    %(buckets)s::text[]
) AS w (name, label, count, seconds, buckets)
ORDER BY w.name, w.label
ON CONFLICT (name, label, shard) DO UPDATE SET
    count = f.count + excluded.count,
    seconds = f.seconds + excluded.seconds,
    buckets = (
        SELECT coalesce(array_agg(coalesce(b.old, 0) + coalesce(b.new, 0) ORDER BY b.place), '{}')
        FROM unnest(f.buckets, excluded.buckets) WITH ORDINALITY AS b (old, new, place)
    )

-- figures --
SELECT name, label, count, seconds, buckets FROM coordinator.figure

-- live_of_coordinators --
-- How many transactions each coordinator has issued, and how many have not ended, by status; read
-- only from the index of those that have not ended.
SELECT c.tc_id, c.next_sequence AS issued, live.status::text, coalesce(live.count, 0) AS count
FROM coordinator.coordinator c
LEFT JOIN (
    SELECT live_tc_id AS tc_id, status, count(*) AS count FROM coordinator.transaction
    WHERE live_tc_id IS NOT NULL GROUP BY live_tc_id, status
) live ON live.tc_id = c.tc_id
ORDER BY c.tc_id

-- live_ages --
-- How many are past their deadline, and for how long the oldest has been open, or decided. At most
-- ten thousand of those that are decided are looked at.
SELECT
    (SELECT count(*) FROM coordinator.transaction WHERE expires_at < statement_timestamp())
        AS overdue,
    coalesce(extract(epoch FROM statement_timestamp() - (
        SELECT opened_at FROM coordinator.transaction WHERE status = 'OPEN'
        ORDER BY opened_at LIMIT 1
    )), 0)::float8 AS oldest_open_seconds,
    coalesce(extract(epoch FROM statement_timestamp() - (
        SELECT min(d.decided_at) FROM (
            SELECT decided_at FROM coordinator.transaction WHERE next_attempt_at IS NOT NULL
            ORDER BY tc_id + 0 DESC, least(attempts, 1) DESC, next_attempt_at DESC LIMIT 10000
        ) d
    )), 0)::float8 AS oldest_decided_seconds

-- broken_checks --
SELECT count(*) AS broken FROM coordinator.invariant_check
WHERE counter_examples <> '[]' OR found <> '[]'
