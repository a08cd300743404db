-- Remove some keys whose time is over; workers who do it at once share the work. By a moment that does
-- not change while the statement runs: only then does the index bound the search. An array, so that
-- they are found by their key.
DELETE FROM idempotency_keptanswer
WHERE id = ANY (ARRAY(
    SELECT id FROM idempotency_keptanswer
    WHERE expires_at <= statement_timestamp()
    ORDER BY expires_at
    LIMIT %s
    FOR UPDATE SKIP LOCKED
))
