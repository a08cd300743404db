SELECT broker, concat(topic, ':', partition) AS log_id, subscription, tc_id, sequence, ack_type,
    step, op, call_id, lower, upper
FROM {raw}
