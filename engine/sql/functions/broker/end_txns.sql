-- PIP-31's EndTxnOnPartition for many transactions of one partition, in the order given: write
-- each marker, its index row and the new positions, all durable together; then apply the low water
-- marks. Exactly once however often it comes. Answers one row per command; error is null when done.
--
-- p_registered: the commands come from a coordinator that lists the partition as a participant, so
-- each gets a marker. Otherwise an abort of a transaction never seen here is only remembered (semantics
-- §4; the coordinators of this engine end a transaction only where they list it).
-- A sidecar-buffered partition has its own way to end one; the rest is the same for both buffers.
--
-- A mark tells that what it passes has ended, and not how. Where it would pass something that is still open
-- here, an orphan, it stays, and a further row says 'orphans' (engine.coordinator.orphans).
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
    settings broker.partition;
    side broker.partition_live;
    log_id bigint;
    ended broker.ended_txn;
    done record;
    mark record;
BEGIN
    SELECT * INTO head FROM broker.partition_live l
        WHERE l.partition_id = p_partition FOR UPDATE;
    SELECT * INTO settings FROM broker.partition p WHERE p.partition_id = p_partition;
    IF settings.buffer = 'sidecar' THEN
        SELECT p.partition_id INTO log_id FROM broker.partition p
            WHERE p.sidecar_of = p_partition;
        SELECT * INTO side FROM broker.partition_live l WHERE l.partition_id = log_id FOR UPDATE;
    END IF;
    IF head.partition_id IS NULL OR side.partition_id IS DISTINCT FROM log_id
        OR NOT settings.online
    THEN
        RETURN QUERY SELECT t.tc, t.seq,
            CASE WHEN head.partition_id IS NULL OR settings.online THEN 'recovering'
                ELSE 'offline' END,
            NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
            FROM unnest(p_tcs, p_sequences) AS t (tc, seq);
        RETURN;
    END IF;

    FOR i IN 1 .. cardinality(p_tcs) LOOP
        tc_id := p_tcs[i];
        sequence := p_sequences[i];
        IF settings.buffer = 'sidecar' THEN
            ended := broker.sidecar_ended_before(
                p_partition, log_id, p_tcs[i], p_sequences[i], p_aborts[i]
            );
            IF ended.partition_id IS NULL THEN
                done := broker.end_sidecar_txn(
                    head, side, p_tcs[i], p_sequences[i], p_aborts[i]
                );
                head := done.new_head;
                side := done.new_side;
                ended := done.ended;
            END IF;
        ELSE
            ended := broker.ended_before(p_partition, p_tcs[i], p_sequences[i], p_aborts[i]);
            IF ended.partition_id IS NULL THEN
                done := broker.end_txn(
                    head, p_tcs[i], p_sequences[i], p_aborts[i], p_registered
                );
                head := done.new_head;
                ended := done.ended;
            END IF;
        END IF;
        error := CASE WHEN ended.aborted <> p_aborts[i] THEN 'opposite' END;
        first_offset := ended.first_offset;
        last_offset := ended.last_offset;
        messages := ended.messages;
        marker_offset := ended.marker_offset;
        RETURN NEXT;
    END LOOP;

    FOR mark IN
        SELECT m.tc AS tc_id, coalesce(w.low_water_mark, -1) AS passed, m.mark AS reached
        FROM unnest(p_mark_tcs, p_marks) AS m (tc, mark)
        LEFT JOIN broker.low_water_mark w ON w.partition_id = p_partition AND w.tc_id = m.tc
        WHERE m.mark > coalesce(w.low_water_mark, -1)
        ORDER BY m.tc
    LOOP
        -- What the mark passed before takes no message any more.
        IF EXISTS (
            SELECT FROM broker.ongoing_txn o
            WHERE o.partition_id = coalesce(log_id, p_partition) AND o.tc_id = mark.tc_id
            AND o.sequence > mark.passed AND o.sequence <= mark.reached
        ) THEN
            error := 'orphans';
            RETURN NEXT;
            CONTINUE;
        END IF;
        INSERT INTO broker.low_water_mark VALUES (p_partition, mark.tc_id, mark.reached)
            ON CONFLICT ON CONSTRAINT low_water_mark_pkey DO UPDATE
                SET low_water_mark = excluded.low_water_mark;
        -- The fence forgets what the mark passes now. What it passed before is gone, and walking its
        -- place in the index would cost more with each end until the next vacuum.
        DELETE FROM broker.ended_txn e
            WHERE e.partition_id = p_partition AND e.tc_id = mark.tc_id
            AND e.sequence > mark.passed AND e.sequence <= mark.reached;
    END LOOP;

    PERFORM broker.write_head(head);
    IF side.partition_id IS NOT NULL THEN PERFORM broker.write_head(side); END IF;
END
$$;
