-- What is known of each invariant (design/semantics.md §8) about each subject: where the pass that
-- is under way goes on, its counter-examples so far, and those of the last whole pass.
CREATE TABLE coordinator.invariant_check (
    name text NOT NULL,
    subject text NOT NULL,
    invariant smallint NOT NULL,
    position bigint NOT NULL,
    found jsonb NOT NULL,
    counter_examples jsonb NOT NULL,
    detail text,
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at timestamptz,
    PRIMARY KEY (name, subject)
);
CREATE INDEX invariant_check_checked_at_idx ON coordinator.invariant_check (checked_at);
-- broken invariants, of which there are few or none.
CREATE INDEX invariant_check_broken_idx ON coordinator.invariant_check (name, subject)
    WHERE counter_examples <> '[]' OR found <> '[]';
