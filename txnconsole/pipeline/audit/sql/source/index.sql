SELECT broker, concat(topic, ':', partition, IF(log = 'partition', '', concat('/', log))) AS log_id,
    last_offset, first_offset, last_stable_offset, tc_id, sequence, aborted,
    commit_offset
FROM {raw}
