-- The sidecar buffer (design/semantics.md §4.3): transactional messages of a partition wait in a log
-- of their own until their transaction commits.

-- A sidecar log is a row of its own, with a head, segments and entries like any other log. It has no
-- topic: nothing that goes over the partitions of a topic finds it, only what asks for it does.
-- compacted_id keys those of its entries that compaction has rewritten: in commit order, at the
-- offsets that their messages have in the partition.
ALTER TABLE broker.partition
    ALTER COLUMN topic_id DROP NOT NULL,
    ADD COLUMN sidecar_of bigint REFERENCES broker.partition ON DELETE CASCADE,
    ADD COLUMN compacted_id bigint,
    ADD CONSTRAINT topic_or_sidecar CHECK ((topic_id IS NULL) = (sidecar_of IS NOT NULL)),
    ADD CONSTRAINT compacted_iff_sidecar
        CHECK ((sidecar_of IS NULL) = (compacted_id IS NULL));
CREATE UNIQUE INDEX partition_sidecar_idx ON broker.partition (sidecar_of)
    WHERE sidecar_of IS NOT NULL;

-- Messages and bytes of a transaction up to and with this entry, in a sidecar log; of the whole
-- transaction in the commit marker of a sidecar-buffered partition. NULL elsewhere.
ALTER TABLE broker.entry
    ADD COLUMN txn_messages bigint,
    ADD COLUMN txn_bytes bigint;
-- a committed transaction's entries from a message on. The coordinator's id stands in it as a bigint,
-- so that entry_txn_idx, which knows nothing of the order, cannot serve the same question.
CREATE INDEX entry_sidecar_idx
    ON broker.entry (partition_id, (tc_id::bigint), sequence, txn_messages)
    WHERE txn_messages IS NOT NULL;

-- In a sidecar log: where the commit marker stands in the partition.
ALTER TABLE broker.txn_index ADD COLUMN commit_offset bigint;
-- from a commit marker to its transaction in the sidecar log. The partition stands in it as an
-- expression, so that no other index can serve the same question.
CREATE UNIQUE INDEX txn_index_commit_idx ON broker.txn_index ((partition_id + 0), commit_offset)
    WHERE commit_offset IS NOT NULL;

ALTER TABLE broker.ongoing_txn ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
