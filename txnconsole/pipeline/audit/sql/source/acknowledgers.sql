SELECT tc_id, sequence, topic, subscription, broker, acked_messages
FROM {raw} WHERE state <> 'pending' AND acked_messages IS NOT NULL
