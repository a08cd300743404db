-- The coordinator of one that has not ended, as expires_at is the deadline of one that is OPEN: no
-- other index begins with it, so no plan, made while the table was small and kept, reads what has
-- ended or sorts all that is live (tests/engine/sql/test_plans.py).
ALTER TABLE coordinator.transaction
    ADD COLUMN live_tc_id integer
    GENERATED ALWAYS AS (CASE WHEN ended_at IS NULL THEN tc_id END) STORED;

DROP INDEX coordinator.transaction_live_idx;
-- low water marks; counts of live transactions.
CREATE INDEX transaction_live_idx
    ON coordinator.transaction (live_tc_id, sequence) INCLUDE (status)
    WHERE live_tc_id IS NOT NULL;
