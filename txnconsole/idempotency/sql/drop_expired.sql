-- Remove some keys whose time is over; workers who do it at once share the work.
DELETE FROM idempotency_keptanswer
WHERE id IN (
    SELECT id FROM idempotency_keptanswer
    WHERE expires_at <= clock_timestamp()
    ORDER BY expires_at
    LIMIT %s
    FOR UPDATE SKIP LOCKED
)
