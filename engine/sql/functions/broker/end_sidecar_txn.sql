-- End one transaction of a sidecar-buffered partition; the caller holds the locks of the partition
-- and, when there is one, of its sidecar log. A commit: first the marker in the partition, which
-- stands for the transaction's messages and takes their offsets (one when there are none), then the
-- marker in the sidecar. An abort: the marker in the sidecar only. Then the fence. No message is read.
CREATE OR REPLACE FUNCTION broker.end_sidecar_txn(
    head broker.partition_live,
    side broker.partition_live,
    p_tc integer,
    p_sequence bigint,
    p_abort boolean,
    OUT new_head broker.partition_live,
    OUT new_side broker.partition_live,
    OUT ended broker.ended_txn
) LANGUAGE plpgsql AS $$
DECLARE
    settings broker.partition;
    ongoing broker.ongoing_txn;
    messages bigint;
    marker bigint;
    last bigint;
BEGIN
    SELECT * INTO ongoing FROM broker.ongoing_txn o
        WHERE o.partition_id = side.partition_id AND o.tc_id = p_tc AND o.sequence = p_sequence;
    messages := coalesce(ongoing.messages, 0);
    IF NOT p_abort THEN
        SELECT * INTO settings FROM broker.partition p WHERE p.partition_id = head.partition_id;
        IF head.segment_entries > 0 AND (
            head.next_offset - head.segment_first_offset + messages > settings.segment_max_messages
            OR head.segment_bytes + coalesce(ongoing.bytes, 0) > settings.segment_max_bytes
        ) THEN
            head := broker.roll_segment(head);
        END IF;
        marker := head.next_offset;
        last := marker + greatest(messages, 1) - 1;
        INSERT INTO broker.entry VALUES (
            head.partition_id, last, marker, head.ledger_id, 'C', p_tc, p_sequence, NULL,
            clock_timestamp(), NULL, NULL, messages, coalesce(ongoing.bytes, 0)
        );
        head.next_offset := last + 1;
        head.segment_entries := head.segment_entries + 1;
        head.segment_bytes := head.segment_bytes + coalesce(ongoing.bytes, 0);
        head.markers := head.markers + (messages = 0)::integer;
    END IF;
    IF ongoing.partition_id IS NOT NULL THEN
        side := broker.mark_sidecar(side, ongoing, marker);
    END IF;
    head.changes := head.changes + 1;
    head.ends := head.ends + 1;
    head.aborts := head.aborts + p_abort::integer;
    INSERT INTO broker.ended_txn AS e VALUES (
        head.partition_id, p_tc, p_sequence, p_abort, marker,
        CASE WHEN messages > 0 THEN marker END, CASE WHEN messages > 0 THEN last END, messages
    )
    ON CONFLICT ON CONSTRAINT ended_txn_pkey DO UPDATE SET aborted = e.aborted
    RETURNING * INTO ended;
    new_head := head;
    new_side := side;
END
$$;
