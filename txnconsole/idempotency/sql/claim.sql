-- Claim a key that is free, that has expired, or whose call died; no row: it is another's.
WITH quickly AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
)
INSERT INTO idempotency_keptanswer AS kept
    (principal, operation, key, digest, attempt, started_at, expires_at, content_type, body)
SELECT %(principal)s, %(operation)s, %(key)s, %(digest)s, 1,
       clock_timestamp(), clock_timestamp() + make_interval(secs => %(kept)s), '', ''
FROM quickly
ON CONFLICT (principal, operation, key) DO UPDATE
SET digest = excluded.digest,
    attempt = kept.attempt + 1,
    started_at = excluded.started_at,
    expires_at = excluded.expires_at,
    status = NULL,
    content_type = '',
    body = ''
WHERE kept.expires_at <= clock_timestamp()
   OR (
       kept.status IS NULL
       AND kept.digest = excluded.digest
       AND kept.started_at <= clock_timestamp() - make_interval(secs => %(lease)s)
   )
RETURNING id, attempt
