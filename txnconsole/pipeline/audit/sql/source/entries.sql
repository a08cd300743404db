SELECT broker, concat(topic, ':', partition, IF(log = 'partition', '', concat('/', log))) AS log_id,
    first_offset, last_offset, kind, tc_id, sequence, producer_name, sequence_id, txn_messages
FROM {raw}
