-- EndTxn: record the decision, OPEN -> COMMITTING | ABORTING, and answer the transaction as it stands
-- then. No row: someone was first. A function, because a participant that joined while the header's
-- lock was waited for is seen by a statement that begins after it.
CREATE OR REPLACE FUNCTION coordinator.decide(
    p_tc integer,
    p_sequence bigint,
    p_decision text,
    p_reason text,
    p_detail text,
    p_owner text,
    p_trace_parent text
) RETURNS SETOF coordinator.whole_txn LANGUAGE plpgsql AS $$
BEGIN
    UPDATE coordinator.transaction t SET
        status = p_decision::coordinator.txn_status,
        decided_at = clock_timestamp(),
        next_attempt_at = clock_timestamp(),
        end_reason = p_reason,
        end_detail = p_detail,
        trace_parent = p_trace_parent
    WHERE t.tc_id = p_tc AND t.sequence = p_sequence AND t.status = 'OPEN'
    AND (p_owner IS NULL OR t.owner = p_owner);
    IF NOT FOUND THEN RETURN; END IF;
    INSERT INTO coordinator.transaction_log
        (tc_id, sequence, metadata_op, expected_status, new_status)
    VALUES (p_tc, p_sequence, 'UPDATE', 'OPEN', p_decision::coordinator.txn_status);
    RETURN QUERY SELECT * FROM coordinator.whole_txn w
        WHERE w.tc_id = p_tc AND w.sequence = p_sequence;
END
$$;
