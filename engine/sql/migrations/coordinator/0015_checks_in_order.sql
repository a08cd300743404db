-- checks: broken ones first, then by invariant, of each by subject with partition 2 before 10.
DROP INDEX coordinator.invariant_check_broken_idx;
CREATE INDEX invariant_check_order_idx ON coordinator.invariant_check (
    (counter_examples = '[]' AND found = '[]'), invariant, name,
    split_part(subject, ':', 1), length(subject), subject
);
