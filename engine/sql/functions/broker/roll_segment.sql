-- Seal the open segment and open the next; the caller holds the partition's lock and writes the
-- returned head back.
CREATE OR REPLACE FUNCTION broker.roll_segment(head broker.partition_live)
RETURNS broker.partition_live LANGUAGE plpgsql AS $$
BEGIN
    UPDATE broker.segment s SET
        last_offset = head.next_offset - 1,
        entries = head.segment_entries,
        bytes = head.segment_bytes,
        sealed_at = clock_timestamp()
        WHERE s.partition_id = head.partition_id AND s.ledger_id = head.ledger_id;
    head.ledger_id := nextval('broker.ledger_id_seq');
    INSERT INTO broker.segment (partition_id, ledger_id, first_offset)
        VALUES (head.partition_id, head.ledger_id, head.next_offset);
    head.segment_first_offset := head.next_offset;
    head.segment_entries := 0;
    head.segment_bytes := 0;
    RETURN head;
END
$$;
