-- unsafe_settings --
-- Settings for which this server must not be trusted: with one of them off, it may lose in a crash
-- what it has acknowledged. They are asked over the engine's own connection, so settings of the
-- role count as well.
SELECT name FROM unnest(ARRAY['fsync', 'full_page_writes', 'synchronous_commit']) AS s (name)
WHERE current_setting(name) = 'off' ORDER BY name

-- reads_only --
-- Whether this server, or whoever has set up the connection, takes no writes: a standby for one.
SELECT current_setting('transaction_read_only')::boolean AS now

-- commits_wait --
-- Whether commits here wait for a synchronous standby that does not answer: no time limit ends that
-- (docs/operations.md, Standbys). Of other logins' connections it tells a superuser alone.
SELECT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '5 seconds'
) AS now

-- brought_up_to --
-- The newest migration that a database has had (engine/postgres/migrations.py).
SELECT obj_description(to_regnamespace(%(schema)s), 'pg_namespace') AS newest

-- begin_snapshot --
-- All reads until the commit are answered from one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- commit --
COMMIT

-- unhurried --
-- Without a time limit for the rest of the transaction, which does what cannot be done in parts.
SET LOCAL statement_timeout = '60s'

-- let_joins_end --
-- In the coordinators' database: see its migration 0011.
LOCK TABLE coordinator.joining IN EXCLUSIVE MODE

-- one_snapshot --
-- The first statement of a transaction: all its reads are answered from one snapshot.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
