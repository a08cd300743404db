SELECT broker, tc_id, sequence, concat(topic, ':', partition) AS home_id, first_offset, last_offset,
    messages
FROM {raw}
