-- Retention, truncation and deletion (design/semantics.md §7).

-- The log's start moves first; entries and index rows below it are gone for everybody from then on,
-- and are deleted afterwards in bounded steps. aborted_dropped counts the aborted transactions whose
-- index rows went with them: the head counts all that ever aborted.
ALTER TABLE broker.partition
    ADD COLUMN log_start_offset bigint NOT NULL DEFAULT 0,
    ADD COLUMN aborted_dropped bigint NOT NULL DEFAULT 0,
    ADD COLUMN offline_reason text;

-- The newest batch of a producer, outside transactions, among what retention has dropped: one row
-- per producer, so that appends stay exactly-once while the partition lives.
CREATE TABLE broker.producer (
    partition_id bigint NOT NULL REFERENCES broker.partition ON DELETE CASCADE,
    producer_name text NOT NULL,
    sequence_id bigint NOT NULL,
    ledger_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    PRIMARY KEY (partition_id, producer_name)
);

-- Partitions of deleted topics whose entries and index rows are still to be deleted.
CREATE TABLE broker.dropped_partition (
    partition_id bigint PRIMARY KEY,
    dropped_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- the pending-ack log behind the mark-delete position.
CREATE INDEX pending_ack_log_trim_idx
    ON broker.pending_ack_log (subscription_id, partition_id, upper(ranges));
