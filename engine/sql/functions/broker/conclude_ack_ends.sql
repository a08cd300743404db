-- What ending transactions on a subscription ends with, under the cursors' locks: the fence remembers
-- the ends, but for what a low water mark covers, which tells it from then on; then the low water marks
-- of coordinators rise, and the fence forgets what they pass.
--
-- A mark tells that what it passes has ended, and not how. Where it would pass a transaction that still
-- holds acknowledgements, an orphan, it stays, and the answer is true (engine.coordinator.orphans).
--
-- What a mark passed before is gone from the fence, holds nothing and claims nothing any more; walking
-- its place in an index would cost more with each end until the next vacuum. OFFSET 0 and the sum keep
-- what a mark passes now a look-up.
DROP FUNCTION IF EXISTS broker.conclude_ack_ends(
    bigint, integer[], bigint[], boolean[], bigint[], integer[], bigint[]
);
CREATE OR REPLACE FUNCTION broker.conclude_ack_ends(
    p_subscription bigint,
    p_tcs integer[],
    p_sequences bigint[],
    p_aborts boolean[],
    p_messages bigint[],
    p_mark_tcs integer[],
    p_marks bigint[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    mark record;
    orphans_left boolean := false;
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
        IF EXISTS (
            SELECT FROM broker.pending_ack a
            WHERE a.tc_id = mark.tc AND a.sequence > mark.passed AND a.sequence <= mark.reached
            AND a.subscription_id + 0 = p_subscription
        ) THEN
            orphans_left := true;
            CONTINUE;
        END IF;
        INSERT INTO broker.ack_low_water_mark AS w VALUES (p_subscription, mark.tc, mark.reached)
            ON CONFLICT ON CONSTRAINT ack_low_water_mark_pkey DO UPDATE
                SET low_water_mark = excluded.low_water_mark
                WHERE excluded.low_water_mark > w.low_water_mark;
        DELETE FROM broker.ended_ack_txn e
            WHERE e.subscription_id = p_subscription AND e.tc_id = mark.tc
            AND e.sequence > mark.passed AND e.sequence <= mark.reached;
    END LOOP;
    RETURN orphans_left;
END
$$;
