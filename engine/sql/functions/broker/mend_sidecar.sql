-- After a sidecar log's derived state has been rebuilt: finish what a crash may have left half done.
-- A transaction whose commit marker stands in the partition gets its marker here (the second is
-- written from the first); one whose entries have all been swept or rewritten since the snapshot is
-- not ongoing any more; of the others the bytes are looked up. The caller holds the lock of the
-- sidecar's record and has made its head in this SQL transaction: nobody else sees that one yet.
CREATE OR REPLACE FUNCTION broker.mend_sidecar(p_log bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    side broker.partition_live;
    home bigint;
    compacted bigint;
    ongoing broker.ongoing_txn;
    newest broker.entry;
    marker broker.entry;
    marked bigint := 0;
BEGIN
    SELECT p.sidecar_of, p.compacted_id INTO home, compacted
        FROM broker.partition p WHERE p.partition_id = p_log;
    SELECT * INTO side FROM broker.partition_live l WHERE l.partition_id = p_log;
    FOR ongoing IN
        SELECT * FROM broker.ongoing_txn o WHERE o.ordered_in = p_log ORDER BY o.first_offset
    LOOP
        SELECT * INTO newest FROM broker.entry e
            WHERE e.partition_id + 0 = p_log AND e.tc_id::bigint = ongoing.tc_id
            AND e.sequence + 0 = ongoing.sequence AND e.txn_messages IS NOT NULL
            ORDER BY e.txn_messages DESC LIMIT 1;
        IF NOT FOUND THEN
            DELETE FROM broker.ongoing_txn o
                WHERE o.partition_id = p_log AND o.tc_id = ongoing.tc_id
                AND o.sequence = ongoing.sequence;
            side.ongoing_txns := side.ongoing_txns - 1;
            CONTINUE;
        END IF;
        UPDATE broker.ongoing_txn o SET bytes = newest.txn_bytes
            WHERE o.partition_id = p_log AND o.tc_id = ongoing.tc_id
            AND o.sequence = ongoing.sequence;
        SELECT * INTO marker FROM broker.entry e
            WHERE e.partition_id - 0 = home AND e.tc_id - 0 = ongoing.tc_id
            AND e.sequence - 0 = ongoing.sequence AND coalesce(e.txn_messages, 0) > 0
            AND NOT EXISTS (
                SELECT FROM broker.txn_index i
                WHERE i.partition_id + 0 = p_log AND i.commit_offset = e.first_offset
            )
            -- Once compaction has taken that row out, what is ongoing is a later orphan of that id.
            AND NOT EXISTS (
                SELECT FROM broker.entry r WHERE r.partition_id = compacted
                AND r.last_offset BETWEEN e.first_offset AND e.last_offset
            )
            ORDER BY e.first_offset DESC LIMIT 1;
        IF FOUND THEN
            side := broker.mark_sidecar(side, ongoing, marker.first_offset);
            marked := marked + 1;
            INSERT INTO broker.ended_txn VALUES (
                home, ongoing.tc_id, ongoing.sequence, false, marker.first_offset,
                marker.first_offset, marker.last_offset, marker.txn_messages
            ) ON CONFLICT DO NOTHING;
            PERFORM broker.forget_ended(home, ongoing.tc_id::integer, ongoing.sequence);
        END IF;
    END LOOP;
    PERFORM broker.write_head(side);
    RETURN marked;
END
$$;
