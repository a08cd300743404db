SELECT broker, concat(topic, ':', partition) AS log_id, subscription, consumer, lower, upper FROM {raw}
