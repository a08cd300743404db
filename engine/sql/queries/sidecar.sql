-- append_sidecar --
-- See functions/broker/append_sidecar.sql.
SELECT * FROM broker.append_sidecar(
    %(partition_id)s, %(messages)s, %(body)s, %(producer_name)s, %(sequence_id)s, %(tc_id)s,
    %(sequence)s
)

-- sidecar_entries --
-- As all_entries, for a sidecar-buffered partition: instead of a commit marker it returns the
-- entries of its transaction, at the offsets that the marker gives them. They are in the sidecar
-- log under its first key, found by the marker, or under its second key, found by the offset. Every
-- look-up begins at the first wanted message and ends at the last. It uses the marker's columns,
-- not those of the index row, which only bounds it: otherwise a plan made for small tables might
-- join the two by a filter.
WITH log AS MATERIALIZED (
    SELECT partition_id AS log_id, compacted_id FROM broker.partition
    WHERE sidecar_of = %(partition_id)s
)
SELECT * FROM (
    SELECT
        coalesce(d.last_offset, m.last_offset) AS last_offset,
        coalesce(d.first_offset, m.first_offset) AS first_offset,
        m.ledger_id, m.first_offset AS entry_id,
        CASE WHEN d.last_offset IS NULL THEN m.kind ELSE 'D' END AS kind,
        m.tc_id, m.sequence,
        coalesce(d.sequence_id, m.sequence_id) AS sequence_id,
        coalesce(d.publish_time, m.publish_time) AS publish_time,
        coalesce(d.producer_name, m.producer_name) AS producer_name,
        coalesce(d.body, m.body) AS body,
        coalesce(sum(broker.body_bytes(coalesce(d.body, m.body))) OVER (
            ORDER BY coalesce(d.last_offset, m.last_offset) ROWS UNBOUNDED PRECEDING), 0) AS bytes
    FROM broker.entry m
    LEFT JOIN LATERAL (
        SELECT m.first_offset + e.txn_messages - 1 AS last_offset,
            m.first_offset + e.txn_messages - 1 - (e.last_offset - e.first_offset) AS first_offset,
            e.sequence_id, e.publish_time, e.producer_name, e.body
        FROM broker.txn_index i
        JOIN broker.entry e
            ON e.partition_id + 0 = (SELECT log_id FROM log) AND e.tc_id::bigint = m.tc_id
            AND e.sequence + 0 = m.sequence AND e.txn_messages IS NOT NULL
        WHERE m.txn_messages > 0
        AND i.partition_id + 0 = (SELECT log_id FROM log) AND i.commit_offset = m.first_offset
        AND e.last_offset - i.first_offset BETWEEN 0 AND i.last_offset - i.first_offset - 1
        AND e.txn_messages > %(from_offset)s - m.first_offset
        AND e.txn_messages <= coalesce((
            SELECT b.txn_messages FROM broker.entry b
            WHERE b.partition_id + 0 = (SELECT log_id FROM log) AND b.tc_id::bigint = m.tc_id
            AND b.sequence + 0 = m.sequence AND b.txn_messages >= %(upper)s - m.first_offset
            ORDER BY b.txn_messages LIMIT 1
        ), m.txn_messages)
        AND m.first_offset + e.txn_messages - 1 - (e.last_offset - e.first_offset) < %(upper)s
        UNION ALL
        SELECT c.last_offset, c.first_offset, c.sequence_id, c.publish_time, c.producer_name, c.body
        FROM broker.entry c
        WHERE m.txn_messages > 0 AND c.partition_id = (SELECT compacted_id FROM log)
        AND c.last_offset >= greatest(m.first_offset, %(from_offset)s)
        AND c.last_offset <= least(m.last_offset, coalesce((
            SELECT b.last_offset FROM broker.entry b
            WHERE b.partition_id = (SELECT compacted_id FROM log)
            AND b.last_offset >= %(upper)s - 1
            ORDER BY b.last_offset LIMIT 1
        ), m.last_offset))
        AND c.first_offset < %(upper)s
    ) d ON true
    WHERE m.partition_id = %(partition_id)s
    AND m.last_offset >= %(from_offset)s
    AND m.last_offset <= coalesce((
        SELECT b.last_offset FROM broker.entry b
        WHERE b.partition_id = %(partition_id)s AND b.last_offset >= %(upper)s - 1
        ORDER BY b.last_offset LIMIT 1
    ), %(upper)s)
) e WHERE bytes <= %(max_bytes)s OR bytes = broker.body_bytes(body)
ORDER BY last_offset

-- sidecar_log --
-- The log of a partition's transactional messages; no row before the first of them.
SELECT partition_id, compacted_id FROM broker.partition WHERE sidecar_of = %(partition_id)s

-- sidecar_head --
-- The positions of that log. No row: it does not exist, or has to be rebuilt first.
SELECT l.*, coalesce(l.first_ongoing_offset, l.next_offset) - 1 AS stable_position
FROM broker.partition p JOIN broker.partition_live l USING (partition_id)
WHERE p.sidecar_of = %(partition_id)s

-- mend_sidecar --
-- See functions/broker/mend_sidecar.sql.
SELECT broker.mend_sidecar(%(partition_id)s) AS marked

-- compactable --
-- Partitions whose sidecar log has transactions that have ended; in any order, so that none is
-- always last.
SELECT s.sidecar_of AS partition_id, s.partition_id AS log_id, s.topic, s.number
FROM broker.partition s
WHERE s.sidecar_of IS NOT NULL
AND (SELECT true FROM broker.txn_index i WHERE i.partition_id = s.partition_id LIMIT 1)
ORDER BY random()

-- compact_sidecar --
-- See functions/broker/compact_sidecar.sql.
SELECT * FROM broker.compact_sidecar(%(partition_id)s, %(limit)s)
