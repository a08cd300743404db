-- When what stands here was found to be no older than what the brokers know (engine/coordinator/continuity.py): by
-- a server that started then, in this database and not in a copy of it.
CREATE TABLE coordinator.compared (
    server_started_at timestamptz NOT NULL,
    database_id oid NOT NULL,
    table_id oid NOT NULL,
    single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
