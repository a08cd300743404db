-- As entry_producer_idx and entry_txn_producer_idx (0014): a plan that was made while the table was
-- counted all but empty, and this index was the smaller file, took it for a range of markers as well,
-- and read and sorted a whole partition's transactions for each page of them. All of it stands as
-- expressions, so that it cannot serve a question for markers; the partition is written in another way
-- than in txn_index_commit_idx, so that neither can it serve a question for a commit's. A question that
-- this index is for names neither last_offset nor aborted as they are, which others could serve.
DROP INDEX broker.txn_index_txn_idx;
-- the outcomes of one transaction.
CREATE INDEX txn_index_txn_idx
    ON broker.txn_index ((partition_id - 0), (tc_id + 0), (sequence + 0));
