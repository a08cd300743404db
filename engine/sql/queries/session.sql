-- ping --
-- Is the database there?
SELECT 1

-- begin_snapshot --
-- All reads until the commit answer from one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- commit --
COMMIT
