SELECT broker, concat(topic, ':', partition) AS log_id, topic, subscription, tc_id, low_water_mark
FROM {raw}
