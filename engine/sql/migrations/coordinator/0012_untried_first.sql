-- Decisions that have not been tried come before repetitions: those of a broker that is away, however
-- many wait for it, must not keep others waiting.
DROP INDEX coordinator.transaction_next_attempt_idx;
-- due_coordinators, due_txns.
CREATE INDEX transaction_next_attempt_idx
    ON coordinator.transaction (tc_id, least(attempts, 1), next_attempt_at)
    WHERE next_attempt_at IS NOT NULL;
