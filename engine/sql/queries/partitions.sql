-- create_partition --
-- Makes the record, its first segment, its head and the cursors of its topic's subscriptions; does
-- nothing when the partition exists. A cursor that was made later would begin at the end of the log,
-- if the catalog had counted the partition already when its subscription was created.
WITH made AS (
    INSERT INTO broker.partition (
        topic_id, topic, number, buffer, segment_max_messages, segment_max_bytes, retention_ms,
        retention_bytes, deduplication
    ) VALUES (
        %(topic_id)s, %(topic)s, %(number)s, %(buffer)s, %(segment_max_messages)s,
        %(segment_max_bytes)s, %(retention_ms)s, %(retention_bytes)s, %(deduplication)s
    )
    ON CONFLICT (topic_id, number) DO NOTHING
    RETURNING partition_id
), segment AS (
    INSERT INTO broker.segment (partition_id, ledger_id, first_offset)
    SELECT partition_id, nextval('broker.ledger_id_seq'), 0 FROM made
    RETURNING partition_id, ledger_id
), read AS (
    INSERT INTO broker.cursor (subscription_id, partition_id, mark_delete)
    SELECT s.subscription_id, made.partition_id, -1 FROM made
    JOIN broker.subscription s ON s.topic_id = %(topic_id)s
)
INSERT INTO broker.partition_live (
    partition_id, next_offset, log_start_offset, ledger_id, segment_first_offset, segment_entries,
    segment_bytes, ongoing_txns, aborted_txns, changes, online, segment_max_messages,
    segment_max_bytes, deduplication
)
SELECT
    partition_id, 0, 0, ledger_id, 0, 0, 0, 0, 0, 0, true, %(segment_max_messages)s,
    %(segment_max_bytes)s, %(deduplication)s
FROM segment

-- set_retention --
-- How long the partitions of a topic keep their messages.
UPDATE broker.partition SET
    retention_ms = %(retention_ms)s, retention_bytes = %(retention_bytes)s
WHERE topic_id = %(topic_id)s
AND (retention_ms, retention_bytes) IS DISTINCT FROM
    (%(retention_ms)s::bigint, %(retention_bytes)s::bigint)

-- first_entry --
-- The first offset of the first entry from an offset on; a compacted log has gaps.
SELECT first_offset FROM broker.entry
WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
ORDER BY last_offset LIMIT 1

-- newer_segment --
-- Where the first segment begins whose ledger is newer than the given one. Segments begin in the
-- order of their ledgers, each where the log ends; after a truncation that is further below.
SELECT first_offset FROM broker.segment
WHERE partition_id = %(partition_id)s AND ledger_id > %(ledger_id)s
ORDER BY ledger_id LIMIT 1

-- partition_ids --
SELECT topic_id, number, partition_id FROM broker.partition
WHERE topic_id = ANY (%(topic_ids)s::bigint[])

-- hold_topic_id --
-- One at a time makes partitions or subscriptions of a topic on this broker, or deletes them: what is
-- being made can be locked in no other way.
SELECT pg_advisory_xact_lock(%(topic_id)s)

-- lock_topic_records --
-- Locks the records of a topic's partitions on this broker and of their sidecar logs, so it waits for
-- a subscription that is being made. An append that holds a head may still write what belongs to
-- the record.
SELECT partition_id FROM broker.partition WHERE partition_id IN (
    SELECT partition_id FROM broker.partition WHERE topic_id = %(topic_id)s
    UNION ALL
    SELECT s.partition_id FROM broker.partition p
    JOIN broker.partition s ON s.sidecar_of = p.partition_id
    WHERE p.topic_id = %(topic_id)s
)
ORDER BY partition_id FOR NO KEY UPDATE

-- hold_topic_records --
-- While this is held nobody cuts the ends of the topic's logs: a cursor that is made at an end would lie
-- above what is left. From deletion hold_topic_id keeps the topic.
SELECT partition_id FROM broker.partition WHERE topic_id = %(topic_id)s
ORDER BY partition_id FOR SHARE

-- lock_topic --
-- Locks the heads of a topic's partitions on this broker, so that what is being appended is deleted
-- with the rest. A sidecar log is made after its partition, so its head is locked after the
-- partition's.
SELECT l.partition_id FROM broker.partition p
LEFT JOIN broker.partition s ON s.sidecar_of = p.partition_id
JOIN broker.partition_live l ON l.partition_id IN (p.partition_id, s.partition_id)
WHERE p.topic_id = %(topic_id)s ORDER BY l.partition_id FOR UPDATE OF l

-- lock_topic_cursors --
-- Locks the cursors of a topic's subscriptions on this broker, so it waits for whoever delivers or
-- acknowledges. In the order in which ends lock them (engine/coordinator/broker_ends.py).
SELECT c.partition_id FROM broker.cursor c JOIN broker.subscription s USING (subscription_id)
WHERE s.topic_id = %(topic_id)s ORDER BY s.name COLLATE "C", c.partition_id FOR UPDATE OF c

-- delete_topic --
-- Deletes a topic on this broker. Its entries and index rows have no foreign key; nothing finds
-- them any more, and retention deletes them in bounded steps.
WITH gone AS (
    DELETE FROM broker.partition WHERE partition_id IN (
        SELECT partition_id FROM broker.partition WHERE topic_id = %(topic_id)s
        UNION ALL
        SELECT s.partition_id FROM broker.partition p
        JOIN broker.partition s ON s.sidecar_of = p.partition_id
        WHERE p.topic_id = %(topic_id)s
    ) RETURNING partition_id, compacted_id
), live AS (
    DELETE FROM broker.partition_live l USING gone WHERE l.partition_id = gone.partition_id
), ongoing AS (
    DELETE FROM broker.ongoing_txn o USING gone WHERE o.partition_id = gone.partition_id
), dispatched AS (
    DELETE FROM broker.dispatch d USING gone WHERE d.partition_id = gone.partition_id
), subscribed AS (
    DELETE FROM broker.subscription WHERE topic_id = %(topic_id)s
)
INSERT INTO broker.dropped_partition (partition_id)
SELECT partition_id FROM gone
UNION ALL SELECT compacted_id FROM gone WHERE compacted_id IS NOT NULL
ON CONFLICT DO NOTHING
