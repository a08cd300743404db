-- What partitions have told a coordinator of transactions in a range of sequences.
SELECT p.tc_id, p.sequence, p.topic_id, p.partition, p.first_offset, p.last_offset, p.messages
FROM coordinator.txn_partition p
WHERE p.tc_id = {key} AND p.sequence >= {lower} AND p.sequence < {upper} AND p.messages IS NOT NULL
