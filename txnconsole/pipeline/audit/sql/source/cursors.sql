SELECT broker, concat(topic, ':', partition) AS log_id, subscription, mark_delete FROM {raw}
