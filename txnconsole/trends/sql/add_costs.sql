INSERT INTO trends_ownercost (hour, owner, offset_ms)
SELECT date_trunc('hour', %(at)s::timestamptz, 'UTC'), owner, offset_ms
FROM unnest(%(owners)s::text[], %(costs)s::bigint[]) AS c (owner, offset_ms)
ON CONFLICT (hour, owner) DO UPDATE SET offset_ms = trends_ownercost.offset_ms + excluded.offset_ms
