-- Deleted topics, with the brokers that still have something of them: one that could not be reached, or
-- that a crash came before. The sweep goes on with them.
CREATE TABLE coordinator.dropped_topic (
    broker text NOT NULL,
    topic_id bigint NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (broker, topic_id)
);

-- abandoned_txns. Parts that were aborted by deleting the subscription say so, others say nothing. The
-- predicate is written in a way that only that question uses (migration 0005).
CREATE INDEX txn_subscription_abandoned_idx ON coordinator.txn_subscription (topic_id, subscription)
    WHERE state || '' = 'aborted' AND last_error IS NOT NULL;
