-- Store the answer of a claim, unless another call has taken it over, where its principal has room
-- for it. The claim is locked before the sum, as it is by whatever else changes both.
WITH mine AS MATERIALIZED (
    SELECT id, principal, octet_length(body) AS replaced, set_config('synchronous_commit', 'off', true)
    FROM idempotency_keptanswer
    WHERE id = %(row)s AND attempt = %(attempt)s AND status IS NULL
    FOR UPDATE
),
room AS MATERIALIZED (
    SELECT mine.id
    FROM mine
    JOIN idempotency_keptbytes AS kept USING (principal)
    WHERE %(always)s OR kept.bytes - mine.replaced + %(bytes)s <= %(quota)s
    FOR UPDATE OF kept
),
stored AS (
    UPDATE idempotency_keptanswer AS kept
    SET status = %(status)s, content_type = %(content_type)s, body = %(body)s
    FROM room
    WHERE kept.id = room.id
    RETURNING kept.id
)
SELECT EXISTS (SELECT FROM mine) AND NOT EXISTS (SELECT FROM stored)
