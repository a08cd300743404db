-- Count an attempt to sign in; how many there have been in its window, and when that is over.
WITH forgotten AS (
    DELETE FROM access_signinattempts
    WHERE key <> %(key)s
      AND key IN (
          SELECT key FROM access_signinattempts
          WHERE since <= clock_timestamp() - make_interval(secs => %(window)s)
          LIMIT 100
          FOR UPDATE SKIP LOCKED
      )
)
INSERT INTO access_signinattempts AS known (key, attempts, since)
VALUES (%(key)s, 1, clock_timestamp())
ON CONFLICT (key) DO UPDATE
-- A window that has not begun is of before the clock went back.
SET (attempts, since) = (
    SELECT CASE WHEN current THEN known.attempts + 1 ELSE 1 END,
           CASE WHEN current THEN known.since ELSE excluded.since END
    FROM (
        SELECT known.since <= excluded.since
           AND known.since > excluded.since - make_interval(secs => %(window)s)
    ) AS standing (current)
)
RETURNING attempts, since + make_interval(secs => %(window)s) - clock_timestamp()
