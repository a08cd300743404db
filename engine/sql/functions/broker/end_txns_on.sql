-- end_txns for many partitions, one after the other in the order given, which is the order of their
-- locks. The commands are in that order too: p_upto says how many of them belong to a partition and
-- those before it. Answers one row per command ('missing': the partition is not there), and those that
-- say 'orphans'.
--
-- What is common is done here, as end_txn and end_txns do it, and in half of their time: these hand whole
-- rows to each other (docs/decisions/0027). It is the end of a transaction that has messages in a
-- marker-buffered partition, where no low water mark has orphans to pass over. All else is end_txns'
-- work, which finds the head as it has been left here.
--
-- A mark of a coordinator that ends nothing here is taken only where there is something for it to pass.
CREATE OR REPLACE FUNCTION broker.end_txns_on(
    p_topics bigint[],
    p_numbers integer[],
    p_upto integer[],
    p_tcs integer[],
    p_sequences bigint[],
    p_aborts boolean[],
    p_mark_tcs integer[],
    p_marks bigint[]
) RETURNS TABLE (error text, first_offset bigint, last_offset bigint, messages bigint, marker_offset bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    id bigint;
    ledger bigint;
    marker bigint;
    first_ongoing bigint;
    place integer := 1;
    ended bigint;
    aborted bigint;
    mark_tcs integer[];
    passed bigint[];
    reached bigint[];
    has_orphans boolean;
BEGIN
    FOR i IN 1 .. cardinality(p_topics) LOOP
        SELECT l.partition_id, l.ledger_id, l.next_offset, l.first_ongoing_offset
            INTO id, ledger, marker, first_ongoing
            FROM broker.partition p JOIN broker.partition_live l ON l.partition_id = p.partition_id
            WHERE p.topic_id = p_topics[i] AND p.number = p_numbers[i]
            AND p.buffer = 'marker' AND l.online
            FOR UPDATE OF l;
        ended := 0;
        aborted := 0;
        IF FOUND THEN
            SELECT array_agg(m.tc), array_agg(m.passed), array_agg(m.reached), bool_or(m.has_orphans)
            INTO mark_tcs, passed, reached, has_orphans FROM (
                SELECT w.tc, w.reached, coalesce(k.low_water_mark, -1) AS passed, EXISTS (
                    SELECT FROM broker.ongoing_txn o
                    WHERE o.partition_id = id AND o.tc_id = w.tc
                    AND o.sequence > coalesce(k.low_water_mark, -1) AND o.sequence <= w.reached
                ) AS has_orphans
                FROM unnest(p_mark_tcs, p_marks) AS w (tc, reached)
                LEFT JOIN broker.low_water_mark k ON k.partition_id = id AND k.tc_id = w.tc
                WHERE w.reached > coalesce(k.low_water_mark, -1) OFFSET 0
            ) m
            WHERE m.has_orphans OR m.tc = ANY (p_tcs[place:p_upto[i]]) OR EXISTS (
                SELECT FROM broker.ended_txn e WHERE e.partition_id = id AND e.tc_id = m.tc
                AND e.sequence > m.passed AND e.sequence <= m.reached
            );
            WHILE place <= p_upto[i] AND has_orphans IS NOT TRUE LOOP
                DELETE FROM broker.ongoing_txn o
                    WHERE o.partition_id = id AND o.tc_id = p_tcs[place]
                    AND o.sequence = p_sequences[place]
                    AND NOT EXISTS (
                        SELECT FROM broker.ended_txn e WHERE e.partition_id = id
                        AND e.tc_id = p_tcs[place] AND e.sequence = p_sequences[place]
                    )
                    AND NOT EXISTS (
                        SELECT FROM broker.low_water_mark w WHERE w.partition_id = id
                        AND w.tc_id = p_tcs[place] AND w.low_water_mark >= p_sequences[place]
                    )
                    RETURNING o.first_offset, o.last_offset, o.messages
                    INTO first_offset, last_offset, messages;
                EXIT WHEN NOT FOUND;  -- it has ended before, or has nothing here
                INSERT INTO broker.entry VALUES (
                    id, marker, marker, ledger, CASE WHEN p_aborts[place] THEN 'A' ELSE 'C' END::"char",
                    p_tcs[place], p_sequences[place], NULL, clock_timestamp(), NULL, NULL
                );
                IF first_ongoing IS NULL OR first_offset <= first_ongoing THEN  -- see next_ongoing
                    SELECT o.first_offset INTO first_ongoing FROM broker.ongoing_txn o
                        WHERE o.ordered_in = id AND o.first_offset > end_txns_on.first_offset
                        ORDER BY o.first_offset LIMIT 1;
                END IF;
                INSERT INTO broker.txn_index VALUES (
                    id, marker, first_offset, coalesce(first_ongoing, marker + 1), ledger, p_tcs[place],
                    p_sequences[place], p_aborts[place]
                );
                INSERT INTO broker.ended_txn VALUES (
                    id, p_tcs[place], p_sequences[place], p_aborts[place], marker, first_offset,
                    last_offset, messages
                );
                marker_offset := marker;
                RETURN NEXT;
                marker := marker + 1;
                ended := ended + 1;
                aborted := aborted + p_aborts[place]::integer;
                place := place + 1;
            END LOOP;
            IF ended > 0 THEN
                UPDATE broker.partition_live l SET
                    next_offset = marker,
                    segment_entries = l.segment_entries + ended,
                    first_ongoing_offset = first_ongoing,
                    ongoing_txns = l.ongoing_txns - ended,
                    aborted_txns = l.aborted_txns + aborted,
                    changes = l.changes + ended,
                    ends = l.ends + ended,
                    aborts = l.aborts + aborted,
                    markers = l.markers + ended
                    WHERE l.partition_id = id;
            END IF;
            IF place > p_upto[i] AND has_orphans IS NOT TRUE THEN
                FOR k IN 1 .. coalesce(cardinality(mark_tcs), 0) LOOP
                    INSERT INTO broker.low_water_mark VALUES (id, mark_tcs[k], reached[k])
                        ON CONFLICT ON CONSTRAINT low_water_mark_pkey DO UPDATE
                            SET low_water_mark = excluded.low_water_mark;
                    DELETE FROM broker.ended_txn e
                        WHERE e.partition_id = id AND e.tc_id = mark_tcs[k]
                        AND e.sequence > passed[k] AND e.sequence <= reached[k];
                END LOOP;
                CONTINUE;
            END IF;
        END IF;

        SELECT p.partition_id INTO id FROM broker.partition p
            WHERE p.topic_id = p_topics[i] AND p.number = p_numbers[i];
        IF FOUND THEN
            RETURN QUERY SELECT e.error, e.first_offset, e.last_offset, e.messages, e.marker_offset
                FROM broker.end_txns(
                    id, p_tcs[place:p_upto[i]], p_sequences[place:p_upto[i]],
                    p_aborts[place:p_upto[i]], true, p_mark_tcs, p_marks
                ) e;
        ELSE
            RETURN QUERY SELECT 'missing', NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
                FROM generate_series(place, p_upto[i]);
        END IF;
        place := p_upto[i] + 1;
    END LOOP;
END
$$;
