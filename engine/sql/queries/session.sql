-- ping --
-- Is the database there?
SELECT 1

-- begin_snapshot --
-- All reads until the commit answer from one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- commit --
COMMIT

-- one_snapshot --
-- Within a transaction, before anything else: all its reads answer from one snapshot.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
