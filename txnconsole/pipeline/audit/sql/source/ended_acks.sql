SELECT broker, concat(topic, ':', partition) AS log_id, topic, subscription, tc_id, sequence,
    aborted, messages
FROM {raw}
