-- Subscriptions of every type, dead letters, and dispatch state that is read and written as one row.

ALTER TABLE broker.subscription
    ADD COLUMN consumer_lease_ms bigint NOT NULL DEFAULT 30000 CHECK (consumer_lease_ms > 0),
    ADD COLUMN max_redeliveries integer CHECK (max_redeliveries >= 0),
    ADD COLUMN dead_letter_topic text,
    -- The lease of the one active consumer of an EXCLUSIVE or FAILOVER subscription; at its home
    -- broker only. The epoch grows whenever another consumer takes over.
    ADD COLUMN consumer text,
    ADD COLUMN consumer_epoch bigint NOT NULL DEFAULT 0,
    ADD COLUMN consumer_until timestamptz,
    ADD CONSTRAINT dead_letters_have_both
        CHECK ((max_redeliveries IS NULL) = (dead_letter_topic IS NULL));

-- How many dead letters there have been: the next one's sequence id in the dead-letter topic.
ALTER TABLE broker.cursor ADD COLUMN dead_letters bigint NOT NULL DEFAULT 0;

-- Messages on their way to the dead-letter topic: stored there first, then acknowledged here.
-- target is the partition there, fixed, so that a repetition meets the first attempt.
CREATE TABLE broker.dead_letter (
    subscription_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    sequence_id bigint NOT NULL,
    message_offset bigint NOT NULL,
    target integer NOT NULL,
    PRIMARY KEY (subscription_id, partition_id, sequence_id),
    FOREIGN KEY (subscription_id, partition_id) REFERENCES broker.cursor ON DELETE CASCADE
);

-- Derived: what is on its way to consumers, one row a cursor. The state is engine.model.dispatch's;
-- beside it stands what a question without the lock needs: the first offset that may be due, and
-- when the first delivery is overdue.
DROP TABLE broker.delivery, broker.redelivered, broker.dispatch;
CREATE UNLOGGED TABLE broker.dispatch (
    subscription_id bigint NOT NULL,
    partition_id bigint NOT NULL,
    due_offset bigint NOT NULL,
    next_deadline timestamptz,
    state bytea NOT NULL,
    PRIMARY KEY (subscription_id, partition_id)
) WITH (fillfactor = 30);
ALTER TABLE broker.dispatch ALTER COLUMN state SET STORAGE MAIN;
