SELECT broker, concat(topic, ':', partition) AS log_id, subscription FROM {raw}
