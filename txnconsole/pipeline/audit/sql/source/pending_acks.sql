SELECT broker, concat(topic, ':', partition) AS log_id, subscription, tc_id, sequence, ack_type,
    lower, upper
FROM {raw}
