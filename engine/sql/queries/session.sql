-- unsafe_settings --
-- What keeps this server from being believed: with one of these off it may lose in a crash what it
-- has acknowledged. Asked over the engine's own connection, so settings of the role count as well.
SELECT name FROM unnest(ARRAY['fsync', 'full_page_writes', 'synchronous_commit']) AS s (name)
WHERE current_setting(name) = 'off' ORDER BY name

-- begin_snapshot --
-- All reads until the commit answer from one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- commit --
COMMIT

-- unhurried --
-- For the rest of the transaction: it does what cannot be done in parts.
SET LOCAL statement_timeout = '60s'

-- let_joins_end --
-- In the coordinators' database: see its migration 0011.
LOCK TABLE coordinator.joining IN EXCLUSIVE MODE

-- one_snapshot --
-- Within a transaction, before anything else: all its reads answer from one snapshot.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
