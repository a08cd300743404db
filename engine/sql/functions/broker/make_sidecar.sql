-- The sidecar log of a partition, made with its first transactional message. The partition's lock
-- lets one make it, and lets an end that found none be finished first: its fence is seen after it.
-- Answers a null row when the partition cannot take a message now.
CREATE OR REPLACE FUNCTION broker.make_sidecar(p_partition bigint)
RETURNS broker.partition LANGUAGE plpgsql AS $$
DECLARE
    settings broker.partition;
    made broker.partition;
    ledger bigint;
BEGIN
    PERFORM FROM broker.partition_live l WHERE l.partition_id = p_partition FOR UPDATE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT * INTO settings FROM broker.partition p
        WHERE p.partition_id = p_partition AND p.online;
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT * INTO made FROM broker.partition p WHERE p.sidecar_of = p_partition;
    IF FOUND THEN RETURN made; END IF;
    INSERT INTO broker.partition (
        topic, number, buffer, segment_max_messages, segment_max_bytes, deduplication, sidecar_of,
        compacted_id
    ) VALUES (
        settings.topic, settings.number, settings.buffer, settings.segment_max_messages,
        settings.segment_max_bytes, settings.deduplication, p_partition,
        nextval(pg_get_serial_sequence('broker.partition', 'partition_id'))
    ) RETURNING * INTO made;
    INSERT INTO broker.segment (partition_id, ledger_id, first_offset)
        VALUES (made.partition_id, nextval('broker.ledger_id_seq'), 0)
        RETURNING ledger_id INTO ledger;
    INSERT INTO broker.partition_live (
        partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset,
        segment_entries, segment_bytes, ongoing_txns, aborted_txns, changes, online,
        segment_max_messages, segment_max_bytes, deduplication
    ) VALUES (
        made.partition_id, 0, 0, ledger, 0, 0, 0, 0, 0, 0, made.online, made.segment_max_messages,
        made.segment_max_bytes, made.deduplication
    );
    RETURN made;
END
$$;
