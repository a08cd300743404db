-- These indexes are for the questions of one topic. With a predicate that "state = 'pending'" implies,
-- a plan made while the tables were all but empty walks everything pending to find one transaction's
-- participants, at every end. So the predicate is written in a way that only those questions use.
DROP INDEX coordinator.txn_partition_pending_idx;
CREATE INDEX txn_partition_pending_idx
    ON coordinator.txn_partition (topic_id) WHERE state || '' = 'pending';
DROP INDEX coordinator.txn_subscription_pending_idx;
CREATE INDEX txn_subscription_pending_idx
    ON coordinator.txn_subscription (topic_id, subscription) WHERE state || '' = 'pending';
