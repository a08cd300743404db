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
    side broker.partition_live;
    ongoing broker.ongoing_txn;
BEGIN
    SELECT p.partition_id INTO log_id FROM broker.partition p WHERE p.sidecar_of = p_partition;
    IF NOT FOUND THEN
        log_id := (broker.make_sidecar(p_partition)).partition_id;
    END IF;
    SELECT * INTO side FROM broker.partition_live l
        WHERE l.partition_id = log_id AND l.online FOR UPDATE;
    IF NOT FOUND THEN
        -- Without a sidecar the partition itself tells why it could not be made.
        result := broker.why_closed(coalesce(log_id, p_partition));
        RETURN;
    END IF;

    IF broker.has_ended(p_partition, p_tc, p_sequence) THEN
        result := 'ended';
        RETURN;
    END IF;

    IF p_producer IS NOT NULL AND p_sequence_id IS NOT NULL AND side.deduplication THEN
        SELECT max(e.sequence_id) INTO last_sequence_id FROM broker.entry e
            WHERE e.partition_id + 0 = log_id AND e.tc_id + 0 = p_tc AND e.sequence + 0 = p_sequence
            AND e.producer_name = p_producer;
        IF p_sequence_id <= last_sequence_id THEN
            SELECT * INTO ledger_id, first_offset, last_offset FROM broker.appended_before(
                log_id, p_producer, p_sequence_id, p_tc, p_sequence
            );
            result := CASE WHEN ledger_id IS NULL THEN 'out_of_order' ELSE 'duplicate' END;
            RETURN;
        END IF;
    END IF;

    IF side.segment_entries > 0 AND (
        side.next_offset - side.segment_first_offset + p_messages > side.segment_max_messages
        OR side.segment_bytes + length(p_body) > side.segment_max_bytes
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
