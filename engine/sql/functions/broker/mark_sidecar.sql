-- End one transaction in a sidecar log whose lock the caller holds: its marker and its index row. For
-- a commit, p_commit_offset names where the commit marker stands in the partition. Answers the head
-- to go on with.
CREATE OR REPLACE FUNCTION broker.mark_sidecar(
    side broker.partition_live,
    ongoing broker.ongoing_txn,
    p_commit_offset bigint
) RETURNS broker.partition_live LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM broker.ongoing_txn o
        WHERE o.partition_id = ongoing.partition_id AND o.tc_id = ongoing.tc_id
        AND o.sequence = ongoing.sequence;
    INSERT INTO broker.entry VALUES (
        side.partition_id, side.next_offset, side.next_offset, side.ledger_id,
        CASE WHEN p_commit_offset IS NULL THEN 'A' ELSE 'C' END::"char", ongoing.tc_id,
        ongoing.sequence, NULL, clock_timestamp(), NULL, NULL
    );
    side.first_ongoing_offset := broker.next_ongoing(side, ongoing.first_offset);
    INSERT INTO broker.txn_index (
        partition_id, last_offset, first_offset, last_stable_offset, ledger_id, tc_id, sequence,
        aborted, commit_offset
    ) VALUES (
        side.partition_id, side.next_offset, ongoing.first_offset,
        coalesce(side.first_ongoing_offset, side.next_offset + 1),
        side.ledger_id, ongoing.tc_id, ongoing.sequence, p_commit_offset IS NULL, p_commit_offset
    );
    side.next_offset := side.next_offset + 1;
    side.segment_entries := side.segment_entries + 1;
    side.ongoing_txns := side.ongoing_txns - 1;
    side.aborted_txns := side.aborted_txns + (p_commit_offset IS NULL)::integer;
    side.changes := side.changes + 1;
    RETURN side;
END
$$;
