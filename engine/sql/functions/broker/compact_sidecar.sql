-- One bounded step of sweeping and compacting a partition's sidecar log: in the order in which its
-- transactions ended, the entries of aborted ones and of those whose commit marker retention has
-- dropped are deleted, the others are rewritten under the sidecar's second key, where they stand in
-- commit order at the offsets that their messages have in the partition. A transaction's marker and
-- index row go with its last entries, so that recovery never finds entries of an ended transaction
-- without its marker. The log's last entry stays: the log's end is found by it.
-- Readers find an entry under either key, within one statement; no append waits for this.
-- Answers how many entries were deleted and rewritten, together p_limit at most; less: all is done.
CREATE OR REPLACE FUNCTION broker.compact_sidecar(
    p_partition bigint,
    p_limit bigint,
    OUT deleted bigint,
    OUT rewritten bigint
) LANGUAGE plpgsql AS $$
DECLARE
    home broker.partition;
    log broker.partition;
    txn broker.txn_index;
    tail bigint;
    changed bigint;
    last bigint := -1;
BEGIN
    deleted := 0;
    rewritten := 0;
    -- The records' locks: retention, recovery and another of these wait; appends and ends do not.
    SELECT * INTO home FROM broker.partition p
        WHERE p.partition_id = p_partition FOR NO KEY UPDATE;
    SELECT * INTO log FROM broker.partition p
        WHERE p.sidecar_of = p_partition FOR NO KEY UPDATE;
    IF log.partition_id IS NULL OR NOT home.online THEN RETURN; END IF;
    SELECT e.last_offset INTO tail FROM broker.entry e
        WHERE e.partition_id = log.partition_id ORDER BY e.last_offset DESC LIMIT 1;
    WHILE deleted + rewritten < p_limit LOOP
        SELECT * INTO txn FROM broker.txn_index i
            WHERE i.partition_id = log.partition_id AND i.last_offset > last
            ORDER BY i.last_offset LIMIT 1;
        EXIT WHEN NOT FOUND;
        last := txn.last_offset;
        IF txn.aborted OR txn.commit_offset < home.log_start_offset THEN
            DELETE FROM broker.entry e
                WHERE e.partition_id = txn.partition_id AND e.last_offset = ANY (ARRAY(
                    SELECT broker.next_of_txn(txn, p_limit - deleted - rewritten)
                ));
            GET DIAGNOSTICS changed = ROW_COUNT;
            deleted := deleted + changed;
        ELSE
            UPDATE broker.entry e SET
                partition_id = log.compacted_id,
                first_offset = txn.commit_offset + e.txn_messages - 1
                    - (e.last_offset - e.first_offset),
                last_offset = txn.commit_offset + e.txn_messages - 1
                WHERE e.partition_id = txn.partition_id AND e.last_offset = ANY (ARRAY(
                    SELECT broker.next_of_txn(txn, p_limit - deleted - rewritten)
                ));
            GET DIAGNOSTICS changed = ROW_COUNT;
            rewritten := rewritten + changed;
        END IF;
        EXIT WHEN deleted + rewritten >= p_limit;
        -- One that was written meanwhile may be the last by now.
        CONTINUE WHEN txn.last_offset >= tail;
        DELETE FROM broker.entry e
            WHERE e.partition_id = txn.partition_id AND e.last_offset = txn.last_offset;
        DELETE FROM broker.txn_index i
            WHERE i.partition_id = txn.partition_id AND i.last_offset = txn.last_offset;
        IF txn.aborted THEN
            UPDATE broker.partition p SET aborted_dropped = p.aborted_dropped + 1
                WHERE p.partition_id = txn.partition_id;
        END IF;
    END LOOP;
END
$$;
