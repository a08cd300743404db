-- Where a producer's batch stands that it has appended before with this sequence id, in the same
-- transaction or outside any; a null row when that is not known.
CREATE OR REPLACE FUNCTION broker.appended_before(
    p_partition bigint,
    p_producer text,
    p_sequence_id bigint,
    p_tc integer,
    p_sequence bigint,
    OUT ledger_id bigint,
    OUT first_offset bigint,
    OUT last_offset bigint
) LANGUAGE plpgsql AS $$
BEGIN
    -- Two statements: IS NOT DISTINCT FROM would keep either index from being used.
    IF p_tc IS NOT NULL THEN
        SELECT e.ledger_id, e.first_offset, e.last_offset
            INTO appended_before.ledger_id, appended_before.first_offset, appended_before.last_offset
            FROM broker.entry e
            WHERE e.partition_id + 0 = p_partition AND e.tc_id + 0 = p_tc AND e.sequence + 0 = p_sequence
            AND e.producer_name = p_producer AND e.sequence_id = p_sequence_id;
        RETURN;
    END IF;
    SELECT e.ledger_id, e.first_offset, e.last_offset
        INTO appended_before.ledger_id, appended_before.first_offset, appended_before.last_offset
        FROM broker.entry e
        WHERE e.partition_id + 0 = p_partition AND e.producer_name = p_producer
        AND e.sequence_id = p_sequence_id AND e.tc_id IS NULL;
    -- What retention has dropped was appended all the same.
    IF NOT FOUND THEN
        SELECT d.ledger_id, d.first_offset, d.last_offset
            INTO appended_before.ledger_id, appended_before.first_offset, appended_before.last_offset
            FROM broker.producer d
            WHERE d.partition_id = p_partition AND d.producer_name = p_producer
            AND d.sequence_id = p_sequence_id;
    END IF;
END
$$;
