-- What an acknowledgement over several brokers claims is tentative until its coordinator has confirmed
-- the call (docs/decisions/0022). pending_ack holds these messages too; here stands which of them
-- hang on which calls. Without a confirmed call a commit gives them back.
CREATE TABLE broker.tentative_ack (
    subscription_id bigint NOT NULL REFERENCES broker.subscription ON DELETE CASCADE,
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    tc_id integer NOT NULL,
    sequence bigint NOT NULL,
    call_id bigint NOT NULL,
    ranges int8multirange NOT NULL,
    PRIMARY KEY (subscription_id, partition_id, tc_id, sequence, call_id)
);
-- The call that a step belongs to; 0: none, what is claimed is claimed.
ALTER TABLE broker.pending_ack_log ADD COLUMN call_id bigint NOT NULL DEFAULT 0;
