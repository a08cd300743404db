SELECT tc_id, sequence, topic, subscription, broker, acked_messages
FROM {raw}
