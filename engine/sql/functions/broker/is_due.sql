-- Whether a subscription may have something to deliver in a partition. It has unread messages, or some
-- to redeliver, up to the stable position, which ends before p_readable_end; or something in flight
-- is overdue. It also counts as due when it first needs a cursor (p_mark_delete is NULL) or the
-- partition needs recovery (p_readable_end is NULL). The planner puts the expression in the place of
-- a call.
CREATE OR REPLACE FUNCTION broker.is_due(
    p_mark_delete bigint, p_readable_end bigint, p_due_offset bigint, p_next_deadline timestamptz
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_mark_delete IS NULL
        OR p_readable_end IS NULL
        OR greatest(p_due_offset, p_mark_delete + 1) < p_readable_end
        OR p_next_deadline < statement_timestamp()
$$;
