-- Plans are kept for as long as a connection lives, so one that is made while a table is all but
-- empty must suit it when it is large (tests/engine/sql/test_plans.py).

-- ongoing_txn is often empty when it is analyzed, and then either of its indexes looks as good as
-- the other. The partition has a second name for the one by first offset, so that a question can
-- use the index that is meant and no other: append by the key, the stable position by the order.
DROP INDEX broker.ongoing_txn_first_offset_idx;
ALTER TABLE broker.ongoing_txn
    ADD COLUMN ordered_in bigint NOT NULL GENERATED ALWAYS AS (partition_id) STORED;
CREATE INDEX ongoing_txn_first_offset_idx ON broker.ongoing_txn (ordered_in, first_offset);

-- aborted_overlapping, invisible: with the partition as a range too, no other index can serve them.
DROP INDEX broker.txn_index_aborted_idx;
CREATE INDEX txn_index_aborted_idx ON broker.txn_index USING gist (
    int8range(partition_id, partition_id, '[]'), int8range(first_offset, last_offset, '[]')
) WHERE aborted;
DROP EXTENSION btree_gist;
