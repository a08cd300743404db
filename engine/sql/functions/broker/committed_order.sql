-- A partition's messages in the order in which they became readable: those outside transactions at
-- their own offset, a committed transaction's at its marker. Nothing is read twice, and nothing of
-- transactions that are open or aborted, so the cost is that of the answer (semantics §4.2).
--
-- p_from is where in the log to begin; p_within, when p_from is the marker of a transaction that
-- has been handed out in part, the offset of its next message. Answers entries with the offset at
-- which each became readable, up to p_max_messages messages and p_max_bytes; a last entry may have
-- more than its share. The last row has no body: readable_at and first_offset are the next call's
-- p_from and p_within.
CREATE OR REPLACE FUNCTION broker.committed_order(
    p_partition bigint,
    p_from bigint,
    p_within bigint,
    p_max_messages bigint,
    p_max_bytes bigint
) RETURNS TABLE (readable_at bigint, entry broker.entry) LANGUAGE plpgsql STABLE
-- All questions are asked in the order of the one index that suits each: a plan made without
-- statistics would read a large transaction whole and sort it.
SET enable_sort = off
AS $$
DECLARE
    -- Transactions that left no message here would otherwise let one call read any number of markers.
    looked_at CONSTANT bigint := greatest(p_max_messages, 1000);
    log_start bigint;
    next_offset bigint;
    first bigint;
    event broker.entry;
    handed_out bigint := p_from;
    begun boolean;
    events bigint := 0;
    messages bigint := 0;
    bytes bigint := 0;
BEGIN
    SELECT l.log_start_offset, l.next_offset INTO log_start, next_offset
        FROM broker.partition_live l WHERE l.partition_id = p_partition;
    -- An offset may be inside a batch.
    SELECT e.first_offset INTO first FROM broker.entry e
        WHERE e.partition_id = p_partition AND e.last_offset >= greatest(p_from, log_start)
        ORDER BY e.last_offset LIMIT 1;
    FOR event IN
        SELECT * FROM broker.entry e
        WHERE e.partition_id = p_partition AND (e.tc_id IS NULL OR e.kind = 'C')
        AND e.first_offset >= first ORDER BY e.first_offset LIMIT looked_at
    LOOP
        events := events + 1;
        readable_at := event.last_offset;
        IF event.kind = 'D' THEN
            bytes := bytes + broker.body_bytes(event.body);
            IF messages >= p_max_messages OR (messages > 0 AND bytes > p_max_bytes) THEN
                readable_at := handed_out;
                entry := NULL;
                RETURN NEXT;
                RETURN;
            END IF;
            entry := event;
            RETURN NEXT;
            handed_out := event.last_offset + 1;
            messages := messages + event.last_offset - greatest(event.first_offset, p_from) + 1;
            CONTINUE;
        END IF;

        -- The span tells these messages from those that an orphan of the same id has left later.
        SELECT i.first_offset INTO first FROM (
            SELECT * FROM broker.txn_index
            WHERE partition_id = p_partition AND last_offset >= event.last_offset
            ORDER BY last_offset LIMIT 1
        ) i WHERE i.last_offset = event.last_offset;
        IF NOT FOUND THEN
            handed_out := event.last_offset + 1;
            CONTINUE;
        END IF;
        begun := false;
        IF event.last_offset = p_from AND p_within IS NOT NULL THEN
            SELECT greatest(first, e.first_offset) INTO first FROM broker.entry e
                WHERE e.partition_id = p_partition AND e.last_offset >= p_within
                ORDER BY e.last_offset LIMIT 1;
        END IF;
        FOR entry IN
            SELECT * FROM broker.entry e
            WHERE e.partition_id - 0 = p_partition AND e.kind = 'D'
            AND e.tc_id - 0 = event.tc_id AND e.sequence - 0 = event.sequence
            AND e.first_offset >= greatest(first, log_start) AND e.first_offset < event.last_offset
            ORDER BY e.first_offset
        LOOP
            bytes := bytes + broker.body_bytes(entry.body);
            IF messages >= p_max_messages OR (messages > 0 AND bytes > p_max_bytes) THEN
                first := entry.first_offset;
                entry := NULL;
                IF begun THEN
                    entry.first_offset := first;
                ELSE
                    readable_at := handed_out;
                END IF;
                RETURN NEXT;
                RETURN;
            END IF;
            RETURN NEXT;
            begun := true;
            messages := messages + entry.last_offset + 1 - greatest(
                entry.first_offset, CASE WHEN event.last_offset = p_from THEN p_within END
            );
        END LOOP;
        handed_out := event.last_offset + 1;
    END LOOP;
    IF events < looked_at THEN
        readable_at := greatest(next_offset, p_from);
    ELSE
        readable_at := handed_out;
    END IF;
    entry := NULL;
    RETURN NEXT;
END
$$;
