-- A message that is on its way to the dead-letter topic, and that a transaction has acknowledged.
WITH event AS (
    SELECT broker, log_id, subscription, lower, upper, tc_id, sequence, CAST(NULL AS bigint) AS letter
    FROM {pending_acks}
    UNION ALL
    SELECT broker, log_id, subscription, message_offset, message_offset + 1, NULL, NULL, sequence_id
    FROM {dead_letters}
),
walked AS (
    SELECT *, max(IF(letter IS NULL, struct(upper, tc_id, sequence), NULL)) OVER (
        PARTITION BY broker, log_id, subscription ORDER BY lower, letter NULLS FIRST
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS holder
    FROM event
)
SELECT broker, log_id, holder.tc_id AS tc_id, holder.sequence AS sequence, lower AS at_offset,
    named_struct('subscription', subscription, 'offset', lower, 'letter', letter) AS evidence
FROM walked WHERE letter IS NOT NULL AND holder.upper > lower
