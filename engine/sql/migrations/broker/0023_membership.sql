-- The cluster that this database belongs to, and as which of its brokers (engine/log/cluster.py). No row:
-- it has never been one.
CREATE TABLE broker.membership (
    cluster_id uuid NOT NULL,
    broker text NOT NULL,
    single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
