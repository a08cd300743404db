-- Remove some jobs that ended long ago, and their items; workers who do it at once share the work.
WITH old AS MATERIALIZED (
    SELECT id FROM jobs_job
    WHERE ended_at < statement_timestamp() - %s * interval '1 day'
    ORDER BY ended_at
    LIMIT %s
    FOR UPDATE SKIP LOCKED
), items AS (
    DELETE FROM jobs_jobitem WHERE job_id IN (SELECT id FROM old)
), jobs AS (
    DELETE FROM jobs_job WHERE id IN (SELECT id FROM old)
)
SELECT count(*) FROM old
