-- Everything that a decision about one subscription in some partitions needs, in one round trip: a
-- row per cursor, ascending by partition; a partition whose cursor is gone has none.
--
-- p_lock: wait for the cursors and keep them locked. Otherwise nobody is waited for, and
-- store_cursors refuses what was decided on a state that has changed meanwhile: the versions are the
-- ids of the transactions that wrote the rows.
-- p_room > 0: also the entries with the next p_room offsets that may be due, up to the stable
-- position, cut at about p_max_bytes, and the aborted transactions that meet them. p_ahead: so many
-- offsets more, as long as they are of few entries and all of it has few bytes, for the calls that
-- come after this one.
-- A long acked is null, and told as its bounds: an array of numbers is made in a fraction of the time.
-- So is what transactions hold and what calls claim, an element for each of their ranges.
DROP FUNCTION IF EXISTS broker.read_cursors(bigint, bigint[], boolean, bigint, bigint);
DROP FUNCTION IF EXISTS broker.read_cursors(bigint, bigint[], boolean, bigint, bigint, bigint);
CREATE OR REPLACE FUNCTION broker.read_cursors(
    p_subscription bigint,
    p_partitions bigint[],
    p_lock boolean,
    p_room bigint,
    p_ahead bigint,
    p_max_bytes bigint
) RETURNS TABLE (
    partition_id bigint, number integer, buffer text, online boolean, stable_position bigint, now_ms bigint,
    log_start_offset bigint, open_ledger bigint, open_since bigint,
    cursor_version bigint, mark_delete bigint, acked int8multirange, acked_lowers bigint[],
    acked_uppers bigint[], dead int8multirange,
    dispatch_version bigint, state bytea,
    pending_tcs integer[], pending_sequences bigint[], pending_cumulative boolean[],
    pending_lowers bigint[], pending_uppers bigint[],
    tentative_tcs integer[], tentative_sequences bigint[], tentative_calls bigint[],
    tentative_lowers bigint[], tentative_uppers bigint[],
    window_from bigint, window_upper bigint,
    kinds text[], first_offsets bigint[], last_offsets bigint[], ledger_ids bigint[],
    tcs integer[], sequences bigint[], sequence_ids bigint[], publish_times timestamptz[],
    producer_names text[], bodies bytea[],
    aborted_tcs integer[], aborted_sequences bigint[],
    aborted_firsts bigint[], aborted_lasts bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    IF p_lock THEN
        PERFORM FROM broker.cursor c
            WHERE c.subscription_id = p_subscription AND c.partition_id = ANY (p_partitions)
            ORDER BY c.partition_id FOR UPDATE;
    END IF;
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        SELECT c.partition_id, p.number, p.buffer, p.online,
            coalesce(l.first_ongoing_offset, l.next_offset) - 1,
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
            l.log_start_offset, l.ledger_id, l.segment_first_offset,
            c.xmin::text::bigint, c.mark_delete, c.acked, d.xmin::text::bigint, d.state,
            greatest(coalesce(d.due_offset, 0), c.mark_delete + 1)
        INTO partition_id, number, buffer, online, stable_position, now_ms, log_start_offset,
            open_ledger, open_since, cursor_version, mark_delete, acked, dispatch_version, state,
            window_from
        FROM broker.cursor c
        JOIN broker.partition p ON p.partition_id = c.partition_id
        LEFT JOIN broker.partition_live l ON l.partition_id = c.partition_id
        LEFT JOIN broker.dispatch d
            ON d.subscription_id = c.subscription_id AND d.partition_id = c.partition_id
        WHERE c.subscription_id = p_subscription AND c.partition_id = p_partitions[i];
        CONTINUE WHEN NOT FOUND;

        -- What is not read below is not there, whatever the partition before had.
        kinds := NULL;
        aborted_tcs := NULL;
        acked_lowers := NULL;
        IF pg_column_size(acked) > 2000 THEN
            SELECT array_agg(lower(r)), array_agg(upper(r)) INTO acked_lowers, acked_uppers
            FROM unnest(acked) AS r;
            acked := NULL;
        END IF;
        -- Both from one snapshot: a claim that is seen without the call on which it hangs, because that
        -- has been given back between two statements, would be taken for a sure one.
        SELECT a.tcs, a.sequences, a.cumulative, a.lowers, a.uppers,
            t.tcs, t.sequences, t.calls, t.lowers, t.uppers
        INTO pending_tcs, pending_sequences, pending_cumulative, pending_lowers, pending_uppers,
            tentative_tcs, tentative_sequences, tentative_calls, tentative_lowers, tentative_uppers
        FROM (
            SELECT array_agg(a.tc_id) AS tcs, array_agg(a.sequence) AS sequences,
                array_agg(a.ack_type = 'CUMULATIVE') AS cumulative,
                array_agg(lower(r)) AS lowers, array_agg(upper(r)) AS uppers
            FROM broker.pending_ack a, unnest(a.ranges) AS r
            WHERE a.subscription_id = p_subscription AND a.partition_id = p_partitions[i]
        ) a, LATERAL (
            SELECT array_agg(t.tc_id) AS tcs, array_agg(t.sequence) AS sequences,
                array_agg(t.call_id) AS calls, array_agg(lower(r)) AS lowers,
                array_agg(upper(r)) AS uppers
            FROM broker.tentative_ack t, unnest(t.ranges) AS r
            WHERE a.tcs IS NOT NULL
            AND t.subscription_id = p_subscription AND t.partition_id = p_partitions[i]
        ) t;
        SELECT range_agg(int8range(b.message_offset, b.message_offset + 1)) INTO dead
        FROM broker.dead_letter b
        WHERE b.subscription_id = p_subscription AND b.partition_id = p_partitions[i];

        window_upper := least(window_from + p_room + p_ahead, stable_position + 1);
        IF p_room > 0 AND window_from < window_upper AND buffer = 'marker' THEN
            -- As fetch reads them; bodies are cut, but the first is always whole.
            SELECT array_agg(e.kind::text), array_agg(e.first_offset), array_agg(e.last_offset),
                array_agg(e.ledger_id), array_agg(e.tc_id), array_agg(e.sequence),
                array_agg(e.sequence_id), array_agg(e.publish_time), array_agg(e.producer_name),
                array_agg(e.body)
            INTO kinds, first_offsets, last_offsets, ledger_ids, tcs, sequences, sequence_ids,
                publish_times, producer_names, bodies
            FROM (
                SELECT e.*, coalesce(sum(broker.body_bytes(e.body)) OVER (ORDER BY e.last_offset
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
                FROM broker.entry e
                WHERE e.partition_id = p_partitions[i] AND e.last_offset >= window_from
                AND e.last_offset <= (
                    SELECT b.last_offset FROM broker.entry b
                    WHERE b.partition_id = p_partitions[i] AND b.last_offset >= window_upper - 1
                    ORDER BY b.last_offset LIMIT 1
                )
                AND e.first_offset < window_upper
                ORDER BY e.last_offset LIMIT p_room + 1000
            ) e WHERE e.bytes_before = 0 OR e.bytes_before < CASE
                WHEN e.first_offset < window_from + p_room THEN p_max_bytes
                ELSE least(p_max_bytes, 65536) END;
            SELECT array_agg(x.tc_id), array_agg(x.sequence), array_agg(x.first_offset),
                array_agg(x.last_offset)
            INTO aborted_tcs, aborted_sequences, aborted_firsts, aborted_lasts
            FROM broker.txn_index x
            WHERE x.aborted
            AND int8range(x.partition_id, x.partition_id, '[]') @> p_partitions[i]
            AND int8range(x.first_offset, x.last_offset, '[]')
                && int8range(window_from, window_upper, '[)');
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
