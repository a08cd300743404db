-- Let a file that has been written and verified take the place of a sealed segment's batches: the
-- record of the file and all references become durable together, or nothing does. The headers stay:
-- whatever asks about transactions, duplicates and positions goes on as before.
--
-- Compares what the file was made of with what stands there now: false when the segment is gone,
-- has been cut or offloaded, is not below the stable position, or holds other data than
-- p_data_entries and p_data_bytes; then the file is nobody's. A batch of a few bytes stays where
-- it is: its reference would be no shorter. In a sidecar-buffered partition the batches of committed
-- transactions stand under the sidecar's second key, at the offsets that they have here; those that
-- wait for compaction have none here, and the segment's turn has not come.
CREATE OR REPLACE FUNCTION broker.offload_segment(
    p_partition bigint,
    p_ledger bigint,
    p_last_offset bigint,
    p_file uuid,
    p_data_entries bigint,
    p_data_bytes bigint,
    p_file_bytes bigint,
    p_sha256 text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    home broker.partition;
    segment broker.segment;
    stable bigint;
    keys bigint[];
    found_entries bigint;
    found_bytes bigint;
BEGIN
    -- The record's lock: retention, truncation, compaction and another of these wait; appends do not.
    SELECT * INTO home FROM broker.partition p
        WHERE p.partition_id = p_partition FOR NO KEY UPDATE;
    SELECT array_agg(k) INTO keys FROM (
        SELECT p_partition AS k
        UNION ALL SELECT s.compacted_id FROM broker.partition s WHERE s.sidecar_of = p_partition
    ) keys;
    SELECT * INTO segment FROM broker.segment s
        WHERE s.partition_id = p_partition AND s.ledger_id = p_ledger;
    SELECT coalesce(l.first_ongoing_offset, l.next_offset) - 1 INTO stable
        FROM broker.partition_live l WHERE l.partition_id = p_partition;
    IF home.partition_id IS NULL OR NOT home.online OR stable IS NULL
        OR segment.last_offset IS DISTINCT FROM p_last_offset OR segment.last_offset > stable
        OR segment.first_offset < home.log_start_offset
        -- Recovery reads snapshots without a file.
        OR home.sidecar_of IS NOT NULL OR split_part(home.topic, '/', 3) LIKE '\_\_%'
    THEN
        RETURN false;
    END IF;
    SELECT count(*), coalesce(sum(length(e.body)), 0) INTO found_entries, found_bytes
        FROM broker.entry e
        WHERE e.partition_id = ANY (keys) AND e.kind = 'D'
        AND e.last_offset BETWEEN segment.first_offset AND segment.last_offset;
    IF (found_entries, found_bytes) <> (p_data_entries, p_data_bytes) THEN RETURN false; END IF;
    INSERT INTO broker.offloaded_segment (
        partition_id, ledger_id, file, data_entries, data_bytes, file_bytes, sha256
    ) VALUES (
        p_partition, p_ledger, p_file, p_data_entries, p_data_bytes, p_file_bytes, p_sha256
    ) ON CONFLICT (partition_id, ledger_id) DO NOTHING;
    IF NOT FOUND THEN RETURN false; END IF;
    UPDATE broker.entry e SET
        body = '\x02'::bytea || uuid_send(p_file) || int4send(length(e.body))
            || substr(e.body, 2, 18)
        WHERE e.partition_id = ANY (keys) AND e.kind = 'D'
        AND e.last_offset BETWEEN segment.first_offset AND segment.last_offset
        AND length(e.body) > 128;
    RETURN true;
END
$$;
