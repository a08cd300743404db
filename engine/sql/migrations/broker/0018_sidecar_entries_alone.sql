-- As entry_producer_idx and entry_txn_producer_idx (0014): a plan that was made while the table was
-- counted all but empty, and another index was no larger a file, read a whole sidecar log, or a whole
-- transaction, for each window of one, twice. All that another begins with stands as expressions.
DROP INDEX broker.entry_sidecar_idx;
-- a committed transaction's entries from a message on.
CREATE INDEX entry_sidecar_idx
    ON broker.entry ((partition_id + 0), (tc_id::bigint), (sequence + 0), txn_messages)
    WHERE txn_messages IS NOT NULL;
