-- Which databases belong together (engine/log/cluster.py): the id of all of them, and the brokers that
-- have ever been part.
CREATE TABLE coordinator.cluster (
    cluster_id uuid NOT NULL DEFAULT gen_random_uuid(),
    single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO coordinator.cluster DEFAULT VALUES;
CREATE TABLE coordinator.broker (
    name text PRIMARY KEY,
    joined_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
