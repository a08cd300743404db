-- The lowest first offset of what is still ongoing when the transaction that began at p_ended is taken
-- out; null when nothing is. It is looked for behind that one, and only when that was the lowest: the
-- index still has what the caller has taken out before, and a thousand ends would walk it each.
CREATE OR REPLACE FUNCTION broker.next_ongoing(head broker.partition_live, p_ended bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_ended > head.first_ongoing_offset THEN head.first_ongoing_offset ELSE (
        SELECT o.first_offset FROM broker.ongoing_txn o
        WHERE o.ordered_in = head.partition_id AND o.first_offset > p_ended
        ORDER BY o.first_offset LIMIT 1
    ) END
$$;
