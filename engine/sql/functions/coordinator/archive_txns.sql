-- Moves ended transactions to the archive: those that ended p_age ago, and those that are more than
-- p_keep sequences behind their coordinator's newest. At most p_limit; answers how many.
-- One SQL transaction: each is either in its tables or in the archive, also after a crash. Waits for
-- nobody: what somebody holds is left to the next call, and a second call at once moves nothing.
CREATE OR REPLACE FUNCTION coordinator.archive_txns(
    p_age interval, p_keep bigint, p_limit integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    r record;
    moved integer := 0;
    v_tc integer;
    v_chunk bigint;
    v_owner text;
    v_ended bytea;
    v_aborted bytea;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('txnconsole archive')) THEN
        RETURN 0;
    END IF;
    FOR r IN
        WITH due AS MATERIALIZED (
            (SELECT ctid AS place FROM coordinator.transaction
                WHERE ended_at < statement_timestamp() - p_age
                ORDER BY ended_at, tc_id, sequence LIMIT p_limit)
            UNION
            (SELECT old.place FROM coordinator.coordinator c, LATERAL (
                SELECT t.ctid AS place FROM coordinator.transaction t
                WHERE t.tc_id = c.tc_id AND t.sequence < c.next_sequence - p_keep
                AND t.ended_at IS NOT NULL
                ORDER BY t.sequence LIMIT p_limit
            ) old WHERE c.next_sequence > p_keep LIMIT p_limit)
            LIMIT p_limit
        ), held AS MATERIALIZED (
            SELECT ctid AS place FROM coordinator.transaction
            WHERE ctid = ANY (ARRAY(SELECT place FROM due)) FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM coordinator.transaction
            WHERE ctid = ANY (ARRAY(SELECT place FROM held))  -- ended, hence nobody moves it
            RETURNING tc_id, sequence, owner, status
        )
        SELECT tc_id, sequence, sequence >> 14 AS chunk, owner, status FROM gone
        ORDER BY tc_id, chunk, owner
    LOOP
        IF (r.tc_id, r.chunk, r.owner) IS DISTINCT FROM (v_tc, v_chunk, v_owner) THEN
            UPDATE coordinator.archive SET ended = v_ended, aborted = v_aborted
            WHERE tc_id = v_tc AND chunk = v_chunk AND owner = v_owner;
            v_tc := r.tc_id;
            v_chunk := r.chunk;
            v_owner := r.owner;
            INSERT INTO coordinator.archive AS a (tc_id, chunk, owner, ended, aborted)
            VALUES (v_tc, v_chunk, v_owner,
                decode(repeat('00', 2048), 'hex'), decode(repeat('00', 2048), 'hex'))
            ON CONFLICT (tc_id, chunk, owner) DO NOTHING;
            SELECT a.ended, a.aborted INTO STRICT v_ended, v_aborted FROM coordinator.archive a
            WHERE a.tc_id = v_tc AND a.chunk = v_chunk AND a.owner = v_owner;
        END IF;
        v_ended := set_bit(v_ended, r.sequence & 16383, 1);
        IF r.status = 'ABORTED' THEN
            v_aborted := set_bit(v_aborted, r.sequence & 16383, 1);
        END IF;
        DELETE FROM coordinator.txn_partition p
        WHERE p.tc_id = r.tc_id AND p.sequence = r.sequence;
        DELETE FROM coordinator.txn_subscription p
        WHERE p.tc_id = r.tc_id AND p.sequence = r.sequence;
        DELETE FROM coordinator.confirmed_ack a
        WHERE a.tc_id = r.tc_id AND a.sequence = r.sequence;
        DELETE FROM coordinator.transaction_log l
        WHERE l.tc_id = r.tc_id AND l.sequence = r.sequence;
        moved := moved + 1;
    END LOOP;
    UPDATE coordinator.archive SET ended = v_ended, aborted = v_aborted
    WHERE tc_id = v_tc AND chunk = v_chunk AND owner = v_owner;
    RETURN moved;
END $$;
