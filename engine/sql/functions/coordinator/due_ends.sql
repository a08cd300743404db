-- All that a finalizer's run has to know, of some coordinators: what is due now (kind 'transaction'), first
-- what has not been tried, in the order of decision, then repetitions: those of a broker that is away, however
-- many wait for it, keep no others waiting. Then of these the participants that have still to be asked
-- ('partition', 'subscription'), their confirmed acknowledgement calls over several brokers ('confirmed', the
-- call's id in number) and the low water marks of their coordinators ('mark', in number). No rows: nothing is due.
--
-- One call, as a run is mostly of few transactions. Each statement in it sees what is decided when it begins;
-- plans are kept whatever the arrays' lengths, as in record_ends, and OFFSET 0 keeps each a look-up for each
-- transaction. The coordinator is written as it is in the index (migration 0013).
CREATE OR REPLACE FUNCTION coordinator.due_ends(p_tcs integer[], p_limit integer)
RETURNS TABLE (
    kind text, tc_id integer, sequence bigint, status text, decided_at timestamptz, trace_parent text,
    topic_id bigint, topic text, partition integer, subscription text, broker text, number bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    tcs integer[];
    sequences bigint[];
BEGIN
    kind := 'transaction';
    FOR tc_id, sequence, status, decided_at, trace_parent IN
        SELECT d.tc_id, d.sequence, d.status, d.decided_at, d.trace_parent
        FROM unnest(p_tcs) AS w (tc), (VALUES
            (0, '-infinity'::timestamptz, 'infinity'::timestamptz),
            (1, '-infinity', statement_timestamp()),
            -- Further ahead than any pause: the clock has gone back since.
            (1, statement_timestamp() + coordinator.longest_pause(), 'infinity')
        ) AS due (before, after, until), LATERAL (
            SELECT t.*, due.before FROM coordinator.transaction t
            WHERE t.tc_id + 0 = w.tc AND least(t.attempts, 1) = due.before
            AND t.next_attempt_at > due.after AND t.next_attempt_at <= due.until
            ORDER BY t.next_attempt_at LIMIT p_limit
        ) d
        ORDER BY d.before, d.next_attempt_at LIMIT p_limit
    LOOP
        tcs := tcs || tc_id;
        sequences := sequences || sequence;
        RETURN NEXT;
    END LOOP;
    IF NOT FOUND THEN RETURN; END IF;
    RETURN QUERY SELECT 'partition', p.tc_id, p.sequence, NULL::text, NULL::timestamptz, NULL::text,
            p.topic_id, p.topic, p.partition, NULL::text, p.broker, NULL::bigint
        FROM unnest(tcs, sequences) AS w (tc, seq), LATERAL (
            SELECT * FROM coordinator.txn_partition m
            WHERE m.tc_id = w.tc AND m.sequence = w.seq AND m.state = 'pending' OFFSET 0
        ) p;
    RETURN QUERY SELECT 'subscription', p.tc_id, p.sequence, NULL::text, NULL::timestamptz, NULL::text,
            p.topic_id, p.topic, NULL::integer, p.subscription, p.broker, NULL::bigint
        FROM unnest(tcs, sequences) AS w (tc, seq), LATERAL (
            SELECT * FROM coordinator.txn_subscription m
            WHERE m.tc_id = w.tc AND m.sequence = w.seq AND m.state = 'pending' OFFSET 0
        ) p;
    RETURN QUERY SELECT 'confirmed', a.tc_id, a.sequence, NULL::text, NULL::timestamptz, NULL::text,
            NULL::bigint, NULL::text, NULL::integer, NULL::text, NULL::text, a.call_id
        FROM unnest(tcs, sequences) AS w (tc, seq), LATERAL (
            SELECT * FROM coordinator.confirmed_ack c
            WHERE c.tc_id = w.tc AND c.sequence = w.seq OFFSET 0
        ) a;
    RETURN QUERY SELECT 'mark', m.tc_id, NULL::bigint, NULL::text, NULL::timestamptz, NULL::text,
            NULL::bigint, NULL::text, NULL::integer, NULL::text, NULL::text, m.low_water_mark
        FROM coordinator.low_water_marks(ARRAY(SELECT DISTINCT tc FROM unnest(tcs) AS tc)) m;
END
$$;
