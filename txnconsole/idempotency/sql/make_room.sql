-- Forget the oldest answers of a principal that have been kept for as long as any is, until its sum
-- is "wanted" or "rows" are gone; callers who do it at once share the work. By a moment that does not
-- change while the statement runs: only then does the index bound the search.
WITH old AS (
    SELECT id, expires_at, 1024 + octet_length(body) AS bytes
    FROM idempotency_keptanswer
    WHERE principal = %(principal)s
      AND expires_at <= statement_timestamp() + make_interval(secs => %(left)s)
    ORDER BY expires_at, id
    LIMIT %(rows)s
    FOR UPDATE SKIP LOCKED
),
summed AS (
    SELECT id, sum(bytes) OVER (ORDER BY expires_at, id) - bytes AS before FROM old
),
set AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
)
DELETE FROM idempotency_keptanswer
WHERE id = ANY (ARRAY(
    SELECT summed.id
    FROM set, summed, idempotency_keptbytes AS kept
    WHERE kept.principal = %(principal)s AND summed.before < kept.bytes - %(wanted)s
))
