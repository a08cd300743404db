-- Cut the end of an offline partition's log, at most p_limit entries at a time and whole entries
-- only; the log, its index, snapshots, fence and cursors are consistent after every step.
-- The head goes: recovery rebuilds it from what is left, with the transactions re-opened whose
-- marker was cut. Answers the new end, and whether the offset asked for has been reached. Whoever goes
-- on from there says so (p_end), and need not have it rebuilt for each step: while the log still ends
-- there nothing has joined it, so that no more transactions hold it than held it before.
-- result: 'truncated', 'online', 'recovering', 'held' (by ids in holders, some of them not in p_decided),
-- 'below_start', 'commits', 'gone'. In a sidecar-buffered partition a commit is never cut: its messages
-- stand elsewhere, and its coordinator's decision would only bring them back. Whoever may cut down
-- to next_offset is told so.
DROP FUNCTION IF EXISTS broker.truncate(bigint, bigint, bigint, boolean);
DROP FUNCTION IF EXISTS broker.truncate(bigint, bigint, bigint, boolean, bigint);
CREATE OR REPLACE FUNCTION broker.truncate(
    p_partition bigint,
    p_to bigint,
    p_limit bigint,
    p_decided text[],
    p_end bigint DEFAULT NULL,
    OUT result text,
    OUT next_offset bigint,
    OUT entries bigint,
    OUT finished boolean,
    OUT holders text[]
) LANGUAGE plpgsql AS $$
DECLARE
    settings broker.partition;
    head broker.partition_live;
    cut bigint;
    kept int8multirange;
    reopened bigint;
    ends tid[];
