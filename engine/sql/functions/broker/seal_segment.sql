-- Seal the open segment if it has entries and still is the one that was looked at.
CREATE OR REPLACE FUNCTION broker.seal_segment(p_partition bigint, p_ledger bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    head broker.partition_live;
BEGIN
    SELECT * INTO head FROM broker.partition_live l
        WHERE l.partition_id = p_partition FOR UPDATE;
    IF head.partition_id IS NULL OR head.ledger_id <> p_ledger
        OR head.next_offset = head.segment_first_offset
    THEN
        RETURN false;
    END IF;
    PERFORM broker.write_head(broker.roll_segment(head));
    RETURN true;
END
$$;
