-- Who carries out a coordinator's decisions; beside the coordinator's row, whose lock orders the ids.
CREATE TABLE coordinator.finalizer (
    tc_id integer PRIMARY KEY,
    worker text NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 50);
