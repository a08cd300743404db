-- Append one batch to a partition: under the partition's lock, check the fence and the producer's
-- sequence, take the next offsets, insert the entry, note the transaction as ongoing.
-- One round trip, because the lock is held for all of it. Nothing is stored unless result is
-- 'appended'. Each statement in here sees what committed while the lock was waited for.
CREATE OR REPLACE FUNCTION broker.append(
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
    OUT needs_snapshot boolean
) LANGUAGE plpgsql AS $$
DECLARE
    head broker.partition_live;
    settings broker.partition;
    stored broker.entry;
    dropped broker.producer;
    is_new boolean := false;
BEGIN
    SELECT * INTO head FROM broker.partition_live l
        WHERE l.partition_id = p_partition FOR UPDATE;
    SELECT * INTO settings FROM broker.partition p WHERE p.partition_id = p_partition;
    IF settings.partition_id IS NULL THEN result := 'not_found'; RETURN; END IF;
    IF NOT settings.online THEN result := 'offline'; RETURN; END IF;
    IF head.partition_id IS NULL THEN result := 'recovering'; RETURN; END IF;

    IF p_tc IS NOT NULL THEN
        PERFORM FROM broker.ended_txn e
            WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence;
        IF FOUND THEN result := 'ended'; RETURN; END IF;
        PERFORM FROM broker.low_water_mark w
            WHERE w.partition_id = p_partition AND w.tc_id = p_tc
            AND w.low_water_mark >= p_sequence;
        IF FOUND THEN result := 'ended'; RETURN; END IF;
    END IF;

    IF p_producer IS NOT NULL AND p_sequence_id IS NOT NULL AND settings.deduplication THEN
        IF p_tc IS NULL THEN
            SELECT max(e.sequence_id) INTO last_sequence_id FROM broker.entry e
                WHERE e.partition_id = p_partition AND e.producer_name = p_producer
                AND e.tc_id IS NULL;
            -- What retention has dropped was appended all the same.
            SELECT * INTO dropped FROM broker.producer d
                WHERE d.partition_id = p_partition AND d.producer_name = p_producer;
            last_sequence_id := greatest(last_sequence_id, dropped.sequence_id);
        ELSE
            SELECT max(e.sequence_id) INTO last_sequence_id FROM broker.entry e
                WHERE e.partition_id = p_partition AND e.tc_id = p_tc AND e.sequence = p_sequence
                AND e.producer_name = p_producer;
        END IF;
        IF p_sequence_id <= last_sequence_id THEN
            -- Two statements: IS NOT DISTINCT FROM would keep either index from being used.
            IF p_tc IS NULL THEN
                SELECT * INTO stored FROM broker.entry e
                    WHERE e.partition_id = p_partition AND e.producer_name = p_producer
                    AND e.sequence_id = p_sequence_id AND e.tc_id IS NULL;
            ELSE
                SELECT * INTO stored FROM broker.entry e
                    WHERE e.partition_id = p_partition AND e.tc_id = p_tc
                    AND e.sequence = p_sequence AND e.producer_name = p_producer
                    AND e.sequence_id = p_sequence_id;
            END IF;
            IF stored.partition_id IS NULL AND dropped.sequence_id = p_sequence_id THEN
                stored.ledger_id := dropped.ledger_id;
                stored.first_offset := dropped.first_offset;
                stored.last_offset := dropped.last_offset;
            ELSIF stored.partition_id IS NULL THEN
                result := 'out_of_order';
                RETURN;
            END IF;
            result := 'duplicate';
            ledger_id := stored.ledger_id;
            first_offset := stored.first_offset;
            last_offset := stored.last_offset;
            RETURN;
        END IF;
    END IF;

    IF head.segment_entries > 0 AND (
        head.next_offset - head.segment_first_offset + p_messages > settings.segment_max_messages
        OR head.segment_bytes + length(p_body) > settings.segment_max_bytes
    ) THEN
        head := broker.roll_segment(head);
    END IF;

    result := 'appended';
    ledger_id := head.ledger_id;
    first_offset := head.next_offset;
    last_offset := head.next_offset + p_messages - 1;
    INSERT INTO broker.entry VALUES (
        p_partition, append.last_offset, append.first_offset, append.ledger_id, 'D', p_tc,
        p_sequence, p_sequence_id, clock_timestamp(), p_producer, p_body
    );

    IF p_tc IS NOT NULL THEN
        UPDATE broker.ongoing_txn o
            SET last_offset = append.last_offset, messages = o.messages + p_messages
            WHERE o.partition_id = p_partition AND o.tc_id = p_tc AND o.sequence = p_sequence;
        IF NOT FOUND THEN
            is_new := true;
            INSERT INTO broker.ongoing_txn VALUES (
                p_partition, p_tc, p_sequence, append.first_offset, append.last_offset, p_messages,
                clock_timestamp()
            );
        END IF;
    END IF;
    needs_snapshot := is_new AND head.snapshot_position IS NULL;

    UPDATE broker.partition_live l SET
        next_offset = append.last_offset + 1,
        ledger_id = head.ledger_id,
        segment_first_offset = head.segment_first_offset,
        segment_entries = head.segment_entries + 1,
        segment_bytes = head.segment_bytes + length(p_body),
        first_ongoing_offset = CASE WHEN is_new
            THEN coalesce(l.first_ongoing_offset, append.first_offset)
            ELSE l.first_ongoing_offset END,
        ongoing_txns = l.ongoing_txns + is_new::integer,
        changes = l.changes + is_new::integer
        WHERE l.partition_id = p_partition;
END
$$;
