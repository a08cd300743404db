-- count_until --
-- Messages from an offset on that have not aborted, without those of one transaction, by how many
-- of the ascending bounds they are at or above; nothing at or above the last bound, and no more
-- than limit entries are looked at, from the lowest on.
SELECT width_bucket(e.first_offset, %(bounds)s::bigint[]) AS bucket,
    count(*) AS entries,
    coalesce(sum(e.last_offset - e.first_offset + 1) FILTER (WHERE
        e.kind = 'D'
        AND (%(tc_id)s::integer IS NULL OR e.tc_id IS NULL
            OR (e.tc_id, e.sequence) <> (%(tc_id)s, %(sequence)s::bigint))
        AND (e.tc_id IS NULL OR NOT EXISTS (
            SELECT FROM broker.txn_index i
            WHERE i.partition_id = e.partition_id AND i.tc_id = e.tc_id
            AND i.sequence = e.sequence AND i.aborted
            AND e.first_offset BETWEEN i.first_offset AND i.last_offset
        ))
    ), 0)::bigint AS messages
FROM (
    SELECT * FROM broker.entry
    WHERE partition_id = %(partition_id)s AND last_offset >= %(from_offset)s
    AND last_offset < (%(bounds)s::bigint[])[cardinality(%(bounds)s::bigint[])]
    ORDER BY last_offset LIMIT %(limit)s
) e GROUP BY 1

-- acks_of_txn --
-- What a transaction holds of subscriptions on this broker.
SELECT s.topic, s.name, a.partition_id, p.number, a.ack_type, a.ranges
FROM broker.pending_ack a
JOIN broker.subscription s USING (subscription_id)
JOIN broker.partition p USING (partition_id)
WHERE a.tc_id = %(tc_id)s AND a.sequence = %(sequence)s
ORDER BY s.topic, s.name, p.number, a.ack_type
