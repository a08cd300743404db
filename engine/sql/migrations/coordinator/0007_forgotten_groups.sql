-- forget_groups.
CREATE INDEX txn_group_decided_at_idx ON coordinator.txn_group (decided_at);
