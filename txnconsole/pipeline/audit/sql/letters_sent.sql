-- Dead letters that stand in logs, by their number among those of their subscription and partition.
-- One that was parked for a while came under a producer's name that ends with its number.
WITH letter AS (
    SELECT broker AS sent_broker, log_id AS sent_log, first_offset AS sent_offset, producer_name,
        sequence_id,
        left(producer_name, length(producer_name) - length(CAST(sequence_id AS string)) - 1) AS parked
    FROM {entries} WHERE producer_name LIKE 'dead-letters/%'
)
SELECT l.broker, l.log_id, l.subscription, l.producer, l.dead_letter_topic, l.issued,
    e.sequence_id AS number, e.sent_broker, e.sent_log, e.sent_offset, e.producer_name
FROM {letters_before} l JOIN letter e ON e.producer_name = l.producer
UNION ALL
SELECT l.broker, l.log_id, l.subscription, l.producer, l.dead_letter_topic, l.issued,
    e.sequence_id, e.sent_broker, e.sent_log, e.sent_offset, e.producer_name
FROM {letters_before} l JOIN letter e ON e.parked = l.producer
WHERE e.producer_name = concat(e.parked, '/', e.sequence_id)
