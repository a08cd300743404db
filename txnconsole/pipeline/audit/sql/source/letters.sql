-- The producer's name is that of engine/subscription/dead_letters.py.
SELECT broker, concat(topic, ':', partition) AS log_id, subscription,
    concat('dead-letters/', topic, ':', partition, '/', subscription, '/', serial) AS producer,
    dead_letter_topic, issued,
    coalesce(CAST(split(waiting, ',') AS array<bigint>), CAST(array() AS array<bigint>)) AS waiting
FROM {raw}
