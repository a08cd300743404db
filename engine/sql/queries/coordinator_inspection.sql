-- live_txns --
-- Transactions that have not ended, from a place on; the cost is that of what has not ended.
SELECT *, clock_timestamp() AS now FROM coordinator.transaction
WHERE status IN ('OPEN', 'COMMITTING', 'ABORTING')
AND (tc_id, sequence) > (%(tc_id)s::integer, %(sequence)s::bigint)
ORDER BY tc_id, sequence LIMIT %(limit)s

-- waiting_for --
-- The participants for which decided transactions wait, and why.
SELECT p.tc_id, p.sequence, p.topic || ':' || p.partition AS participant, p.attempts, p.last_error
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_partition p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending'
UNION ALL
SELECT p.tc_id, p.sequence, p.topic || '/' || p.subscription, p.attempts, p.last_error
FROM unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[]) AS w (tc_id, sequence)
JOIN coordinator.txn_subscription p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
WHERE p.state = 'pending'
LIMIT %(limit)s

-- partition_memberships --
-- Which of the given partitions are participants of which of the given transactions.
SELECT p.tc_id, p.sequence, p.topic_id, p.partition AS member, p.state
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[],
    %(members)s::integer[]
) AS w (tc_id, sequence, topic_id, member)
JOIN coordinator.txn_partition p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
    AND p.topic_id = w.topic_id AND p.partition = w.member

-- subscription_memberships --
-- As partition_memberships, for the subscriptions of one broker.
SELECT p.tc_id, p.sequence, p.topic_id, p.subscription AS member, p.state
FROM unnest(
    %(tc_ids)s::integer[], %(sequences)s::bigint[], %(topic_ids)s::bigint[], %(members)s::text[]
) AS w (tc_id, sequence, topic_id, member)
JOIN coordinator.txn_subscription p ON p.tc_id = w.tc_id AND p.sequence = w.sequence
    AND p.topic_id = w.topic_id AND p.subscription = w.member AND p.broker = %(broker)s

-- retry_now --
-- Lets the finalizer take a decided transaction at once.
UPDATE coordinator.transaction SET next_attempt_at = clock_timestamp()
WHERE tc_id = %(tc_id)s AND sequence = %(sequence)s AND status IN ('COMMITTING', 'ABORTING')