BEGIN
    -- The record's lock is for who brings the partition online, rebuilds it or makes cursors; the head's
    -- for who takes a snapshot or seals a segment.
    SELECT * INTO settings FROM broker.partition p
        WHERE p.partition_id = p_partition FOR NO KEY UPDATE;
    SELECT * INTO head FROM broker.partition_live l
        WHERE l.partition_id = p_partition FOR UPDATE;
    IF settings.partition_id IS NULL THEN result := 'gone'; RETURN; END IF;
    IF settings.online THEN result := 'online'; RETURN; END IF;
    IF head.partition_id IS NULL THEN
        PERFORM FROM broker.segment s WHERE s.partition_id = p_partition
            AND s.sealed_at IS NULL AND s.first_offset = p_end
            AND NOT EXISTS (
                SELECT FROM broker.entry e
                WHERE e.partition_id = p_partition AND e.last_offset >= p_end
            );
        IF NOT FOUND THEN result := 'recovering'; RETURN; END IF;
        head.next_offset := p_end;
    END IF;
    IF p_to < settings.log_start_offset THEN
        result := 'below_start';
        next_offset := settings.log_start_offset;
        RETURN;
    END IF;

    -- An entry goes as a whole, so the cut is where the first one that is touched begins.
    SELECT least(p_to, e.first_offset) INTO cut FROM broker.entry e
        WHERE e.partition_id = p_partition AND e.last_offset >= p_to
        ORDER BY e.last_offset LIMIT 1;
    cut := coalesce(cut, least(p_to, head.next_offset));
    IF settings.buffer = 'sidecar' THEN
        SELECT e.last_offset + 1 INTO next_offset FROM broker.entry e
            WHERE e.partition_id = p_partition AND e.last_offset >= cut AND coalesce(e.txn_messages, 0) > 0
            ORDER BY e.last_offset DESC LIMIT 1;
        IF FOUND THEN result := 'commits'; RETURN; END IF;
    END IF;
    -- Before it is asked who holds anything: an acknowledgement may have been on its way when the
    -- partition was taken offline. In the order in which ends lock cursors (see lock_topic_cursors).
    PERFORM FROM broker.cursor c JOIN broker.subscription s USING (subscription_id)
        WHERE c.partition_id = p_partition ORDER BY s.name COLLATE "C" FOR UPDATE OF c;
    SELECT array_agg(DISTINCT h.txn) INTO holders FROM (
        SELECT o.tc_id || ':' || o.sequence AS txn FROM broker.ongoing_txn o
        WHERE head.partition_id IS NOT NULL
        AND o.partition_id = p_partition AND o.last_offset >= cut
        UNION ALL
        SELECT a.tc_id || ':' || a.sequence FROM broker.pending_ack a
        WHERE a.partition_id = p_partition AND upper(a.ranges) > cut
    ) h;
    IF NOT holders <@ p_decided THEN result := 'held'; RETURN; END IF;

    next_offset := greatest(cut, coalesce((
        SELECT e.first_offset FROM broker.entry e WHERE e.partition_id = p_partition
        ORDER BY e.last_offset DESC OFFSET p_limit - 1 LIMIT 1
    ), 0));
    result := 'truncated';
    finished := next_offset = cut;
    entries := 0;
    IF next_offset >= head.next_offset THEN RETURN; END IF;

    -- The ends whose markers are cut: looked up by these, since the fence may remember many more.
    -- OFFSET 0 keeps it a look-up for each. The fence forgets those of which messages are left, which
    -- are open again. It remembers the others, without a marker, and goes on refusing them: in a
    -- sidecar-buffered partition all of them, since only a commit without messages can be cut there.
    ends := ARRAY(
        SELECT f.ctid FROM broker.entry m, LATERAL (
            SELECT t.ctid FROM broker.ended_txn t
            WHERE t.partition_id = p_partition AND t.tc_id = m.tc_id AND t.sequence = m.sequence
            AND t.marker_offset >= truncate.next_offset OFFSET 0
        ) f
        WHERE m.partition_id = p_partition AND m.last_offset >= truncate.next_offset
        AND m.kind <> 'D'
    );
    DELETE FROM broker.ended_txn e WHERE e.ctid = ANY (ends) AND EXISTS (
        SELECT FROM broker.entry d
        WHERE d.partition_id - 0 = p_partition AND d.tc_id - 0 = e.tc_id AND d.sequence - 0 = e.sequence
        AND d.first_offset BETWEEN greatest(e.first_offset, settings.log_start_offset) AND cut - 1
        OFFSET 0
    );
    UPDATE broker.ended_txn e SET
        marker_offset = NULL, first_offset = NULL, last_offset = NULL, messages = 0
        WHERE e.ctid = ANY (ends);
    DELETE FROM broker.entry e
        WHERE e.partition_id = p_partition AND e.last_offset >= truncate.next_offset;
    GET DIAGNOSTICS entries = ROW_COUNT;
    -- What has been counted of segments counts no more where a transaction is open again.
    SELECT min(i.first_offset) INTO reopened FROM broker.txn_index i
        WHERE i.partition_id = p_partition AND i.last_offset >= truncate.next_offset;
    UPDATE broker.segment s SET unseen = NULL
        WHERE s.partition_id = p_partition AND s.unseen IS NOT NULL
        AND s.last_offset >= least(truncate.next_offset, reopened);
    DELETE FROM broker.txn_index i
        WHERE i.partition_id = p_partition AND i.last_offset >= truncate.next_offset;
    -- One from before may hold a transaction that is open again by messages that retention has dropped.
    DELETE FROM broker.snapshot s WHERE s.partition_id = p_partition
        AND (s.position >= truncate.next_offset OR reopened < settings.log_start_offset);
    DELETE FROM broker.producer p
        WHERE p.partition_id = p_partition AND p.last_offset >= truncate.next_offset;
    -- The first step lets go all samples of what is to be cut; between steps one is taken only when
    -- somebody has had the head rebuilt.
    IF head.partition_id IS NOT NULL THEN
        DELETE FROM broker.position_sample s
            WHERE s.partition_id = p_partition AND s.last_offset >= cut;
    END IF;

    -- A new ledger: no message id that was ever given out may name another message.
    DELETE FROM broker.segment s
        WHERE s.partition_id = p_partition AND s.first_offset >= truncate.next_offset;
    UPDATE broker.segment s SET
        last_offset = truncate.next_offset - 1,
        sealed_at = coalesce(s.sealed_at, clock_timestamp()),
        (entries, bytes) = (
            SELECT count(*), coalesce(sum(coalesce(broker.body_bytes(e.body), e.txn_bytes)), 0)
            FROM broker.entry e
            WHERE e.partition_id = p_partition AND e.last_offset >= s.first_offset
        )
        WHERE s.partition_id = p_partition
        AND (s.last_offset IS NULL OR s.last_offset >= truncate.next_offset);
    INSERT INTO broker.segment (partition_id, ledger_id, first_offset)
        VALUES (p_partition, nextval('broker.ledger_id_seq'), truncate.next_offset);

    kept := int8multirange(int8range(NULL, truncate.next_offset));
    UPDATE broker.cursor c SET
        mark_delete = least(c.mark_delete, truncate.next_offset - 1), acked = c.acked * kept
        WHERE c.partition_id = p_partition;
    -- As after a crash: what was in flight is delivered again, what is left of it.
    DELETE FROM broker.dispatch d WHERE d.partition_id = p_partition;
    DELETE FROM broker.dead_letter b
        WHERE b.partition_id = p_partition AND b.message_offset >= truncate.next_offset;
    UPDATE broker.pending_ack a SET ranges = a.ranges * kept WHERE a.partition_id = p_partition;
    DELETE FROM broker.pending_ack a WHERE a.partition_id = p_partition AND isempty(a.ranges);
    UPDATE broker.tentative_ack t SET ranges = t.ranges * kept WHERE t.partition_id = p_partition;
    DELETE FROM broker.tentative_ack t WHERE t.partition_id = p_partition AND isempty(t.ranges);
    UPDATE broker.pending_ack_log g SET ranges = g.ranges * kept
        WHERE g.partition_id = p_partition AND upper(g.ranges) > truncate.next_offset;
    DELETE FROM broker.pending_ack_log g
        WHERE g.partition_id = p_partition AND isempty(g.ranges);

    DELETE FROM broker.partition_live l WHERE l.partition_id = p_partition;
END
$$;
