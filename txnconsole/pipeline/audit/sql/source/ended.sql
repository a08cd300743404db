SELECT broker, concat(topic, ':', partition, IF(log = 'partition', '', concat('/', log))) AS log_id,
    tc_id, sequence, aborted
FROM {raw}
