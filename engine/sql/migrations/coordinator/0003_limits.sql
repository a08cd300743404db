-- What the sweeps and the limits ask, each with an index that serves it alone: then no statistics,
-- however old, can make another one look as good (tests/engine/sql/test_plans.py).

-- The deadline while OPEN, as next_attempt_at is the next attempt while finalizing.
ALTER TABLE coordinator.transaction
    ADD COLUMN expires_at timestamptz
    GENERATED ALWAYS AS (CASE WHEN status = 'OPEN' THEN deadline END) STORED;

DROP INDEX coordinator.transaction_deadline_idx;
-- expire_txns; the order "overdue".
CREATE INDEX transaction_expires_at_idx
    ON coordinator.transaction (expires_at, tc_id, sequence) WHERE expires_at IS NOT NULL;

DROP INDEX coordinator.transaction_due_idx;
-- due_coordinators, due_txns.
CREATE INDEX transaction_next_attempt_idx
    ON coordinator.transaction (tc_id, next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- How many an owner has open (engine/coordinator/limits.py).
CREATE INDEX transaction_open_owner_idx
    ON coordinator.transaction ((CASE WHEN status = 'OPEN' THEN owner END))
    WHERE (CASE WHEN status = 'OPEN' THEN owner END) IS NOT NULL;
