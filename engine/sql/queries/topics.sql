-- create_topic --
INSERT INTO coordinator.topic (
    tenant, namespace, topic, buffer, brokers, retention_ms, retention_bytes,
    segment_max_messages, segment_max_bytes, deduplication
) VALUES (
    %(tenant)s, %(namespace)s, %(topic)s, %(buffer)s, %(brokers)s, %(retention_ms)s,
    %(retention_bytes)s, %(segment_max_messages)s, %(segment_max_bytes)s, %(deduplication)s
)
ON CONFLICT (tenant, namespace, topic) DO NOTHING
RETURNING *

-- get_topic --
SELECT * FROM coordinator.topic
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND topic = %(topic)s

-- topics_there --
-- Which of some topics there are.
SELECT tenant, namespace, topic FROM coordinator.topic
JOIN unnest(%(tenants)s::text[], %(namespaces)s::text[], %(topics)s::text[])
    AS w (tenant, namespace, topic) USING (tenant, namespace, topic)

-- hold_topic --
-- Reads a topic and locks it, so that its brokers are told what is stored here, however many calls
-- change it at once.
SELECT * FROM coordinator.topic WHERE topic_id = %(topic_id)s FOR NO KEY UPDATE

-- hold_named --
-- Reads a topic and locks it for one call at a time, which makes or deletes one of its subscriptions.
SELECT * FROM coordinator.topic
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND topic = %(topic)s FOR NO KEY UPDATE

-- share_named --
-- The same for many calls at a time, which make what another broker lacks of a subscription that is
-- there.
SELECT * FROM coordinator.topic
WHERE tenant = %(tenant)s AND namespace = %(namespace)s AND topic = %(topic)s FOR SHARE

-- grow_topic --
-- A compare-and-set: only while the brokers are those that were read.
UPDATE coordinator.topic SET brokers = %(brokers)s, made = false
WHERE topic_id = %(topic_id)s AND brokers = %(expected)s
RETURNING *

-- change_retention --
-- A compare-and-set: only while the retention is the one that was read.
UPDATE coordinator.topic SET
    retention_ms = %(retention_ms)s, retention_bytes = %(retention_bytes)s, made = false
WHERE topic_id = %(topic_id)s
AND retention_ms IS NOT DISTINCT FROM %(expected_ms)s
AND retention_bytes IS NOT DISTINCT FROM %(expected_bytes)s
RETURNING *

-- topic_made --
UPDATE coordinator.topic SET made = true WHERE topic_id = %(topic_id)s

-- list_topics --
-- Topics after one, by name; only those with a text in their names.
SELECT * FROM coordinator.topic
WHERE (tenant, namespace, topic) > (%(tenant)s, %(namespace)s, %(topic)s)
AND (%(include_system)s OR topic NOT LIKE '\_\_%%')
AND position(%(part)s IN lower(tenant || '/' || namespace || '/' || topic)) > 0
ORDER BY tenant, namespace, topic LIMIT %(limit)s

-- topics_named --
-- Topics with a text in their names, first those whose last part begins with it; a limited number
-- of names is searched. Only topics that have a partition of a number.
WITH looked AS MATERIALIZED (
    SELECT topic, tenant || '/' || namespace || '/' || topic AS name,
        cardinality(brokers) AS partitions
    FROM coordinator.topic
    WHERE (%(include_system)s OR topic NOT LIKE '\_\_%%') LIMIT %(look_through)s
)
SELECT (SELECT count(*) FROM looked) AS looked_through, ARRAY(
    SELECT name FROM looked
    WHERE position(%(part)s IN lower(name)) > 0 AND partitions > %(partition)s
    ORDER BY NOT starts_with(lower(topic), %(part)s), name LIMIT %(limit)s
) AS names

-- hold_for_deletion --
-- Waits for calls that make its partitions, before anybody waits for the deletion.
SELECT topic_id FROM coordinator.topic WHERE topic_id = %(topic_id)s FOR UPDATE

-- topic_in_use --
-- The predicate, here and below, must be written as in the index of pending participants (migration
-- 0005).
SELECT tc_id, sequence FROM coordinator.txn_partition
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
UNION
SELECT tc_id, sequence FROM coordinator.txn_subscription
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
LIMIT 5

-- abandon_partitions --
-- Aborts what transactions have in a topic that is deleted by force, and records the reason with
-- them.
UPDATE coordinator.txn_partition SET state = 'aborted', last_error = %(error)s
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
RETURNING tc_id, sequence, topic || ':' || partition AS participant

-- abandon_subscriptions --
UPDATE coordinator.txn_subscription SET state = 'aborted', last_error = %(error)s
WHERE topic_id = %(topic_id)s AND state || '' = 'pending'
RETURNING tc_id, sequence, topic || '/' || subscription AS participant

-- abandon_subscription --
-- As abandon_subscriptions, for one subscription that is deleted by force.
UPDATE coordinator.txn_subscription SET state = 'aborted', last_error = %(error)s
WHERE topic_id = %(topic_id)s AND subscription = %(subscription)s AND state = 'pending'
RETURNING tc_id, sequence, topic || '/' || subscription AS participant

-- subscription_in_use --
SELECT tc_id, sequence FROM coordinator.txn_subscription
WHERE topic_id = %(topic_id)s AND subscription = %(subscription)s AND state || '' = 'pending'
LIMIT 5

-- abandoned_txns --
-- Transactions that have not ended yet and whose part in a subscription was aborted by deleting it.
-- The predicate must be written as in the index (migration 0010).
SELECT DISTINCT s.tc_id, s.sequence FROM coordinator.txn_subscription s
JOIN coordinator.transaction t USING (tc_id, sequence)
WHERE s.topic_id = %(topic_id)s AND s.subscription = %(subscription)s
AND s.state || '' = 'aborted' AND s.last_error IS NOT NULL AND t.ended_at IS NULL

-- delete_topic --
-- What its brokers have of it is still to be deleted.
WITH gone AS (
    DELETE FROM coordinator.topic WHERE topic_id = %(topic_id)s RETURNING topic_id, brokers
)
INSERT INTO coordinator.dropped_topic (topic_id, broker)
SELECT DISTINCT topic_id, unnest(brokers) FROM gone

-- dropped_topics --
-- First those whose deletion has not run out of time or failed, then those for which that was longest ago.
SELECT topic_id, broker FROM coordinator.dropped_topic
WHERE broker = %(broker)s ORDER BY tried_at NULLS FIRST, topic_id LIMIT %(limit)s

-- postpone_dropped_topic --
-- Its deletion has run out of time, or failed.
UPDATE coordinator.dropped_topic SET tried_at = clock_timestamp()
WHERE topic_id = %(topic_id)s AND broker = %(broker)s

-- forget_dropped_topic --
DELETE FROM coordinator.dropped_topic WHERE topic_id = %(topic_id)s AND broker = %(broker)s
