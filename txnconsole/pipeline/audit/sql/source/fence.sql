-- The transactions that a partition remembers as ended.
SELECT f.partition_id, f.tc_id, f.sequence, f.aborted
FROM broker.ended_txn f WHERE f.partition_id = {key}
