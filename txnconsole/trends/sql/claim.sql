-- One run for each moment: one that comes within the pause after another gets no row. A moment that
-- has not come is of before the clock went back.
INSERT INTO trends_sampler (id, at) VALUES (1, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET at = clock_timestamp(), previous = trends_sampler.at
WHERE trends_sampler.at < clock_timestamp() - %(pause)s::interval
   OR trends_sampler.at > clock_timestamp()
RETURNING at, previous
