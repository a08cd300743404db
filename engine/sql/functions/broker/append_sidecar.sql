-- Append one transactional batch of a sidecar-buffered partition to its sidecar log, in one round
-- trip: as broker.append, under the sidecar's own lock, so that it waits for no plain append. The
-- fence is the partition's. Positions in the answer are the sidecar's: a message gets its offset in
-- the partition when its transaction commits. Nothing is stored unless result is 'appended'.
CREATE OR REPLACE FUNCTION broker.append_sidecar(
    p_partition bigint,
    p_messages bigint,
    p_body bytea,
    p_producer text,
    p_sequence_id bigint,
    p_tc integer,
    p_sequence bigint,
    OUT result text,
    OUT ledger_id bigint,
    OUT first_offset bigint,
    OUT last_offset bigint,
    OUT last_sequence_id bigint,
    OUT needs_snapshot boolean,
    OUT log_id bigint
) LANGUAGE plpgsql AS $$
DECLARE
    settings broker.partition;
    side broker.partition_live;
    ongoing broker.ongoing_txn;
    stored broker.entry;
BEGIN
    SELECT p.partition_id INTO log_id FROM broker.partition p WHERE p.sidecar_of = p_partition;
    IF NOT FOUND THEN
        log_id := (broker.make_sidecar(p_partition)).partition_id;
    END IF;
    SELECT * INTO side FROM broker.partition_live l
        WHERE l.partition_id = log_id FOR UPDATE;
    -- Without a sidecar the partition itself tells why it could not be made.
    SELECT * INTO settings FROM broker.partition p
        WHERE p.partition_id = coalesce(log_id, p_partition);
    IF settings.partition_id IS NULL THEN result := 'not_found'; RETURN; END IF;
    IF NOT settings.online THEN result := 'offline'; RETURN; END IF;
    IF side.partition_id IS NULL THEN result := 'recovering'; RETURN; END IF;

    PERFORM FROM broker.ended_txn e
        WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence;
    IF FOUND THEN result := 'ended'; RETURN; END IF;
    PERFORM FROM broker.low_water_mark w
        WHERE w.partition_id = p_partition AND w.tc_id = p_tc AND w.low_water_mark >= p_sequence;
    IF FOUND THEN result := 'ended'; RETURN; END IF;

    IF p_producer IS NOT NULL AND p_sequence_id IS NOT NULL AND settings.deduplication THEN
        SELECT max(e.sequence_id) INTO last_sequence_id FROM broker.entry e
            WHERE e.partition_id = log_id AND e.tc_id = p_tc AND e.sequence = p_sequence
            AND e.producer_name = p_producer;
        IF p_sequence_id <= last_sequence_id THEN
            SELECT * INTO stored FROM broker.entry e
                WHERE e.partition_id = log_id AND e.tc_id = p_tc AND e.sequence = p_sequence
                AND e.producer_name = p_producer AND e.sequence_id = p_sequence_id;
            result := CASE WHEN FOUND THEN 'duplicate' ELSE 'out_of_order' END;
            ledger_id := stored.ledger_id;
            first_offset := stored.first_offset;
            last_offset := stored.last_offset;
            RETURN;
        END IF;
    END IF;

    IF side.segment_entries > 0 AND (
        side.next_offset - side.segment_first_offset + p_messages > settings.segment_max_messages
        OR side.segment_bytes + length(p_body) > settings.segment_max_bytes
    ) THEN
        side := broker.roll_segment(side);
    END IF;

    result := 'appended';
    ledger_id := side.ledger_id;
    first_offset := side.next_offset;
    last_offset := side.next_offset + p_messages - 1;
    UPDATE broker.ongoing_txn o SET
        last_offset = append_sidecar.last_offset,
        messages = o.messages + p_messages,
        bytes = o.bytes + length(p_body)
        WHERE o.partition_id = log_id AND o.tc_id = p_tc AND o.sequence = p_sequence
        RETURNING * INTO ongoing;
    IF NOT FOUND THEN
        INSERT INTO broker.ongoing_txn (
            partition_id, tc_id, sequence, first_offset, last_offset, messages, first_append_at,
            bytes
        ) VALUES (
            log_id, p_tc, p_sequence, append_sidecar.first_offset, append_sidecar.last_offset,
            p_messages, clock_timestamp(), length(p_body)
        ) RETURNING * INTO ongoing;
        needs_snapshot := side.snapshot_position IS NULL;
        side.first_ongoing_offset := coalesce(side.first_ongoing_offset, ongoing.first_offset);
        side.ongoing_txns := side.ongoing_txns + 1;
        side.changes := side.changes + 1;
    END IF;
    INSERT INTO broker.entry VALUES (
        log_id, append_sidecar.last_offset, append_sidecar.first_offset, side.ledger_id, 'D', p_tc,
        p_sequence, p_sequence_id, clock_timestamp(), p_producer, p_body, ongoing.messages,
        ongoing.bytes
    );
    UPDATE broker.partition_live l SET
        next_offset = append_sidecar.last_offset + 1,
        ledger_id = side.ledger_id,
        segment_first_offset = side.segment_first_offset,
        segment_entries = side.segment_entries + 1,
        segment_bytes = side.segment_bytes + length(p_body),
        first_ongoing_offset = side.first_ongoing_offset,
        ongoing_txns = side.ongoing_txns,
        changes = side.changes
        WHERE l.partition_id = log_id;
END
$$;
