-- due_ends keeps its plan (docs/decisions/0042). With the coordinator as it is, a plan that was made while the
-- table was counted all but empty took the primary key, and read all that a coordinator has; as an
-- expression no other index can serve the question.
DROP INDEX coordinator.transaction_next_attempt_idx;
-- due_coordinators, due_ends.
CREATE INDEX transaction_next_attempt_idx
    ON coordinator.transaction ((tc_id + 0), least(attempts, 1), next_attempt_at)
    WHERE next_attempt_at IS NOT NULL;
