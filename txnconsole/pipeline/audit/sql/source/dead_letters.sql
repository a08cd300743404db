SELECT broker, concat(topic, ':', partition) AS log_id, subscription, sequence_id, message_offset
FROM {raw}
