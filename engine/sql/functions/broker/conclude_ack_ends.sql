-- What ending transactions on a subscription ends with, under the cursors' locks: the fence remembers
-- the ends, but for what a low water mark covers, which tells it from then on; then the low water marks
-- of coordinators rise, and the fence forgets what they pass. Answers the orphans: transactions that
-- the marks say have ended by now, and that still hold acknowledgements.
--
-- A mark passes over five thousand acknowledgements of orphans at most: then it stops at the last of them,
-- and a further row, without values, says so. The same marks again go on there. Fewer would have the cursors
-- held for less long, but all that is held is read each time.
--
-- What a mark passed before is gone from the fence, holds nothing and claims nothing any more; walking
-- its place in an index would cost more with each end until the next vacuum. OFFSET 0 and the sum keep
-- what a mark passes now a look-up.
CREATE OR REPLACE FUNCTION broker.conclude_ack_ends(
    p_subscription bigint,
    p_tcs integer[],
    p_sequences bigint[],
    p_aborts boolean[],
    p_messages bigint[],
    p_mark_tcs integer[],
    p_marks bigint[]
) RETURNS TABLE (tc_id integer, sequence bigint) LANGUAGE plpgsql AS $$
DECLARE
    mark record;
    orphans bigint[];
    most CONSTANT integer := 5000;
BEGIN
    INSERT INTO broker.ended_ack_txn (subscription_id, tc_id, sequence, aborted, messages)
        SELECT p_subscription, t.* FROM unnest(p_tcs, p_sequences, p_aborts, p_messages)
            AS t (tc, seq, aborted, messages)
        WHERE NOT EXISTS (
            SELECT FROM broker.ack_low_water_mark w WHERE w.subscription_id = p_subscription
            AND w.tc_id = t.tc AND w.low_water_mark >= t.seq
        )
        ON CONFLICT DO NOTHING;
    FOR mark IN
        SELECT m.tc, coalesce(w.low_water_mark, -1) AS passed, m.reached
        FROM unnest(p_mark_tcs, p_marks) AS m (tc, reached)
        LEFT JOIN broker.ack_low_water_mark w
            ON w.subscription_id = p_subscription AND w.tc_id = m.tc
        WHERE m.reached > coalesce(w.low_water_mark, -1)
        ORDER BY m.tc
    LOOP
        SELECT array_agg(o.sequence) INTO orphans FROM (
            SELECT a.sequence FROM broker.pending_ack a
            WHERE a.tc_id = mark.tc AND a.sequence > mark.passed AND a.sequence <= mark.reached
            AND a.subscription_id + 0 = p_subscription ORDER BY a.sequence LIMIT most
        ) o;
        RETURN QUERY SELECT DISTINCT mark.tc, o.seq FROM unnest(orphans) AS o (seq);
        IF cardinality(orphans) = most THEN
            mark.reached := orphans[most];
            RETURN QUERY SELECT NULL::integer, NULL::bigint;
        END IF;
        INSERT INTO broker.ack_low_water_mark AS w VALUES (p_subscription, mark.tc, mark.reached)
            ON CONFLICT ON CONSTRAINT ack_low_water_mark_pkey DO UPDATE
                SET low_water_mark = excluded.low_water_mark
                WHERE excluded.low_water_mark > w.low_water_mark;
        DELETE FROM broker.ended_ack_txn e
            WHERE e.subscription_id = p_subscription AND e.tc_id = mark.tc
            AND e.sequence > mark.passed AND e.sequence <= mark.reached;
    END LOOP;
END
$$;
