SELECT broker, concat(topic, ':', partition) AS log_id, subscription, lower, upper FROM {raw}
