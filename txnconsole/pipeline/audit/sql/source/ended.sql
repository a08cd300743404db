SELECT broker, concat(topic, ':', partition, IF(log = 'partition', '', concat('/', log))) AS log_id,
    tc_id, sequence, aborted, marker_offset, first_offset, last_offset, messages
FROM {raw}
