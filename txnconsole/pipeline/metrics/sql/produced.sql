-- Messages, batches and stored bytes by the minute in which they were appended, a row for each topic.
SELECT date_trunc('minute', publish_time) AS at, 'topic' AS dimension, topic AS name,
    sum(last_offset - first_offset + 1) AS messages, count(*) AS batches,
    coalesce(sum(body_bytes), 0) AS bytes
FROM {entries}
WHERE kind = 'D' AND publish_time >= timestamp {since} AND publish_time < timestamp {until}
GROUP BY ALL
