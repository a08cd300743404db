-- Where the next entries of an ended transaction stand in its sidecar log, in the order of its
-- messages. Only those within its span: a later orphan of the same id has entries of its own; asked
-- as a difference, so that the log's own order, which costs by all of the span, cannot serve it.
CREATE OR REPLACE FUNCTION broker.next_of_txn(txn broker.txn_index, p_limit bigint)
RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
    SELECT e.last_offset FROM broker.entry e
    WHERE e.partition_id + 0 = txn.partition_id AND e.tc_id::bigint = txn.tc_id
    AND e.sequence + 0 = txn.sequence AND e.txn_messages IS NOT NULL
    AND e.last_offset - txn.first_offset BETWEEN 0 AND txn.last_offset - txn.first_offset - 1
    ORDER BY e.txn_messages LIMIT p_limit
$$;
