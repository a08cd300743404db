-- A plan is kept as long as its connection lives, and may be one that was made while the table was
-- counted all but empty in a large file: then the primary key looked as good as the index that is
-- meant, and read the whole partition for a producer's last sequence id. In these two the partition
-- (and the transaction) stand as expressions, so that no other index can serve the same question.
DROP INDEX broker.entry_producer_idx;
-- exactly-once appends outside a transaction; a producer's last sequence id.
CREATE INDEX entry_producer_idx
    ON broker.entry ((partition_id + 0), producer_name, sequence_id)
    WHERE tc_id IS NULL AND producer_name IS NOT NULL;
DROP INDEX broker.entry_txn_idx;
-- exactly-once appends inside a transaction.
CREATE INDEX entry_txn_producer_idx
    ON broker.entry (
        (partition_id + 0), (tc_id + 0), (sequence + 0), producer_name, sequence_id
    ) WHERE tc_id IS NOT NULL AND producer_name IS NOT NULL;
-- A transaction's entries in their order: its messages, its marker. One for both, so that an entry
-- in a transaction stands in as many indexes as another.
DROP INDEX broker.entry_txn_order_idx;
CREATE INDEX entry_txn_idx ON broker.entry (partition_id, tc_id, sequence, first_offset)
    WHERE tc_id IS NOT NULL;
