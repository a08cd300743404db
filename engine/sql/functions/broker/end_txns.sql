-- PIP-31's EndTxnOnPartition for many transactions of one partition, in the order given: write
-- each marker, its index row and the new positions, all durable together; then apply the low water
-- marks. Exactly once however often it comes. Answers one row per command; error is null when done.
--
-- p_registered: the commands come from a coordinator that lists the partition as a participant, so
-- each gets a marker. Otherwise an abort of a transaction never seen here is only remembered.
CREATE OR REPLACE FUNCTION broker.end_txns(
    p_partition bigint,
    p_tcs integer[],
    p_sequences bigint[],
    p_aborts boolean[],
    p_registered boolean,
    p_mark_tcs integer[],
    p_marks bigint[]
) RETURNS TABLE (
    tc_id integer, sequence bigint, error text,
    first_offset bigint, last_offset bigint, messages bigint, marker_offset bigint
) LANGUAGE plpgsql AS $$
DECLARE
    head broker.partition_live;
    ended broker.ended_txn;
    done record;
    mark broker.low_water_mark;
    orphan broker.ongoing_txn;
BEGIN
    SELECT * INTO head FROM broker.partition_live l
        WHERE l.partition_id = p_partition FOR UPDATE;
    IF head.partition_id IS NULL
        OR NOT (SELECT p.online FROM broker.partition p WHERE p.partition_id = p_partition)
    THEN
        RETURN QUERY SELECT t.tc, t.seq,
            CASE WHEN head.partition_id IS NULL THEN 'recovering' ELSE 'offline' END,
            NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
            FROM unnest(p_tcs, p_sequences) AS t (tc, seq);
        RETURN;
    END IF;

    FOR i IN 1 .. cardinality(p_tcs) LOOP
        tc_id := p_tcs[i];
        sequence := p_sequences[i];
        ended := broker.ended_before(p_partition, p_tcs[i], p_sequences[i], p_aborts[i]);
        IF ended.partition_id IS NULL THEN
            done := broker.end_txn(
                head, p_tcs[i], p_sequences[i], p_aborts[i], p_registered
            );
            head := done.new_head;
            ended := done.ended;
        END IF;
        error := CASE WHEN ended.aborted <> p_aborts[i] THEN 'opposite' END;
        first_offset := ended.first_offset;
        last_offset := ended.last_offset;
        messages := ended.messages;
        marker_offset := ended.marker_offset;
        RETURN NEXT;
    END LOOP;

    INSERT INTO broker.low_water_mark AS w
        SELECT p_partition, m.tc, m.mark FROM unnest(p_mark_tcs, p_marks) AS m (tc, mark)
        WHERE m.mark >= 0
        ON CONFLICT ON CONSTRAINT low_water_mark_pkey DO UPDATE
            SET low_water_mark = excluded.low_water_mark
            WHERE excluded.low_water_mark > w.low_water_mark;
    -- Orphans: their coordinator has ended them, or never knew them. All of them, not only the head.
    FOR mark IN
        SELECT w.* FROM broker.low_water_mark w
        WHERE w.partition_id = p_partition AND w.tc_id = ANY (p_mark_tcs)
        ORDER BY w.tc_id
    LOOP
        FOR orphan IN
            SELECT o.* FROM broker.ongoing_txn o
            WHERE o.partition_id = p_partition AND o.tc_id = mark.tc_id
            AND o.sequence <= mark.low_water_mark
            ORDER BY o.sequence
        LOOP
            done := broker.end_txn(head, orphan.tc_id, orphan.sequence, true, false);
            head := done.new_head;
        END LOOP;
        DELETE FROM broker.ended_txn e
            WHERE e.partition_id = p_partition AND e.tc_id = mark.tc_id
            AND e.sequence <= mark.low_water_mark;
    END LOOP;

    UPDATE broker.partition_live l SET
        next_offset = head.next_offset,
        ledger_id = head.ledger_id,
        segment_first_offset = head.segment_first_offset,
        segment_entries = head.segment_entries,
        segment_bytes = head.segment_bytes,
        first_ongoing_offset = (
            SELECT o.first_offset FROM broker.ongoing_txn o
            WHERE o.ordered_in = p_partition ORDER BY o.first_offset LIMIT 1
        ),
        ongoing_txns = head.ongoing_txns,
        aborted_txns = head.aborted_txns,
        changes = head.changes
        WHERE l.partition_id = p_partition;
END
$$;
