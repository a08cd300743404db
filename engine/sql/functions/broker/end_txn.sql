-- End one transaction in a partition whose lock the caller holds: marker, index row, fence.
-- Answers the head to go on with, and what has been remembered.
CREATE OR REPLACE FUNCTION broker.end_txn(
    head broker.partition_live,
    p_tc integer,
    p_sequence bigint,
    p_abort boolean,
    p_registered boolean,
    OUT new_head broker.partition_live,
    OUT ended broker.ended_txn
) LANGUAGE plpgsql AS $$
DECLARE
    ongoing broker.ongoing_txn;
    marker bigint;
BEGIN
    DELETE FROM broker.ongoing_txn o
        WHERE o.partition_id = head.partition_id AND o.tc_id = p_tc AND o.sequence = p_sequence
        RETURNING * INTO ongoing;
    IF ongoing.partition_id IS NOT NULL OR p_registered OR NOT p_abort THEN
        marker := head.next_offset;
        INSERT INTO broker.entry VALUES (
            head.partition_id, marker, marker, head.ledger_id,
            CASE WHEN p_abort THEN 'A' ELSE 'C' END::"char", p_tc, p_sequence, NULL,
            clock_timestamp(), NULL, NULL
        );
        head.next_offset := marker + 1;
        head.segment_entries := head.segment_entries + 1;
        head.ends := head.ends + 1;
        head.aborts := head.aborts + p_abort::integer;
        head.markers := head.markers + 1;
    END IF;
    IF ongoing.partition_id IS NOT NULL THEN
        -- The stable offset with exactly this transaction taken out (reference/kafka.md §2.6).
        head.first_ongoing_offset := broker.next_ongoing(head, ongoing.first_offset);
        INSERT INTO broker.txn_index VALUES (
            head.partition_id, marker, ongoing.first_offset,
            coalesce(head.first_ongoing_offset, marker + 1), head.ledger_id, p_tc, p_sequence,
            p_abort
        );
        head.ongoing_txns := head.ongoing_txns - 1;
        head.aborted_txns := head.aborted_txns + p_abort::integer;
    END IF;
    head.changes := head.changes + 1;
    INSERT INTO broker.ended_txn AS e VALUES (
        head.partition_id, p_tc, p_sequence, p_abort, marker, ongoing.first_offset,
        ongoing.last_offset, coalesce(ongoing.messages, 0)
    )
    -- It is there already of one that a truncation has opened again before it was broken off.
    ON CONFLICT ON CONSTRAINT ended_txn_pkey DO UPDATE SET
        marker_offset = excluded.marker_offset, first_offset = excluded.first_offset,
        last_offset = excluded.last_offset, messages = excluded.messages
    RETURNING * INTO ended;
    new_head := head;
END
$$;
