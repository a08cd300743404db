-- When a worker last took a coordinator was never asked for. A worker of the version before fails to
-- note it once a second, and goes on with the next run.
ALTER TABLE coordinator.finalizer DROP COLUMN at;
