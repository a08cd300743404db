-- What has been counted since the deployment began, for /metrics (docs/decisions/0014): few rows,
-- whatever the history. buckets count the observations between the bounds of
-- engine/model/figures.py, and are empty for what is counted only. Writers of different shards do
-- not wait for one another; a row is locked at the end of an SQL transaction, after all else.
CREATE TABLE coordinator.figure (
    name text NOT NULL,
    label text NOT NULL,
    shard integer NOT NULL,
    count bigint NOT NULL,
    seconds double precision NOT NULL,
    buckets bigint[] NOT NULL,
    PRIMARY KEY (name, label, shard)
) WITH (fillfactor = 50);

-- The trace that a decision was made in, as W3C's traceparent (docs/decisions/0015); none while
-- traces are off.
ALTER TABLE coordinator.transaction ADD COLUMN trace_parent text;
