-- What a broker holds for ongoing transactions of a log.
SELECT o.partition_id, o.tc_id, o.sequence, o.first_offset, o.last_offset, o.messages
FROM broker.ongoing_txn o WHERE o.partition_id = {key}
