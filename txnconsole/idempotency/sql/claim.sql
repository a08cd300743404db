-- Claim a key that is free, that has expired, or whose call died. A new one needs room in its
-- principal's quota. Without an id the key is another call's, or there is no room. The answer of a
-- key that has expired stands, and counts, until the next one's replaces it.
WITH room AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true),
           NOT EXISTS (
               SELECT FROM idempotency_keptbytes
               WHERE principal = %(principal)s AND bytes >= %(quota)s
           ) AS is_there
),
claimed AS (
    INSERT INTO idempotency_keptanswer AS kept
        (principal, operation, key, digest, attempt, started_at, expires_at, content_type, body)
    SELECT %(principal)s, %(operation)s, %(key)s, %(digest)s, 1,
           clock_timestamp(), clock_timestamp() + make_interval(secs => %(kept)s), '', ''
    FROM room
    WHERE room.is_there
       OR EXISTS (
           SELECT FROM idempotency_keptanswer
           WHERE principal = %(principal)s AND operation = %(operation)s AND key = %(key)s
       )
    ON CONFLICT (principal, operation, key) DO UPDATE
    SET digest = excluded.digest,
        attempt = kept.attempt + 1,
        started_at = excluded.started_at,
        expires_at = excluded.expires_at,
        status = NULL,
        content_type = ''
    WHERE kept.expires_at <= clock_timestamp()
       OR (
           kept.status IS NULL
           AND kept.digest = ANY (%(digests)s)
           AND kept.started_at <= clock_timestamp() - make_interval(secs => %(lease)s)
       )
    RETURNING id, attempt
)
SELECT claimed.id, claimed.attempt, room.is_there
FROM room
LEFT JOIN claimed ON true
