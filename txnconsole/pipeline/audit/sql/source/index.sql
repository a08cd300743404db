-- Rows of a log's transaction index in a range of offsets.
SELECT i.partition_id, i.last_offset, i.first_offset, i.last_stable_offset, i.tc_id, i.sequence,
    i.aborted
FROM broker.txn_index i
WHERE i.partition_id = {key} AND i.last_offset >= {lower} AND i.last_offset < {upper}
