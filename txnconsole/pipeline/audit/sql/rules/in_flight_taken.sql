-- A message that is on its way to a consumer although it is acknowledged, held by a transaction or on
-- its way to the dead-letter topic: the consumer would do its work again.
WITH event AS (
    SELECT broker, log_id, subscription, lower, upper, consumer, CAST(NULL AS string) AS taken_by,
        CAST(NULL AS int) AS tc_id, CAST(NULL AS bigint) AS sequence
    FROM {in_flight}
    UNION ALL
    SELECT broker, log_id, subscription, lower, upper, NULL, 'acknowledged', NULL, NULL FROM {acked}
    UNION ALL
    SELECT broker, log_id, subscription, 0, mark_delete + 1, NULL, 'acknowledged', NULL, NULL
    FROM {cursors} WHERE mark_delete >= 0
    UNION ALL
    SELECT broker, log_id, subscription, lower, upper, NULL, concat(tc_id, ':', sequence), tc_id,
        sequence
    FROM {pending_acks}
    UNION ALL
    SELECT broker, log_id, subscription, message_offset, message_offset + 1, NULL, 'dead letter',
        NULL, NULL
    FROM {dead_letters}
),
walked AS (
    SELECT *,
        max(IF(taken_by IS NULL, NULL, struct(upper, taken_by, tc_id, sequence))) OVER before
            AS taken,
        max(IF(consumer IS NULL, NULL, struct(upper, consumer))) OVER before AS flying
    FROM event
    WINDOW before AS (
        PARTITION BY broker, log_id, subscription ORDER BY lower, upper, consumer, taken_by
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT broker, log_id, coalesce(tc_id, IF(consumer IS NULL, NULL, taken.tc_id)) AS tc_id,
    coalesce(sequence, IF(consumer IS NULL, NULL, taken.sequence)) AS sequence, lower AS at_offset,
    named_struct(
        'subscription', subscription, 'first', lower,
        'last', least(upper, IF(consumer IS NULL, flying.upper, taken.upper)) - 1,
        'consumer', coalesce(consumer, flying.consumer),
        'taken_by', coalesce(taken_by, taken.taken_by)
    ) AS evidence
FROM walked
WHERE (consumer IS NOT NULL AND taken.upper > lower)
OR (taken_by IS NOT NULL AND flying.upper > lower)
