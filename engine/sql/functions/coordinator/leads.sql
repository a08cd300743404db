-- The one filter of a list that chooses its index (engine/coordinator/listing.py gives at most one);
-- the others are judged afterwards. Inlined by the planner, which sees which of them is asked for.
CREATE OR REPLACE FUNCTION coordinator.leads(
    t coordinator.transaction, p_status coordinator.txn_status, p_owner text, p_client text
) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN
    (p_status IS NULL OR t.status = p_status)
    AND (p_owner IS NULL OR t.owner = p_owner)
    AND (p_client IS NULL OR t.client = p_client);
