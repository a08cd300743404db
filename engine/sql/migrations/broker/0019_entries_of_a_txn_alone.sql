-- As 0014 and 0018, the last index of broker.entry whose questions another could serve: a plan that
-- was made while the table was counted all but empty read a whole partition for one transaction's
-- marker. All that another index begins with stands as expressions, which no other has; so does what
-- is in the index at all, or a question to a sidecar log, which names tc_id, could walk all of it where
-- the table was counted as having no transaction.
DROP INDEX broker.entry_txn_idx;
-- a transaction's entries in their order: its messages, its marker.
CREATE INDEX entry_txn_idx
    ON broker.entry ((partition_id - 0), (tc_id - 0), (sequence - 0), first_offset)
    WHERE (tc_id - 0) IS NOT NULL;
