-- Append batches to a partition, in the order given: under the partition's lock, check the fence
-- and the producer's sequence, take offsets, insert the entry, note the transaction as ongoing.
-- A transaction's batches that follow one another change its row twice at most: for the first, and
-- for all others together.
-- One round trip, because the lock is held for all of it, and one commit for all batches that
-- callers have ready at once. Each batch gets its own answer; of one that is refused nothing is
-- stored. Each statement in here sees what committed while the lock was waited for. What there is
-- nothing to judge about has a statement of its own (append_plain in queries/append.sql).
DROP FUNCTION IF EXISTS
    broker.append(bigint, bigint, bytea, text, bigint, integer, bigint);
CREATE OR REPLACE FUNCTION broker.append(
    p_partition bigint,
    p_messages bigint[],
    p_bodies bytea[],
    p_producers text[],
    p_sequence_ids bigint[],
    p_tcs integer[],
    p_sequences bigint[]
) RETURNS TABLE (
    result text,
    ledger_id bigint,
    first_offset bigint,
    last_offset bigint,
    last_sequence_id bigint,
    needs_snapshot boolean
) LANGUAGE plpgsql AS $$
DECLARE
    taken broker.partition_live;
    head broker.partition_live;
    known record;
    noted broker.ongoing_txn;
    more_messages bigint := 0;
    total_messages bigint := 0;
    total_bytes bigint := 0;
BEGIN
    FOR i IN 1 .. cardinality(p_messages) LOOP
        total_messages := total_messages + p_messages[i];
        total_bytes := total_bytes + length(p_bodies[i]);
    END LOOP;
    -- Locks the head and takes what all of them need; what is not needed is given back below.
    UPDATE broker.partition_live l SET
        next_offset = l.next_offset + total_messages,
        segment_entries = l.segment_entries + cardinality(p_messages),
        segment_bytes = l.segment_bytes + total_bytes
        WHERE l.partition_id = p_partition AND l.online
        RETURNING * INTO taken;
    IF NOT FOUND THEN
        result := broker.why_closed(p_partition);
        FOR i IN 1 .. cardinality(p_messages) LOOP RETURN NEXT; END LOOP;
        RETURN;
    END IF;
    head := taken;
    head.next_offset := taken.next_offset - total_messages;
    head.segment_entries := taken.segment_entries - cardinality(p_messages);
    head.segment_bytes := taken.segment_bytes - total_bytes;

    FOR i IN 1 .. cardinality(p_messages) LOOP
        ledger_id := NULL;
        first_offset := NULL;
        last_offset := NULL;
        last_sequence_id := NULL;
        needs_snapshot := false;

        -- Written as the indexes of producers are, which no other can serve (migration 0014).
        IF p_producers[i] IS NOT NULL AND head.deduplication THEN
            IF p_tcs[i] IS NULL THEN
                last_sequence_id := greatest((
                    SELECT max(e.sequence_id) FROM broker.entry e
                    WHERE e.partition_id + 0 = p_partition AND e.producer_name = p_producers[i]
                    AND e.tc_id IS NULL
                ), (
                    SELECT d.sequence_id FROM broker.producer d
                    WHERE d.partition_id = p_partition AND d.producer_name = p_producers[i]
                ));
            ELSE
                last_sequence_id := (
                    SELECT max(e.sequence_id) FROM broker.entry e
                    WHERE e.partition_id + 0 = p_partition AND e.tc_id + 0 = p_tcs[i]
                    AND e.sequence + 0 = p_sequences[i] AND e.producer_name = p_producers[i]
                );
            END IF;
            IF p_sequence_ids[i] <= last_sequence_id THEN
                IF p_tcs[i] IS NOT NULL
                    AND broker.has_ended(p_partition, p_tcs[i], p_sequences[i])
                THEN
                    result := 'ended';
                ELSE
                    known := broker.appended_before(
                        p_partition, p_producers[i], p_sequence_ids[i], p_tcs[i], p_sequences[i]
                    );
                    ledger_id := known.ledger_id;
                    first_offset := known.first_offset;
                    last_offset := known.last_offset;
                    result := CASE WHEN ledger_id IS NULL THEN 'out_of_order' ELSE 'duplicate' END;
                END IF;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;

        first_offset := head.next_offset;
        last_offset := head.next_offset + p_messages[i] - 1;
        IF p_tcs[i] = noted.tc_id AND p_sequences[i] = noted.sequence THEN
            noted.last_offset := last_offset;
            more_messages := more_messages + p_messages[i];
        ELSIF p_tcs[i] IS NOT NULL THEN
            IF more_messages > 0 THEN
                PERFORM broker.note_more(noted, more_messages);
                more_messages := 0;
            END IF;
            -- What is ongoing has not ended: an end takes it out under the same lock.
            UPDATE broker.ongoing_txn o
                SET last_offset = append.last_offset, messages = o.messages + p_messages[i]
                WHERE o.partition_id = p_partition AND o.tc_id = p_tcs[i]
                AND o.sequence = p_sequences[i]
                RETURNING * INTO noted;
            IF NOT FOUND THEN
                IF broker.has_ended(p_partition, p_tcs[i], p_sequences[i]) THEN
                    result := 'ended';
                    first_offset := NULL;
                    last_offset := NULL;
                    RETURN NEXT;
                    CONTINUE;
                END IF;
                INSERT INTO broker.ongoing_txn VALUES (
                    p_partition, p_tcs[i], p_sequences[i], append.first_offset,
                    append.last_offset, p_messages[i], clock_timestamp()
                ) RETURNING * INTO noted;
                head.first_ongoing_offset := coalesce(head.first_ongoing_offset, first_offset);
                head.ongoing_txns := head.ongoing_txns + 1;
                head.changes := head.changes + 1;
                needs_snapshot := head.snapshot_position IS NULL;
            END IF;
        END IF;

        IF head.segment_entries > 0 AND (
            head.next_offset - head.segment_first_offset + p_messages[i]
                > head.segment_max_messages
            OR head.segment_bytes + length(p_bodies[i]) > head.segment_max_bytes
        ) THEN
            head := broker.roll_segment(head);
        END IF;
        ledger_id := head.ledger_id;
        INSERT INTO broker.entry VALUES (
            p_partition, append.last_offset, append.first_offset, append.ledger_id, 'D', p_tcs[i],
            p_sequences[i], p_sequence_ids[i], clock_timestamp(), p_producers[i], p_bodies[i]
        );
        head.next_offset := last_offset + 1;
        head.segment_entries := head.segment_entries + 1;
        head.segment_bytes := head.segment_bytes + length(p_bodies[i]);
        result := 'appended';
        RETURN NEXT;
    END LOOP;

    IF more_messages > 0 THEN
        PERFORM broker.note_more(noted, more_messages);
    END IF;
    IF head IS DISTINCT FROM taken THEN
        UPDATE broker.partition_live l SET
            next_offset = head.next_offset,
            ledger_id = head.ledger_id,
            segment_first_offset = head.segment_first_offset,
            segment_entries = head.segment_entries,
            segment_bytes = head.segment_bytes,
            first_ongoing_offset = head.first_ongoing_offset,
            ongoing_txns = head.ongoing_txns,
            changes = head.changes
            WHERE l.partition_id = p_partition;
    END IF;
END
$$;
