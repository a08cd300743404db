-- end_txns for many partitions, one after the other in the order given, which is the order of their
-- locks. The commands are in that order too: p_upto says how many of them belong to a partition and
-- those before it. Answers one row per command ('missing': the partition is not there), and those that
-- say 'orphans'.
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
LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    first integer := 1;
BEGIN
    FOR i IN 1 .. cardinality(p_topics) LOOP
        SELECT p.partition_id INTO id FROM broker.partition p
            WHERE p.topic_id = p_topics[i] AND p.number = p_numbers[i];
        IF FOUND THEN
            RETURN QUERY SELECT e.error, e.first_offset, e.last_offset, e.messages, e.marker_offset
                FROM broker.end_txns(
                    id, p_tcs[first:p_upto[i]], p_sequences[first:p_upto[i]],
                    p_aborts[first:p_upto[i]], true, p_mark_tcs, p_marks
                ) e;
        ELSE
            RETURN QUERY SELECT 'missing', NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
                FROM generate_series(first, p_upto[i]);
        END IF;
        first := p_upto[i] + 1;
    END LOOP;
END
$$;
