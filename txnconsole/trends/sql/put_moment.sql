INSERT INTO trends_sample (
    width_s, at, committed, aborted, durations,
    open, committing, aborting, oldest_open_ms, held_partitions, held_offsets
) VALUES (
    %(width_s)s, %(at)s, 0, 0, '{}', %(open)s, %(committing)s, %(aborting)s, %(oldest_open_ms)s,
    %(held_partitions)s, %(held_offsets)s
)
ON CONFLICT (width_s, at) DO UPDATE SET
    open = excluded.open, committing = excluded.committing, aborting = excluded.aborting,
    oldest_open_ms = excluded.oldest_open_ms, held_partitions = excluded.held_partitions,
    held_offsets = excluded.held_offsets
