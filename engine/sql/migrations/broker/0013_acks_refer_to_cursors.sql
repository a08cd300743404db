-- A row that refers to its subscription locks that row, so callers who acknowledge in transactions at
-- once shared its lock, each through a multixact of its own. The cursor they have locked themselves:
-- to refer to it costs a look, and it goes with its subscription and with its partition.
ALTER TABLE broker.pending_ack
    DROP CONSTRAINT pending_ack_subscription_id_fkey,
    DROP CONSTRAINT pending_ack_partition_id_fkey,
    ADD FOREIGN KEY (subscription_id, partition_id) REFERENCES broker.cursor ON DELETE CASCADE;
ALTER TABLE broker.pending_ack_log
    DROP CONSTRAINT pending_ack_log_subscription_id_fkey,
    ADD FOREIGN KEY (subscription_id, partition_id) REFERENCES broker.cursor ON DELETE CASCADE;
ALTER TABLE broker.tentative_ack
    DROP CONSTRAINT tentative_ack_subscription_id_fkey,
    DROP CONSTRAINT tentative_ack_partition_id_fkey,
    ADD FOREIGN KEY (subscription_id, partition_id) REFERENCES broker.cursor ON DELETE CASCADE;

-- PostgreSQL parses each CHECK anew for every INSERT and UPDATE (docs/decisions/0012); one function
-- writes these two tables.
ALTER TABLE broker.pending_ack DROP CONSTRAINT pending_ack_ack_type_check;
ALTER TABLE broker.pending_ack_log DROP CONSTRAINT pending_ack_log_op_check;
