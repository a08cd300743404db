-- A dead letter that arrived twice: in two partitions, or under two names.
SELECT s.broker, s.log_id, CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence,
    CAST(NULL AS bigint) AS at_offset,
    named_struct(
        'subscription', s.subscription, 'dead_letter_topic', s.dead_letter_topic,
        'letter', s.number, 'times', count(*),
        'places', sort_array(collect_set(concat(s.sent_log, ' ', s.sent_offset)))
    ) AS evidence
FROM {letters_sent} s
JOIN {logs} l ON l.broker = s.sent_broker AND l.log_id = s.sent_log
WHERE l.deduplication
GROUP BY s.broker, s.log_id, s.subscription, s.dead_letter_topic, s.producer, s.number
HAVING count(DISTINCT s.sent_broker, s.sent_log, s.producer_name) > 1
