-- Ends of spans, each counted anew; a span in which nothing ended gets a row of zeros. Ends only come
-- to a span, so a count that is lower is one of before, of a run that stood still meanwhile.
INSERT INTO trends_sample (width_s, at, committed, aborted, durations, coordinators)
SELECT %(width_s)s, at, committed, aborted, durations, coordinators
FROM unnest(
    %(ats)s::timestamptz[], %(committed)s::bigint[], %(aborted)s::bigint[], %(durations)s::jsonb[],
    %(coordinators)s::jsonb[]
) AS s (at, committed, aborted, durations, coordinators)
ON CONFLICT (width_s, at) DO UPDATE SET
    committed = excluded.committed, aborted = excluded.aborted, durations = excluded.durations,
    coordinators = excluded.coordinators
WHERE excluded.committed + excluded.aborted >= trends_sample.committed + trends_sample.aborted
